// Precision, recall and F1 of each label, with counts.

import { printed } from "./data.js";
import { html, label, visible } from "./dom.js";

const LONGEST = 40;
const NAMES = ["precision", "95 % interval", "recall", "95 % interval", "F1", "true", "predicted", "right"];

// Draw the section.
export function drawLabels({ rows, more, left_out: leftOut }, host) {
  const names = ["", ...NAMES, ...more];
  const head = html("tr", {}, ...names.map((name) => html("th", { scope: "col" }, name)));
  const body = html("tbody", { id: "labels" }, ...rows.map(rowOf));
  const table = html("table", {}, html("thead", {}, head), body);
  host.append(html("div", { class: "scroll tall", tabindex: 0 }, table));
  let note = "– where nothing was predicted, or nothing is true.";
  if (leftOut) note += ` ${leftOut.toLocaleString("en")} rarer ones are not listed.`;
  host.append(html("p", { class: "note" }, note));
}

function rowOf(row) {
  const name = html("th", { scope: "row", title: visible(row.name) }, label(row.name, LONGEST));
  const cells = [...shareOf(row.precision), ...shareOf(row.recall), printed(row.f1)];
  const counts = [...row.counts, ...row.more].map((count) => count.toLocaleString("en"));
  return html("tr", {}, name, ...[...cells, ...counts].map((text) => html("td", {}, text)));
}

// Return a share and its interval as they are printed.
export function shareOf(share) {
  if (!share) return ["–", ""];
  const [value, low, high] = share;
  return [printed(value), `${printed(low)} to ${printed(high)}`];
}
