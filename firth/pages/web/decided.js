// How often a model is right by how sure it is: calibration, and coverage against precision.

import { axes, line } from "./axes.js";
import { table } from "./bars.js";
import { printed } from "./data.js";
import { html, svg } from "./dom.js";
import { figure } from "./figure.js";
import { shareOf } from "./labels.js";

const CAP = 4; // half the width of an interval's ends
const DENSEST = 0.22; // of the height, for the bar of the bin with most answers

// Draw how often answers are right in each bin of confidence.
export function drawCalibration({ bins, mean, error }, host) {
  const title = "Right answers by confidence";
  const across = { name: "confidence", low: 0, high: 1 };
  const { picture, right, down } = axes(title, across, { name: "share of right answers", low: 0, high: 1 });
  const most = Math.max(...bins.map(({ answers }) => answers));
  for (const { low, high, answers } of bins) {
    const y = down((DENSEST * answers) / most);
    const size = { width: right(high) - right(low) - 2, height: down(0) - y };
    const bar = svg("rect", { x: right(low) + 1, y, ...size, fill: "var(--six)", "fill-opacity": 0.3 });
    bar.append(svg("title", {}, answers.toLocaleString("en")));
    picture.append(bar);
  }
  picture.append(line(right(0), down(0), right(1), down(1), "soft", { "stroke-dasharray": "5 5" }));
  for (const { confidence, right: [value, low, high] } of bins) {
    const x = right(confidence);
    const style = { "stroke-width": 1.5 };
    picture.append(line(x, down(low), x, down(high), "one", style));
    for (const end of [low, high]) picture.append(line(x - CAP, down(end), x + CAP, down(end), "one", style));
    picture.append(svg("circle", { cx: x, cy: down(value), r: 4.5, fill: "var(--one)" }));
  }
  const note =
    "On the dashed line a model is right as often as it says. Whiskers are 95 % intervals, grey bars " +
    "the number of answers.";
  const rows = bins.map((bin) => [
    `${printed(bin.low, 1)} to ${printed(bin.high, 1)}`,
    bin.answers.toLocaleString("en"),
    printed(bin.confidence),
    ...shareOf(bin.right),
  ]);
  const names = ["confidence", "answers", "on average", "right", "95 % interval"];
  const said = `Confidence is ${printed(mean)} on average; the expected calibration error is ${printed(error)}.`;
  host.append(
    html("p", { class: "said", id: "calibration-said" }, said),
    html("div", { class: "beside" }, figure(title, picture, () => picture, note), table(names, rows, "bins")),
  );
}

// Draw which share of the texts is decided at which precision, and the thresholds that are stored.
export function drawThresholds({ curve, thresholds }, host) {
  const title = "Precision by coverage";
  const lowest = Math.min(...curve.map(([, precision]) => precision), 0.9);
  const upwards = { name: "right of these", low: Math.floor(lowest * 10) / 10, high: 1 };
  const { picture, right, down } = axes(title, { name: "share that is answered", low: 0, high: 1 }, upwards);
  const path = curve.map(([coverage, precision]) => `${right(coverage).toFixed(1)},${down(precision).toFixed(1)}`);
  const style = { fill: "none", stroke: "var(--one)", "stroke-width": 2 };
  picture.append(svg("polyline", { points: path.join(" "), ...style }));
  const seen = new Set();
  for (const { name, threshold, here } of thresholds) {
    if (!here || !here[1] || seen.has(threshold)) continue;
    seen.add(threshold);
    const [x, y] = [right(here[0][0]), down(here[1][0])];
    const mark = svg("rect", { x: x - 5, y: y - 5, width: 10, height: 10, fill: "var(--two)" });
    mark.append(svg("title", {}, name));
    picture.append(mark);
  }
  const note =
    "Answers are given from the surest on: to the right more of them are given. Squares are the " +
    "thresholds of the table.";
  host.append(figure(title, picture, () => picture, note));
  if (!thresholds.length) {
    const none = "The folder has no thresholds: firth finetune stores them for classes.";
    host.append(html("p", { class: "note" }, none));
    return;
  }
  const names = ["firth predict", "threshold", "answered", "95 % interval", "right of these", "95 % interval"];
  const rows = thresholds.map(({ name, threshold, here }) => [
    name,
    threshold === null ? "not reached" : printed(threshold),
    ...(here ?? [null, null]).flatMap(shareOf),
  ]);
  host.append(html("h3", {}, "Thresholds on these examples"), table(names, rows, "thresholds"));
  const before = thresholds.filter(({ heldOut }) => heldOut);
  if (!before.length) return;
  const chosen = before.map(({ name, threshold, heldOut }) => [
    name,
    printed(threshold),
    ...heldOut.flatMap(shareOf),
  ]);
  host.append(
    html("h3", {}, "The same on the held-out texts of training, by which they were chosen"),
    table(names, chosen, "held-out"),
  );
}
