// BERT's forward pass over one text, and its head for masked words.
//
// L tokens, D width, H heads, K head width, M chosen tokens, V vocabulary. Arrays are flat, the
// last axis first to change.

import { ACTIVATIONS } from "./activation.js";
import { product } from "./product.js";

// Return what every layer's attention computes for tokens, and the vectors (M, D) of chosen
// tokens after the embedding and after each layer.
export function readTokens(model, ids, chosen) {
  const { width, layers } = model;
  const seen = [];
  let x = embed(model, ids); // (L, D)
  const states = [takeRows(x, chosen, width)];
  layers.forEach((layer, number) => {
    const found = attend(model, layer, x, ids.length);
    seen.push(found);
    // Nobody looks at what the last layer gives for the other tokens.
    const isLast = number === layers.length - 1;
    const before = isLast ? takeRows(x, chosen, width) : x;
    const mixed = isLast ? takeRows(found.mixed, chosen, width) : found.mixed;
    x = feed(model, layer, before, mixed);
    states.push(isLast ? x : takeRows(x, chosen, width));
  });
  return { seen, states };
}

// Return the logits over the vocabulary (M, V) of vectors (M, D).
export function maskedLogits(model, vectors) {
  const { head, width, vocab } = model;
  const rows = vectors.length / width;
  const dense = product(vectors, rows, linear(head.dense, width, width));
  activate(dense, head.activation);
  normalise(dense, head.norm, model.eps);
  const tied = { weight: model.table, bias: head.bias };
  return product(dense, rows, linear(tied, width, vocab));
}

// Return the probabilities of a row of logits.
export function softmax(logits) {
  const powers = new Float64Array(logits.length);
  let largest = -Infinity;
  for (let at = 0; at < logits.length; at += 1) largest = Math.max(largest, logits[at]);
  let sum = 0;
  for (let at = 0; at < logits.length; at += 1) {
    powers[at] = Math.exp(logits[at] - largest);
    sum += powers[at];
  }
  for (let at = 0; at < logits.length; at += 1) powers[at] /= sum;
  return powers;
}

function linear({ weight, bias }, inner, outer) {
  return { weight, bias, inner, outer };
}

// Return the sum of token and position vectors, normalised.
function embed(model, ids) {
  const { width, table, position } = model;
  const x = new Float32Array(ids.length * width);
  ids.forEach((id, at) => {
    for (let unit = 0; unit < width; unit += 1) {
      x[at * width + unit] = table[id * width + unit] + position[at * width + unit];
    }
  });
  normalise(x, model.norm, model.eps);
  return x;
}

// Return a layer's attention: weights (H, L, L), queries, keys, values and sums (H, L, K), and
// the sums side by side (L, D).
function attend(model, layer, x, length) {
  const { width, heads, causal } = model;
  const size = width / heads;
  const parts = product(x, length, linear(layer.qkv, width, 3 * width)); // (L, 3 D)
  const [q, k, v] = [0, 1, 2].map((part) => byHead(parts, part, length, heads, size));
  const weights = new Float32Array(heads * length * length);
  const sum = new Float32Array(heads * length * size);
  const mixed = new Float32Array(length * width);
  for (let head = 0; head < heads; head += 1) {
    const own = (all) => all.subarray(head * length * size, (head + 1) * length * size);
    const logits = product(own(q), length, linear({ weight: own(k) }, size, length));
    const square = weights.subarray(head * length * length, (head + 1) * length * length);
    weigh(logits, square, length, size, causal);
    const turned = transpose(own(v), length, size); // (K, L)
    own(sum).set(product(square, length, linear({ weight: turned }, length, size)));
    for (let at = 0; at < length; at += 1) {
      mixed.set(own(sum).subarray(at * size, (at + 1) * size), at * width + head * size);
    }
  }
  return { weights, q, k, v, sum, mixed };
}

// Return queries, keys or values of each head (H, L, K).
function byHead(parts, part, length, heads, size) {
  const found = new Float32Array(heads * length * size);
  const width = heads * size;
  for (let head = 0; head < heads; head += 1) {
    for (let at = 0; at < length; at += 1) {
      const first = (3 * at + part) * width + head * size;
      found.set(parts.subarray(first, first + size), (head * length + at) * size);
    }
  }
  return found;
}

// Write the softmax of each row of logits (L, L); a causal row ends at its own token.
function weigh(logits, weights, length, size, causal) {
  const scale = 1 / Math.sqrt(size);
  for (let at = 0; at < logits.length; at += 1) logits[at] *= scale;
  for (let query = 0; query < length; query += 1) {
    const first = query * length;
    const count = causal ? query + 1 : length;
    weights.set(softmax(logits.subarray(first, first + count)), first);
  }
}

// Return what a layer makes of its input and of what attention gave, row by row.
function feed(model, layer, before, mixed) {
  const { width, inner, eps } = model;
  const rows = before.length / width;
  const x = product(mixed, rows, linear(layer.out, width, width));
  add(x, before);
  normalise(x, layer.attentionNorm, eps);
  const wide = product(x, rows, linear(layer.up, width, inner));
  activate(wide, model.activation);
  const out = product(wide, rows, linear(layer.down, inner, width));
  add(out, x);
  normalise(out, layer.norm, eps);
  return out;
}

function add(x, other) {
  for (let at = 0; at < x.length; at += 1) x[at] += other[at];
}

function activate(x, name) {
  const activation = ACTIVATIONS[name];
  for (let at = 0; at < x.length; at += 1) x[at] = activation(x[at]);
}

// Bring each row to mean 0 and variance 1, then scale and shift it.
function normalise(x, { weight, bias }, eps) {
  const width = weight.length;
  for (let first = 0; first < x.length; first += width) {
    const row = x.subarray(first, first + width);
    let mean = 0;
    for (let unit = 0; unit < width; unit += 1) mean += row[unit] / width;
    let variance = 0;
    for (let unit = 0; unit < width; unit += 1) variance += (row[unit] - mean) ** 2 / width;
    const scale = 1 / Math.sqrt(variance + eps);
    for (let unit = 0; unit < width; unit += 1) {
      row[unit] = (row[unit] - mean) * scale * weight[unit] + bias[unit];
    }
  }
}

function transpose(x, rows, columns) {
  const turned = new Float32Array(x.length);
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      turned[column * rows + row] = x[row * columns + column];
    }
  }
  return turned;
}

function takeRows(x, rows, width) {
  const taken = new Float32Array(rows.length * width);
  rows.forEach((row, at) => taken.set(x.subarray(row * width, (row + 1) * width), at * width));
  return taken;
}
