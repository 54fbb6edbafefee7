// All heads at a glance: a small matrix for each, a row of them for each layer.

import { html, roving, svg } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";
import { colour, onTheme, shadeOf, shades } from "./theme.js";

const MOST_DOTS = 60; // of a small matrix, along a side
const SIDE = 60; // of a small matrix as it is drawn
const GAP = 8; // between two
const STEP = SIDE + GAP;

// Return the figure: one picture of all heads, with a button above each of them.
export function overview(view) {
  const { queries, keys, state } = view;
  const heads = view.heads.length;
  const drawn = view.layers.flatMap((rows) =>
    view.heads.map((_, head) => shrunk(rows, head, queries.length, keys.length)),
  );
  const size = { width: STEP * heads, height: STEP * view.layers.length };
  const canvas = html("canvas", { ...size, "aria-hidden": "true" });
  const buttons = drawn.map((_, number) => {
    const [layer, head] = [Math.floor(number / heads), number % heads];
    const name = `Layer ${layer + 1}, ${view.heads[head]}`;
    const choose = () => state.set({ layer, head });
    const button = html("button", { type: "button", class: "small", title: name, click: choose });
    button.setAttribute("aria-label", name);
    return button;
  });
  const number = () => state.layer * heads + state.head;
  const reach = roving(buttons, heads, number(), (to) =>
    state.set({ layer: Math.floor(to / heads), head: to % heads }),
  );
  let pressed = null;
  const mark = () => {
    if (pressed !== null) buttons[pressed].setAttribute("aria-pressed", "false");
    pressed = number();
    buttons[pressed].setAttribute("aria-pressed", "true");
    reach(pressed);
  };
  state.listen((names) => (names.includes("layer") || names.includes("head")) && mark());
  const repaint = () => paintHeads(canvas, drawn, heads);
  onTheme(repaint);
  repaint();
  mark();

  const above = html("div", { class: "heads" }, ...buttons);
  above.style.gridTemplateColumns = `repeat(${heads}, ${STEP}px)`;
  const stack = html("div", { class: "stack" }, canvas, above);
  const grid = html("div", { class: "scroll", role: "group", "aria-label": "All heads" }, stack);
  const note = "A row is a layer, the first above. Click a head, or move with the arrow keys.";
  return figure("All heads", grid, () => headsSvg(canvas), note);
}

// Return a head's matrix with at most so many dots a side: the largest weight of each.
function shrunk(rows, head, queries, keys) {
  const [high, wide] = [queries, keys].map((count) => Math.min(count, MOST_DOTS));
  const values = new Float32Array(high * wide);
  for (let query = 0; query < queries; query += 1) {
    const first = Math.floor((query * high) / queries) * wide;
    rows.each(head, query, (key, weight) => {
      const place = first + Math.floor((key * wide) / keys);
      if (weight > values[place]) values[place] = weight;
    });
  }
  return { high, wide, values };
}

function paintHeads(canvas, drawn, heads) {
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.clearRect(0, 0, canvas.width, canvas.height);
  const mixed = shades();
  drawn.forEach(({ high, wide, values }, number) => {
    const dots = new OffscreenCanvas(wide, high);
    const image = new ImageData(wide, high);
    values.forEach((weight, place) => image.data.set([...mixed[shadeOf(weight)], 255], 4 * place));
    dots.getContext("2d").putImageData(image, 0, 0);
    const [x, y] = [STEP * (number % heads), STEP * Math.floor(number / heads)];
    context.drawImage(dots, x + GAP / 2, y + GAP / 2, SIDE, SIDE);
    context.strokeStyle = colour("line");
    context.strokeRect(x + GAP / 2 - 1.5, y + GAP / 2 - 1.5, SIDE + 3, SIDE + 3);
  });
}

function headsSvg(canvas) {
  const { width, height } = canvas;
  const picture = canvasOfSvg(width, height, "All heads");
  picture.append(svg("image", { width, height, "data-href": canvas.toDataURL() }));
  return picture;
}
