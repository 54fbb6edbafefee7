// The plane of the points: what is drawn of them, and what mouse, fingers and keys do there.

import { paintAbove, paintCloud } from "./cloud.js";
import { cloudSvg } from "./cloudsvg.js";
import { legendOf } from "./colouring.js";
import { html } from "./dom.js";
import { figure } from "./figure.js";
import { makeGrid } from "./grid.js";
import { nextInFile, towards } from "./nextpoint.js";
import { followPointers, makeViewport, moveByKey } from "./viewport.js";

const WIDEST = 1.35; // width of the plane by its height
const TALLEST = 620; // pixels
const MOUSE = 12; // pixels around the mouse in which a point is pointed at
const FINGER = 24;
const MOVE = 350; // milliseconds from one picture to the next

// Return the plane: its element, what is seen of it, and what begins to draw it.
export function pointPlane(data, points, state) {
  const { frames, total } = points;
  const canvas = html("canvas", {});
  const top = html("canvas", { class: "above", "aria-hidden": "true" });
  const box = html("div", { class: "cloud stack", tabindex: 0, role: "application" }, canvas, top);
  box.setAttribute("aria-label", "Points on two axes; the arrow keys go from point to point");
  const said = html("p", { class: "note", id: "projector-said" });
  const view = makeViewport(reachOf(frames), () => repaint());
  const scene = { view, count: data.count, names: data.static, faint: null, chosen: null, hover: null, near: [] };
  const grids = new Map();
  const find = makeSearch(points);
  let waiting = 0;
  let moving = 0;

  const isSeen = (point) => scene.marks[point] >= 0;
  const repaint = () => {
    box.dataset.zoomed = view.zoom > 1 ? "yes" : "no";
    waiting ||= requestAnimationFrame(() => {
      waiting = 0;
      paintCloud(canvas, scene);
      paintAbove(top, scene);
    });
  };
  const resize = () => {
    view.width = box.clientWidth || 640;
    view.height = Math.round(Math.min(TALLEST, Math.max(300, view.width / WIDEST)));
    repaint();
  };

  // Show the picture that is chosen; points go there from where they are.
  const showFrame = (isMoved) => {
    const { xs, ys } = frames[state.frame];
    const from = { xs: scene.xs, ys: scene.ys };
    const begun = performance.now();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    cancelAnimationFrame(moving);
    said.textContent = data.frames[state.frame].said;
    if (!isMoved || still || from.xs.length !== xs.length) {
      Object.assign(scene, { xs, ys });
      repaint();
      return;
    }
    const step = (now) => {
      const share = Math.min(1, Math.max(0, (now - begun) / MOVE));
      const eased = share * share * (3 - 2 * share);
      const between = (before, after) => after.map((at, point) => before[point] + eased * (at - before[point]));
      if (share < 1) Object.assign(scene, { xs: between(from.xs, xs), ys: between(from.ys, ys) });
      else Object.assign(scene, { xs, ys });
      repaint();
      if (share < 1) moving = requestAnimationFrame(step);
    };
    step(begun);
  };
  const colour = () => {
    const { looks, marks } = state.looks;
    scene.looks = looks;
    scene.marks = marks.map((mark) => (state.hidden.has(mark) ? -1 : mark));
    if (state.point !== null && !isSeen(state.point)) state.set({ point: null });
    repaint();
  };
  const choose = () => {
    const { xs, ys } = frames[state.frame];
    const { space } = data.frames[state.frame];
    scene.chosen = state.point !== null && state.point < xs.length ? state.point : null;
    scene.near = [];
    if (scene.chosen !== null) {
      if (space !== null) scene.near = [...points.spaces[space].neighbours.row(scene.chosen)];
      const place = [xs[scene.chosen], ys[scene.chosen]];
      const [x, y] = view.seen(...place);
      if (x < 0 || y < 0 || x > view.width || y > view.height) view.centre(...place);
    }
    paintAbove(top, scene);
  };
  const search = () => {
    state.set({ matches: find(state.query) });
    scene.faint = state.matches?.faint ?? null;
    repaint();
  };
  state.listen((names) => {
    const changed = (name) => names.includes(name);
    if (changed("frame")) showFrame(true);
    if (changed("looks") || changed("hidden")) colour();
    if (changed("query")) search();
    if (changed("point") || changed("frame")) choose();
    if (changed("hover")) {
      scene.hover = state.hover;
      paintAbove(top, scene);
    }
  });

  const pointAt = ([right, down], radius) => {
    const { frame } = state;
    if (!grids.has(frame)) grids.set(frame, makeGrid(frames[frame].xs, frames[frame].ys));
    return grids.get(frame)(...view.place(right, down), radius / view.scale(), isSeen);
  };
  const point = (pixel) => state.set({ hover: pixel && pointAt(pixel, MOUSE) });
  const click = (pixel, kind) => state.set({ point: pointAt(pixel, kind === "touch" ? FINGER : MOUSE) });
  followPointers(top, view, point, click);
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    let isUsed = moveByKey(event, view);
    if (!isUsed && event.key === "Escape" && state.point !== null) {
      state.set({ point: null });
      isUsed = true;
    }
    const { xs, ys } = frames[state.frame];
    if (!isUsed && event.key.startsWith("Arrow")) {
      const middle = () => pointAt([view.width / 2, view.height / 2], Infinity);
      const to = state.point === null ? middle() : towards(event.key, { xs, ys }, state.point, isSeen);
      state.set({ point: to ?? state.point });
      isUsed = true;
    }
    const next = isUsed ? null : nextInFile(event.key, Math.min(total, xs.length), state.point, isSeen);
    if (next !== null) state.set({ point: next });
    if (isUsed || next !== null) event.preventDefault();
  });

  const legend = () => legendOf(state.looks, data.count).filter(({ mark }) => !state.hidden.has(mark));
  const draw = () => cloudSvg("Points on two axes", scene, legend());
  const element = figure("Points on two axes", html("div", {}, box, said), draw);
  const begin = () => {
    showFrame(false);
    colour();
    new ResizeObserver(resize).observe(box.parentElement);
    resize();
  };
  return { element, view, begin };
}

// Return how far pictures reach from the middle: all have one scale.
function reachOf(frames) {
  return ["xs", "ys"].map((axis) => {
    const ofFrames = frames.map((frame) => frame[axis].reduce((most, at) => Math.max(most, Math.abs(at)), 0));
    return Math.max(1, ...ofFrames);
  });
}

// Return what tells which points a search doesn't find, and how many it finds.
function makeSearch({ excerpt, total }) {
  let texts = null; // in lower case, from the first search on
  return (query) => {
    if (!query) return null;
    texts ??= Array.from({ length: total }, (_, point) => excerpt(point).join("").toLowerCase());
    const faint = Uint8Array.from(texts, (text) => (text.includes(query) ? 0 : 1));
    return { faint, count: faint.reduce((sum, one) => sum + 1 - one, 0) };
  };
}
