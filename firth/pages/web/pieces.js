// A text as word pieces: the rules of a tokenizer.json, as the page's data has them.

import { ACCENTS, IDEOGRAPHS, PUNCTUATION, SPACE, UNSEEN } from "./unicode.js";

const HALF = /[\ud800-\udfff]/gu; // of a pair: a character that is none
const REPLACEMENT = "\ufffd";

// Return what turns a text into the ids of its pieces, and an id into its piece.
export function makePieces(rules) {
  const ids = new Map(rules.pieces.map((piece, id) => [piece, id]));
  const special = new Map(Object.entries(rules.special));
  const longest = Math.max(...rules.pieces.map((piece) => piece.length));
  const marks = anyOf([...special.keys()]);
  const ofText = (text) =>
    splitWords(text, rules).flatMap((word) => ofWord(word, rules, ids, longest));
  return {
    piece: (id) => rules.pieces[id] ?? "",
    encode(text) {
      const whole = text.replace(HALF, REPLACEMENT);
      if (!special.size) return ofText(whole);
      // Special tokens stand at the odd places.
      const parts = whole.split(marks);
      return parts.flatMap((part, at) => (at % 2 ? [special.get(part)] : ofText(part)));
    },
  };
}

// Return a pattern that finds the longest of some texts that stands at a place.
function anyOf(texts) {
  const byLength = [...texts].sort((a, b) => b.length - a.length);
  const escaped = byLength.map((text) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"));
  return new RegExp(`(${escaped.join("|")})`, "u");
}

// Return the words of a text, in their normal form: punctuation and ideographs stand alone.
function splitWords(text, rules) {
  const normal = rules.steps.reduce((given, step) => STEPS[step](given), text);
  return normal.replace(PUNCTUATION, " $& ").split(SPACE).filter((word) => word);
}

const STEPS = {
  clean: (text) => text.replace(UNSEEN, "").replace(SPACE, " "),
  ideographs: (text) => text.replace(IDEOGRAPHS, " $& "),
  accents: (text) => text.normalize("NFD").replace(ACCENTS, ""),
  // Each letter by itself: a sigma is the same at a word's end.
  lower: (text) => text.replaceAll("Σ", "σ").toLowerCase(),
  nfc: (text) => text.normalize("NFC"),
};

// Return the ids of a word: always the longest piece that fits, or that of an unknown word.
function ofWord(word, rules, ids, longest) {
  const letters = [...word];
  if (letters.length > rules.longest) return [rules.unknown];
  const found = [];
  let start = 0;
  while (start < letters.length) {
    let end = Math.min(letters.length, start + longest);
    const before = start ? rules.prefix : "";
    let id;
    for (; end > start; end -= 1) {
      id = ids.get(before + letters.slice(start, end).join(""));
      if (id !== undefined) break;
    }
    if (end === start) return [rules.unknown];
    found.push(id);
    start = end;
  }
  return found;
}
