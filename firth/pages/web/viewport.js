// Which part of a plane is seen: it is moved and made larger by mouse, wheel, touch and keyboard.

const CLOSEST = 400;
const MARGIN = 22; // pixels
const STEP = 1.5; // of a button or a key
const SHIFT = 60; // pixels that a key moves the plane by
const STILL = 4; // pixels that a click may move

// Return what is seen of a plane that reaches from -`reach` to `reach` on both axes.
export function makeViewport(reach, changed) {
  const view = { width: 1, height: 1, zoom: 1, x: 0, y: 0 };

  // Return the pixels of a unit of the plane.
  view.scale = () => {
    const fits = [view.width, view.height].map((size, axis) => (size - 2 * MARGIN) / (2 * reach[axis]));
    return Math.min(...fits) * view.zoom;
  };
  // Return where a place of the plane is, in pixels.
  view.seen = (x, y) => {
    const scale = view.scale();
    return [view.width / 2 + (x - view.x) * scale, view.height / 2 - (y - view.y) * scale];
  };
  // Return which place of the plane is at a pixel.
  view.place = (right, down) => {
    const scale = view.scale();
    return [view.x + (right - view.width / 2) / scale, view.y - (down - view.height / 2) / scale];
  };
  // Let a place be in the middle.
  view.centre = (x, y) => {
    [view.x, view.y] = [x, y].map((at, axis) => Math.min(reach[axis], Math.max(-reach[axis], at)));
    if (view.zoom === 1) [view.x, view.y] = [0, 0];
    changed();
  };
  view.shift = (right, down) => {
    const scale = view.scale();
    view.centre(view.x - right / scale, view.y + down / scale);
  };
  // Make the plane larger; what is at a pixel stays there.
  view.zoomBy = (factor, right = view.width / 2, down = view.height / 2) => {
    const [x, y] = view.place(right, down);
    view.zoom = Math.min(CLOSEST, Math.max(1, view.zoom * factor));
    const scale = view.scale();
    view.centre(x - (right - view.width / 2) / scale, y + (down - view.height / 2) / scale);
  };
  view.whole = () => {
    view.zoom = 1;
    view.centre(0, 0);
  };
  return view;
}

// Let mouse, wheel and fingers move a view; `point(pixel)` is called where the mouse is, with null
// where it has gone, and `click(pixel)` where it or a finger clicks.
export function followPointers(element, view, point, click) {
  const held = new Map(); // where the buttons and fingers that are down are
  let travelled = 0;
  const pixel = (event) => {
    const box = element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const centreAndSpan = () => {
    const [[x, y], [otherX, otherY]] = [...held.values(), ...held.values()];
    return { x: (x + otherX) / 2, y: (y + otherY) / 2, span: Math.hypot(x - otherX, y - otherY) };
  };

  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    element.setPointerCapture(event.pointerId);
    held.set(event.pointerId, pixel(event));
    if (held.size === 1) travelled = 0;
  });
  element.addEventListener("pointermove", (event) => {
    if (!held.has(event.pointerId)) {
      point(pixel(event));
      return;
    }
    const before = centreAndSpan();
    const [x, y] = held.get(event.pointerId);
    held.set(event.pointerId, pixel(event));
    const after = centreAndSpan();
    travelled += Math.hypot(pixel(event)[0] - x, pixel(event)[1] - y);
    if (held.size > 2 || travelled < STILL) return;
    view.shift(after.x - before.x, after.y - before.y);
    if (before.span && after.span) view.zoomBy(after.span / before.span, after.x, after.y);
  });
  element.addEventListener("pointerup", (event) => {
    if (held.delete(event.pointerId) && travelled < STILL) click(pixel(event), event.pointerType);
  });
  element.addEventListener("pointercancel", (event) => held.delete(event.pointerId));
  element.addEventListener("pointerleave", () => point(null));
  element.addEventListener(
    "wheel",
    (event) => {
      const down = event.deltaY * (event.deltaMode ? 16 : 1);
      if (view.zoom === 1 && down > 0) return; // there the wheel moves the page
      event.preventDefault();
      view.zoomBy(Math.exp(-down / 400), ...pixel(event));
    },
    { passive: false },
  );
}

// Let a key move a view; return whether it did.
export function moveByKey(event, view) {
  const shifts = {
    ArrowLeft: [SHIFT, 0],
    ArrowRight: [-SHIFT, 0],
    ArrowUp: [0, SHIFT],
    ArrowDown: [0, -SHIFT],
  };
  if (event.shiftKey && event.key in shifts) view.shift(...shifts[event.key]);
  else if (event.key === "+" || event.key === "=") view.zoomBy(STEP);
  else if (event.key === "-") view.zoomBy(1 / STEP);
  else if (event.key === "0") view.whole();
  else return false;
  return true;
}
