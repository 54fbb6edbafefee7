// All heads at a glance: a small matrix for each, a row of them for each layer.

import { html, roving, svg } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";
import { onTheme, shadeOf, shades } from "./theme.js";

const MOST_DOTS = 64; // of a small matrix, along a side
const SMALL = 64; // its side in the file

// Return the figure.
export function overview(view) {
  const { data, state } = view;
  const heads = data.heads;
  const drawn = view.layers.map((rows) =>
    Array.from({ length: heads }, (_, head) => shrunk(rows, head, view.tokens.length)),
  );
  const canvases = [];
  const buttons = drawn.flatMap((layer, layerNumber) =>
    layer.map((dots, head) => {
      const canvas = html("canvas", { width: dots.side, height: dots.side, "aria-hidden": "true" });
      canvases.push([canvas, dots]);
      const name = `Layer ${layerNumber + 1}, head ${head + 1}`;
      const choose = () => state.set({ layer: layerNumber, head });
      const button = html("button", { type: "button", class: "small", title: name, click: choose }, canvas);
      button.setAttribute("aria-label", name);
      return button;
    }),
  );
  const repaint = () => canvases.forEach(([canvas, dots]) => paintDots(canvas, dots));
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
  onTheme(repaint);
  repaint();
  mark();

  const rows = drawn.map((_, layer) =>
    html(
      "div",
      { class: "heads" },
      html("span", { class: "name" }, String(layer + 1)),
      ...buttons.slice(layer * heads, (layer + 1) * heads),
    ),
  );
  const grid = html("div", { class: "scroll", role: "group", "aria-label": "All heads" }, ...rows);
  return figure("All heads", grid, () => overviewSvg(canvases, heads), "A row is a layer. Click one, or move with the arrow keys.");
}

// Return a head's matrix with at most so many dots a side: the largest weight of each.
function shrunk(rows, head, tokens) {
  const side = Math.min(tokens, MOST_DOTS);
  const values = new Float32Array(side * side);
  for (let query = 0; query < tokens; query += 1) {
    const first = Math.floor((query * side) / tokens) * side;
    rows.each(head, query, (key, weight) => {
      const place = first + Math.floor((key * side) / tokens);
      if (weight > values[place]) values[place] = weight;
    });
  }
  return { side, values };
}

function paintDots(canvas, { side, values }) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(side, side);
  const mixed = shades();
  values.forEach((weight, place) => image.data.set([...mixed[shadeOf(weight)], 255], 4 * place));
  context.putImageData(image, 0, 0);
}

function overviewSvg(canvases, heads) {
  const step = SMALL + 6;
  const rows = Math.ceil(canvases.length / heads);
  const picture = canvasOfSvg(step * heads, step * rows, "All heads");
  canvases.forEach(([canvas], number) => {
    const [x, y] = [step * (number % heads), step * Math.floor(number / heads)];
    const size = { x, y, width: SMALL, height: SMALL };
    picture.append(svg("image", { ...size, "data-href": canvas.toDataURL(), "image-rendering": "pixelated" }));
  });
  return picture;
}
