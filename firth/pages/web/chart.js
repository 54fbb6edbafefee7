// Lines on a scale of powers of ten.

import { svg } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";

const WIDTH = 560;
const HEIGHT = 340;
const LEFT = 62;
const RIGHT = 16;
const TOP = 46;
const BOTTOM = 44;
const FEWEST_POWERS = 2;

// Return a figure of lines, and what draws others in it: `{ name, colour, points }` each.
export function chart(title, across) {
  const picture = canvasOfSvg(WIDTH, HEIGHT, title);
  const element = figure(title, picture, () => picture);
  const update = (lines) => picture.replaceChildren(...drawnChart(lines, across));
  return { element, update };
}

function drawnChart(lines, across) {
  const points = lines.flatMap((line) => line.points.filter(([, y]) => y > 0));
  if (!points.length) return [text(LEFT, TOP, "No gradient reaches an earlier token.")];
  const powers = points.map(([, y]) => Math.log10(y));
  const high = Math.ceil(Math.max(...powers));
  const low = Math.min(Math.floor(Math.min(...powers)), high - FEWEST_POWERS);
  const longest = Math.max(...points.map(([x]) => x), 2);
  const right = (x) => LEFT + ((WIDTH - LEFT - RIGHT) * (x - 1)) / (longest - 1);
  const down = (y) => TOP + ((HEIGHT - TOP - BOTTOM) * (high - Math.log10(y))) / (high - low);
  const parts = [...grid(low, high, longest, right, down), text(WIDTH - RIGHT, HEIGHT - 8, across, "end")];
  lines.forEach(({ name, colour, points: all }, number) => {
    const kept = all.filter(([, y]) => y > 0);
    const path = kept.map(([x, y]) => `${right(x).toFixed(1)},${down(y).toFixed(1)}`).join(" ");
    const ink = `var(--${colour})`;
    const dashes = ["none", "7 4", "2 4"][number % 3];
    parts.push(
      svg("polyline", { points: path, fill: "none", stroke: ink, "stroke-width": 2, "stroke-dasharray": dashes }),
      svg("line", { x1: LEFT + 165 * number, x2: LEFT + 165 * number + 24, y1: 20, y2: 20, stroke: ink, "stroke-width": 2, "stroke-dasharray": dashes }),
      text(LEFT + 165 * number + 30, 24, name),
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
      text(LEFT - 6, y + 4, `1e${power}`, "end"),
    );
  }
  const every = Math.max(1, Math.ceil(longest / 8));
  for (let x = 1; x <= longest; x += every) parts.push(text(right(x), HEIGHT - BOTTOM + 18, String(x), "middle"));
  return parts;
}

function text(x, y, words, anchor = "start") {
  return svg("text", { x, y, "text-anchor": anchor, "font-size": 12, fill: "var(--soft)" }, words);
}
