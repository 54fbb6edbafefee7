// Elements of the page. Text is only ever set as text.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const LONGEST_LABEL = 16;

// Return an element of HTML; a function among its attributes is a listener.
export function html(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

// Return an element of SVG.
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG_NAMESPACE, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

// Return a text in which characters that nobody sees, or that turn others round, can be seen.
export function visible(text) {
  let shown = "";
  for (const character of text) {
    const code = character.codePointAt(0);
    if (code < 0x20) {
      shown += String.fromCodePoint(0x2400 + code);
    } else if (isHidden(code)) {
      shown += `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    } else {
      shown += character;
    }
  }
  return shown;
}

// Return a text of several lines in the same way, with its lines kept.
export function visibleLines(text) {
  return text.split("\n").map(visible).join("\n");
}

function isHidden(code) {
  return (
    (code >= 0x7f && code <= 0x9f) ||
    code === 0x61c ||
    (code >= 0x200b && code <= 0x200f) ||
    (code >= 0x2028 && code <= 0x202e) ||
    (code >= 0x2060 && code <= 0x206f) ||
    code === 0xfeff
  );
}

// Return a text that fits beside a picture.
export function label(text, most = LONGEST_LABEL) {
  const characters = [...visible(text)];
  if (characters.length <= most) return characters.join("");
  return `${characters.slice(0, most - 1).join("")}…`;
}

// Return a drop-down list.
export function chooser(name, choices, chosen, change) {
  const options = choices.map((choice, number) =>
    html("option", { value: number, selected: number === chosen }, choice),
  );
  const select = html("select", { change: () => change(Number(select.value)) }, ...options);
  const element = html("label", { class: "chooser" }, html("span", {}, name), select);
  return { element, set: (number) => (select.value = String(number)) };
}

// Let one of several elements be reached by Tab, and the others by the arrow keys from there.
export function roving(elements, columns, chosen, choose) {
  elements.forEach((element, number) => {
    element.tabIndex = number === chosen ? 0 : -1;
    element.addEventListener("keydown", (event) => {
      const next = moved(event.key, number, columns, elements.length);
      if (next === null) return;
      event.preventDefault();
      choose(next);
      elements[next].focus();
    });
  });
  return (number) => elements.forEach((one, at) => (one.tabIndex = at === number ? 0 : -1));
}

// Return where a key leads from one of `count` cells that stand in rows of `columns`.
export function moved(key, from, columns, count) {
  const steps = {
    ArrowLeft: -1,
    ArrowRight: 1,
    ArrowUp: -columns,
    ArrowDown: columns,
    Home: -from,
    End: count - 1 - from,
  };
  if (!(key in steps)) return null;
  const to = from + steps[key];
  return to >= 0 && to < count ? to : null;
}
