// A picture with a caption and a button that saves it as SVG.

import { html, svg } from "./dom.js";
import { colour } from "./theme.js";

// Return a figure; `draw` returns the picture as an element of SVG, for the file.
export function figure(title, picture, draw, note = null) {
  const save = html("button", { type: "button", class: "quiet", click: () => saveSvg(title, draw()) });
  save.append("SVG");
  save.setAttribute("aria-label", `Save as SVG: ${title}`);
  const caption = html("figcaption", {}, html("span", {}, title), save);
  const parts = [caption, picture];
  if (note !== null) parts.push(html("p", { class: "note" }, note));
  return html("figure", {}, ...parts);
}

function saveSvg(title, drawn) {
  const url = URL.createObjectURL(new Blob([svgFile(drawn)], { type: "image/svg+xml" }));
  const name = title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const link = html("a", { href: url, download: `${name}.svg` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// Return a picture as a file of its own, with the colours that the page has now.
export function svgFile(drawn) {
  // A document that nobody sees, in which no picture is loaded.
  const copy = document.implementation.createHTMLDocument("").importNode(drawn, true);
  const [, , width, height] = copy.getAttribute("viewBox").split(" ");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.setAttribute("font-family", "sans-serif");
  copy.removeAttribute("class");
  copy.prepend(svg("rect", { width, height, fill: colour("sheet") }));
  for (const one of copy.querySelectorAll("*")) {
    for (const name of ["fill", "stroke"]) {
      const variable = /^var\(--([a-z0-9-]+)\)$/.exec(one.getAttribute(name) ?? "");
      if (variable) one.setAttribute(name, colour(variable[1]));
    }
  }
  for (const image of copy.querySelectorAll("image")) {
    image.setAttribute("href", image.dataset.href);
    delete image.dataset.href;
  }
  return new XMLSerializer().serializeToString(copy);
}

// Return an empty picture of a size.
export function canvasOfSvg(width, height, name) {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": name });
}
