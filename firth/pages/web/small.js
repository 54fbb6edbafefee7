// Small sections: back-off, the weights of layers, and the vectors of positions.

import { barFigure, table } from "./bars.js";
import { printed, readArray } from "./data.js";
import { chooser, html, label, svg, visible } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";
import { heatFigure } from "./heat.js";
import { layerName } from "./movement.js";

const COLOURS = ["six", "one", "two", "three", "four", "five"];
const WIDTH = 720;
const START = 150;
const STEP = 24;
const TOP = 34;

// Draw what each order adds to the probability of each word.
export function drawBackoff({ words, orders, parts }, host) {
  const names = parts[0].map((_, order) => (order === 0 ? "uniform" : `${order}-gram`));
  const picture = canvasOfSvg(WIDTH, TOP + STEP * words.length + 4, "What each order adds");
  names.forEach((name, order) => {
    const x = START + 100 * order;
    picture.append(
      svg("rect", { x, y: 8, width: 13, height: 13, fill: shadeOfOrder(order) }),
      svg("text", { x: x + 19, y: 19, "font-size": 12, fill: "var(--ink)" }, name),
    );
  });
  words.forEach((word, number) => picture.append(...stack(word, parts[number], number)));
  const note =
    "Each bar is a word's probability by the orders that it came from: the longest n-gram that " +
    "was counted takes its part, and leaves the rest to the shorter ones.";
  const rows = words.map((word, number) => {
    const total = parts[number].reduce((sum, part) => sum + part, 0);
    return [word, String(orders[number]), printed(total), ...parts[number].map((part) => printed(part))];
  });
  const heads = ["word", "longest n-gram", "probability", ...names];
  host.append(figure("What each order adds", picture, () => picture, note), table(heads, rows, "backoff"));
}

function shadeOfOrder(order) {
  return `var(--${COLOURS[order % COLOURS.length]})`;
}

function stack(word, parts, number) {
  const y = TOP + STEP * number;
  const total = parts.reduce((sum, part) => sum + part, 0) || 1;
  const style = { y: y + 15, fill: "var(--ink)" };
  const named = svg("text", { ...style, x: START - 8, "text-anchor": "end", "font-size": 13 });
  named.append(svg("title", {}, visible(word)), label(word));
  const bars = [];
  let x = START;
  parts.forEach((part, order) => {
    const width = ((WIDTH - START - 80) * part) / total;
    bars.push(svg("rect", { x, y: y + 3, width, height: 16, fill: shadeOfOrder(order) }));
    x += width;
  });
  const printedTotal = svg("text", { ...style, x: x + 6, "font-size": 12 }, printed(total));
  return [named, ...bars, printedTotal];
}

// Draw how much of each layer is in a word's vector.
export function drawMix({ layers, weights }, host) {
  const note = "They come to 1; a word's vector is the sum of its layers' vectors times these.";
  const bars = barFigure("Weights of the layers", note);
  bars.update(weights.map((value, at) => ({ name: layerName(layers[at]), value })));
  host.append(bars.element);
}

// Draw the table of positions, and how alike two positions are.
export async function drawPositions(data, host) {
  const [vectors, cosines] = await Promise.all([readArray(data.vectors), readArray(data.cosines)]);
  const rows = Array.from({ length: vectors.shape[0] }, (_, at) => `position ${at + 1}`);
  const given = (numbers, columns, largest) => ({
    rows,
    columns,
    largest,
    value: (row, column) => numbers.get(row, column),
    print: (value) => numbers.print(value),
  });
  const axes = Array.from({ length: vectors.shape[1] }, (_, at) => `number ${at + 1}`);
  const views = [given(vectors, axes, data.usual), given(cosines, rows, 1)];
  const heat = heatFigure("Positions", "A row is a position. Blue is above 0, orange below.", views[0], "positions");
  const which = chooser("Shown", ["the vectors", "the cosine of every two"], 0, (number) =>
    heat.update(views[number]),
  );
  host.append(html("div", { class: "controls" }, which.element), heat.element);
}
