// The page: its head, a list of its sections, and each section drawn by its kind.

import { drawAnswer, drawNote } from "./answer.js";
import { drawAttention } from "./attention.js";
import { readData } from "./data.js";
import { html, visible } from "./dom.js";
import { drawDistances, drawFading } from "./fading.js";
import { drawBlanks, drawNext, drawPair } from "./guesses.js";
import { drawLive } from "./live.js";
import { drawMovement } from "./movement.js";
import { drawPoints } from "./points.js";
import { drawPrinted } from "./printed.js";
import { drawSheets } from "./sheets.js";
import { drawBackoff, drawMix, drawPositions } from "./small.js";
import { drawSteps } from "./steps.js";
import { drawCommand, drawTables } from "./tables.js";
import { themeButton } from "./theme.js";
import { drawWorked } from "./worked.js";

const KINDS = {
  ablation: drawAnswer,
  attention: drawAttention,
  backoff: drawBackoff,
  blanks: drawBlanks,
  command: drawCommand,
  distances: drawDistances,
  fading: drawFading,
  live: drawLive,
  mix: drawMix,
  movement: drawMovement,
  next: drawNext,
  note: drawNote,
  pair: drawPair,
  points: drawPoints,
  positions: drawPositions,
  printed: drawPrinted,
  sheets: drawSheets,
  steps: drawSteps,
  tables: drawTables,
  worked: drawWorked,
};

async function main() {
  const { title, lead, sections } = readData();
  document.title = visible(title);
  const page = document.getElementById("page");
  const top = html("header", {}, html("h1", {}, visible(title)), themeButton());
  const lines = lead.map((line) => html("p", { class: "lead" }, visible(line)));
  const hosts = sections.map(({ title: name }, number) =>
    html("section", { id: `section-${number + 1}` }, html("h2", {}, name)),
  );
  const links = sections.map(({ title: name }, number) =>
    html("li", {}, html("a", { href: `#section-${number + 1}` }, name)),
  );
  const list = html("nav", { "aria-label": "On this page" }, html("ul", {}, ...links));
  page.append(top, ...lines, links.length > 1 ? list : "", ...hosts);
  for (const [number, { kind, data }] of sections.entries()) {
    await KINDS[kind](data, hosts[number]);
    separateIds(hosts[number], number + 1);
  }
  document.documentElement.dataset.ready = "yes";
}

// Where two sections are of one kind, the ids of the second get its number.
function separateIds(host, number) {
  for (const element of host.querySelectorAll("[id]")) {
    const { id } = element;
    if (document.getElementById(id) === element) continue;
    element.id = `${id}-${number}`;
    for (const one of host.querySelectorAll(`[aria-describedby="${id}"]`)) {
      one.setAttribute("aria-describedby", element.id);
    }
  }
}

main();
