// A table of counts as a picture: what is true by what was predicted, with cells to choose.

import { printed } from "./data.js";
import { chooser, html, label, moved, svg, visible } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";
import { makeState } from "./state.js";

const LETTER = 7.6; // the width of one, more or less
const LONGEST = 15; // letters of a name
const TURN = -45; // degrees that long names of columns are turned by
const TALL = 30;
const [WIDEST, NARROWEST] = [58, 28];
const ROOM = 860; // for all columns
const FAINTEST = 0.04;
const STRONGEST = 0.5; // so that the number in a cell can be read
export const FEW = 8; // columns of a table that leaves room beside it
const WAYS = ["counts", "share of the row", "share of the column"];

// Return the figure; the state is told which cell is chosen.
export function countsFigure(title, data, state) {
  const { rows, columns, counts, down, across, note } = data;
  const own = makeState({ way: 0, at: null, hover: null }); // `at` is where the arrow keys are
  const wide = Math.max(NARROWEST, Math.min(WIDEST, ROOM / columns.length));
  const turned = LETTER * longest(columns) > wide;
  const slanted = turned ? 0.72 * LETTER * longest(columns) : 0;
  const beside = 10 + LETTER * longest([...rows, `${down} →`, `${across} →`]);
  const above = Math.max(44, 22 + slanted);
  const [width, height] = [beside + wide * columns.length + slanted, above + TALL * rows.length + 8];
  const picture = canvasOfSvg(width, height, title);
  picture.setAttribute("width", width);
  picture.setAttribute("height", height);
  const isRight = new Set(data.right.map(String));
  const rowSums = counts.map((row) => row.reduce((sum, count) => sum + count, 0));
  const columnSums = columns.map((_, column) => counts.reduce((sum, row) => sum + row[column], 0));
  const said = html("p", { class: "said", id: "counts-said", "aria-live": "polite" });

  const cells = rows.flatMap((_, row) =>
    columns.map((_name, column) => {
      const choose = () => pick([row, column]);
      const look = () => own.set({ hover: [row, column] });
      const cell = svg("g", { class: "target", "data-cell": `${row},${column}`, click: choose, mouseenter: look });
      const [x, y] = [beside + wide * column, above + TALL * row];
      const share = rowSums[row] ? counts[row][column] / rowSums[row] : 0;
      const colour = isRight.has(String([row, column])) ? "plus" : "minus";
      const opacity = counts[row][column] ? Math.max(FAINTEST, STRONGEST * Math.sqrt(share)) : 0;
      const shade = { fill: `var(--${colour})`, "fill-opacity": opacity.toFixed(3) };
      const place = { x: x + wide / 2, y: y + TALL / 2 + 4.5, "text-anchor": "middle" };
      cell.append(
        svg("rect", { x, y, width: wide - 2, height: TALL - 2, stroke: "var(--line)", ...shade }),
        svg("text", { ...place, "font-size": wide < WIDEST ? 10 : 13, fill: "var(--ink)" }),
      );
      return cell;
    }),
  );
  const pick = (cell) => state.set({ cell: String(cell) === String(state.cell) ? null : cell });
  const mark = (stroke) => svg("rect", { width: wide - 2, height: TALL - 2, fill: "none", stroke, "stroke-width": 3 });
  const [chosen, looked] = [mark("var(--focus)"), mark("var(--soft)")];
  picture.append(...names(data, { beside, above, wide, turned }), ...cells, looked, chosen);

  const print = ([row, column]) => {
    const count = counts[row][column];
    if (own.way === 0) return count.toLocaleString("en");
    const whole = own.way === 1 ? rowSums[row] : columnSums[column];
    return whole ? printed(count / whole, 2) : "–";
  };
  const fill = () =>
    cells.forEach((cell, number) => {
      const place = [Math.floor(number / columns.length), number % columns.length];
      cell.lastChild.textContent = counts[place[0]][place[1]] ? print(place) : "";
    });
  const put = (one, cell) => {
    one.setAttribute("visibility", cell ? "visible" : "hidden");
    if (!cell) return;
    one.setAttribute("x", beside + wide * cell[1]);
    one.setAttribute("y", above + TALL * cell[0]);
  };
  const paint = () => {
    put(chosen, state.cell);
    const cell = own.hover ?? own.at ?? state.cell;
    put(looked, own.hover ?? own.at);
    if (!cell) {
      said.textContent = "Click a cell to see its texts.";
      return;
    }
    const [row, column] = cell;
    const count = counts[row][column];
    const parts = [
      `${nameOf(data, cell)}: ${count.toLocaleString("en")}`,
      rowSums[row] ? `${printed(count / rowSums[row])} of the row` : null,
      columnSums[column] ? `${printed(count / columnSums[column])} of the column` : null,
    ];
    said.textContent = parts.filter((one) => one !== null).join(", ");
  };
  own.listen((changed) => (changed.includes("way") ? fill() : paint()));
  state.listen(paint);
  fill();
  paint();

  const box = html("div", { class: "scroll readable", tabindex: 0, role: "group", id: "counts" }, picture);
  box.setAttribute("aria-label", `${title}; the arrow keys move over its cells, Enter chooses one`);
  box.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && own.at) {
      event.preventDefault();
      pick(own.at);
      return;
    }
    const from = own.at ? own.at[0] * columns.length + own.at[1] : -1;
    const to = own.at ? moved(event.key, from, columns.length, cells.length) : isMove(event.key) ? 0 : null;
    if (to === null) return;
    event.preventDefault();
    own.set({ at: [Math.floor(to / columns.length), to % columns.length], hover: null });
  });
  box.addEventListener("mouseleave", () => own.set({ hover: null }));
  const way = chooser("In cells", WAYS, 0, (number) => own.set({ way: number }));
  const body = html("div", {}, html("div", { class: "controls" }, way.element), box, said);
  const shade = "Blue is right, orange wrong; the shade is the share of the row.";
  return figure(title, body, () => picture, note ? `${note} ${shade}` : shade);
}

// Name a cell by its row and its column.
export function nameOf({ rows, columns, down, across }, [row, column]) {
  return `${down} ${label(rows[row], 40)}, ${across} ${label(columns[column], 40)}`;
}

function isMove(key) {
  return moved(key, 1, 1, 3) !== null;
}

// Return the letters of the longest name.
function longest(names) {
  return Math.max(...names.map((name) => [...label(name, LONGEST + 3)].length));
}

function names({ rows, columns, down, across }, { beside, above, wide, turned }) {
  const titled = (name, attributes) => {
    const one = svg("text", { "font-size": 12.5, fill: "var(--ink)", ...attributes });
    one.append(svg("title", {}, visible(name)), label(name, LONGEST));
    return one;
  };
  const left = rows.map((name, row) => {
    const y = above + TALL * (row + 0.5) + 4;
    return titled(name, { x: beside - 8, y, "text-anchor": "end", class: "row-name" });
  });
  const over = columns.map((name, column) => {
    const x = beside + wide * (column + 0.5);
    const transform = `translate(${x},${above - 7}) rotate(${turned ? TURN : 0})`;
    return titled(name, { transform, "text-anchor": turned ? "start" : "middle", class: "column-name" });
  });
  const style = { "font-size": 12, fill: "var(--soft)", x: beside - 8, "text-anchor": "end" };
  const corner = [
    svg("text", { ...style, y: above - 28 }, `${across} →`),
    svg("text", { ...style, y: above - 10 }, `${down} ↓`),
  ];
  return [...left, ...over, ...corner];
}
