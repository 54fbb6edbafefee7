// The activations that models have between two layers, under the names of their settings.

const ROOT_OF_HALF = Math.SQRT1_2;
const GELU_SCALE = Math.sqrt(2 / Math.PI);
const TERMS = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];

export const ACTIVATIONS = {
  gelu: (x) => 0.5 * x * (1 + erf(x * ROOT_OF_HALF)),
  gelu_new: geluOfTanh,
  gelu_pytorch_tanh: geluOfTanh,
  relu: (x) => Math.max(0, x),
  silu: (x) => x / (1 + Math.exp(-x)),
};

function geluOfTanh(x) {
  return 0.5 * x * (1 + Math.tanh(GELU_SCALE * (x + 0.044715 * x ** 3)));
}

// Return the error function, to 2e-7: Abramowitz and Stegun, formula 7.1.26.
export function erf(x) {
  const size = Math.abs(x);
  const t = 1 / (1 + 0.3275911 * size);
  let series = 0;
  for (let at = 0; at < TERMS.length; at += 1) series = TERMS[at] + t * series;
  return Math.sign(x) * (1 - t * series * Math.exp(-size * size));
}
