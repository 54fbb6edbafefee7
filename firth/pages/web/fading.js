// How gradients fade or grow with the distance: cells, and recurrent matrices made smaller or larger.

import { table } from "./bars.js";
import { chart } from "./chart.js";
import { chooser, html } from "./dom.js";

const CLIP = 1; // the norm that a gradient is cut to

// Draw the section.
export function drawFading({ networks }, host) {
  const names = networks.map(({ name }) => name);
  const drawn = chart("Norm of the gradient by distance", "tokens before");
  const rows = html("div", {});
  const clip = html("input", { type: "checkbox", change: () => redraw() });
  let chosen = 0;
  const which = chooser("Network", [...names, "all, as they are"], 0, (number) => {
    chosen = number;
    redraw();
  });
  const redraw = () => {
    const given = chosen < networks.length ? scaled(networks[chosen]) : asTheyAre(networks);
    const lines = given.map(({ name, norms }) => {
      const kept = clip.checked ? clipped(norms) : norms;
      return { name, points: kept.map((norm, place) => [place + 1, norm]) };
    });
    drawn.update(lines);
    rows.replaceChildren(numbersOf(lines));
  };
  const toggle = html("label", { class: "chooser" }, clip, `clip to a norm of ${CLIP}`);
  redraw();
  const note =
    "The norm of the gradient of a token's log-probability by the vector of an earlier one. A recurrent " +
    "matrix multiplied by 0.5 lets it vanish, by 2 it may explode. Clipping makes a gradient whose " +
    "norm over all distances is above 1 smaller, with its direction kept; it mends what explodes, not what vanishes.";
  host.append(
    html("div", { class: "controls" }, which.element, toggle),
    html("div", { class: "beside" }, drawn.element, rows),
    html("p", { class: "note" }, note),
  );
}

// Draw lines by distance, and some of their numbers.
export function drawDistances({ title, across, lines, heads, rows, note }, host) {
  const drawn = chart(title, across);
  drawn.update(lines);
  const pair = html("div", { class: "beside" }, drawn.element, table(heads, rows, "distances"));
  host.append(pair, html("p", { class: "note" }, note));
}

function scaled({ factors }) {
  return factors.map(({ factor, norms }) => ({ name: `matrix × ${factor}`, norms }));
}

function asTheyAre(networks) {
  return networks.map(({ name, factors }) => {
    const whole = factors.find(({ factor }) => factor === 1);
    return { name, norms: whole.norms };
  });
}

function clipped(norms) {
  const total = Math.sqrt(norms.reduce((sum, one) => sum + one * one, 0));
  const share = Math.min(1, CLIP / (total || 1));
  return norms.map((norm) => norm * share);
}

function numbersOf(lines) {
  const longest = Math.max(...lines.map(({ points }) => points.length));
  const rows = Array.from({ length: longest }, (_, at) => [
    String(at + 1),
    ...lines.map(({ points }) => (at < points.length ? points[at][1].toPrecision(3) : "-")),
  ]);
  return table(["distance", ...lines.map(({ name }) => name)], rows, "fading-table");
}
