// Dark and light, and the colours that pictures on a canvas take from the style sheet.

import { html } from "./dom.js";

const SHADES = 64;
const redraws = new Set();
let shadeCache = null;

// Call a function whenever the colours change.
export function onTheme(redraw) {
  redraws.add(redraw);
}

// Draw pictures that others will take the place of, and return what forgets them.
export async function forgettable(draw) {
  const before = new Set(redraws);
  await draw();
  const own = [...redraws].filter((one) => !before.has(one));
  return () => own.forEach((one) => redraws.delete(one));
}

// Return the button that turns dark to light and back.
export function themeButton() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const button = html("button", { type: "button", class: "quiet" });
  const say = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Use ${isDark() ? "light" : "dark"} colours`);
  };
  const redraw = () => {
    shadeCache = null;
    say();
    for (const one of redraws) one();
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    redraw();
  });
  dark.addEventListener("change", redraw);
  say();
  return button;
}

// Return a colour of the style sheet.
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Return the colours of the weights 0 to 1, by the square root, so that small ones can be seen.
export function shades() {
  shadeCache ??= mixed("sheet", "heat");
  return shadeCache;
}

function mixed(from, to) {
  const [low, high] = [parts(colour(from)), parts(colour(to))];
  return Array.from({ length: SHADES }, (_, number) => {
    const share = number / (SHADES - 1);
    return low.map((value, at) => Math.round(value + share * (high[at] - value)));
  });
}

function parts(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// Return which of the shades a weight has.
export function shadeOf(weight) {
  const share = Math.sqrt(Math.min(1, Math.max(0, weight)));
  return Math.round(share * (SHADES - 1));
}

// Return a shade as a colour of SVG.
export function shadeText(number) {
  return `rgb(${shades()[number].join(",")})`;
}

// Return a colour between those of the lowest and the highest number, for a share from 0 to 1.
export function rampText(share) {
  const [low, high] = [parts(colour("minus")), parts(colour("plus"))];
  return `rgb(${low.map((value, at) => Math.round(value + share * (high[at] - value))).join(",")})`;
}
