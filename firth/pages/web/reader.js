// What the page's model computes for a text: its tokens, their attention, and guesses at masks.

import { NumberArray } from "./data.js";
import { maskedLogits, readTokens, softmax } from "./encoder.js";

const TOP = 10; // pieces that are named

// Return what attention is drawn from, and what each layer would fill in at each mask.
export function readText(model, pieces, rules, text) {
  const own = pieces.encode(text);
  const room = model.length - rules.before.length - rules.after.length;
  const kept = own.slice(0, room);
  const ids = [...rules.before, ...kept, ...rules.after];
  const parts = [rules.before.map(() => null), kept.map(() => 0), rules.after.map(() => null)].flat();
  const mask = rules.special[model.mask];
  const places = [...ids.keys()].filter((place) => ids[place] === mask);
  const { seen, states } = readTokens(model, ids, places);
  return {
    tokens: ids.map((id) => pieces.piece(id)),
    parts,
    missing: own.length - kept.length,
    attention: seen.map((layer) => asArrays(model, layer, ids.length)),
    blanks: guesses(model, pieces, states, places),
  };
}

// Return the numbers of a layer as pictures read them.
function asArrays({ heads, width }, { weights, q, k, v, sum }, length) {
  const vectors = (numbers) => new NumberArray(numbers, [heads, length, width / heads]);
  return {
    weights: new NumberArray(weights, [heads, length, length]),
    vectors: { q: vectors(q), k: vectors(k), v: vectors(v), sum: vectors(sum) },
  };
}

// Return what each layer, from the embedding on, would fill in at each mask.
function guesses(model, pieces, states, places) {
  const { width, vocab } = model;
  const size = places.length * width;
  const stacked = new Float32Array(states.length * size);
  states.forEach((state, layer) => stacked.set(state, layer * size));
  const logits = maskedLogits(model, stacked);
  return places.map((place, number) => {
    const rows = states.map((_, layer) => {
      const first = (layer * places.length + number) * vocab;
      return softmax(logits.subarray(first, first + vocab));
    });
    return { place, layers: rows.map((row) => named(row, pieces)), last: rows.at(-1) };
  });
}

// Return the likeliest pieces of a distribution, and the sum of all others.
function named(probabilities, pieces) {
  const best = largest(probabilities, TOP);
  const values = best.map((id) => probabilities[id]);
  const rest = Math.max(0, 1 - values.reduce((sum, one) => sum + one, 0));
  return { names: best.map((id) => pieces.piece(id)), values, rest };
}

// Return where the largest values stand, the largest first.
function largest(values, count) {
  const best = [];
  values.forEach((value, at) => {
    if (best.length === count && value <= values[best.at(-1)]) return;
    const place = best.findIndex((other) => value > values[other]);
    best.splice(place < 0 ? best.length : place, 0, at);
    best.length = Math.min(best.length, count);
  });
  return best;
}
