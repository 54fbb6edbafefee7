// What a model would write: at blanks after each layer, after each word, and as the next text.

import { barFigure, distribution, table } from "./bars.js";
import { printed } from "./data.js";
import { chooser, html, label, roving, visible } from "./dom.js";
import { layerName } from "./movement.js";
import { makeState } from "./state.js";

// Draw what each layer would fill in at each blank, and return what is chosen.
export function drawBlanks({ tokens, blanks, chosen }, host) {
  const names = blanks[0].layers.map((_, number) => layerName(number));
  const state = makeState({ blank: 0, layer: names.length - 1, ...chosen });
  const places = blanks.map(({ place }) => around(tokens, place));
  const which = chooser("Blank", places, state.blank, (blank) => state.set({ blank }));
  const layer = chooser("After", names, state.layer, (number) => state.set({ layer: number }));
  const tail = "The likeliest pieces, and in grey all others together.";
  const bars = barFigure("What would be filled in", tail);
  const rows = html("div", {});
  const redraw = () => {
    const { layers } = blanks[state.blank];
    bars.update(distribution(layers[state.layer]));
    const lines = layers.map((one, number) => [
      names[number],
      label(one.names[0], 24),
      printed(one.values[0]),
    ]);
    rows.replaceChildren(table(["after", "likeliest", "probability"], lines, "blank-layers"));
    layer.set(state.layer);
  };
  state.listen(redraw);
  redraw();
  const controls = html("div", { class: "controls" }, which.element, layer.element);
  const note =
    "The head for masked words was trained on the last layer; what it reads off the others is " +
    "how far they are.";
  const pair = html("div", { class: "beside" }, bars.element, rows);
  host.append(controls, pair, html("p", { class: "note" }, note));
  return state;
}

function around(tokens, place) {
  const before = tokens.slice(Math.max(0, place - 2), place).map((one) => label(one));
  const after = tokens.slice(place + 1, place + 3).map((one) => label(one));
  return [...before, label(tokens[place]), ...after].join(" ");
}

// Draw what a language model expects after each word.
export function drawNext({ tokens, places }, host) {
  const state = makeState({ place: tokens.length - 1 });
  const { element, show } = expected(places);
  const said = html("p", { class: "said", id: "next-said", "aria-live": "polite" });
  const buttons = tokens.map((token, number) => {
    const choose = () => state.set({ place: number });
    const attributes = { type: "button", class: "word", title: visible(token), click: choose };
    return html("button", { ...attributes, "aria-pressed": "false" }, label(token));
  });
  const reach = roving(buttons, 1, state.place, (place) => state.set({ place }));
  const redraw = () => {
    const place = places[state.place];
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(at === state.place)));
    reach(state.place);
    show(state.place);
    const after = `After ${label(tokens[state.place])}`;
    said.textContent = place.came === null ? `${after}: the text ends here.` : `${after} came ${whatCame(place)}`;
  };
  state.listen(redraw);
  redraw();
  const group = html("div", { class: "words", role: "group", "aria-label": "Words before" }, ...buttons);
  host.append(group, said, element);
}

// Return the sentence that says what was thought of the token that came.
export function whatCame({ came, probability, rank }) {
  if (rank === null) return `${label(came)}, which this model reads and never writes.`;
  return `${label(came)}: probability ${printed(probability)}, rank ${rank} of all tokens.`;
}

// Return the bars of what is expected at a step beside a table of all steps, and what shows another.
export function expected(places) {
  const bars = barFigure("What is expected", "The likeliest tokens, and in grey all others together.");
  const show = (place) => bars.update(distribution(places[place], places[place].came));
  const rows = places
    .filter(({ came }) => came !== null)
    .map(({ came, probability, rank, names }) => [
      came,
      printed(probability),
      rank === null ? "–" : String(rank),
      label(names[0]),
    ]);
  const heads = ["what came", "probability", "rank", "likeliest"];
  const element = html("div", { class: "beside" }, bars.element, table(heads, rows, "next-table"));
  return { element, show };
}

// Draw whether the second text follows the first.
export function drawPair({ first, second, probability }, host) {
  const bars = barFigure("Does the second text follow the first?");
  bars.update([
    { name: "next", value: probability },
    { name: "not next", value: 1 - probability },
  ]);
  host.append(
    html("p", { class: "quoted" }, visible(first)),
    html("p", { class: "quoted" }, visible(second)),
    bars.element,
  );
}
