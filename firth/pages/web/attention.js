// Attention: every head of every layer, as lines between words, as a matrix and as numbers.

import { arithmetic } from "./arithmetic.js";
import { chooser, html, label, roving, visible } from "./dom.js";
import { lines } from "./lines.js";
import { matrix } from "./matrix.js";
import { overview } from "./overview.js";
import { makeState } from "./state.js";
import { readWeights } from "./weights.js";

const SAID = 3; // words that are named of a row

// Draw the section, and return what is chosen.
export async function drawAttention(data, host) {
  const view = await readAttention(data);
  host.append(controls(view), words(view), whereItLooks(view));
  host.append(...(await pictures(view)));
  return view.state;
}

// Return the numbers of a section, and what is chosen among them. Queries are the tokens that look,
// keys those that are looked at: in self-attention both are the tokens of the text.
export async function readAttention(data) {
  const queries = data.tokens;
  const keys = data.keys ?? queries;
  const layers = await Promise.all(data.weights.map((one) => readWeights(one, keys.length)));
  const first = data.chosen ?? { layer: 0, head: 0, query: null };
  const state = makeState({ ...first, hover: null });
  const heads = numbered("head", data.heads);
  if (data.mean) heads.push("mean of all heads");
  const rows = () => layers[state.layer];
  // What tables are about while no word is chosen: the first that is no mark.
  const firstWord = Math.max(0, data.parts.indexOf(0));
  const where = () => `Layer ${state.layer + 1}, ${heads[state.head]}`;
  const { parts } = data;
  return { data, queries, keys, parts, heads, state, layers, rows, where, first: firstWord };
}

// Return the pictures and the table that follow what is chosen.
export async function pictures(view) {
  const pair = html("div", { class: "beside" }, lines(view), matrix(view));
  const table = view.data.vectors ? await arithmetic(view) : largest(view);
  return [pair, overview(view), table];
}

function numbered(name, count) {
  return Array.from({ length: count }, (_, at) => `${name} ${at + 1}`);
}

// Return the sentence that says where the word that is chosen or pointed at looks.
export function whereItLooks(view) {
  const said = html("p", { class: "said", "aria-live": "polite", id: "attention-said" });
  const say = () => (said.textContent = sentence(view));
  view.state.listen(say);
  say();
  return said;
}

// Return the lists of layers and heads.
export function controls({ data, heads, state }) {
  const layers = numbered("layer", data.weights.length);
  const layer = chooser("Layer", layers, state.layer, (number) => state.set({ layer: number }));
  const head = chooser("Head", heads, state.head, (number) => state.set({ head: number }));
  state.listen(() => {
    layer.set(state.layer);
    head.set(state.head);
  });
  const all = html("button", { type: "button", class: "quiet", click: () => state.set({ query: null }) });
  all.append("All words");
  return html("div", { class: "controls" }, layer.element, head.element, all);
}

// Return the words to choose from: the one chosen is the query.
export function words({ queries, state, parts }) {
  const buttons = queries.map((token, number) =>
    html(
      "button",
      {
        type: "button",
        class: parts[number] === 1 ? "word second" : "word",
        "aria-pressed": "false",
        title: visible(token),
        click: () => state.set({ query: state.query === number ? null : number }),
        mouseenter: () => state.set({ hover: number }),
        mouseleave: () => state.set({ hover: null }),
      },
      label(token),
    ),
  );
  const reach = roving(buttons, 1, state.query ?? 0, (number) => state.set({ query: number }));
  let pressed = null;
  const mark = () => {
    if (pressed !== null) buttons[pressed].setAttribute("aria-pressed", "false");
    pressed = state.query;
    if (pressed === null) return;
    buttons[pressed].setAttribute("aria-pressed", "true");
    reach(pressed);
  };
  state.listen((names) => names.includes("query") && mark());
  mark();
  return html("div", { class: "words", role: "group", "aria-label": "Words of the text" }, ...buttons);
}

function sentence(view) {
  const { state, queries, keys } = view;
  const query = state.hover ?? state.query;
  if (query === null) return `${view.where()}. Choose a word to see where it looks.`;
  const { values } = view.rows().row(state.head, query);
  const best = [...values.keys()].sort((a, b) => values[b] - values[a]).slice(0, SAID);
  const named = best.map((key) => `${label(keys[key])} ${view.rows().print(values[key])}`);
  return `${view.where()}: ${label(queries[query])} looks at ${named.join(", ")}.`;
}

// Return the table of a row's largest weights and the sum of the others.
function largest(view) {
  const body = html("tbody", { id: "weights" });
  const title = html("h3", { id: "weights-title" });
  const fill = () => {
    const { state, queries } = view;
    const query = state.query ?? view.first;
    const { values, rest, keys } = view.rows().row(state.head, query);
    title.textContent = `Where ${label(queries[query])} looks`;
    const order = (keys ?? [...values.keys()]).sort((a, b) => values[b] - values[a]);
    const rows = order.map((key) =>
      html(
        "tr",
        { "data-key": key },
        html("th", { scope: "row", title: visible(view.keys[key]) }, label(view.keys[key])),
        html("td", {}, String(key + 1)),
        html("td", {}, view.rows().print(values[key])),
      ),
    );
    if (keys) {
      rows.push(
        html(
          "tr",
          { "data-key": "rest" },
          html("th", { scope: "row" }, "all others"),
          html("td", {}, ""),
          html("td", {}, view.rows().print(rest)),
        ),
      );
    }
    body.replaceChildren(...rows);
  };
  view.state.listen((names) => names.some((name) => name !== "hover") && fill());
  fill();
  const head = html(
    "thead",
    {},
    html("tr", {}, ...["word", "place", "weight"].map((name) => html("th", { scope: "col" }, name))),
  );
  return html("div", {}, title, html("div", { class: "scroll" }, html("table", {}, head, body)));
}
