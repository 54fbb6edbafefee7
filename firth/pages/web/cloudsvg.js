// The points that are in sight as SVG, with their legend.

import { FAINT, NAME, above, eachName, eachSeen, sizeOf } from "./cloud.js";
import { label, svg } from "./dom.js";
import { canvasOfSvg } from "./figure.js";
import { outlineOf } from "./groups.js";

const ROW = 22; // of the legend
const COLUMN = 170;

// Return the picture of a scene, with a legend of `{ name, look }` below it.
export function cloudSvg(title, scene, legend) {
  const [width, height] = [scene.view.width, scene.view.height].map(Math.round);
  const columns = Math.max(1, Math.floor(width / COLUMN));
  const rows = Math.ceil(legend.length / columns);
  const picture = canvasOfSvg(width, height + ROW * rows, title);
  picture.append(...points(scene), ...names(scene), ...rings(scene));
  legend.forEach(({ name, look }, number) => {
    const [x, y] = [12 + COLUMN * (number % columns), height + ROW * Math.floor(number / columns) + 11];
    const mark = svg("path", { d: outlineOf(look.shape, 5), fill: filled(look) });
    const text = svg("text", { x: 11, y: 4, "font-size": NAME, fill: "var(--ink)" }, label(name, 20));
    picture.append(svg("g", { transform: `translate(${x},${y})` }, mark, text));
  });
  return picture;
}

function filled(look) {
  return look.colour.startsWith("rgb") ? look.colour : `var(--${look.colour})`;
}

function rounded(number) {
  return Math.round(10 * number) / 10;
}

// Return a path for each look and strength: one for each point would be a large file.
function points(scene) {
  const size = rounded(sizeOf(scene));
  const outlines = new Map();
  eachSeen(scene, (point, x, y, isFaint) => {
    const mark = scene.marks[point];
    const key = `${mark} ${isFaint}`;
    if (!outlines.has(key)) outlines.set(key, { look: scene.looks[mark], isFaint, parts: [] });
    outlines.get(key).parts.push(outlineOf(scene.looks[mark].shape, size, rounded(x), rounded(y)));
  });
  return [...outlines.values()].map(({ look, isFaint, parts }) =>
    svg("path", { d: parts.join(""), fill: filled(look), "fill-opacity": isFaint ? FAINT : 1 }),
  );
}

// Return the words of the table, each with its name.
function names(scene) {
  const found = [];
  const size = rounded(sizeOf(scene));
  eachName(scene, (name, look, x, y) => {
    const style = { fill: filled(look), stroke: "var(--ink)", "stroke-width": 2 };
    const mark = svg("path", { d: outlineOf(1, size + 3), transform: "rotate(45)", ...style });
    const text = svg("text", { x: size + 9, y: NAME / 3, "font-size": NAME, fill: "var(--ink)" }, name);
    found.push(svg("g", { transform: `translate(${rounded(x)},${rounded(y)})` }, mark, text));
  });
  return found;
}

// Return the rings around what is chosen and pointed at, and the lines between them.
function rings(scene) {
  const drawn = above(scene);
  const lines = drawn.lines.map(([[x1, y1], [x2, y2]]) => {
    const ends = { x1: rounded(x1), y1: rounded(y1), x2: rounded(x2), y2: rounded(y2) };
    return svg("line", { ...ends, stroke: "var(--soft)" });
  });
  const circles = drawn.rings.map(([[x, y], size, name]) => {
    const style = { fill: "none", stroke: `var(--${name})`, "stroke-width": 2.5 };
    return svg("circle", { cx: rounded(x), cy: rounded(y), r: rounded(size), ...style });
  });
  return [...lines, ...circles];
}
