// The page's own model: type a sentence, hide a word, and the pictures follow.

import { drawAttention } from "./attention.js";
import { makeBlanks } from "./blanks.js";
import { printed } from "./data.js";
import { html, label, roving } from "./dom.js";
import { drawBlanks } from "./guesses.js";
import { readModel } from "./model.js";
import { makePieces } from "./pieces.js";
import { readText } from "./reader.js";
import { forgettable } from "./theme.js";

// Draw the section.
export async function drawLive(data, host) {
  const model = await readModel(data);
  const pieces = makePieces(data.tokenizer);
  const hidden = makeBlanks(model.mask);
  const given = { id: "sentence", rows: 2, spellcheck: "false" };
  const box = html("textarea", { ...given, input: () => follow() });
  box.value = data.text;
  const field = html("label", { class: "field" }, "A sentence of your own", box);
  const chips = html("div", { class: "words", role: "group", "aria-label": "Words to hide" });
  const said = html("p", { class: "said", id: "live-said", "aria-live": "polite" });
  const amount = html("p", { class: "note", id: "live-amount" });
  const note = html("p", { class: "note" });
  note.textContent =
    `Click a word to hide it, or type ${model.mask}. What stands below this section is about ` +
    "the text that the page was written for.";
  const pictures = html("div", {});
  host.append(field, note, chips, said, amount, pictures);

  const swap = (number) => {
    const { start, end } = hidden.find(box.value)[number];
    const other = hidden.swap(box.value, number);
    if (other === null) {
      box.focus();
      box.setSelectionRange(start, end);
      return;
    }
    box.setRangeText(other, start, end, "end");
    follow();
  };
  let shown = null;
  const show = async () => {
    const begun = performance.now();
    const found = readText(model, pieces, data.tokenizer, box.value);
    const time = Math.ceil(performance.now() - begun);
    fillChips(chips, hidden.find(box.value), swap);
    said.textContent = sentence(found, hidden.behind(box.value), pieces, data.tokenizer.unknown);
    amount.textContent = `${found.tokens.length} tokens in ${time} ms${cut(found, model)}`;
    const drawn = await drawPictures(found, model, shown);
    pictures.replaceChildren(drawn.element);
    shown?.forget();
    shown = drawn;
  };
  const follow = oneAtATime(show, host);
  await follow();
}

// Return what calls a function again and again while it is asked for, several times at once as one.
function oneAtATime(call, host) {
  let asked = false;
  let running = false;
  return async () => {
    asked = true;
    if (running) return;
    running = true;
    host.setAttribute("aria-busy", "true");
    while (asked) {
      await new Promise((done) => setTimeout(done, 0)); // what is typed is drawn first
      asked = false;
      await call();
    }
    running = false;
    host.setAttribute("aria-busy", "false");
  };
}

// Return fresh pictures in which the same is chosen as in those before.
async function drawPictures({ tokens, parts, attention, blanks }, model, before) {
  const element = html("div", {});
  const states = {};
  const forget = await forgettable(async () => {
    const known = { ...before?.states };
    if (blanks.length) {
      const { blank = 0, layer = model.layers.length } = known.blanks ?? {};
      const chosen = { blank: Math.min(blank, blanks.length - 1), layer };
      element.append(html("h3", {}, "What each layer would fill in"));
      states.blanks = drawBlanks({ tokens, blanks, chosen }, element);
    }
    const { layer = 0, head = 0, query = null } = known.attention ?? {};
    const data = {
      tokens,
      parts,
      heads: model.heads,
      width: model.width / model.heads,
      causal: model.causal,
      scaled: true,
      weights: attention.map((one) => ({ all: one.weights })),
      vectors: attention.map((one) => one.vectors),
      chosen: { layer, head, query: query < tokens.length ? query : null },
    };
    element.append(html("h3", {}, "Attention"));
    states.attention = await drawAttention(data, element);
  });
  return { element, states, forget };
}

function fillChips(chips, words, swap) {
  const focused = [...chips.children].indexOf(document.activeElement);
  const buttons = words.map(({ word, blank }, number) => {
    const pressed = { type: "button", class: "word", "aria-pressed": String(blank !== null) };
    return html("button", { ...pressed, click: () => swap(number) }, label(word));
  });
  const reach = roving(buttons, 1, Math.max(0, focused), (number) => reach(number));
  chips.replaceChildren(...buttons);
  buttons[focused]?.focus();
}

// Return the best guess at each mask, and what the model thought of the word behind it.
function sentence({ tokens, blanks }, behind, pieces, unknown) {
  if (!blanks.length) return "No word is hidden.";
  const said = blanks.map(({ place, layers, last }, number) => {
    const { names, values } = layers.at(-1);
    const mask = blanks.length > 1 ? `${tokens[place]} ${number + 1}` : tokens[place];
    const guess = `${mask}: ${label(names[0])} ${printed(values[0])}`;
    const ids = behind[number] === null ? [] : pieces.encode(behind[number]);
    if (ids.length !== 1 || ids[0] === unknown) return `${guess}.`;
    return `${guess}; ${label(behind[number])} stood there: ${printed(last[ids[0]])}.`;
  });
  return said.join(" ");
}

function cut({ missing }, { length }) {
  return missing ? `; ${missing} more are not read: the page reads ${length}` : "";
}
