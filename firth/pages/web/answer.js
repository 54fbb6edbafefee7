// The model's answer, and how it changes with one head switched off.

import { barFigure } from "./bars.js";
import { printed, readArray } from "./data.js";
import { chooser, html, visible, visibleLines } from "./dom.js";
import { heatFigure } from "./heat.js";

// Draw the section.
export async function drawAnswer(data, host) {
  host.append(html("p", { class: "quoted", id: "answer-line" }, visibleLines(data.line)));
  if (!data.names.length) return;
  if (!data.without) {
    const alone = barFigure("The answer's numbers");
    alone.update(data.names.map((name, at) => ({ name, value: data.whole[at] })));
    host.append(alone.element);
    return;
  }
  const without = await readArray(data.without);
  const [layers, heads] = without.shape;
  const rows = Array.from({ length: layers }, (_, at) => `layer ${at + 1}`);
  const columns = Array.from({ length: heads }, (_, at) => `head ${at + 1}`);
  const bars = barFigure("The answer's numbers");
  const said = html("p", { class: "quoted", id: "without-line" });
  let figure = 0;
  let off = null;

  const showBars = () => {
    const values = data.names.map((_, at) => (off ? without.get(...off, at) : data.whole[at]));
    const bold = data.names[figure];
    bars.update(data.names.map((name, at) => ({ name, value: values[at], strong: name === bold })));
    said.textContent = off
      ? `Without head ${off[1] + 1} of layer ${off[0] + 1}: ${visibleLines(data.lines[off[0]][off[1]])}`
      : "Choose a head to switch it off.";
  };
  const given = () => {
    const change = (row, column) => without.get(row, column, figure) - data.whole[figure];
    const all = rows.flatMap((_, row) => columns.map((_name, column) => Math.abs(change(row, column))));
    const choose = (row, column) => {
      off = off && off[0] === row && off[1] === column ? null : [row, column];
      showBars();
    };
    const print = (value) => `${value > 0 ? "+" : ""}${printed(value)}`;
    return { rows, columns, value: change, largest: Math.max(...all, 1e-9), print, choose };
  };
  const note =
    "Blue raises the number when the head is off, orange lowers it. Click a cell, or press Enter " +
    "on it.";
  const heat = heatFigure("Change with one head off", note, given(), "ablation");
  const which = chooser("Number", data.names.map((name) => visible(name)), 0, (number) => {
    figure = number;
    heat.update(given());
    showBars();
  });
  showBars();
  host.append(html("div", { class: "controls" }, which.element));
  host.append(html("div", { class: "beside" }, heat.element, html("div", {}, said, bars.element)));
}

// Draw a section that says why it has no picture.
export function drawNote({ text }, host) {
  host.append(html("p", { class: "note" }, visible(text)));
}
