// Metrics with their intervals, and what was said while the examples were read.

import { html, visible } from "./dom.js";

// Draw the section.
export function drawMetrics({ rows, signatures, said }, host) {
  const names = ["metric", "value", "95 % interval"];
  const head = html("tr", {}, ...names.map((name) => html("th", { scope: "col" }, name)));
  const lines = rows.map(([name, value, interval]) =>
    html(
      "tr",
      { "data-metric": name },
      html("th", { scope: "row" }, visible(name)),
      html("td", {}, value),
      html("td", {}, interval),
    ),
  );
  const body = html("tbody", { id: "metrics" }, ...lines);
  const table = html("table", {}, html("thead", {}, head), body);
  host.append(html("div", { class: "scroll" }, table));
  for (const one of signatures) host.append(html("p", { class: "note" }, visible(one)));
  if (!said.length) return;
  const sentences = said.map((sentence) => html("li", {}, visible(sentence)));
  host.append(html("ul", { class: "notes", id: "said" }, ...sentences));
}
