// The weights of a layer's heads, all of them or the largest of each row.

import { readArray } from "./data.js";

// Return the weights of a layer: a row is a query's weights over all keys, and what is left out.
export async function readWeights(given, tokens) {
  if (given.all) return new AllWeights(await readArray(given.all));
  const [index, weight, rest] = await Promise.all([
    readArray(given.index),
    readArray(given.weight),
    readArray(given.rest),
  ]);
  return new LargestWeights(index, weight, rest, tokens);
}

class AllWeights {
  constructor(weights) {
    this.weights = weights;
  }

  row(head, query) {
    return { values: this.weights.row(head, query), keys: null, rest: 0 };
  }

  // Call a function with the key and the weight of each number that is held.
  each(head, query, call) {
    const { whole, unit, shape } = this.weights;
    const first = this.weights.place(head, query, 0);
    for (let key = 0; key < shape[2]; key += 1) call(key, whole[first + key] * unit);
  }

  print(value) {
    return this.weights.print(value);
  }
}

class LargestWeights {
  constructor(index, weight, rest, tokens) {
    Object.assign(this, { index, weight, left: rest, tokens });
  }

  row(head, query) {
    const values = new Float64Array(this.tokens);
    const keys = [];
    this.each(head, query, (key, weight) => {
      values[key] = weight;
      keys.push(key);
    });
    return { values, keys, rest: this.left.get(head, query) };
  }

  each(head, query, call) {
    const { whole, unit, shape } = this.weight;
    const first = this.weight.place(head, query, 0);
    for (let at = 0; at < shape[2]; at += 1) {
      if (whole[first + at]) call(this.index.whole[first + at], whole[first + at] * unit);
    }
  }

  print(value) {
    return this.weight.print(value);
  }
}
