// A table of numbers as shades, with a mark that the mouse and the arrow keys move.

import { html, label, moved, svg } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";
import { colour, onTheme } from "./theme.js";

const MOST_WIDE = 1040;
const WIDEST = 34; // of a cell
const NARROWEST = 3;
const TALLEST = 22;
const SHORTEST = 9;
const MOST_TALL = 40; // rows, before they get lower
const NAMED_EVERY = 8; // of low rows
const NARROWEST_NAMED = 15; // columns narrower than this have no names
const BESIDE = 112; // for the names of rows
const LONGEST = 14; // characters of such a name
const ABOVE = 84; // and of columns
const OVER = 48; // what the last slanted name needs
const TURN = -50;

// Return a figure of numbers, and what draws others in it. `given` has the names of `rows` and
// `columns`, `value(row, column)`, `print`, the `largest` size, and perhaps the `narrowest` width of
// a cell and `choose(row, column)`.
export function heatFigure(title, note, given, id) {
  const canvas = html("canvas", { tabindex: 0, role: "img", id });
  const said = html("p", { class: "said", "aria-live": "polite", id: `${id}-said` }, "Point at a cell.");
  const body = html("div", {}, html("div", { class: "scroll" }, canvas), said);
  const element = figure(title, body, () => heatSvg(now), note);
  let now = null;
  let at = null;

  const paint = () => paintHeat(canvas, now, at);
  const look = (place) => {
    at = place;
    const [row, column] = at;
    const number = now.print(now.value(row, column));
    said.textContent = `${now.rows[row]}, ${label(now.columns[column])}: ${number}`;
    paint();
  };
  const cellAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const zoom = now.width / box.width;
    const column = Math.floor(((event.clientX - box.left) * zoom - BESIDE) / now.cell);
    const row = Math.floor(((event.clientY - box.top) * zoom - now.above) / now.tall);
    const inside = row >= 0 && row < now.rows.length && column >= 0 && column < now.columns.length;
    return inside ? [row, column] : null;
  };
  canvas.addEventListener("mousemove", (event) => {
    const place = cellAt(event);
    if (place && String(place) !== String(at)) look(place);
  });
  canvas.addEventListener("click", (event) => {
    const place = cellAt(event);
    if (place && now.choose) now.choose(...place);
  });
  canvas.addEventListener("keydown", (event) => {
    const count = now.columns.length;
    if ((event.key === "Enter" || event.key === " ") && at && now.choose) {
      event.preventDefault();
      now.choose(...at);
      return;
    }
    const [row, column] = at ?? [0, -1];
    const to = moved(event.key, row * count + column, count, now.rows.length * count);
    if (to === null) return;
    event.preventDefault();
    look([Math.floor(to / count), to % count]);
  });
  onTheme(() => paint());

  const update = (next) => {
    now = laidOut(next);
    canvas.setAttribute("aria-label", `${title}; the arrow keys move over its cells`);
    if (at && (at[0] >= now.rows.length || at[1] >= now.columns.length)) at = null;
    if (at) look(at);
    else paint();
  };
  update(given);
  return { element, update };
}

function laidOut(given) {
  const count = given.columns.length;
  const cell = Math.max(given.narrowest ?? NARROWEST, Math.min(WIDEST, (MOST_WIDE - BESIDE - OVER) / count));
  const above = cell >= NARROWEST_NAMED ? ABOVE : 4;
  const width = BESIDE + cell * count + OVER;
  const tall = given.rows.length > MOST_TALL ? SHORTEST : TALLEST;
  return { ...given, cell, above, width, tall, height: above + tall * given.rows.length + 4 };
}

// Return the shade of a number: blue above zero, orange below.
function shade(value, largest) {
  const share = Math.min(1, Math.abs(value) / largest);
  const from = rgb(colour("sheet"));
  const to = rgb(colour(value < 0 ? "minus" : "plus"));
  return `rgb(${from.map((one, at) => Math.round(one + share * (to[at] - one))).join(",")})`;
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function paintHeat(canvas, now, at) {
  const scale = Math.min(2, devicePixelRatio || 1);
  canvas.width = now.width * scale;
  canvas.height = now.height * scale;
  canvas.style.width = `${now.width}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.fillStyle = colour("sheet");
  context.fillRect(0, 0, now.width, now.height);
  // Cells of a part of a pixel overlap, so that nothing shines through between them.
  const gap = now.cell > 8 ? 1 : now.cell < NARROWEST ? -0.5 : 0;
  now.rows.forEach((_, row) =>
    now.columns.forEach((_name, column) => {
      context.fillStyle = shade(now.value(row, column), now.largest);
      const [x, y] = [BESIDE + column * now.cell, now.above + row * now.tall];
      context.fillRect(x, y, now.cell - gap, now.tall - gap);
    }),
  );
  context.fillStyle = colour("ink");
  context.font = "13px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "right";
  eachNamed(now, (name, row) =>
    context.fillText(label(name, LONGEST), BESIDE - 8, now.above + (row + 0.5) * now.tall),
  );
  context.textAlign = "left";
  if (now.above === ABOVE) {
    now.columns.forEach((name, column) => {
      context.save();
      context.translate(BESIDE + (column + 0.5) * now.cell, ABOVE - 6);
      context.rotate((TURN * Math.PI) / 180);
      context.fillText(label(name, 11), 0, 0);
      context.restore();
    });
  }
  context.strokeStyle = colour("line");
  context.strokeRect(BESIDE, now.above, now.cell * now.columns.length, now.tall * now.rows.length);
  if (!at) return;
  context.strokeStyle = colour("focus");
  context.lineWidth = 2;
  context.strokeRect(BESIDE + at[1] * now.cell, now.above + at[0] * now.tall, now.cell, now.tall);
}

// Call a function with the rows that have their names beside them.
function eachNamed(now, call) {
  const every = now.tall === TALLEST ? 1 : NAMED_EVERY;
  now.rows.forEach((name, row) => row % every === 0 && call(name, row));
}

function heatSvg(now) {
  const picture = canvasOfSvg(now.width, now.height, "");
  const style = { "font-size": 13, fill: "var(--ink)" };
  eachNamed(now, (name, row) => {
    const y = now.above + (row + 0.5) * now.tall + 4;
    picture.append(svg("text", { ...style, x: BESIDE - 8, y, "text-anchor": "end" }, label(name, LONGEST)));
  });
  now.rows.forEach((_name, row) => {
    const y = now.above + row * now.tall;
    now.columns.forEach((_, column) => {
      const fill = shade(now.value(row, column), now.largest);
      const x = BESIDE + column * now.cell;
      picture.append(svg("rect", { x, y, width: now.cell, height: now.tall, fill }));
    });
  });
  if (now.above !== ABOVE) return picture;
  now.columns.forEach((name, column) => {
    const x = BESIDE + (column + 0.5) * now.cell;
    const transform = `translate(${x},${ABOVE - 6}) rotate(${TURN})`;
    picture.append(svg("text", { ...style, transform }, label(name, 11)));
  });
  return picture;
}
