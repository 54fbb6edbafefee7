// How vectors move through the layers: cosines, and places on two axes.

import { printed, readArray } from "./data.js";
import { chooser, html, label, svg, visible } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";
import { heatFigure } from "./heat.js";
import { makeState } from "./state.js";

const WIDTH = 760;
const HEIGHT = 460;
const MARGIN = 46;
const MOST_NAMES = 80; // points that have their words beside them

// Draw the section.
export async function drawMovement(data, host) {
  const names = ["toFirst", "toBefore", "plane"];
  const [toFirst, toBefore, plane] = await Promise.all(names.map((name) => readArray(data[name])));
  const count = plane.shape[0];
  const layerNames = Array.from({ length: count }, (_, at) => layerName(at + data.first));
  const given = {
    rows: layerNames.slice(1),
    columns: data.tokens,
    largest: 1,
    print: (value) => toFirst.print(value),
  };
  const views = [
    { ...given, value: (row, column) => toFirst.get(row + 1, column) },
    { ...given, value: (row, column) => toBefore.get(row, column) },
  ];
  const note = "1 is the same direction, 0 a right angle; orange is below 0.";
  const heat = heatFigure("Cosine of each word's vector", note, views[0], "cosines");
  const which = chooser("compared with", [layerNames[0], "the layer before"], 0, (number) =>
    heat.update(views[number]),
  );
  host.append(html("div", { class: "controls" }, which.element), heat.element);

  const state = makeState({ layer: count - 1, token: null });
  const choose = chooser("Layer", layerNames, state.layer, (layer) => state.set({ layer }));
  state.listen(() => choose.set(state.layer));
  host.append(html("div", { class: "controls" }, choose.element), scatter(data, plane, layerNames, state));
}

// Return the name of a layer; the embedding is layer 0.
export function layerName(number) {
  return number === 0 ? "embedding" : `layer ${number}`;
}

function scatter(data, plane, layerNames, state) {
  const { tokens } = data;
  const layers = layerNames.map((_, layer) => layer);
  const place = (layer, token, [across, upwards]) => [
    MARGIN + (WIDTH - 3 * MARGIN) * share(plane.get(layer, token, 0), across),
    HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * share(plane.get(layer, token, 1), upwards),
  ];
  // The picture has room for one layer's words or, with a word's way, for those of all layers.
  const ranges = layers.map((layer) => rangeOf(plane, [layer]));
  const whole = rangeOf(plane, layers);
  const range = () => (state.token === null ? ranges[state.layer] : whole);
  const picture = canvasOfSvg(WIDTH, HEIGHT, "Vectors on two axes");
  const said = html("p", { class: "said", id: "plane-said", "aria-live": "polite" });
  const trail = svg("polyline", { fill: "none", stroke: "var(--focus)", "stroke-width": 1.8 });
  const dots = svg("g", {});
  const points = tokens.map((token, number) => {
    const circle = svg("circle", { r: 4.5, fill: "var(--one)" });
    const choose = () => state.set({ token: state.token === number ? null : number });
    const point = svg("g", { class: "target", "data-token": number, click: choose }, circle);
    point.append(svg("title", {}, visible(token)));
    if (tokens.length <= MOST_NAMES) {
      const style = { "font-size": 12, fill: "var(--ink)", "pointer-events": "none" };
      point.append(svg("text", { ...style, x: 7, y: 4 }, label(token)));
    }
    return point;
  });
  picture.append(trail, dots, ...points);

  const redraw = () => {
    points.forEach((point, number) => {
      const [x, y] = place(state.layer, number, range());
      point.setAttribute("transform", `translate(${x.toFixed(1)},${y.toFixed(1)})`);
      const mark = number === state.token ? "var(--focus)" : "var(--one)";
      point.firstChild.setAttribute("fill", mark);
    });
    dots.replaceChildren();
    trail.setAttribute("points", "");
    if (state.token === null) {
      said.textContent = `${layerNames[state.layer]}. Click a word to see its way.`;
      return;
    }
    const way = layerNames.map((_, layer) => place(layer, state.token, range()));
    trail.setAttribute("points", way.map((one) => one.map((at) => at.toFixed(1)).join(",")).join(" "));
    dots.append(...way.map(([cx, cy]) => svg("circle", { cx, cy, r: 2.5, fill: "var(--focus)" })));
    const [x, y] = [0, 1].map((axis) => plane.print(plane.get(state.layer, state.token, axis)));
    said.textContent = `${label(tokens[state.token])} after ${layerNames[state.layer]}: ${x}, ${y}`;
  };
  state.listen(redraw);
  redraw();

  const box = html("div", { class: "wide", tabindex: 0, role: "group" }, picture);
  box.setAttribute("aria-label", "Vectors on two axes; arrow keys choose the layer and the word");
  box.addEventListener("keydown", (event) => {
    const layer = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const token = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!layer && !token) return;
    event.preventDefault();
    const within = (number, count) => Math.min(count - 1, Math.max(0, number));
    if (layer) state.set({ layer: within(state.layer + layer, layerNames.length) });
    if (token) state.set({ token: within((state.token ?? -1) + token, tokens.length) });
  });
  const [first, second] = data.variance.map((share) => `${printed(100 * share, 0)} %`);
  const note =
    "Principal components of all words' vectors after all layers, each at length 1: " +
    `${first} of the variance across, ${second} upwards.`;
  return figure("Vectors on two axes", html("div", {}, box, said), () => picture, note);
}

// Return the least and the largest number of each axis over some layers.
function rangeOf(plane, layers) {
  const tokens = plane.shape[1];
  return [0, 1].map((axis) => {
    let [low, high] = [Infinity, -Infinity];
    for (const layer of layers) {
      for (let token = 0; token < tokens; token += 1) {
        const value = plane.get(layer, token, axis);
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
    return [low, high];
  });
}

function share(value, [low, high]) {
  return (value - low) / (high - low || 1);
}
