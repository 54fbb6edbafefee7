// Tables of texts and numbers, and a command to type.

import { html, visible } from "./dom.js";

// Draw the section.
export function drawTables({ note, tables }, host) {
  host.append(html("p", { class: "note" }, visible(note)));
  for (const table of tables) host.append(drawn(table));
}

function drawn({ caption, heads, rows, numbers }) {
  const kind = (column) => (column < heads.length - numbers ? "wraps" : null);
  const head = heads.map((name, column) => html("th", { scope: "col", class: kind(column) }, visible(name)));
  const lines = rows.map((cells) =>
    html("tr", {}, ...cells.map((cell, column) => html("td", { class: kind(column) }, visible(cell)))),
  );
  const parts = [html("thead", {}, html("tr", {}, ...head)), html("tbody", {}, ...lines)];
  if (caption) parts.unshift(html("caption", {}, visible(caption)));
  return html("div", { class: "scroll" }, html("table", {}, ...parts));
}

// Draw a command below what it does.
export function drawCommand({ command, about }, host) {
  host.append(html("p", { class: "note" }, visible(about)), html("pre", { class: "quoted" }, visible(command)));
}
