// Training runs: a table of them, their curves over steps or time, and what was measured.

import { chooser, html, visible } from "./dom.js";
import { follow } from "./follow.js";
import { plot } from "./plot.js";
import { heldOutTable, metricName, runTable } from "./runtable.js";
import { makeState } from "./state.js";
import { brief, grouped, makeScale } from "./ticks.js";

const ROUGHEST = 0.99; // the largest weight of what came before, in smoothing
const BEST = "★ is the best of its run: the lowest loss, perplexity or error, and the highest of other metrics.";
const KEPT = "The weights of the step that was kept are those of the model's folder.";
const NOTHING = "Nothing was measured on held-out text.";
const UNITS = [
  [1, "seconds", "s"],
  [60, "minutes", "min"],
  [3600, "hours", "h"],
];
const FIGURES = [
  { title: "Learning rate", key: "rate", noisy: false },
  { title: "Tokens a second", key: "speed", noisy: true, fromZero: true },
];

// Draw the section.
export function drawCurves({ runs, follows }, host) {
  const state = makeState({ time: false, log: false, smooth: 0, at: null });
  const remarks = html("ul", { class: "notes" });
  const list = html("div", {});
  const grid = html("div", { class: "plots" });
  const note = html("p", { class: "note" });
  const measured = html("div", {});
  const shown = { plots: new Map(), measured: "" };

  const redraw = () => {
    const figures = figuresOf(runs);
    const titles = figures.map(({ title }) => title);
    // A picture that is there stays, and so does the keyboard's focus on it.
    if (String(titles) !== String([...shown.plots.keys()])) {
      shown.plots = new Map(titles.map((title) => [title, shown.plots.get(title) ?? plot(title, state)]));
      grid.replaceChildren(...[...shown.plots.values()].map(({ element }) => element));
    }
    const { of, ...axis } = axisOf(runs, state.time);
    const names = runs.map(({ name }) => name);
    for (const { title, linesOf, fromZero } of figures) {
      const lines = linesOf(of).map((line) => smoothed(line, state.smooth));
      shown.plots.get(title).update({ lines, names, fromZero, log: state.log, ...axis });
    }
    note.textContent = noteOf(runs);
  };
  const tell = () => {
    const said = runs.filter(({ remark }) => remark).map(({ name, remark }) => html("li", {}, visible(`${name}: ${remark}`)));
    remarks.replaceChildren(...said);
    list.replaceChildren(runTable(runs));
    // A table that says the same stays where it was scrolled to.
    const given = JSON.stringify(runs.map(({ name, kept, checkSteps, metrics }) => [name, kept, checkSteps, metrics]));
    if (given === shown.measured) return;
    shown.measured = given;
    measured.replaceChildren(...drawnMeasured(runs));
  };
  state.listen((names) => {
    if (names.includes("time")) state.at = null;
    if (String(names) === "at") for (const { point } of shown.plots.values()) point();
    else redraw();
  });
  redraw();
  tell();
  host.append(list, remarks, controls(state), grid, note, measured);
  if (!follows) return;
  follow(host, (news) => {
    ({ runs } = news);
    redraw();
    tell();
  });
}

function drawnMeasured(runs) {
  const table = heldOutTable(runs);
  const heading = html("h3", {}, "On held-out text");
  if (table === null) return [heading, html("p", { class: "note" }, NOTHING)];
  const kept = runs.some(({ kept: step, checkSteps }) => checkSteps.includes(step));
  const every = Math.max(...runs.map((run) => run.every));
  const thinned = every > 1 ? ` Of very many measurements one of ${every} is shown, and the best.` : "";
  return [heading, table, html("p", { class: "note" }, `${BEST} ${kept ? KEPT : ""}${thinned}`)];
}

function controls(state) {
  const axis = chooser("Over", ["steps", "elapsed time"], 0, (number) => state.set({ time: number === 1 }));
  const scale = chooser("Scale", ["linear", "logarithmic"], 0, (number) => state.set({ log: number === 1 }));
  const output = html("output", {}, "none");
  const change = () => {
    const smooth = (Number(slider.value) / 100) * ROUGHEST;
    output.textContent = smooth === 0 ? "none" : smooth.toFixed(2);
    state.set({ smooth });
  };
  const slider = html("input", { type: "range", min: 0, max: 100, step: 1, value: 0, input: change });
  const smoothing = html("label", { class: "chooser" }, html("span", {}, "Smoothing"), slider, output);
  return html("div", { class: "controls" }, axis.element, scale.element, smoothing);
}

// Return the figures of some runs: the title of each, and what gives its lines on an axis.
function figuresOf(runs) {
  const names = [...new Set(runs.flatMap((run) => run.metrics.map(({ name }) => name)))];
  const metrics = names.filter((name) => name !== "loss");
  const loss = (of) =>
    runs.flatMap((run, number) => [
      stepLine(run, number, of, "loss", "training", true),
      ...checkLines(run, number, of, "loss", "held out"),
    ]);
  return [
    { title: "Loss", linesOf: loss },
    ...metrics.map((name) => ({
      title: `Held-out ${metricName(name)}`,
      linesOf: (of) => runs.flatMap((run, number) => checkLines(run, number, of, name, "")),
    })),
    ...FIGURES.map(({ title, key, noisy, fromZero }) => ({
      title,
      fromZero,
      linesOf: (of) => runs.map((run, number) => stepLine(run, number, of, key, "", noisy)),
    })),
  ];
}

function stepLine(run, number, of, key, part, noisy) {
  const places = of(run.steps, run.seconds);
  const points = places.map((x, at) => [x, run[key][at]]).filter(([x]) => x !== null);
  return { run: number, part, points, noisy };
}

function checkLines(run, number, of, name, part) {
  const metric = run.metrics.find((one) => one.name === name);
  if (!metric) return [];
  const places = of(run.checkSteps, run.checkSeconds);
  const points = places.map((x, at) => [x, metric.values[at]]).filter(([x]) => x !== null);
  return [{ run: number, part, points, dots: true }];
}

// Return what runs to the right: which places points have, their scale, and how one is printed.
function axisOf(runs, time) {
  const longest = Math.max(0, ...runs.flatMap((run) => [...run.seconds, ...run.checkSeconds]));
  const [size, name, unit] = UNITS.findLast(([seconds]) => longest >= 2 * seconds) ?? UNITS[0];
  const inUnits = (seconds) => seconds.map((one) => (one === null ? null : one / size));
  const of = time ? (_, seconds) => inUnits(seconds) : (steps) => steps;
  const places = runs.flatMap((run) => [...of(run.steps, run.seconds), ...of(run.checkSteps, run.checkSeconds)]);
  const x = makeScale(places.filter((one) => one !== null), { fromZero: true, whole: !time });
  if (time) return { of, x, across: name, printX: brief, sayX: (place) => `${brief(place)} ${unit}` };
  return { of, x, across: "step", printX: grouped, sayX: (step) => `step ${grouped(step)}` };
}

// Return a line with the running mean of its heights, in which what came before fades by a weight.
function smoothed(line, weight) {
  if (weight === 0 || !line.noisy) return line;
  let [sum, share] = [0, 0];
  const smooth = line.points.map(([, y]) => {
    if (y === null) return null;
    sum = weight * sum + (1 - weight) * y;
    share = weight * share + (1 - weight);
    return sum / share;
  });
  return { ...line, smooth };
}

function noteOf(runs) {
  const each = runs.map((run) => run.each);
  const [least, most] = [Math.min(...each), Math.max(...each)];
  const means = most === 1 ? "" : `A point is the mean of ${least === most ? most : `${least} to ${most}`} noted steps. `;
  return (
    `${means}Lines with dots were measured on held-out text. Point at a picture, or move with the arrow keys, ` +
    "Page Up and Page Down: all pictures show that place, and Escape leaves it."
  );
}
