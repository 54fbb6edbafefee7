// The arithmetic of one head for one word, as textbooks print it.

import { printed, readArray } from "./data.js";
import { html, label, visible } from "./dom.js";

const FEW = 3; // numbers of a vector that are shown at first
const ROUGH = 2; // decimals of what is worked out from printed numbers

// Return the table; it follows the chosen layer, head and word.
export async function arithmetic(view) {
  const { state, data } = view;
  const title = html("h3");
  const lead = html("p", { class: "note" });
  const query = html("p", { class: "vector", id: "query" });
  const head = html("thead");
  const body = html("tbody", { id: "arithmetic" });
  const foot = html("tfoot", { id: "sum" });
  const more = html("input", { type: "checkbox", change: () => fill() });
  const toggle = html("label", { class: "chooser" }, more, `all ${data.width} numbers of each vector`);

  let asked = 0;
  const fill = async () => {
    asked += 1;
    const own = asked;
    const vectors = await readVectors(data.vectors[state.layer]);
    if (own !== asked) return; // another word was chosen meanwhile
    const name = label(view.queries[queryOf(view)]);
    title.textContent = `${view.where()}: the arithmetic of ${name}`;
    const isMean = state.head === data.heads;
    toggle.hidden = isMean;
    query.hidden = isMean;
    if (isMean) {
      lead.textContent = `The weights of the heads, added up and divided by ${data.heads}.`;
      head.replaceChildren(heading(["word", ...view.heads]));
      body.replaceChildren(...view.keys.map((token, key) => meanRow(view, token, key)));
      foot.replaceChildren();
      return;
    }
    const found = worked(view, vectors);
    const biased = found.bias !== null;
    const shown = more.checked ? data.width : Math.min(FEW, data.width);
    const divided = data.scaled ? `, divided by √${data.width} = ${Math.sqrt(data.width).toFixed(2)}` : "";
    lead.textContent =
      `Its query times each key${divided}` +
      `${biased ? ", plus what the model adds for the distance" : ""}, through softmax, ` +
      "weighs the values, which are added up.";
    query.textContent = `query of ${name}: ${vector(found.query, shown, vectors.q)}`;
    const names = ["word", "key", "query · key", data.scaled ? "÷ √d" : "not divided"];
    if (biased) names.push("+ distance");
    head.replaceChildren(heading([...names, "softmax", "value", "weight × value"]));
    body.replaceChildren(...found.rows.map((row) => rowOf(row, shown, vectors, biased)));
    foot.replaceChildren(sumOf(found, shown, vectors));
  };
  state.listen((names) => names.some((name) => name !== "hover") && fill());
  await fill();
  const table = html("table", { class: "arithmetic" }, head, body, foot);
  const scroll = html("div", { class: "scroll" }, table);
  return html("div", { class: "block" }, title, lead, toggle, query, scroll);
}

// Return the number of the word that the table is about.
function queryOf({ state, first }) {
  return state.query ?? first;
}

async function readVectors(given) {
  const names = Object.keys(given);
  const arrays = await Promise.all(names.map((name) => readArray(given[name])));
  return Object.fromEntries(names.map((name, at) => [name, arrays[at]]));
}

// Return what attention works out for the chosen word.
function worked(view, vectors) {
  const { state, keys, data } = view;
  const at = queryOf(view);
  const own = vectors.q.row(state.head, at);
  const { values } = view.rows().row(state.head, at);
  const rows = [];
  keys.forEach((token, key) => {
    if (data.causal && key > at) return;
    const keyVector = vectors.k.row(state.head, key);
    const valueVector = vectors.v.row(state.head, key);
    const dot = own.reduce((sum, one, place) => sum + one * keyVector[place], 0);
    const bias = vectors.bias ? vectors.bias.get(state.head, at, key) : 0;
    const scaled = data.scaled ? dot / Math.sqrt(data.width) : dot;
    rows.push({ token, key, keyVector, valueVector, dot, scaled, bias, weight: values[key] });
  });
  const sum = vectors.sum.row(state.head, at);
  return { query: own, rows, sum, bias: vectors.bias ?? null };
}

// Return the weights of every head for one key, and their mean.
function meanRow(view, token, key) {
  const weights = view.heads.map((_, head) => view.rows().row(head, queryOf(view)).values[key]);
  const cells = weights.map((weight, head) =>
    cell(head === view.data.heads ? "weight" : "of-head", printed(weight)),
  );
  const name = html("th", { scope: "row", title: visible(token) }, label(token));
  return html("tr", { "data-key": key }, name, ...cells);
}

function heading(names) {
  return html("tr", {}, ...names.map((name) => html("th", { scope: "col" }, name)));
}

function rowOf(row, shown, vectors, biased) {
  const weighed = row.valueVector.map((one) => one * row.weight);
  const cells = [
    html("th", { scope: "row", title: visible(row.token) }, label(row.token)),
    cell("key", vector(row.keyVector, shown, vectors.k)),
    cell("dot", printed(row.dot, ROUGH)),
    cell("scaled", printed(row.scaled, ROUGH)),
  ];
  if (biased) cells.push(cell("bias", printed(row.bias, ROUGH)));
  cells.push(
    cell("weight", printed(row.weight)),
    cell("value", vector(row.valueVector, shown, vectors.v)),
    cell("weighed", vector(weighed, shown, vectors.v)),
  );
  return html("tr", { "data-key": row.key }, ...cells);
}

function cell(name, text) {
  return html("td", { "data-cell": name }, text);
}

function sumOf(found, shown, vectors) {
  const columns = found.bias ? 7 : 6;
  return html(
    "tr",
    {},
    html("th", { scope: "row", colspan: columns }, "sum: what the head gives for the word"),
    cell("sum", vector(found.sum, shown, vectors.sum)),
  );
}

// Return the first numbers of a vector.
function vector(numbers, shown, array) {
  const text = [...numbers.slice(0, shown)].map((one) => array.print(one)).join("  ");
  return shown < numbers.length ? `[${text}  …]` : `[${text}]`;
}
