// Examples with their answers: a table or a plot, a search and a filter choose which are listed.

import { countsFigure, FEW, nameOf } from "./counts.js";
import { printed } from "./data.js";
import { chooser, html, label, roving, visible } from "./dom.js";
import { legend, passageElement } from "./passage.js";
import { scatterFigure } from "./scatter.js";
import { makeState } from "./state.js";

const AT_ONCE = 20; // examples that are listed before more are asked for
const LONGEST = 60;
const KINDS = ["wrong", "right", "all"];

// Draw the section.
export async function drawCases(data, host) {
  const { cases, table, plot, seen, wrong, bars } = data;
  const kind = plot || !wrong ? "all" : "wrong";
  const state = makeState({ cell: null, only: null, kind, search: "", most: AT_ONCE });
  const texts = cases.map(searched);
  const matching = () => {
    const wanted = state.search.toLowerCase();
    return cases
      .map((_, number) => number)
      .filter((number) => fits(cases[number], number, state) && texts[number].includes(wanted));
  };

  const search = html("input", {
    type: "search",
    id: "search",
    input: () => state.set({ search: search.value, most: AT_ONCE }),
  });
  const show = chooser("Show", KINDS, KINDS.indexOf(kind), (number) =>
    state.set({ kind: KINDS[number], most: AT_ONCE }),
  );
  const all = html("button", { type: "button", class: "quiet", click: () => clear() }, "All cells");
  const clear = () => state.set({ cell: null, only: null, most: AT_ONCE });
  const field = html("label", { class: "chooser" }, html("span", {}, "Search"), search);
  const controls = html("div", { class: "controls" }, field, plot ? null : show.element, all);
  const said = html("p", { class: "said", id: "cases-said", "aria-live": "polite" });
  const list = html("ol", { class: "cases", "aria-label": "Examples; the arrow keys go through them" });
  const more = html("button", { type: "button", class: "quiet", id: "more" }, "Show more");
  more.addEventListener("click", () => {
    const first = state.most;
    state.set({ most: state.most + AT_ONCE });
    list.children[first].focus();
  });

  const fill = () => {
    const found = matching();
    const listed = found.slice(0, state.most);
    const items = listed.map((number) => caseElement(cases[number], plot, bars));
    list.replaceChildren(...items);
    const reach = roving(items, 1, 0, (number) => reach(number));
    more.hidden = found.length <= listed.length;
    all.hidden = !state.cell && state.only === null;
    all.textContent = plot ? "All examples" : "All cells";
    const of = state.cell ? ` of ${nameOf(table, state.cell)}` : "";
    said.textContent = `${found.length.toLocaleString("en")} of the page's examples${of} are found.`;
  };
  // A cell of right answers is empty while only wrong ones are shown.
  state.listen((changed) => {
    if (changed.includes("cell") && state.cell && !matching().length && state.kind !== "all") {
      show.set(KINDS.indexOf("all"));
      state.set({ kind: "all" });
      return;
    }
    fill();
  });
  fill();

  const marked = cases.some(({ passages }) => passages.some(([, pieces]) => pieces.some(([, kinds]) => kinds.length)));
  const listing = html("div", {}, controls, said, marked ? legend() : null, list, more);
  const sentence = html("p", { class: "note", id: "held" }, held(cases.length, seen, wrong, plot));
  host.append(sentence, ...(await arranged(data, state, listing)));
}

// Return the picture and the list, side by side where there is room.
async function arranged({ table, plot, cases }, state, listing) {
  if (plot) {
    const drawn = await scatterFigure(plot, cases, state);
    return [html("div", { class: "beside chosen-by" }, drawn, listing)];
  }
  if (!table) return [listing];
  const drawn = countsFigure(capital(`${table.down} by ${table.across}`), table, state);
  if (table.columns.length <= FEW) return [html("div", { class: "beside chosen-by" }, drawn, listing)];
  state.listen((changed) => changed.includes("cell") && state.cell && listing.scrollIntoView({ block: "nearest" }));
  return [drawn, listing];
}

function capital(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

// Say how many examples the page holds, and which.
function held(count, seen, wrong, plot) {
  const all = seen.toLocaleString("en");
  const errors = plot ? "" : ` Of all examples ${wrong.toLocaleString("en")} are answered wrongly.`;
  if (count === seen) return `This page holds all ${all} examples, the worst first.${errors}`;
  const which = plot ? "those that are furthest off" : "the worst of all, and the worst of each cell";
  return `This page holds ${count.toLocaleString("en")} of ${all} examples: ${which}.${errors}`;
}

function fits({ right, cells }, number, { kind, cell, only }) {
  if (only !== null) return number === only;
  if (kind !== "all" && right !== (kind === "right")) return false;
  return !cell || cells.some(([row, column]) => row === cell[0] && column === cell[1]);
}

// Return what a search looks through.
function searched({ passages, truth, predicted, bars }) {
  const texts = passages.map(([, pieces]) => pieces.map(([text]) => text).join(""));
  return [...texts, truth, predicted, ...bars.map(([name]) => name)].join("\n").toLowerCase();
}

function caseElement(one, plot, { title, open }) {
  const verdict = plot ? null : html("span", { class: "verdict" }, one.right ? "✓ right" : "✗ wrong");
  const head = html(
    "p",
    { class: "case-head" },
    verdict,
    said("true", one.truth),
    said("predicted", one.predicted),
    ...one.notes.map((note) => html("span", { class: "soft" }, visible(note))),
    html("span", { class: "soft" }, `line ${one.line.toLocaleString("en")}`),
  );
  const parts = [head, ...one.passages.map(passageElement)];
  if (one.bars.length) {
    const rows = one.bars.map(barElement);
    parts.push(html("details", { open }, html("summary", {}, title), html("ul", { class: "bars" }, ...rows)));
  }
  return html("li", { class: one.right ? "case" : "case wrong", "data-line": one.line }, ...parts);
}

function said(name, text) {
  const words = html("b", { title: visible(text) }, label(text, LONGEST));
  return html("span", { class: `case-${name}` }, `${name} `, words);
}

function barElement([name, value, isTrue, isPredicted]) {
  const length = html("span", { class: "length" });
  length.style.width = `${(100 * value).toFixed(1)}%`;
  const which = [isTrue ? "true" : null, isPredicted ? "predicted" : null].filter(Boolean).join(", ");
  return html(
    "li",
    {},
    html("span", { class: "bar-title" }, visible(name), which ? html("span", { class: "soft" }, ` (${which})`) : null),
    html("span", { class: "track" }, length),
    html("span", { class: "number" }, printed(value)),
  );
}
