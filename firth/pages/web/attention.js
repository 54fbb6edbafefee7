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
  const tokens = data.tokens;
  const layers = await Promise.all(data.weights.map((one) => readWeights(one, tokens.length)));
  const first = data.chosen ?? { layer: 0, head: 0, query: null };
  const state = makeState({ ...first, hover: null });
  const rows = () => layers[state.layer];
  // What tables are about while no word is chosen: the first that is no mark.
  const firstWord = Math.max(0, data.parts.indexOf(0));
  const view = { data, tokens, state, layers, rows, first: firstWord };

  const said = html("p", { class: "said", "aria-live": "polite", id: "attention-said" });
  const say = () => (said.textContent = sentence(view));
  state.listen(say);
  say();
  host.append(controls(view), words(view), said);
  const pair = html("div", { class: "beside" });
  pair.append(lines(view), matrix(view));
  host.append(pair, overview(view));
  if (data.vectors) host.append(await arithmetic(view));
  else host.append(largest(view));
  return state;
}

function controls({ data, state }) {
  const count = (name, number) => Array.from({ length: number }, (_, at) => `${name} ${at + 1}`);
  const layer = chooser("Layer", count("layer", data.weights.length), state.layer, (number) =>
    state.set({ layer: number }),
  );
  const head = chooser("Head", count("head", data.heads), state.head, (number) =>
    state.set({ head: number }),
  );
  state.listen(() => {
    layer.set(state.layer);
    head.set(state.head);
  });
  const all = html("button", { type: "button", class: "quiet", click: () => state.set({ query: null }) });
  all.append("All words");
  return html("div", { class: "controls" }, layer.element, head.element, all);
}

// Return the words to choose from: the one chosen is the query.
function words({ tokens, state, data }) {
  const buttons = tokens.map((token, number) =>
    html(
      "button",
      {
        type: "button",
        class: data.parts[number] === 1 ? "word second" : "word",
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
  const { state, tokens } = view;
  const where = `Layer ${state.layer + 1}, head ${state.head + 1}`;
  const query = state.hover ?? state.query;
  if (query === null) return `${where}. Choose a word to see where it looks.`;
  const { values } = view.rows().row(state.head, query);
  const best = [...values.keys()].sort((a, b) => values[b] - values[a]).slice(0, SAID);
  const named = best.map((key) => `${label(tokens[key])} ${view.rows().print(values[key])}`);
  return `${where}: ${label(tokens[query])} looks at ${named.join(", ")}.`;
}

// Return the table of a row's largest weights and the sum of the others.
function largest(view) {
  const body = html("tbody", { id: "weights" });
  const title = html("h3", { id: "weights-title" });
  const fill = () => {
    const { state, tokens } = view;
    const query = state.query ?? view.first;
    const { values, rest, keys } = view.rows().row(state.head, query);
    title.textContent = `Where ${label(tokens[query])} looks`;
    const order = (keys ?? [...values.keys()]).sort((a, b) => values[b] - values[a]);
    const rows = order.map((key) =>
      html(
        "tr",
        { "data-key": key },
        html("th", { scope: "row", title: visible(tokens[key]) }, label(tokens[key])),
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
