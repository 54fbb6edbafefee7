// Attention as a matrix: a row for each word that looks, a column for each that is looked at.

import { html, label, moved, svg } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";
import { colour, onTheme, shadeOf, shades, shadeText } from "./theme.js";

const SIZE = 520;
const LARGEST_CELL = 30;
const WIDEST = 32.5; // rem of the longer side
const NAMED = 40; // words that have their names beside the matrix
const LETTERS = 13; // the largest size of a name
const MARGIN = 96;
const OVERHANG = 40; // on the right, of the last name above
const SLANT = -50; // degrees that the names above are turned by

// Return the figure.
export function matrix(view) {
  const { queries, keys, state } = view;
  const place = laidOut(queries.length, keys.length);
  const { wide, tall, beside, above: over, width, height, scale } = place;
  const canvas = html("canvas", {
    width: width * scale,
    height: height * scale,
    class: "matrix",
    tabindex: 0,
    role: "img",
    "aria-label": "Attention as a matrix; the arrow keys move over its cells",
    "aria-describedby": "matrix-said",
  });
  const said = html("p", { class: "said", id: "matrix-said", "aria-live": "polite" }, "Point at a cell.");
  // Marks are a picture above the matrix, which is drawn again for another head only.
  const above = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "above", "aria-hidden": "true" });
  const [rowMark, cellMark] = [markOf(wide * keys.length, tall), markOf(wide, tall)];
  above.append(rowMark, cellMark);
  let at = null;

  const paint = () => {
    const query = state.hover ?? state.query;
    moveMark(rowMark, query !== null, beside, over + (query ?? 0) * tall);
    moveMark(cellMark, at !== null, beside + (at?.[1] ?? 0) * wide, over + (at?.[0] ?? 0) * tall);
  };
  const rebuild = () => {
    paintCells(canvas, view, place);
    paint();
  };
  const look = (query, key) => {
    at = [query, key];
    const { values, keys: kept } = view.rows().row(state.head, query);
    const held = kept === null || kept.includes(key);
    const weight = held ? view.rows().print(values[key]) : "among the small ones";
    said.textContent = `${label(queries[query])} → ${label(keys[key])}: ${weight}`;
    paint();
  };
  const cellAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const zoom = width / box.width;
    const key = Math.floor(((event.clientX - box.left) * zoom - beside) / wide);
    const query = Math.floor(((event.clientY - box.top) * zoom - over) / tall);
    const inside = query >= 0 && query < queries.length && key >= 0 && key < keys.length;
    return inside ? [query, key] : null;
  };
  canvas.addEventListener("mousemove", (event) => {
    const found = cellAt(event);
    if (found && String(found) !== String(at)) look(...found);
  });
  canvas.addEventListener("click", (event) => {
    const found = cellAt(event);
    if (found) state.set({ query: found[0] });
  });
  canvas.addEventListener("keydown", (event) => {
    const count = keys.length;
    const [query, key] = at ?? [0, 0];
    const to = moved(event.key, query * count + key, count, queries.length * count);
    if (to === null) return;
    event.preventDefault();
    look(Math.floor(to / count), to % count);
  });
  state.listen((names) => {
    if (!names.includes("layer") && !names.includes("head")) return paint();
    rebuild();
    if (at) look(...at);
  });
  onTheme(rebuild);
  rebuild();

  const stack = html("div", { class: "stack" }, canvas, above);
  stack.style.setProperty("--wide", `${(WIDEST * width) / Math.max(width, height)}rem`);
  const body = html("div", {}, html("div", { class: "scroll" }, stack), said);
  const note = "Rows look, columns are looked at. A cell's shade is the square root of its weight.";
  return figure("Matrix", body, () => asSvg(view, place), note);
}

// Return the sizes of a matrix. Cells are squares where there are as many rows as columns.
function laidOut(rows, columns) {
  const beside = rows <= NAMED ? MARGIN : 8;
  const above = columns <= NAMED ? MARGIN : 8;
  const overhang = columns <= NAMED ? OVERHANG : 2;
  const wide = Math.min(LARGEST_CELL, (SIZE - beside - overhang) / columns);
  const tall = Math.min(LARGEST_CELL, (SIZE - above - overhang) / rows);
  const width = beside + wide * columns + overhang;
  const height = above + tall * rows + 2;
  return { beside, above, wide, tall, width, height, scale: Math.min(2, devicePixelRatio || 1) };
}

function markOf(width, height) {
  return svg("rect", { width, height, fill: "none", stroke: "var(--focus)", "stroke-width": 2 });
}

function moveMark(mark, seen, x, y) {
  mark.setAttribute("visibility", seen ? "visible" : "hidden");
  mark.setAttribute("x", x);
  mark.setAttribute("y", y);
}

function paintCells(canvas, view, { beside, above, wide, tall, scale }) {
  const { queries, keys, state } = view;
  const context = canvas.getContext("2d");
  const mixed = shades();
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.fillStyle = colour("sheet");
  context.fillRect(0, 0, canvas.width, canvas.height);
  const [across, down] = [wide, tall].map((size) => size - (size > 8 ? 1 : 0));
  queries.forEach((_, query) =>
    view.rows().each(state.head, query, (key, weight) => {
      const shade = shadeOf(weight);
      if (!shade) return;
      context.fillStyle = `rgb(${mixed[shade].join(",")})`;
      context.fillRect(beside + key * wide, above + query * tall, across, down);
    }),
  );
  context.strokeStyle = colour("line");
  context.strokeRect(beside, above, wide * keys.length, tall * queries.length);
  context.fillStyle = colour("ink");
  context.textBaseline = "middle";
  if (queries.length <= NAMED) {
    context.font = `${Math.min(LETTERS, tall)}px system-ui, sans-serif`;
    context.textAlign = "right";
    queries.forEach((token, number) =>
      context.fillText(label(token, 13), beside - 6, above + (number + 0.5) * tall),
    );
  }
  if (keys.length > NAMED) return;
  context.font = `${Math.min(LETTERS, wide)}px system-ui, sans-serif`;
  context.textAlign = "left";
  keys.forEach((token, number) => {
    context.save();
    context.translate(beside + (number + 0.5) * wide, above - 6);
    context.rotate((SLANT * Math.PI) / 180);
    context.fillText(label(token, 11), 0, 0);
    context.restore();
  });
}

function asSvg(view, { beside, above, wide, tall, width, height }) {
  const { queries, keys, state } = view;
  const picture = canvasOfSvg(width, height, "Attention as a matrix");
  const byShade = new Map();
  queries.forEach((_, query) =>
    view.rows().each(state.head, query, (key, weight) => {
      const shade = shadeOf(weight);
      if (!shade) return;
      if (!byShade.has(shade)) byShade.set(shade, []);
      const place = [beside + key * wide, above + query * tall, wide, tall, -wide];
      const [x, y, across, down, back] = place.map((one) => one.toFixed(2));
      byShade.get(shade).push(`M${x} ${y}h${across}v${down}h${back}z`);
    }),
  );
  for (const [shade, parts] of byShade) {
    picture.append(svg("path", { d: parts.join(""), fill: shadeText(shade) }));
  }
  const style = { fill: "var(--ink)" };
  if (queries.length <= NAMED) {
    const own = { ...style, "font-size": Math.min(LETTERS, tall), "text-anchor": "end", x: beside - 6 };
    queries.forEach((token, number) => {
      const y = above + (number + 0.5) * tall + 4;
      picture.append(svg("text", { ...own, y }, label(token, 13)));
    });
  }
  if (keys.length <= NAMED) {
    const own = { ...style, "font-size": Math.min(LETTERS, wide) };
    keys.forEach((token, number) => {
      const x = beside + (number + 0.5) * wide;
      const transform = `translate(${x},${above - 6}) rotate(${SLANT})`;
      picture.append(svg("text", { ...own, transform }, label(token, 11)));
    });
  }
  return picture;
}
