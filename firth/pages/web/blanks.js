// The words of a sentence that can be hidden behind a mask, and what stood there.

const WORD = "[\\p{L}\\p{M}\\p{N}]+(?:['’-][\\p{L}\\p{M}\\p{N}]+)*";

// Return what finds the words of a text and hides them, or shows them again.
export function makeBlanks(mask) {
  const escaped = mask.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  const pattern = new RegExp(`${escaped}|${WORD}`, "gu");
  let hidden = []; // the word behind each mask of the text; null where the mask was typed
  const find = (text) => {
    let masks = 0;
    return [...text.matchAll(pattern)].map(({ 0: word, index: start }) => {
      const blank = word === mask ? masks++ : null;
      return { word, start, end: start + word.length, blank };
    });
  };
  return {
    find,
    // Return the word behind each mask of a text. Masks that were typed or deleted can't be told
    // from others: then none is known.
    behind(text) {
      const masks = find(text).filter(({ blank }) => blank !== null).length;
      if (masks !== hidden.length) hidden = Array(masks).fill(null);
      return hidden;
    },
    // Return what to write in the place of a word: the mask, or what it hides.
    swap(text, number) {
      const words = find(text);
      const { word, blank } = words[number];
      const before = words.slice(0, number).filter((one) => one.blank !== null).length;
      if (blank === null) {
        hidden.splice(before, 0, word);
        return mask;
      }
      if (hidden[blank] === null) return null;
      return hidden.splice(blank, 1)[0];
    },
  };
}
