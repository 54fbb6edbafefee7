// Points on two axes, in one frame or several: colours and shapes tell their groups.

import { readArray } from "./data.js";
import { chooser, html, label, moved, svg, visible } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";
import { colourOf, outlineOf } from "./groups.js";
import { makeState } from "./state.js";

const WIDTH = 520;
const HEIGHT = 420;
const MARGIN = 48;
const SIZE = 14;
const SIDE = 6; // half of a shape
const [ABOVE, BELOW] = [-11, 21]; // where names stand

// Draw the section.
export async function drawPoints({ planes }, host) {
  for (const one of planes) await drawPlane(one, host);
}

async function drawPlane(data, host) {
  const frames = await Promise.all(data.frames.map(({ places }) => readArray(places)));
  const state = makeState({ frame: data.frames.length - 1, point: null });
  if (frames.length > 1) {
    const names = data.frames.map(({ name }) => name);
    const choose = chooser(data.choice, names, state.frame, (frame) => state.set({ frame }));
    state.listen(() => choose.set(state.frame));
    host.append(html("div", { class: "controls" }, choose.element));
  }
  host.append(plane(data, frames, state));
}

function plane(data, frames, state) {
  const { marks, groups, arrows } = data;
  const picture = canvasOfSvg(WIDTH, HEIGHT, data.title);
  const said = html("p", { class: "said", "aria-live": "polite" });
  const lines = arrows.map(() => svg("path", { fill: "none", stroke: "var(--soft)", "stroke-width": 1.5 }));
  const points = marks.map((mark, number) => {
    const shape = shapeOf(groups.indexOf(mark.group));
    const choose = () => state.set({ point: number });
    const point = svg("g", { class: "target", "data-point": number, click: choose, mouseenter: choose }, shape);
    const named = svg("text", { "text-anchor": "middle", "font-size": SIZE, fill: "var(--ink)" }, label(mark.name));
    point.append(svg("title", {}, visible(mark.text)), named);
    return point;
  });
  picture.append(...legend(groups), ...lines, ...points);

  const redraw = () => {
    const place = placed(frames[state.frame], marks.length);
    const places = marks.map((_, number) => place(number));
    points.forEach((point, number) => {
      const [x, y] = places[number];
      point.setAttribute("transform", `translate(${x.toFixed(1)},${y.toFixed(1)})`);
      point.lastChild.setAttribute("y", crowded(places, number) ? BELOW : ABOVE);
      point.firstChild.setAttribute("stroke", number === state.point ? "var(--focus)" : "var(--sheet)");
    });
    arrows.forEach(([from, to], number) => lines[number].setAttribute("d", arrow(places[from], places[to])));
    const frame = data.frames[state.frame].said;
    if (state.point === null) said.textContent = frame;
    else said.textContent = `${visible(marks[state.point].text)} (${marks[state.point].group})`;
  };
  state.listen(redraw);
  redraw();

  const box = html("div", { class: "plane", tabindex: 0, role: "group" }, picture);
  box.setAttribute("aria-label", `${data.title}; the arrow keys move from point to point`);
  box.addEventListener("keydown", (event) => {
    const from = state.point ?? -1;
    const to = { ArrowUp: -1, ArrowDown: 1 }[event.key]
      ? from + { ArrowUp: -1, ArrowDown: 1 }[event.key]
      : moved(event.key, from, 1, marks.length);
    if (to === null || to < 0 || to >= marks.length) return;
    event.preventDefault();
    state.set({ point: to });
  });
  return figure(data.title, html("div", {}, box, said), () => picture, data.note);
}

// Tell whether a point's name would stand on another point or its name.
function crowded(places, number) {
  const [x, y] = places[number];
  return places.some(([otherX, otherY], other) => {
    const above = y - otherY || other - number;
    return other !== number && Math.abs(x - otherX) < 60 && above > 0 && above < 26;
  });
}

// Return a shape: groups differ in it as well as in colour.
function shapeOf(group) {
  const style = { fill: `var(--${colourOf(group)})`, stroke: "var(--sheet)", "stroke-width": 2 };
  return svg("path", { d: outlineOf(group, SIDE), ...style });
}

function legend(groups) {
  if (groups.length < 2) return [];
  return groups.map((name, group) => {
    const mark = svg("g", { transform: `translate(${20 + 150 * group},18)` }, shapeOf(group));
    mark.append(svg("text", { x: 12, y: 4, "font-size": SIZE, fill: "var(--soft)" }, label(name, 20)));
    return mark;
  });
}

// Return a function from a point to its place, with one scale for both axes.
function placed(frame, count) {
  const range = [0, 1].map((axis) => {
    const all = Array.from({ length: count }, (_, point) => frame.get(point, axis));
    return [Math.min(...all), Math.max(...all)];
  });
  const sizes = [WIDTH - 2 * MARGIN, HEIGHT - 3 * MARGIN];
  const scales = range.map(([low, high], axis) => sizes[axis] / (high - low || 1));
  const spread = range.some(([low, high]) => high > low);
  const scale = spread ? Math.min(...scales) : 0;
  const middle = range.map(([low, high]) => (low + high) / 2);
  return (point) => [
    WIDTH / 2 + scale * (frame.get(point, 0) - middle[0]),
    (HEIGHT + MARGIN) / 2 - scale * (frame.get(point, 1) - middle[1]),
  ];
}

// Return an arrow that ends beside the point that it leads to.
function arrow([x1, y1], [x2, y2]) {
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const gap = Math.min(length / 2, 11) / length;
  const [x, y] = [x2 - gap * (x2 - x1), y2 - gap * (y2 - y1)];
  const angle = Math.atan2(y1 - y2, x1 - x2);
  const wings = [0.45, -0.45].map((turn) => {
    const at = angle + turn;
    return `M${x.toFixed(1)} ${y.toFixed(1)}l${(9 * Math.cos(at)).toFixed(1)} ${(9 * Math.sin(at)).toFixed(1)}`;
  });
  return `M${x1.toFixed(1)} ${y1.toFixed(1)}L${x.toFixed(1)} ${y.toFixed(1)}${wings.join("")}`;
}
