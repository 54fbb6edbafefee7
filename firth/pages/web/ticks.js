// Scales from numbers to places, their ticks, and how numbers are printed beside them.

const FEW = 5; // ticks of a scale, about
const MOST = 7;
const STEPS = [1, 2, 5, 10];
const DIGITS = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 5], [1, 3], [1]]; // of powers, the most that fit
const FILLED = 0.3; // a scale begins at 0 where less than this would be left out

// Return a scale for some numbers: `place` from 0 to 1 of each, null where it has none, and `ticks`.
// One that is not `log` may begin at 0 however large the numbers are, and have `whole` ticks alone.
export function makeScale(values, { log = false, fromZero = false, whole = false } = {}) {
  const shown = log ? values.filter((value) => value > 0) : values;
  if (!shown.length) return null;
  const [low, high] = bounds(shown, log, fromZero);
  const turn = log ? Math.log10 : (value) => value;
  const [from, to] = [turn(low), turn(high)];
  const place = (value) => (log && value <= 0 ? null : (turn(value) - from) / (to - from));
  const value = (share) => (log ? 10 ** (from + share * (to - from)) : from + share * (to - from));
  return { place, value, ticks: log ? powers(low, high) : evenly(low, high, whole) };
}

function bounds(values, log, fromZero) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (log) return low < high ? [low, high] : [low / 2, high * 2];
  if (low > 0 && (fromZero || low < FILLED * high)) low = 0;
  if (low < high) return [low, high];
  const room = Math.abs(low) / 2;
  return room ? [low - room, high + room] : [0, 1];
}

function evenly(low, high, whole = false) {
  const rough = (high - low) / FEW;
  const power = 10 ** Math.floor(Math.log10(rough));
  const fitting = power * STEPS.find((one) => one * power >= rough * 0.999);
  const step = whole ? Math.max(1, fitting) : fitting;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  // Each from its number, so that errors don't add up.
  return Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

function powers(low, high) {
  const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const inside = (value) => value >= low * 0.9999 && value <= high * 1.0001;
  for (const digits of DIGITS) {
    const found = [];
    for (let power = from; power <= to; power += 1) {
      found.push(...digits.map((digit) => Number(`${digit}e${power}`)).filter(inside));
    }
    if (found.length < 3) break;
    if (found.length <= MOST) return found;
  }
  if (to - from < 3) return evenly(low, high).filter((value) => value > 0);
  const whole = [];
  const step = Math.ceil((to - from) / MOST);
  for (let power = from; power <= to; power += step) whole.push(Number(`1e${power}`));
  return whole.filter(inside);
}

// Return a number with four digits that count.
export function brief(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 1e-3 || size >= 1e9) return value.toExponential(3).replace(/\.?0+e/, "e").replace("-", "−").replace("e-", "e−");
  if (size >= 1e4) return grouped(value);
  return Number(value.toPrecision(4)).toString().replace("-", "−");
}

// Return a whole number with its thousands apart.
export function grouped(value) {
  return Math.round(value).toLocaleString("en-US").replace("-", "−");
}
