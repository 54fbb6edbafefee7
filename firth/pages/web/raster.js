// Many small shapes in one image, written pixel by pixel: for 20,000 of them some ten times as fast as
// the canvas' own drawing.

import { html } from "./dom.js";

const OPAQUE = 255;

// Return the pixels of a small picture that `draw(context)` draws around the middle of a square.
export function makeStamp(side, draw) {
  const context = html("canvas", { width: side, height: side }).getContext("2d", { willReadFrequently: true });
  context.translate(side / 2, side / 2);
  draw(context);
  const { data } = context.getImageData(0, 0, side, side);
  const pixels = [];
  for (let at = 0; at < side * side; at += 1) {
    const [red, green, blue, alpha] = data.subarray(4 * at, 4 * at + 4);
    if (alpha) pixels.push([at % side, Math.floor(at / side), red, green, blue, alpha]);
  }
  // Typed arrays: the loop over them is where the time goes.
  return {
    side,
    across: Int32Array.from(pixels, ([across]) => across),
    down: Int32Array.from(pixels, ([, down]) => down),
    colours: Uint32Array.from(pixels, ([, , ...colour]) => packed(...colour)),
    alphas: Uint8Array.from(pixels, (pixel) => pixel[5]),
  };
}

// Return a pixel as one number: from its highest byte to the lowest alpha, blue, green and red.
function packed(red, green, blue) {
  return ((OPAQUE << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

// Return an image of one colour (#rrggbb) in which pictures are put.
export function makeSheet(width, height, hex) {
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  pixels.fill(packed(red, green, blue));
  return { image, pixels, width, height };
}

// Put a small picture into an image, all of it or none; `strength` is from 0 to 256.
export function putStamp({ pixels, width, height }, stamp, left, top, strength) {
  const { side, across, down, colours, alphas } = stamp;
  if (left < 0 || top < 0 || left + side > width || top + side > height) return;
  const first = top * width + left;
  for (let at = 0; at < alphas.length; at += 1) {
    const place = first + down[at] * width + across[at];
    const alpha = (alphas[at] * strength) >> 8;
    if (alpha === OPAQUE) {
      pixels[place] = colours[at];
      continue;
    }
    const own = colours[at];
    const other = pixels[place];
    const red = mixed(own, other, 0, alpha);
    pixels[place] = packed(red, mixed(own, other, 8, alpha), mixed(own, other, 16, alpha));
  }
}

// Return one of three colours of a pixel that stands with an alpha above another one.
function mixed(own, other, shift, alpha) {
  const before = (other >> shift) & OPAQUE;
  return before + (((((own >> shift) & OPAQUE) - before) * alpha) >> 8);
}
