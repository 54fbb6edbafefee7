// Points coloured by a column: a colour and a shape for each of some groups, or shades for numbers.

import { html, label, svg } from "./dom.js";
import { canvasOfSvg } from "./figure.js";
import { colourOf, outlineOf } from "./groups.js";
import { rampText } from "./theme.js";

const SHADES = 24;
const REST = { colour: "soft", shape: 1 }; // of groups without a colour of their own
const NONE = { colour: "line", shape: 0 }; // of points without a value
const ALL = { colour: "one", shape: 0 };

// Return how points are coloured by a column with its `numbers`, or without one: the `looks`, which
// of them each point has (`marks`), and what each is called (`names`).
export function colouring(column, numbers, count) {
  if (column === null) return { looks: [ALL], names: [null], marks: new Int16Array(count) };
  return column.groups ? byGroup(column, numbers, count) : byNumber(numbers, count);
}

function byGroup({ groups, coloured }, codes, count) {
  const own = Math.min(coloured, groups.length);
  const looks = groups.slice(0, own).map((_, group) => ({ colour: colourOf(group), shape: group }));
  const others = groups.length - own;
  const names = [...groups.slice(0, own), `${others} other values`, "no value"];
  const marks = Int16Array.from({ length: count }, (_, point) => {
    const code = codes.whole[point];
    if (code === groups.length) return own + 1;
    return Math.min(code, own);
  });
  return { looks: [...looks, REST, NONE], names, marks };
}

function byNumber(values, count) {
  const real = values.whole.filter((value) => !Number.isNaN(value));
  const low = real.reduce((least, one) => Math.min(least, one), Infinity);
  const high = real.reduce((most, one) => Math.max(most, one), -Infinity);
  const share = (value) => (value - low) / (high - low || 1);
  const marks = Int16Array.from({ length: count }, (_, point) => {
    const value = values.whole[point];
    return Number.isNaN(value) ? SHADES : Math.round(share(value) * (SHADES - 1));
  });
  const looks = Array.from({ length: SHADES }, (_, shade) => ({
    colour: rampText(shade / (SHADES - 1)),
    shape: 0,
  }));
  const names = looks.map((_, shade) => shown(low + (high - low) * (shade / (SHADES - 1))));
  return { looks: [...looks, NONE], names: [...names, "no value"], marks, range: [shown(low), shown(high)] };
}

// Return a number of a column as it is printed.
export function shown(value) {
  return String(Number(value.toPrecision(6))).replace("-", "−");
}

// Return the entries of a legend that some of the first points has: the number of the look, its name
// and how many have it.
export function legendOf({ looks, names, marks, range }, count) {
  if (names[0] === null) return [];
  const counts = new Int32Array(looks.length);
  for (const mark of marks.subarray(0, count)) counts[mark] += 1;
  const entries = looks.map((look, mark) => ({ mark, look, name: names[mark], count: counts[mark] }));
  if (!range) return entries.filter((one) => one.count);
  // Of shades the ends stand for all.
  const ends = [entries[0], entries[SHADES - 1]].map((one, at) => ({ ...one, name: range[at], count: null }));
  return [...ends, ...entries.slice(SHADES).filter((one) => one.count)];
}

// Return the legend: buttons that hide a group and show it again, or the shades of numbers.
export function legendElement(made, count, hidden, change) {
  const entries = legendOf(made, count);
  if (made.range) {
    const strip = canvasOfSvg(10 * SHADES, 12, "from the lowest to the highest number");
    made.looks.slice(0, SHADES).forEach(({ colour: fill }, shade) =>
      strip.append(svg("rect", { x: 10 * shade, width: 10, height: 12, fill })),
    );
    const [low, high] = made.range;
    return html("div", { class: "legend shades" }, html("span", {}, low), strip, html("span", {}, high));
  }
  const buttons = entries.map(({ mark, look, name, count: many }) => {
    const drawn = svg("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" });
    const fill = `var(--${look.colour})`;
    drawn.append(svg("path", { d: outlineOf(look.shape, 5), fill }));
    const button = html("button", { type: "button", class: "group", "aria-pressed": String(!hidden.has(mark)) });
    button.append(drawn, html("span", {}, label(name, 40)), html("span", { class: "count" }, many.toLocaleString("en")));
    button.addEventListener("click", () => {
      const next = new Set(hidden);
      if (!next.delete(mark)) next.add(mark);
      change(next);
    });
    return button;
  });
  const legend = html("div", { class: "legend", role: "group", "aria-label": "Groups: shown or hidden" }, ...buttons);
  if (entries.length > 2) {
    const all = hidden.size ? new Set() : new Set(entries.map(({ mark }) => mark));
    const toggle = html("button", { type: "button", class: "quiet", click: () => change(all) });
    toggle.append(hidden.size ? "Show all" : "Hide all");
    legend.append(toggle);
  }
  return legend;
}
