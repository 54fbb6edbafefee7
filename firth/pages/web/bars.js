// Bars with their names and numbers.

import { printed } from "./data.js";
import { html, label, svg, visible } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";

const WIDTH = 420; // on a phone the number after the longest bar is in sight
const START = 164; // where bars begin
const STEP = 24; // from a bar to the next
const ROOM = 64; // for the number after the longest bar

// Return a figure of bars, and what draws others in it; a bar may be the tail of all others.
export function barFigure(title, note = null) {
  const picture = canvasOfSvg(WIDTH, STEP, title);
  const element = figure(title, picture, () => picture, note);
  element.classList.add("narrow");
  const update = (bars) => {
    const largest = Math.max(...bars.map(({ value }) => Math.abs(value)), 1e-9);
    const height = STEP * bars.length + 4;
    picture.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
    picture.setAttribute("aria-label", `${title}: ${bars.map(spoken).join(", ")}`);
    picture.replaceChildren(...bars.flatMap((bar, number) => drawnBar(bar, number, largest)));
  };
  return { element, update };
}

function spoken({ name, value }) {
  return `${label(name)} ${printed(value)}`;
}

function drawnBar({ name, value, tail, strong }, number, largest) {
  const y = STEP * number;
  const length = ((WIDTH - START - ROOM) * Math.abs(value)) / largest;
  const colour = tail ? "var(--six)" : value < 0 ? "var(--minus)" : "var(--one)";
  const weight = strong ? "bold" : "normal";
  const style = { y: y + 17, "font-size": 13, fill: "var(--ink)", "font-weight": weight };
  const named = svg("text", { ...style, x: START - 8, "text-anchor": "end", class: "bar-name" });
  named.append(svg("title", {}, visible(name)), label(name, 22));
  return [
    named,
    svg("rect", { x: START, y: y + 5, width: Math.max(1, length), height: 15, fill: colour }),
    svg("text", { ...style, x: START + length + 6, class: "bar-value" }, printed(value)),
  ];
}

// Return the bars of a distribution: the likeliest and, in grey, all others together.
export function distribution({ names, values, rest }, strong = null) {
  const bars = names.map((name, at) => ({ name, value: values[at], strong: name === strong }));
  if (rest > 0) bars.push({ name: "all others", value: rest, tail: true });
  return bars;
}

// Return a table with a heading and rows of texts, the first of each its name.
export function table(names, rows, id) {
  const head = html("tr", {}, ...names.map((name) => html("th", { scope: "col" }, name)));
  const lines = rows.map(([first, ...others]) =>
    html(
      "tr",
      {},
      html("th", { scope: "row", title: visible(first) }, label(first, 40)),
      ...others.map((text) => html("td", {}, text)),
    ),
  );
  const body = html("tbody", { id }, ...lines);
  return html("div", { class: "scroll tall" }, html("table", {}, html("thead", {}, head), body));
}
