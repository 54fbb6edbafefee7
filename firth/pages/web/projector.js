// Many texts, or words in their sentences, as points on two axes.

import { colouring, legendElement } from "./colouring.js";
import { readArray } from "./data.js";
import { chooser, html, visible } from "./dom.js";
import { pointPanel } from "./pointpanel.js";
import { pointPlane } from "./pointplane.js";
import { makeState } from "./state.js";
import { onTheme } from "./theme.js";

const PLAIN = -1; // in place of the number of a column: all points are alike

// Draw the section.
export async function drawProjector(data, host) {
  const points = await readPoints(data);
  const state = makeState({
    frame: data.frames.length - 1,
    colour: data.colour ?? PLAIN,
    looks: null, // how points are coloured
    hidden: new Set(), // numbers of looks
    query: "",
    matches: null, // which points the query finds
    point: null, // which is chosen
    hover: null, // which is pointed at
  });
  const legend = html("div", {});
  const colour = () => {
    const column = data.columns[state.colour] ?? null;
    state.set({ looks: colouring(column, points.columns[state.colour], points.total) });
  };
  const showLegend = () => {
    const change = (hidden) => state.set({ hidden });
    legend.replaceChildren(legendElement(state.looks, data.count, state.hidden, change));
  };
  colour();
  showLegend();
  state.listen((names) => {
    if (names.includes("colour")) {
      state.set({ hidden: new Set() });
      colour();
    }
    if (names.includes("looks") || names.includes("hidden")) showLegend();
  });
  onTheme(colour);

  const plane = pointPlane(data, points, state);
  const body = html("div", { class: "projector" }, plane.element, pointPanel(data, points, state));
  host.append(controls(data, points, state, plane.view), legend, body, wordTable(data), notesOf(data));
  plane.begin();
}

// Return the texts of all points, their places in every picture, their neighbours and their values.
async function readPoints(data) {
  const { whole } = await readArray(data.excerpts);
  const parts = JSON.parse(new TextDecoder().decode(whole));
  const frames = await Promise.all(data.frames.map(({ places }) => readPlaces(places)));
  const spaces = await Promise.all(
    data.spaces.map(async ({ name, neighbours, cosines }) => ({
      name,
      neighbours: await readArray(neighbours),
      cosines: await readArray(cosines),
    })),
  );
  const columns = await Promise.all(data.columns.map(({ codes, values }) => readArray(codes ?? values)));
  const excerpt = (point) => {
    if (point < data.count) return parts.slice(3 * point, 3 * point + 3);
    return ["", data.static[point - data.count], ": its row in the embedding table"];
  };
  return { total: data.count + data.static.length, frames, spaces, columns, excerpt };
}

// Return the places of a picture: across, upwards, and how many points it has.
async function readPlaces(reference) {
  const { whole, shape } = await readArray(reference);
  const along = (axis) => Float32Array.from({ length: shape[0] }, (_, point) => whole[2 * point + axis]);
  return { xs: along(0), ys: along(1) };
}

// Return what is chosen above the picture: the layer, the colours, a search, how much is seen.
function controls(data, points, state, view) {
  const names = data.frames.map(({ name }) => name);
  const frame = chooser("After", names, state.frame, (chosen) => state.set({ frame: chosen }));
  const parts = [frame.element];
  if (data.columns.length) {
    const columns = ["nothing", ...data.columns.map(({ name }) => visible(name))];
    const change = (chosen) => state.set({ colour: chosen - 1 });
    parts.push(chooser("Colour by", columns, state.colour + 1, change).element);
  }
  const found = html("span", { class: "found", "aria-live": "polite" });
  const search = html("input", { type: "search", placeholder: "a word or text" });
  search.addEventListener("input", () => state.set({ query: search.value.trim().toLowerCase() }));
  state.listen((changed) => {
    if (!changed.includes("matches")) return;
    found.textContent = state.matches ? `${state.matches.count.toLocaleString("en")} points` : "";
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") state.set({ point: nextMatch(state, points.total) ?? state.point });
  });
  parts.push(html("label", { class: "chooser" }, html("span", {}, "Find"), search), found);
  const buttons = [
    ["+", "Zoom in", () => view.zoomBy(2)],
    ["−", "Zoom out", () => view.zoomBy(1 / 2)],
    ["Whole", "Show the whole picture", () => view.whole()],
  ].map(([text, name, click]) => html("button", { type: "button", class: "quiet", "aria-label": name, click }, text));
  parts.push(html("span", { class: "zoom" }, ...buttons));
  return html("div", { class: "controls" }, ...parts);
}

// Return the next point that a search has found, from the chosen one on.
function nextMatch({ matches, point, looks, hidden }, total) {
  if (!matches) return null;
  for (let step = 1; step <= total; step += 1) {
    const at = ((point ?? -1) + step) % total;
    if (!matches.faint[at] && !hidden.has(looks.marks[at])) return at;
  }
  return null;
}

// Return what was found of each word.
function wordTable({ words }) {
  if (!words.length) return "";
  const names = ["word", "pieces", "texts", "places", "points"];
  const head = html("tr", {}, ...names.map((name) => html("th", { scope: "col" }, name)));
  const rows = words.map(({ word, pieces, texts, places, points }) => {
    const cells = [pieces.map(visible).join(" "), ...[texts, places, points].map((count) => count.toLocaleString("en"))];
    return html("tr", {}, html("th", { scope: "row" }, visible(word)), ...cells.map((cell) => html("td", {}, cell)));
  });
  const table = html("table", { id: "words" }, html("thead", {}, head), html("tbody", {}, ...rows));
  return html("div", { class: "scroll", tabindex: 0 }, table);
}

// Return what is to be said of the points.
function notesOf({ notes }) {
  if (!notes.length) return "";
  return html("ul", { class: "notes" }, ...notes.map((note) => html("li", {}, visible(note))));
}
