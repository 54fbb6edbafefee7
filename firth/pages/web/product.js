// Products of matrices, in tiles of four rows by four columns.

const TILE = 4; // sixteen sums: each number that is read is used four times
const sums = new Float64Array(TILE * TILE);

// Return x (rows, inner) times the transpose of a weight (outer, inner), plus a bias (outer).
export function product(x, rows, { weight, bias = null, inner, outer }) {
  const out = new Float32Array(rows * outer);
  // The last line stands in for those that a tile lacks.
  const rowAt = (row) => Math.min(row, rows - 1) * inner;
  const columnAt = (column) => Math.min(column, outer - 1) * inner;
  for (let column = 0; column < outer; column += TILE) {
    const c0 = columnAt(column);
    const c1 = columnAt(column + 1);
    const c2 = columnAt(column + 2);
    const c3 = columnAt(column + 3);
    const wide = Math.min(TILE, outer - column);
    for (let row = 0; row < rows; row += TILE) {
      const r0 = rowAt(row);
      addUp(x, r0, rowAt(row + 1), rowAt(row + 2), rowAt(row + 3), weight, c0, c1, c2, c3, inner);
      const high = Math.min(TILE, rows - row);
      for (let i = 0; i < high; i += 1) {
        for (let j = 0; j < wide; j += 1) {
          const added = bias ? bias[column + j] : 0;
          out[(row + i) * outer + column + j] = sums[TILE * i + j] + added;
        }
      }
    }
  }
  return out;
}

// Write the products of four lines with four others. Each sum and each place has a variable of
// its own, which stays in a register: with arrays in their place it takes half as long again.
function addUp(x, x0, x1, x2, x3, w, w0, w1, w2, w3, inner) {
  let a0 = 0, a1 = 0, a2 = 0, a3 = 0;
  let b0 = 0, b1 = 0, b2 = 0, b3 = 0;
  let c0 = 0, c1 = 0, c2 = 0, c3 = 0;
  let d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  for (let at = 0; at < inner; at += 1) {
    const a = x[x0 + at];
    const b = x[x1 + at];
    const c = x[x2 + at];
    const d = x[x3 + at];
    const p = w[w0 + at];
    const q = w[w1 + at];
    const r = w[w2 + at];
    const s = w[w3 + at];
    a0 += a * p;
    a1 += a * q;
    a2 += a * r;
    a3 += a * s;
    b0 += b * p;
    b1 += b * q;
    b2 += b * r;
    b3 += b * s;
    c0 += c * p;
    c1 += c * q;
    c2 += c * r;
    c3 += c * s;
    d0 += d * p;
    d1 += d * q;
    d2 += d * r;
    d3 += d * s;
  }
  const found = [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3];
  for (let at = 0; at < found.length; at += 1) sums[at] = found[at];
}
