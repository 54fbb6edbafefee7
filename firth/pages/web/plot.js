// Lines of several runs on one pair of axes, with a cursor that the mouse and the keyboard move.

import { axisText, lineStyle } from "./chart.js";
import { html, label, svg } from "./dom.js";
import { canvasOfSvg, figure } from "./figure.js";
import { brief, makeScale } from "./ticks.js";

const WIDTH = 480;
const HEIGHT = 280;
const LEFT = 58;
const RIGHT = 14;
const TOP = 12;
const BOTTOM = 40;
const DOTS = 60; // points that are marked one by one, at most
const LETTER = 7; // the width of a digit
const JUMP = 10; // points from one to the next by the keys for pages
const NAMED = 2; // runs beside each other below a saved picture
const NAME = 220;

// Return a figure of lines and what draws others in it. A line has the number of its `run`, its
// `part` of what the run has here, `points`, whether they were measured one by one (`dots`), and
// perhaps `smooth` heights. All pictures have one scale `x`, and one cursor, the state's `at`.
export function plot(title, state) {
  const under = svg("g", {});
  const over = svg("g", { "pointer-events": "none" });
  const picture = canvasOfSvg(WIDTH, HEIGHT, title);
  const board = svg("rect", { x: LEFT, y: 0, width: WIDTH - LEFT - RIGHT, height: HEIGHT, fill: "transparent" });
  picture.append(under, board, over);
  const box = html("div", { class: "plot", tabindex: 0, role: "group" }, picture);
  box.setAttribute("aria-label", `${title}; the arrow keys move from point to point`);
  const said = html("ul", { class: "reads" });
  let now = null;

  const point = () => {
    over.replaceChildren(...drawnCursor(now, state.at));
    said.replaceChildren(...reads(now, state.at));
  };
  const update = (given) => {
    now = laidOut(given);
    under.replaceChildren(...drawnAxes(now), ...now.lines.flatMap((line) => drawnLine(line, now)));
    point();
  };
  const look = (event) => {
    const frame = picture.getBoundingClientRect();
    const place = ((event.clientX - frame.left) * WIDTH) / frame.width;
    if (now.stops.length) state.set({ at: nearest(now.stops, now.x.value(shareOf(place))) });
  };
  board.addEventListener("pointermove", look);
  board.addEventListener("pointerdown", look);
  box.addEventListener("keydown", (event) => {
    const to = led(event.key, now.stops, state.at);
    if (to === undefined) return;
    event.preventDefault();
    state.set({ at: to });
  });
  // Only the picture that is looked at speaks.
  box.addEventListener("focus", () => said.setAttribute("aria-live", "polite"));
  box.addEventListener("blur", () => said.removeAttribute("aria-live"));
  const element = figure(title, html("div", {}, box, said), () => withNames(picture, now));
  return { element, update, point };
}

function shareOf(place) {
  return Math.min(1, Math.max(0, (place - LEFT) / (WIDTH - LEFT - RIGHT)));
}

function laidOut(given) {
  const { lines, log, fromZero } = given;
  const points = lines.flatMap((line) => line.points).filter(([, y]) => y !== null);
  const y = makeScale(points.map((one) => one[1]), { log, fromZero });
  const stops = [...new Set(points.map((one) => one[0]))].sort((a, b) => a - b);
  return { ...given, y, stops };
}

function right(now, value) {
  return LEFT + (WIDTH - LEFT - RIGHT) * now.x.place(value);
}

function down(now, value) {
  const place = value === null ? null : now.y.place(value);
  return place === null ? null : TOP + (HEIGHT - TOP - BOTTOM) * (1 - place);
}

function drawnAxes(now) {
  if (!now.x) return [axisText(LEFT, TOP + 16, "Nothing is noted yet.")];
  const below = axisText(WIDTH - RIGHT, HEIGHT - 6, now.across, "end");
  const parts = now.x.ticks.map((tick) => {
    const text = now.printX(tick);
    const most = WIDTH - 2 - (LETTER * text.length) / 2;
    return axisText(Math.min(right(now, tick), most), HEIGHT - BOTTOM + 17, text, "middle");
  });
  if (!now.y) return [...parts, below, axisText(LEFT, TOP + 16, "There is nothing above 0 to draw.")];
  for (const tick of now.y.ticks) {
    const y = down(now, tick);
    parts.push(svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y, stroke: "var(--line)" }));
    parts.push(axisText(LEFT - 6, y + 4, brief(tick), "end"));
  }
  return [...parts, below];
}

function drawnLine(line, now) {
  const style = { ...lineStyle(line.run), fill: "none", "stroke-linejoin": "round" };
  const raw = line.points.map(([x, y]) => [right(now, x), down(now, y)]);
  const parts = [];
  if (line.smooth) {
    const smooth = line.points.map(([x], at) => [right(now, x), down(now, line.smooth[at])]);
    const behind = { ...style, "stroke-dasharray": "none", "stroke-opacity": 0.35, "stroke-width": 1 };
    parts.push(svg("path", { d: path(raw), ...behind, class: "raw" }));
    parts.push(svg("path", { d: path(smooth), ...style, "stroke-width": 2, class: "line" }));
  } else {
    parts.push(svg("path", { d: path(raw), ...style, "stroke-width": line.dots ? 2 : 1.5, class: "line" }));
  }
  const there = raw.filter(([, y]) => y !== null);
  if (there.length === 1 || (line.dots && there.length <= DOTS)) {
    parts.push(...there.map(([x, y]) => svg("circle", { cx: short(x), cy: short(y), r: 3.2, fill: style.stroke })));
  }
  return parts;
}

// Return a path through the places that have a height.
function path(places) {
  const there = places.filter(([, y]) => y !== null);
  return there.map(([x, y], at) => `${at ? "L" : "M"}${short(x)} ${short(y)}`).join("");
}

function short(place) {
  return place.toFixed(1);
}

function drawnCursor(now, at) {
  if (at === null || !now.y) return [];
  const x = short(right(now, at));
  const parts = [svg("line", { x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM, stroke: "var(--focus)" })];
  for (const line of now.lines) {
    const found = lastUntil(line.points, at);
    const y = found && down(now, found[1]);
    if (y === null) continue;
    const ring = { r: 4, fill: "var(--sheet)", "stroke-width": 2, stroke: lineStyle(line.run).stroke };
    parts.push(svg("circle", { cx: short(right(now, found[0])), cy: short(y), ...ring }));
  }
  return parts;
}

// Return the last point up to a place that has a height; null where there is none.
function lastUntil(points, at) {
  return points.findLast(([x, y]) => y !== null && (at === null || x <= at)) ?? null;
}

// Return the numbers of every run at the cursor, or the newest.
function reads(now, at) {
  const where = at === null ? "newest" : now.sayX(at);
  const runs = [...new Set(now.lines.map(({ run }) => run))];
  const items = runs.map((run) => {
    const values = now.lines.filter((line) => line.run === run).map((line) => {
      const found = lastUntil(line.points, at);
      const other = found && at !== null && found[0] !== at ? ` (${now.sayX(found[0])})` : "";
      return `${line.part} ${brief(found && found[1])}${other}`.trim();
    });
    const text = html("span", { "data-run": run }, values.join(", "));
    return html("li", {}, mark(run), html("span", { class: "name" }, label(now.names[run], 24)), text);
  });
  return [html("li", { class: "where" }, where), ...items];
}

// Return a piece of a run's line.
export function mark(run) {
  const line = svg("line", { x1: 1, x2: 27, y1: 5, y2: 5, "stroke-width": 2.5, ...lineStyle(run) });
  return svg("svg", { viewBox: "0 0 28 10", class: "mark", "aria-hidden": "true" }, line);
}

// Return a copy of a picture for a file of its own, with the runs' names below it.
function withNames(picture, now) {
  const copy = picture.cloneNode(true);
  copy.lastChild.remove(); // the cursor
  const runs = [...new Set(now.lines.map(({ run }) => run))];
  copy.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT + 6 + 20 * Math.ceil(runs.length / NAMED)}`);
  runs.forEach((run, at) => {
    const [x, y] = [20 + NAME * (at % NAMED), HEIGHT + 12 + 20 * Math.floor(at / NAMED)];
    copy.append(svg("line", { x1: x, x2: x + 26, y1: y - 4, y2: y - 4, "stroke-width": 2, ...lineStyle(run) }));
    copy.append(axisText(x + 32, y, label(now.names[run], 24)));
  });
  return copy;
}

function nearest(stops, value) {
  return stops.reduce((best, one) => (Math.abs(one - value) < Math.abs(best - value) ? one : best));
}

// Return where a key leads the cursor, null for nowhere; undefined if it is no key of ours.
function led(key, stops, at) {
  if (key === "Escape") return null;
  if (!stops.length) return undefined;
  const last = stops.length - 1;
  const from = at === null ? null : stops.indexOf(nearest(stops, at));
  const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -JUMP, PageDown: JUMP };
  if (key === "Home") return stops[0];
  if (key === "End") return stops[last];
  if (!(key in steps)) return undefined;
  const to = from === null ? (steps[key] > 0 ? 0 : last) : from + steps[key];
  return stops[Math.min(last, Math.max(0, to))];
}
