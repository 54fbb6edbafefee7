// A picture with numbers on both axes.

import { svg } from "./dom.js";
import { canvasOfSvg } from "./figure.js";

const WIDTH = 520;
const HEIGHT = 360;
const [LEFT, RIGHT, TOP, BOTTOM] = [64, 18, 16, 52];
const TICKS = 5;

// Return a picture with axes, and where a number stands on each of them. An axis has a name and
// its `low` and `high` end.
export function axes(title, across, upwards) {
  const picture = canvasOfSvg(WIDTH, HEIGHT, title);
  const right = (value) => LEFT + (WIDTH - LEFT - RIGHT) * share(value, across);
  const down = (value) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share(value, upwards);
  const [bottom, end] = [HEIGHT - BOTTOM, WIDTH - RIGHT];
  for (const tick of ticks(upwards)) {
    const y = down(tick);
    picture.append(line(LEFT, y, end, y, "line"), text(LEFT - 7, y + 4, shown(tick), "end"));
  }
  for (const tick of ticks(across)) {
    const x = right(tick);
    picture.append(line(x, TOP, x, bottom, "line"), text(x, bottom + 18, shown(tick), "middle"));
  }
  const turned = { transform: `translate(14,${(TOP + bottom) / 2}) rotate(-90)` };
  const name = svg("text", { ...turned, "text-anchor": "middle", "font-size": 12, fill: "var(--soft)" });
  name.append(upwards.name);
  picture.append(name, text((LEFT + end) / 2, HEIGHT - 8, across.name, "middle"));
  return { picture, right, down };
}

// Return a line of a colour between two places of a picture.
export function line(x1, y1, x2, y2, stroke, more = {}) {
  return svg("line", { x1, y1, x2, y2, stroke: `var(--${stroke})`, ...more });
}

function text(x, y, words, anchor) {
  return svg("text", { x, y, "text-anchor": anchor, "font-size": 12, fill: "var(--soft)" }, words);
}

function share(value, { low, high }) {
  return high > low ? (value - low) / (high - low) : 0.5;
}

// Return round numbers between the ends of an axis.
function ticks({ low, high }) {
  if (!(high > low)) return [low];
  const rough = (high - low) / TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((one) => one >= rough);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, number) => (first + number) * step);
}

// Return the number of a tick without the digits that rounding leaves.
function shown(value) {
  return String(Number(value.toPrecision(6))).replace("-", "−");
}
