// A target step by step: what is expected at each, and what of the source it looks at.

import { controls, pictures, readAttention, whereItLooks, words } from "./attention.js";
import { html, label, visible } from "./dom.js";
import { expected, whatCame } from "./guesses.js";
import { makeState } from "./state.js";

// Draw the section. Without attention a step has its bars alone.
export async function drawTranslation({ source, tokens, parts, places, attention, note }, host) {
  const view = attention && (await readAttention(attention));
  const state = view ? view.state : makeState({ query: 0, hover: null });
  const { element, show } = expected(places);
  const said = html("p", { class: "said", id: "step-said", "aria-live": "polite" });
  const step = () => {
    const at = state.query ?? 0;
    show(at);
    said.textContent = `Step ${at + 1} of ${places.length}: ${whatCame(places[at])}`;
  };
  state.listen((names) => names.includes("query") && step());
  step();
  const read = source.map((token) => html("span", { class: "token", title: visible(token) }, label(token)));
  const remark = html("p", { class: "note" }, note);
  host.append(side("Source", html("div", { class: "words" }, ...read)));
  host.append(side("Target", words({ queries: tokens, parts, state })), said, element);
  if (!view) {
    host.append(remark);
    return;
  }
  host.append(html("h3", {}, "What the target looks at of the source"), remark);
  host.append(controls(view), whereItLooks(view), ...(await pictures(view)));
}

function side(name, content) {
  return html("div", { class: "side" }, html("span", {}, name), content);
}
