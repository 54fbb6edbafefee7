// Numbers of 16 bits as numbers of 32.

let halves = null; // the value of each of the 65,536

// Return an array of half precision in single precision.
export function fromHalf(bits) {
  halves ??= Float32Array.from({ length: 1 << 16 }, (_, one) => valueOfHalf(one));
  const numbers = new Float32Array(bits.length);
  for (let at = 0; at < bits.length; at += 1) numbers[at] = halves[bits[at]];
  return numbers;
}

function valueOfHalf(bits) {
  const sign = bits >> 15 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = (bits & 1023) / 1024;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent ? sign * (1 + fraction) * 2 ** (exponent - 15) : sign * fraction * 2 ** -14;
}
