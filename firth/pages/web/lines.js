// Attention as lines from a word to those that it looks at.

import { html, label, svg, visible } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";
import { onTheme } from "./theme.js";

const WIDTH = 460;
const LEFT = 150; // where the words that look end
const RIGHT = 310; // and those that are looked at begin
const ROW = 22;
const LEVELS = 8; // of opacity: all lines of one level are one path
const MOST_LINES = 1500;
const FAINTEST = 0.004;

// Return the figure.
export function lines(view) {
  const { tokens, state } = view;
  const height = ROW * tokens.length + 8;
  const picture = canvasOfSvg(WIDTH, height, "Attention as lines between words");
  const paths = Array.from({ length: LEVELS }, (_, level) =>
    svg("path", { fill: "none", stroke: "var(--heat)", "stroke-opacity": (level + 1) / LEVELS, "stroke-width": 1 + (2 * level) / LEVELS }),
  );
  const from = tokens.map((token, number) => word(token, number, LEFT - 6, "end"));
  const to = tokens.map((token, number) => word(token, number, RIGHT + 6, "start"));
  picture.append(...paths, ...from, ...to);

  const targets = tokens.map((_, number) =>
    svg("rect", {
      x: 0,
      y: ROW * number + 4,
      width: LEFT,
      height: ROW,
      fill: "transparent",
      class: "target",
      "data-query": number,
      mouseenter: () => state.set({ hover: number }),
      click: () => state.set({ query: state.query === number ? null : number }),
    }),
  );
  picture.append(...targets);
  picture.addEventListener("mouseleave", () => state.set({ hover: null }));

  const scroll = html("div", { class: "scroll tall", tabindex: 0 }, picture);
  scroll.setAttribute("aria-label", "Lines between words; the arrow keys choose the word that looks");
  scroll.setAttribute("role", "group");
  scroll.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const query = Math.min(tokens.length - 1, Math.max(0, (state.query ?? -1) + step));
    state.set({ query });
    targets[query].scrollIntoView({ block: "nearest" });
  });

  let marked = null;
  const redraw = () => {
    const query = state.hover ?? state.query;
    const found = query === null ? ofAll(view) : ofOne(view, query);
    drawPaths(paths, found);
    if (marked !== null) from[marked].removeAttribute("font-weight");
    if (query !== null) from[query].setAttribute("font-weight", "bold");
    marked = query;
  };
  state.listen(redraw);
  onTheme(redraw);
  redraw();
  return figure("Lines between words", scroll, () => picture, "The left word looks at the right one; the stronger the line, the larger the weight.");
}

function word(token, number, x, anchor) {
  const text = svg("text", { x, y: ROW * number + 19, "text-anchor": anchor, "font-size": 13, fill: "var(--ink)" });
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
  const found = view.tokens.flatMap((_, query) => ofOne(view, query));
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
