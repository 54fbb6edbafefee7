// News of runs that go on, from the server that the page came from.

import { html } from "./dom.js";

const NEWS = "/runs.json";
const EVERY = 1000; // milliseconds from one question to the next
const GOING_ON = "going on";
const LOST = "There is no answer any more: firth view has ended. The page shows what was known then.";

// Ask for news again and again; `show` draws them.
export function follow(host, show) {
  const said = html("p", { class: "said live", role: "status" }, "Live.");
  host.firstChild.after(said); // below the heading
  let seen = null;
  const ask = async () => {
    if (document.hidden) return;
    const answer = await fetch(NEWS, { headers: seen === null ? {} : { "If-None-Match": seen } }).catch(() => null);
    if (answer === null || !(answer.ok || answer.status === 304)) {
      seen = null; // whoever answers next tells all
      say(said, LOST);
    } else if (answer.ok) {
      const news = await answer.json();
      seen = answer.headers.get("ETag");
      show(news);
      say(said, stateOf(news.runs));
    }
  };
  const again = async () => {
    await ask();
    setTimeout(again, EVERY);
  };
  again();
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function stateOf(runs) {
  const going = runs.filter(({ state }) => state === GOING_ON).length;
  if (going === runs.length) return "Live: new numbers appear as they come.";
  if (going === 0) return "Live, but no run is going on now.";
  return `Live: ${going} of ${runs.length} runs are going on.`;
}
