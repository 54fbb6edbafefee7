// The numbers of the page: JSON, and arrays that are unpacked when they are first looked at.

import { fromHalf } from "./half.js";

const ARRAY_TYPES = {
  uint8: Uint8Array,
  uint16: Uint16Array,
  int16: Int16Array,
  int32: Int32Array,
  float16: Uint16Array,
  float32: Float32Array,
};
const unpacked = new Map();

// Return what the page shows.
export function readData() {
  return JSON.parse(document.getElementById("data").textContent);
}

// Return the array that a reference names, as a promise; it is unpacked once. An array that was
// made in the page is returned as it is.
export function readArray(reference) {
  if (reference instanceof NumberArray) return reference;
  const { array } = reference;
  if (!unpacked.has(array)) unpacked.set(array, unpack(reference));
  return unpacked.get(array);
}

async function unpack({ array, type, shape, decimals }) {
  const text = atob(document.getElementById(`array-${array}`).textContent);
  const packed = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) packed[at] = text.charCodeAt(at);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = await new Response(stream).arrayBuffer();
  const whole = new ARRAY_TYPES[type](bytes);
  return new NumberArray(type === "float16" ? fromHalf(whole) : whole, shape, decimals);
}

// Numbers with a shape, held as whole ones with so many decimals, or as they are.
export class NumberArray {
  constructor(whole, shape, decimals) {
    this.whole = whole;
    this.shape = shape;
    this.decimals = decimals ?? 4;
    this.unit = decimals === undefined ? 1 : 10 ** -decimals;
    this.strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((a, b) => a * b, 1));
  }

  place(...indices) {
    return indices.reduce((sum, index, axis) => sum + index * this.strides[axis], 0);
  }

  get(...indices) {
    return this.whole[this.place(...indices)] * this.unit;
  }

  // Return the last axis at some indices.
  row(...indices) {
    const first = this.place(...indices);
    const size = this.strides[indices.length - 1];
    return Float64Array.from(this.whole.subarray(first, first + size), (one) => one * this.unit);
  }

  // Return a number as it is printed everywhere.
  print(value) {
    return printed(value, this.decimals);
  }
}

// Return a number with so many decimals, and no sign where all of them are 0.
export function printed(value, decimals = 4) {
  const text = value.toFixed(decimals);
  return Number(text) === 0 ? (0).toFixed(decimals) : text.replace("-", "−");
}
