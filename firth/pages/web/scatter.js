// Predicted numbers against the true ones, and how far they are off.

import { axes, line } from "./axes.js";
import { table } from "./bars.js";
import { readArray } from "./data.js";
import { html, moved, svg } from "./dom.js";
import { figure } from "./figure.js";

// Return the figure; a click on the point of an example that the page holds chooses it.
export async function scatterFigure({ points, total }, cases, state) {
  const title = "Predicted against true";
  const array = await readArray(points);
  const count = array.shape[0];
  const pairs = Array.from({ length: count }, (_, at) => [array.get(at, 0), array.get(at, 1)]);
  const all = [...pairs, ...cases.map(({ point }) => point)].flat();
  const range = { low: Math.min(...all), high: Math.max(...all) };
  const { picture, right, down } = axes(title, { name: "true", ...range }, { name: "predicted", ...range });
  const [from, to] = [range.low, range.high];
  picture.append(line(right(from), down(from), right(to), down(to), "soft", { "stroke-dasharray": "5 5" }));
  const dots = pairs.map(([x, y]) => `M${right(x).toFixed(1)} ${down(y).toFixed(1)}h0`).join("");
  const small = { "stroke-width": 4, "stroke-linecap": "round", "stroke-opacity": 0.5 };
  picture.append(svg("path", { d: dots, stroke: "var(--one)", fill: "none", ...small }));
  const choose = (only) => state.set({ only: state.only === only ? null : only });
  const marks = cases.map(({ point: [x, y], truth, predicted }, at) => {
    const place = { cx: right(x), cy: down(y), r: 4 };
    const mark = svg("circle", { ...place, class: "target", "data-case": at, click: () => choose(at) });
    mark.append(svg("title", {}, `true ${truth}, predicted ${predicted}`));
    return mark;
  });
  picture.append(...marks);
  const paint = () =>
    marks.forEach((mark, at) => {
      mark.setAttribute("fill", at === state.only ? "var(--focus)" : "var(--two)");
      mark.setAttribute("r", at === state.only ? 7 : 4);
    });
  state.listen(paint);
  paint();

  const box = html("div", { class: "plane", tabindex: 0, role: "group", id: "scatter" }, picture);
  box.setAttribute("aria-label", `${title}; the arrow keys go through the examples, the worst first`);
  box.addEventListener("keydown", (event) => {
    const next = moved(event.key, state.only ?? -1, 1, marks.length);
    if (next === null) return;
    event.preventDefault();
    state.set({ only: next });
  });
  const drawn = count < total ? `${count.toLocaleString("en")} of ${total.toLocaleString("en")}` : "All";
  const note =
    `${drawn} examples are drawn; orange are those below, which are furthest off. On the dashed line ` +
    "a prediction is right. Click an orange point to see its text.";
  return figure(title, box, () => picture, note);
}

// Draw how often predictions are so far off.
export function drawResiduals({ counts, edges, figures }, host) {
  const title = "Predicted less true";
  const across = { name: title.toLowerCase(), low: edges[0], high: edges.at(-1) };
  const upwards = { name: "examples", low: 0, high: Math.max(...counts) };
  const { picture, right, down } = axes(title, across, upwards);
  counts.forEach((count, at) => {
    const x = right(edges[at]);
    const size = { width: Math.max(1, right(edges[at + 1]) - x - 1), height: down(0) - down(count) };
    const bar = svg("rect", { x, y: down(count), ...size, fill: "var(--one)", class: "bin" });
    bar.append(svg("title", {}, count.toLocaleString("en")));
    picture.append(bar);
  });
  if (edges[0] < 0 && edges.at(-1) > 0) {
    picture.append(line(right(0), down(0), right(0), down(upwards.high), "focus", { "stroke-width": 1.5 }));
  }
  const list = table(["residual", ""], figures, "residual-figures");
  host.append(html("div", { class: "beside" }, figure(title, picture, () => picture), list));
}
