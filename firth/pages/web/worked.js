// Arithmetic as textbooks print it: a column for each word, a row for each step.

import { html, label, svg, visible } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";

const LONGEST = 30; // characters of a step's name
const NARROWEST = 104; // of a column
const LETTER = 7.4; // of a number
const ROW = 52;
const TOP = 34;
const SIZE = 13;

// Draw the section.
export function drawWorked({ pictures }, host) {
  for (const one of pictures) host.append(worked(one));
}

function worked({ title, note, columns, rows }) {
  const width = columnWidth(columns.length, rows);
  const names = Math.min(LONGEST, Math.max(...rows.map(({ name }) => name.length))) * LETTER + 20;
  const [across, down] = [names + width * columns.length + 8, TOP + ROW * rows.length + 4];
  const picture = canvasOfSvg(across, down, title);
  // It is not made smaller than it can be read: its box is scrolled instead.
  picture.setAttribute("width", across);
  columns.forEach((name, number) => {
    picture.append(text(names + (number + 0.5) * width, 20, label(name, 24), "middle", "var(--soft)"));
  });
  const shaded = rows.some(({ cells }) => cells.some(({ shade }) => shade > 0));
  rows.forEach(({ name, cells }, row) => {
    const y = TOP + ROW * row;
    const named = text(names - 12, y + 25, label(name, LONGEST), "end", "var(--ink)");
    named.append(svg("title", {}, visible(name)));
    picture.append(named);
    const wide = (width * columns.length) / cells.length;
    cells.forEach((cell, number) => {
      const x = names + wide * number;
      picture.append(...cellOf(cell, x, y, wide));
      if (row && !shaded) picture.append(tip(x + wide / 2, y));
    });
  });
  const box = html("div", { class: "scroll readable", tabindex: 0, role: "group", "aria-label": title }, picture);
  return figure(title, box, () => picture, note);
}

// Return the width of a column in which the longest number has room.
function columnWidth(columns, rows) {
  const longest = rows.flatMap(({ cells }) =>
    cells.map((cell) => (cell.text.length * cells.length) / columns),
  );
  return Math.max(NARROWEST, Math.max(...longest) * LETTER + 22);
}

function cellOf({ text: shown, book, shade }, x, y, width) {
  const style = { x: x + 4, y: y + 3, width: width - 8, height: ROW - 12, rx: 5 };
  const box = svg("rect", { ...style, fill: "var(--paper)", stroke: "var(--line)" });
  const parts = [box];
  if (shade > 0) parts.push(svg("rect", { ...style, fill: "var(--plus)", "fill-opacity": 0.45 * shade }));
  const middle = x + width / 2;
  const own = text(middle, y + (book === null ? 25 : 18), shown, "middle", "var(--ink)");
  own.setAttribute("class", "number");
  parts.push(own);
  if (book !== null) {
    const printedThere = text(middle, y + 34, `book ${book}`, "middle", "var(--soft)", 11);
    printedThere.setAttribute("class", "book");
    parts.push(printedThere);
  }
  return parts;
}

// Return the tip of an arrow from the step above.
function tip(x, y) {
  return svg("path", { d: `M${x - 5} ${y - 7}L${x} ${y - 1}L${x + 5} ${y - 7}`, fill: "none", stroke: "var(--soft)", "stroke-width": 1.4 });
}

function text(x, y, words, anchor, fill, size = SIZE) {
  return svg("text", { x, y, "text-anchor": anchor, "font-size": size, fill }, words);
}
