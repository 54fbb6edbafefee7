// The text of the point that is chosen or pointed at, its values, and the nearest points.

import { shown } from "./colouring.js";
import { html, visible, visibleLines } from "./dom.js";

const BESIDE = 40; // characters that a list has on either side of a word

// Return the panel beside the points.
export function pointPanel(data, points, state) {
  const sentence = html("div", { class: "sentence", "aria-live": "polite" });
  const nearest = html("div", { class: "nearest" });
  const say = () => {
    const point = state.hover ?? state.point;
    sentence.replaceChildren(...(point === null ? [hint()] : textOf(point)));
  };
  const textOf = (point) => [
    html("p", { class: "quoted" }, ...marked(points.excerpt(point))),
    html("p", { class: "note" }, valuesOf(data, points, point)),
  ];
  const list = () => nearest.replaceChildren(...neighbours(data, points, state));
  state.listen((names) => {
    if (names.includes("hover") || names.includes("point")) say();
    if (names.includes("point") || names.includes("frame")) list();
  });
  say();
  list();
  return html("div", { class: "panel" }, sentence, nearest);
}

function hint() {
  const keys = "Arrow keys go from point to point, Page Up and Page Down through the file, + and − zoom.";
  return html("p", { class: "note" }, `Point at a point to read it; click it for its nearest ones. ${keys}`);
}

// Return a text with its word marked.
function marked([before, word, after]) {
  const parts = [visibleLines(before), word ? html("mark", {}, visible(word)) : "", visibleLines(after)];
  return parts.filter((part) => part !== "");
}

// Return the values that a point has in the columns.
function valuesOf(data, points, point) {
  if (point >= data.count) return "";
  const values = data.columns.map((column, number) => {
    const value = points.columns[number].whole[point];
    const text = column.groups ? column.groups[value] : Number.isNaN(value) ? undefined : shown(value);
    return `${visible(column.name)}: ${text === undefined ? "no value" : visible(text)}`;
  });
  return values.join(" · ");
}

// Return the points that are nearest to the chosen one after the layer that is shown.
function neighbours(data, points, state) {
  const { point, frame } = state;
  if (point === null) return [];
  const { space } = data.frames[frame];
  if (space === null) return [html("p", { class: "note" }, "A layer has nearest points; the table has one point a word.")];
  const { name, neighbours: numbers, cosines } = points.spaces[space];
  const [count, top] = numbers.shape;
  if (point >= count) return [html("p", { class: "note" }, "The table's vectors have another width than the layers'.")];
  const items = Array.from({ length: top }, (_, at) => {
    const other = numbers.get(point, at);
    const cosine = html("span", { class: "cosine" }, cosines.print(cosines.get(point, at)));
    const button = html("button", { type: "button", "data-point": other, click: () => state.set({ point: other }) });
    button.append(cosine, html("span", {}, ...marked(around(points.excerpt(other)))));
    return html("li", {}, button);
  });
  const heading = html("h3", {}, `Nearest by cosine, ${name}`);
  return [heading, html("ol", {}, ...items)];
}

// Return a text cut to what stands next to its word.
function around([before, word, after]) {
  if (!word) return [before, word, after.length > 3 * BESIDE ? `${after.slice(0, 3 * BESIDE)}…` : after];
  const left = before.length > BESIDE ? `…${before.slice(-BESIDE)}` : before;
  return [left, word, after.length > BESIDE ? `${after.slice(0, BESIDE)}…` : after];
}
