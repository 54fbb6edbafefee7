// Many points on a canvas, with what is pointed at on a second one above it.

import { label } from "./dom.js";
import { outlineOf } from "./groups.js";
import { makeSheet, makeStamp, putStamp } from "./raster.js";
import { colour } from "./theme.js";

export const FAINT = 0.13; // how strongly points are drawn that a search doesn't find
export const NAME = 13; // pixels, of names

// A `scene` is what is drawn: the `view`, the places `xs` and `ys`, which of the `looks` each point has
// (`marks`, -1 is none), which are `faint`, the `names` of the last points and the `count` of the
// others, and which point is `chosen`, pointed at (`hover`) or `near` the chosen one. A look has a
// `colour`, of the style sheet or as rgb(), and a `shape`.

// Return how large a point is, in pixels.
export function sizeOf({ count, view }) {
  const size = count > 5000 ? 2.4 : count > 1000 ? 3.2 : count > 100 ? 4 : 5;
  return size * Math.min(1.8, view.zoom ** 0.25);
}

// Return a colour of the style sheet, or one that is written out.
function written(look) {
  return look.colour.startsWith("rgb") ? look.colour : colour(look.colour);
}

// Return a canvas of a size, and its context in which a unit is a pixel of the page.
function cleared(canvas, { width, height }) {
  const scale = Math.min(2, devicePixelRatio || 1);
  const [across, down] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== across || canvas.height !== down) {
    [canvas.width, canvas.height] = [across, down];
    [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// Return a small picture of each look.
function stampsOf(looks, size, scale) {
  const side = Math.ceil((2 * size + 4) * scale);
  return looks.map((look) =>
    makeStamp(side, (context) => {
      context.scale(scale, scale);
      const outline = new Path2D(outlineOf(look.shape, size));
      context.fillStyle = written(look);
      context.fill(outline);
      context.lineWidth = 0.6;
      context.strokeStyle = colour("sheet");
      context.stroke(outline);
    }),
  );
}

// Call a function with each point that is in sight, and its place; the faint ones first.
export function eachSeen(scene, call) {
  const { view, xs, ys, marks, faint, count } = scene;
  const scale = view.scale();
  const [right, down] = [view.width / 2 - view.x * scale, view.height / 2 + view.y * scale];
  for (const turn of faint ? [1, 0] : [0]) {
    for (let point = 0; point < count; point += 1) {
      if (marks[point] < 0 || (faint && faint[point] !== turn)) continue;
      const [x, y] = [right + xs[point] * scale, down - ys[point] * scale];
      if (x > -9 && y > -9 && x < view.width + 9 && y < view.height + 9) call(point, x, y, turn);
    }
  }
}

// Draw all points, and the words of the table.
export function paintCloud(canvas, scene) {
  const context = cleared(canvas, scene.view);
  const size = sizeOf(scene);
  const scale = canvas.width / scene.view.width;
  const stamps = stampsOf(scene.looks, size, scale);
  const half = stamps[0].side / 2;
  const sheet = makeSheet(canvas.width, canvas.height, colour("sheet"));
  eachSeen(scene, (point, x, y, isFaint) => {
    const [left, top] = [Math.round(x * scale - half), Math.round(y * scale - half)];
    putStamp(sheet, stamps[scene.marks[point]], left, top, isFaint ? 256 * FAINT : 256);
  });
  context.putImageData(sheet.image, 0, 0);
  context.font = `600 ${NAME}px system-ui, sans-serif`;
  eachName(scene, (name, look, x, y) => {
    const outline = new Path2D(outlineOf(1, size + 3));
    context.translate(x, y);
    context.rotate(Math.PI / 4);
    context.lineWidth = 2;
    context.fillStyle = written(look);
    context.strokeStyle = colour("ink");
    context.fill(outline);
    context.stroke(outline);
    context.rotate(-Math.PI / 4);
    context.lineWidth = 3;
    context.strokeStyle = colour("sheet");
    context.fillStyle = colour("ink");
    context.strokeText(name, size + 9, NAME / 3);
    context.fillText(name, size + 9, NAME / 3);
    context.translate(-x, -y);
  });
}

// Call a function with each word of the table that is in sight.
export function eachName({ view, names, xs, ys, marks, looks, count }, call) {
  names.forEach((name, number) => {
    const point = count + number;
    if (point >= xs.length || marks[point] < 0) return;
    call(label(name), looks[marks[point]], ...view.seen(xs[point], ys[point]));
  });
}

// Return what stands above the points: rings with their sizes and colours, and lines between points.
export function above({ view, xs, ys, marks, chosen, hover, near, ...scene }) {
  const place = (point) => view.seen(xs[point], ys[point]);
  const size = sizeOf({ ...scene, view });
  const lines = [];
  const rings = [];
  if (chosen !== null) {
    for (const point of near.filter((one) => marks[one] >= 0)) {
      lines.push([place(chosen), place(point)]);
      rings.push([place(point), size + 2.5, "ink"]);
    }
    rings.push([place(chosen), size + 5, "focus"]);
  }
  if (hover !== null) rings.push([place(hover), size + 4, "ink"]);
  return { lines, rings };
}

// Draw what is chosen and pointed at.
export function paintAbove(canvas, scene) {
  const context = cleared(canvas, scene.view);
  const { lines, rings } = above(scene);
  context.lineWidth = 1;
  context.strokeStyle = colour("soft");
  context.beginPath();
  for (const [[x, y], [otherX, otherY]] of lines) {
    context.moveTo(x, y);
    context.lineTo(otherX, otherY);
  }
  context.stroke();
  for (const [[x, y], size, name] of rings) {
    context.beginPath();
    context.arc(x, y, size, 0, 2 * Math.PI);
    context.lineWidth = 2.5;
    context.strokeStyle = colour(name);
    context.stroke();
  }
}
