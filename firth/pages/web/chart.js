// Lines on a scale of powers of ten.

import { label, svg } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";
import { COLOURS, colourOf } from "./groups.js";

const WIDTH = 560;
const HEIGHT = 340;
const LEFT = 62;
const RIGHT = 16;
const TOP = 22; // below the names of the lines
const NAMED = 3; // lines that have their names side by side
const NAME = 166;
const DASHES = ["none", "7 4", "2 4", "9 3 2 3"];
const BOTTOM = 44;
const FEWEST_POWERS = 2;

// Return a figure of lines, and what draws others in it: `{ name, points }` each.
export function chart(title, across) {
  const picture = canvasOfSvg(WIDTH, HEIGHT, title);
  const element = figure(title, picture, () => picture);
  const update = (lines) => picture.replaceChildren(...drawnChart(lines, across));
  return { element, update };
}

function drawnChart(lines, across) {
  const points = lines.flatMap((line) => line.points.filter(([, y]) => y > 0));
  if (!points.length) return [axisText(LEFT, TOP, "There is nothing above 0 to draw.")];
  const top = TOP + 20 * Math.ceil(lines.length / NAMED);
  const powers = points.map(([, y]) => Math.log10(y));
  const high = Math.ceil(Math.max(...powers));
  const low = Math.min(Math.floor(Math.min(...powers)), high - FEWEST_POWERS);
  const longest = Math.max(...points.map(([x]) => x), 2);
  const right = (x) => LEFT + ((WIDTH - LEFT - RIGHT) * (x - 1)) / (longest - 1);
  const down = (y) => top + ((HEIGHT - top - BOTTOM) * (high - Math.log10(y))) / (high - low);
  const parts = [...grid(low, high, longest, right, down), axisText(WIDTH - RIGHT, HEIGHT - 8, across, "end")];
  lines.forEach(({ name, points: all }, number) => {
    const kept = all.filter(([, y]) => y > 0);
    const path = kept.map(([x, y]) => `${right(x).toFixed(1)},${down(y).toFixed(1)}`).join(" ");
    const style = { ...lineStyle(number), "stroke-width": 2 };
    const [x, y] = [LEFT + NAME * (number % NAMED), 20 + 20 * Math.floor(number / NAMED)];
    parts.push(
      svg("polyline", { points: path, fill: "none", ...style }),
      svg("line", { x1: x, x2: x + 24, y1: y, y2: y, ...style }),
      axisText(x + 30, y + 4, label(name)),
    );
  });
  return parts;
}

function grid(low, high, longest, right, down) {
  const parts = [];
  const step = Math.ceil((high - low) / 6);
  for (let power = high; power >= low; power -= step) {
    const y = down(10 ** power);
    parts.push(
      svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y, stroke: "var(--line)" }),
      axisText(LEFT - 6, y + 4, `1e${power}`, "end"),
    );
  }
  const every = Math.max(1, Math.ceil(longest / 8));
  for (let x = 1; x <= longest; x += every) parts.push(axisText(right(x), HEIGHT - BOTTOM + 18, String(x), "middle"));
  return parts;
}

// Return words beside an axis.
export function axisText(x, y, words, anchor = "start") {
  return svg("text", { x, y, "text-anchor": anchor, "font-size": 12, fill: "var(--soft)" }, words);
}

// Return the colour and the dash of a line by its number; no two of the first 24 are alike.
export function lineStyle(number) {
  const turn = Math.floor(number / COLOURS.length);
  const stroke = `var(--${colourOf(number)})`;
  return { stroke, "stroke-dasharray": DASHES[(number + turn) % DASHES.length] };
}
