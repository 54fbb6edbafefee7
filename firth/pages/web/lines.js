// Attention as lines from a word to those that it looks at.

import { html, label, svg, visible } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";

const WIDTH = 460;
const LEFT = 150; // where the words that look end
const RIGHT = 310; // and those that are looked at begin
const ROW = 22;
const LEVELS = 8; // of opacity: all lines of one level are one path
const MOST_LINES = 1500;
const FAINTEST = 0.004;

// Return the figure. The lines are a picture above that of the words, which is drawn only once.
export function lines(view) {
  const { queries, keys, state } = view;
  const height = ROW * Math.max(queries.length, keys.length) + 8;
  const picture = canvasOfSvg(WIDTH, height, "Attention as lines between words");
  queries.forEach((token, number) => picture.append(word(token, number, LEFT - 6, "end")));
  keys.forEach((token, number) => picture.append(word(token, number, RIGHT + 6, "start")));
  const above = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "above", "aria-hidden": "true" });
  const size = { x: 0, width: LEFT, height: ROW, rx: 4 };
  const mark = svg("rect", { ...size, fill: "none", stroke: "none", "stroke-width": 1.5 });
  const paths = Array.from({ length: LEVELS }, (_, level) => pathOfLevel(level));
  above.append(mark, ...paths);

  const rowAt = (event) => {
    const box = picture.getBoundingClientRect();
    const zoom = WIDTH / box.width;
    const [x, y] = [(event.clientX - box.left) * zoom, (event.clientY - box.top) * zoom];
    const row = Math.floor((y - 4) / ROW);
    return x <= LEFT && row >= 0 && row < queries.length ? row : null;
  };
  const choose = (row) => row !== null && state.set({ query: state.query === row ? null : row });
  picture.addEventListener("mousemove", (event) => state.set({ hover: rowAt(event) }));
  picture.addEventListener("mouseleave", () => state.set({ hover: null }));
  picture.addEventListener("click", (event) => choose(rowAt(event)));

  const stack = html("div", { class: "stack" }, picture, above);
  const scroll = html("div", { class: "scroll tall", tabindex: 0, role: "group" }, stack);
  scroll.setAttribute("aria-label", "Lines between words; the arrow keys choose the word that looks");
  scroll.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const query = Math.min(queries.length - 1, Math.max(0, (state.query ?? -1) + step));
    state.set({ query });
    mark.scrollIntoView({ block: "nearest" });
  });

  const redraw = () => {
    const query = state.hover ?? state.query;
    mark.setAttribute("stroke", query === null ? "none" : "var(--focus)");
    mark.setAttribute("y", ROW * (query ?? 0) + 4);
    drawPaths(paths, query === null ? ofAll(view) : ofOne(view, query));
  };
  state.listen(redraw);
  redraw();
  const whole = () => {
    const copy = picture.cloneNode(true);
    copy.append(...[...above.childNodes].map((child) => child.cloneNode(true)));
    return copy;
  };
  const note = "The left word looks at the right one; the stronger the line, the larger the weight.";
  return figure("Lines between words", scroll, whole, note);
}

function pathOfLevel(level) {
  const share = (level + 1) / LEVELS;
  const width = 1 + (2 * level) / LEVELS;
  return svg("path", { fill: "none", stroke: "var(--heat)", "stroke-opacity": share, "stroke-width": width });
}

function word(token, number, x, anchor) {
  const style = { "text-anchor": anchor, "font-size": 13, fill: "var(--ink)" };
  const text = svg("text", { ...style, x, y: ROW * number + 19 });
  text.append(svg("title", {}, visible(token)), label(token));
  return text;
}

// Return the lines of one word.
function ofOne(view, query) {
  const found = [];
  view.rows().each(view.state.head, query, (key, weight) => {
    if (weight > FAINTEST) found.push([query, key, weight]);
  });
  return found;
}

// Return the strongest lines of all words.
function ofAll(view) {
  const found = view.queries.flatMap((_, query) => ofOne(view, query));
  return found.sort((a, b) => b[2] - a[2]).slice(0, MOST_LINES);
}

function drawPaths(paths, found) {
  const parts = paths.map(() => []);
  for (const [query, key, weight] of found) {
    const level = Math.min(LEVELS - 1, Math.floor(Math.sqrt(weight) * LEVELS));
    const [start, end] = [ROW * query + 15, ROW * key + 15];
    parts[level].push(`M${LEFT} ${start}C${LEFT + 70} ${start} ${RIGHT - 70} ${end} ${RIGHT} ${end}`);
  }
  paths.forEach((path, level) => path.setAttribute("d", parts[level].join("")));
}
