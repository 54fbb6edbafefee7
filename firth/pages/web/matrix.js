// Attention as a matrix: a row for each word that looks, a column for each that is looked at.

import { html, label, moved, svg } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";
import { colour, onTheme, shadeOf, shades, shadeText } from "./theme.js";

const SIZE = 520;
const LARGEST_CELL = 30;
const NAMED = 40; // words that have their names beside the matrix
const MARGIN = 96;
const OVERHANG = 40; // of the last name above
const SLANT = -50; // degrees that the names above are turned by

// Return the figure.
export function matrix(view) {
  const { tokens, state } = view;
  const count = tokens.length;
  const margin = count <= NAMED ? MARGIN : 8;
  const overhang = count <= NAMED ? OVERHANG : 2;
  const cell = Math.min(LARGEST_CELL, (SIZE - margin - overhang) / count);
  const side = margin + cell * count + overhang;
  const scale = Math.min(2, devicePixelRatio || 1);
  const place = { cell, margin, side, scale };
  const canvas = html("canvas", {
    width: side * scale,
    height: side * scale,
    class: "matrix",
    tabindex: 0,
    role: "img",
    "aria-label": "Attention as a matrix; the arrow keys move over its cells",
    "aria-describedby": "matrix-said",
  });
  const said = html("p", { class: "said", id: "matrix-said", "aria-live": "polite" }, "Point at a cell.");
  // Marks are a picture above the matrix, which is drawn again for another head only.
  const above = svg("svg", { viewBox: `0 0 ${side} ${side}`, class: "above", "aria-hidden": "true" });
  const [rowMark, cellMark] = [markOf(cell * count, cell), markOf(cell, cell)];
  above.append(rowMark, cellMark);
  let at = null;

  const paint = () => {
    const query = state.hover ?? state.query;
    moveMark(rowMark, query !== null, margin, margin + (query ?? 0) * cell);
    moveMark(cellMark, at !== null, margin + (at?.[1] ?? 0) * cell, margin + (at?.[0] ?? 0) * cell);
  };
  const rebuild = () => {
    paintCells(canvas, view, place);
    paint();
  };
  const look = (query, key) => {
    at = [query, key];
    const { values, keys } = view.rows().row(state.head, query);
    const held = keys === null || keys.includes(key);
    const weight = held ? view.rows().print(values[key]) : "among the small ones";
    said.textContent = `${label(tokens[query])} → ${label(tokens[key])}: ${weight}`;
    paint();
  };
  const cellAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const zoom = side / box.width;
    const key = Math.floor(((event.clientX - box.left) * zoom - margin) / cell);
    const query = Math.floor(((event.clientY - box.top) * zoom - margin) / cell);
    const inside = [query, key].every((one) => one >= 0 && one < count);
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
    const to = moved(event.key, (at ?? [0, 0])[0] * count + (at ?? [0, 0])[1], count, count * count);
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
  const body = html("div", {}, html("div", { class: "scroll" }, stack), said);
  const note = "Rows look, columns are looked at. A cell's shade is the square root of its weight.";
  return figure("Matrix", body, () => asSvg(view, place), note);
}

function markOf(width, height) {
  return svg("rect", { width, height, fill: "none", stroke: "var(--focus)", "stroke-width": 2 });
}

function moveMark(mark, seen, x, y) {
  mark.setAttribute("visibility", seen ? "visible" : "hidden");
  mark.setAttribute("x", x);
  mark.setAttribute("y", y);
}

function paintCells(canvas, view, { cell, margin, scale }) {
  const { tokens, state } = view;
  const context = canvas.getContext("2d");
  const mixed = shades();
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.fillStyle = colour("sheet");
  context.fillRect(0, 0, canvas.width, canvas.height);
  const gap = cell > 8 ? 1 : 0;
  tokens.forEach((_, query) =>
    view.rows().each(state.head, query, (key, weight) => {
      const shade = shadeOf(weight);
      if (!shade) return;
      context.fillStyle = `rgb(${mixed[shade].join(",")})`;
      context.fillRect(margin + key * cell, margin + query * cell, cell - gap, cell - gap);
    }),
  );
  context.strokeStyle = colour("line");
  context.strokeRect(margin, margin, cell * tokens.length, cell * tokens.length);
  if (tokens.length > NAMED) return;
  context.fillStyle = colour("ink");
  context.font = `${Math.min(13, cell)}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  tokens.forEach((token, number) => {
    const middle = margin + (number + 0.5) * cell;
    context.textAlign = "right";
    context.fillText(label(token, 13), margin - 6, middle);
    context.save();
    context.translate(middle, margin - 6);
    context.rotate((SLANT * Math.PI) / 180);
    context.textAlign = "left";
    context.fillText(label(token, 11), 0, 0);
    context.restore();
  });
}

function asSvg(view, { cell, margin, side }) {
  const { tokens, state } = view;
  const picture = canvasOfSvg(side, side, "Attention as a matrix");
  const byShade = new Map();
  tokens.forEach((_, query) =>
    view.rows().each(state.head, query, (key, weight) => {
      const shade = shadeOf(weight);
      if (!shade) return;
      if (!byShade.has(shade)) byShade.set(shade, []);
      const [x, y] = [margin + key * cell, margin + query * cell].map((one) => one.toFixed(2));
      byShade.get(shade).push(`M${x} ${y}h${cell.toFixed(2)}v${cell.toFixed(2)}h${(-cell).toFixed(2)}z`);
    }),
  );
  for (const [shade, parts] of byShade) {
    picture.append(svg("path", { d: parts.join(""), fill: shadeText(shade) }));
  }
  if (tokens.length > NAMED) return picture;
  const size = Math.min(13, cell);
  tokens.forEach((token, number) => {
    const middle = margin + (number + 0.5) * cell;
    const style = { "font-size": size, fill: "var(--ink)" };
    const turned = `translate(${middle},${margin - 6}) rotate(${SLANT})`;
    picture.append(
      svg("text", { ...style, x: margin - 6, y: middle + 4, "text-anchor": "end" }, label(token, 13)),
      svg("text", { ...style, transform: turned }, label(token, 11)),
    );
  });
  return picture;
}
