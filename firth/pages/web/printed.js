// Numbers beside those that a book prints, and sentences about them.

import { html, visible } from "./dom.js";

// Draw the section.
export function drawPrinted({ numbers, notes }, host) {
  const sentences = notes.map((note) => html("li", {}, visible(note)));
  host.append(html("ul", { class: "notes" }, ...sentences));
  if (!numbers.length) return;
  const compared = numbers.some(({ book }) => book !== null);
  const names = compared ? ["number", "comes out", "the book prints", ""] : ["number", "comes out"];
  const head = html("tr", {}, ...names.map((name) => html("th", { scope: "col" }, name)));
  const body = html("tbody", {}, ...numbers.map((one) => rowOf(one, compared)));
  const table = html("table", { class: "printed" }, html("thead", {}, head), body);
  host.append(html("div", { class: "scroll tall", tabindex: 0 }, table));
}

function rowOf({ name, value, book, agrees }, compared) {
  const cells = [
    html("th", { scope: "row" }, visible(name)),
    html("td", { "data-cell": "value" }, value),
  ];
  if (compared) {
    const verdict = agrees === null ? "" : agrees ? "the same" : "differs";
    cells.push(html("td", { "data-cell": "book" }, book ?? ""), html("td", { "data-cell": "agrees" }, verdict));
  }
  return html("tr", {}, ...cells);
}
