// A text in which spans are marked: those that are true, predicted, or both.

import { html, label, visibleLines } from "./dom.js";

const SAID = { right: "✓", true: "true", predicted: "predicted" };
const EXPLAINED = [
  ["right", "true and predicted"],
  ["true", "only true"],
  ["predicted", "only predicted"],
];

// Return a text with its spans; of a long one a part, with what is left out.
export function passageElement([name, pieces, before, after]) {
  const parts = pieces.flatMap(([text, kinds, ending]) => {
    const words = visibleLines(text);
    const piece = kinds.length ? html("mark", { class: kinds.join(" ") }, words) : words;
    return [piece, ...ending.map(([kind, of]) => chip(kind, of))];
  });
  const text = html("p", { class: "quoted" }, leftOut(before), ...parts, leftOut(after));
  if (!name) return text;
  return html("div", {}, html("p", { class: "note" }, name), text);
}

// Return what the marks of spans mean.
export function legend() {
  const parts = EXPLAINED.map(([kind, words]) => html("mark", { class: kind }, words));
  return html("p", { class: "note legend" }, ...parts.flatMap((part) => [part, " "]));
}

function chip(kind, of) {
  return html("span", { class: `chip ${kind}` }, [SAID[kind], label(of, 24)].filter(Boolean).join(" "));
}

function leftOut(count) {
  return count ? html("span", { class: "soft" }, ` [${count.toLocaleString("en")} characters] `) : null;
}
