// Tables of training runs: what they are, and what was measured on held-out text.

import { html, label, visible } from "./dom.js";
import { mark } from "./plot.js";
import { brief, grouped } from "./ticks.js";

// Return a table of the runs: how far each is, and how good.
export function runTable(runs) {
  const heads = ["run", "what", "state", "steps", "time", "tokens/s", "loss", "lowest held-out loss"];
  const rows = runs.map((run, number) => {
    const cells = [run.what, run.state, ...figures(run)].map((text) => html("td", {}, visible(text)));
    return html("tr", {}, html("th", { scope: "row", title: visible(run.name) }, mark(number), label(run.name, 40)), ...cells);
  });
  return framed(heads, rows, "runs-table");
}

function figures(run) {
  const { steps, seconds, loss, meanSpeed, metrics, checkSteps } = run;
  const done = steps.length ? grouped(steps.at(-1)) : "–";
  const held = metrics.find(({ name }) => name === "loss");
  const best = held ? bestOf(held) : -1;
  const lowest = best < 0 ? "–" : `${brief(held.values[best])} (step ${grouped(checkSteps[best])})`;
  return [done, duration(seconds.at(-1) ?? null), brief(meanSpeed), brief(loss.at(-1)), lowest];
}

// Return a time as people say it.
export function duration(seconds) {
  if (seconds === null) return "–";
  if (seconds < 120) return `${brief(seconds)} s`;
  if (seconds < 7200) return `${brief(seconds / 60)} min`;
  return `${brief(seconds / 3600)} h`;
}

// Return the table of what was measured; null where nothing was.
export function heldOutTable(runs) {
  const several = runs.length > 1;
  const names = [...new Set(runs.flatMap((run) => run.metrics.map(({ name }) => name)))];
  if (!names.length) return null;
  const rows = runs.flatMap((run, number) =>
    run.checkSteps.map((step, at) => {
      const kept = step === run.kept ? " kept" : "";
      const first = several ? [html("th", { scope: "row" }, mark(number), label(run.name, 24))] : [];
      const place = html(several ? "td" : "th", several ? {} : { scope: "row" }, `${grouped(step)}${kept}`);
      const cells = names.map((name) => measured(run.metrics.find((one) => one.name === name), at));
      return html("tr", {}, ...first, place, html("td", {}, duration(run.checkSeconds[at])), ...cells);
    }),
  );
  const heads = [...(several ? ["run"] : []), "step", "time", ...names.map(metricName)];
  return framed(heads, rows, "held-out");
}

// Return the name of a metric as a person reads it.
export function metricName(name) {
  return visible(name.replaceAll("_", " "));
}

function measured(metric, at) {
  if (!metric) return html("td", {}, "–");
  const text = brief(metric.values[at]);
  if (at !== bestOf(metric)) return html("td", {}, text);
  return html("td", { class: "best" }, `★ ${text}`);
}

// Return the number of the best value, the first of equal ones; -1 where there is none.
function bestOf({ values, lower }) {
  let best = -1;
  values.forEach((value, at) => {
    if (value === null) return;
    const better = best < 0 || (lower ? value < values[best] : value > values[best]);
    if (better) best = at;
  });
  return best;
}

function framed(heads, rows, id) {
  const head = html("tr", {}, ...heads.map((name) => html("th", { scope: "col" }, name)));
  const body = html("tbody", { id }, ...rows);
  return html("div", { class: "scroll tall" }, html("table", { class: "runs" }, html("thead", {}, head), body));
}
