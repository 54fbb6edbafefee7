// A recurrent network step by step: the network unrolled, its gates, and one unit's arithmetic.

import { printed, readArray } from "./data.js";
import { chooser, html, label, svg, visible } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";
import { heatFigure } from "./heat.js";
import { makeState } from "./state.js";

const NAMES = {
  h: "h: what the cell gives",
  c: "c: the cell state",
  f: "f: the forget gate",
  i: "i: the input gate",
  g: "g: the candidate",
  o: "o: the output gate",
  r: "r: the reset gate",
  z: "z: the update gate",
  n: "n: the candidate",
};
const STEP = 92; // from a cell of the unrolled network to the next
const HEIGHT = 190;
const MOST_CELLS = 40; // that are drawn unrolled

// Draw the section.
export async function drawSteps({ tokens, layers }, host) {
  const read = await Promise.all(layers.map(readLayer));
  const state = makeState({ layer: 0, letter: 0, step: 0, unit: 0 });
  const letters = Object.keys(read[0].values);
  const layer = chooser("Layer", layers.map(({ name }) => name), 0, (number) => state.set({ layer: number }));
  const letter = chooser("Shown", letters.map((one) => NAMES[one] ?? one), 0, (number) =>
    state.set({ letter: number }),
  );
  const given = () => {
    const numbers = read[state.layer].values[letters[state.letter]];
    const units = Array.from({ length: numbers.shape[1] }, (_, at) => `unit ${at + 1}`);
    let largest = 1e-9;
    for (const one of numbers.whole) largest = Math.max(largest, Math.abs(one * numbers.unit));
    return {
      rows: tokens.map((token) => label(token)),
      columns: units,
      value: (row, column) => numbers.get(row, column),
      largest,
      print: (value) => numbers.print(value),
      choose: (step, unit) => state.set({ step, unit }),
    };
  };
  const note =
    "A row is a step, a column a unit of the layer. Blue is above 0, orange below. " +
    "Click a cell for its arithmetic.";
  const heat = heatFigure("Every unit at every step", note, given(), "units");
  const formula = html("p", { class: "vector", id: "unit-arithmetic" });
  const say = () => (formula.textContent = arithmeticOf(read[state.layer], tokens, state));
  state.listen((names) => {
    if (names.includes("layer") || names.includes("letter")) heat.update(given());
    say();
  });
  say();
  host.append(unrolled(tokens, read, state));
  host.append(html("div", { class: "controls" }, layer.element, letter.element), heat.element, formula);
}

async function readLayer({ name, values, before, width }) {
  return { name, width, values: await readLetters(values), before: await readLetters(before) };
}

async function readLetters(given) {
  const letters = Object.keys(given);
  const arrays = await Promise.all(letters.map((letter) => readArray(given[letter])));
  return Object.fromEntries(letters.map((letter, at) => [letter, arrays[at]]));
}

// Return what one unit works out at one step, with its numbers.
function arithmeticOf({ name, values, before }, tokens, { step, unit }) {
  const backwards = name.endsWith("backwards");
  const earlier = backwards ? step + 1 : step - 1;
  const number = (letter, at = step) => {
    const isFirst = at < 0 || at >= tokens.length;
    return isFirst ? before[letter].get(unit) : values[letter].get(at, unit);
  };
  const show = (letter, at) => printed(number(letter, at));
  const where = `Unit ${unit + 1} at ${label(tokens[step])}: `;
  if (values.c) {
    return (
      `${where}c = f · c before + i · g = ${show("f")} · ${show("c", earlier)} + ${show("i")} · ` +
      `${show("g")} = ${show("c")}; h = o · tanh c = ${show("o")} · ` +
      `${printed(Math.tanh(number("c")))} = ${show("h")}`
    );
  }
  if (values.z) {
    return (
      `${where}h = (1 − z) · n + z · h before = (1 − ${show("z")}) · ${show("n")} + ${show("z")} · ` +
      `${show("h", earlier)} = ${show("h")}`
    );
  }
  return `${where}h = ${show("h")}, after ${show("h", earlier)} at the step before`;
}

// Return the network unrolled: the same cell once for each word, each handing on its state.
function unrolled(tokens, read, state) {
  const shown = tokens.slice(0, MOST_CELLS);
  const picture = canvasOfSvg(STEP * shown.length + 20, HEIGHT, "The network unrolled");
  const arrows = [];
  const [onwards, back] = [[], []]; // by which a state is handed on, read in either direction
  const cells = shown.map((token, step) => {
    const x = STEP * step + 12;
    const style = { x: x + 29, "text-anchor": "middle", fill: "var(--ink)" };
    const mean = svg("text", { ...style, y: 22, "font-size": 12, fill: "var(--soft)" });
    const size = { x, y: 62, width: 58, height: 46, rx: 6 };
    const box = svg("rect", { ...size, fill: "var(--paper)", stroke: "var(--one)" });
    const word = svg("text", { ...style, y: 168, "font-size": 12 });
    word.append(svg("title", {}, visible(token)), label(token, 11));
    const named = svg("text", { ...style, y: 90, "font-size": 13 }, `step ${step + 1}`);
    arrows.push(arrow(x + 29, 150, x + 29, 112), arrow(x + 29, 60, x + 29, 30));
    if (step + 1 < shown.length) {
      onwards.push(arrow(x + 60, 85, x + STEP - 4, 85));
      back.push(arrow(x + STEP - 2, 85, x + 62, 85));
    }
    const choose = () => state.set({ step });
    const cell = svg("g", { class: "target", "data-step": step, click: choose }, box, named, word, mean);
    return { cell, box, mean };
  });
  picture.append(...arrows, ...onwards, ...back, ...cells.map(({ cell }) => cell));
  const redraw = () => {
    const { name, values: { h } } = read[state.layer];
    const seen = (isSeen) => (isSeen ? "visible" : "hidden");
    const isBack = name.endsWith("backwards");
    for (const one of onwards) one.setAttribute("visibility", seen(!isBack));
    for (const one of back) one.setAttribute("visibility", seen(isBack));
    cells.forEach(({ box, mean }, step) => {
      const values = h.row(step);
      const norm = Math.sqrt(values.reduce((sum, one) => sum + one * one, 0));
      mean.textContent = `|h| ${printed(norm, 2)}`;
      box.setAttribute("stroke-width", step === state.step ? 3.5 : 1.5);
    });
  };
  state.listen(redraw);
  redraw();
  const note = "Each step reads a word and the state of the step before; the weights are the same at every step.";
  const box = html("div", { class: "scroll unrolled" }, picture);
  return figure("The network unrolled", box, () => picture, note);
}

function arrow(x1, y1, x2, y2) {
  const angle = Math.atan2(y2 - y1, x2 - x1);
  const tip = [0.5, -0.5].map((turn) => {
    const at = angle + Math.PI - turn;
    return `L${(x2 + 7 * Math.cos(at)).toFixed(1)} ${(y2 + 7 * Math.sin(at)).toFixed(1)}M${x2} ${y2}`;
  });
  const d = `M${x1} ${y1}L${x2} ${y2}${tip.join("")}`;
  return svg("path", { d, stroke: "var(--soft)", fill: "none", "stroke-width": 1.4 });
}
