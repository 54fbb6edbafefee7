// How groups are told apart: each has a colour and a shape.

export const COLOURS = ["one", "two", "three", "four", "five", "six"];
const SHAPES = 3;

// Return the name of a group's colour.
export function colourOf(group) {
  return COLOURS[group % COLOURS.length];
}

// Return the outline of a group's shape around a place; where colours come again, the shape is another.
export function outlineOf(group, size, x = 0, y = 0) {
  const s = size;
  const shape = (group + Math.floor(group / COLOURS.length)) % SHAPES;
  if (shape === 0) return `M${x - s} ${y}a${s} ${s} 0 1 0 ${2 * s} 0a${s} ${s} 0 1 0 ${-2 * s} 0Z`;
  if (shape === 1) return `M${x - s} ${y - s}h${2 * s}v${2 * s}h${-2 * s}Z`;
  return `M${x} ${y - s - 1}l${s + 1} ${2 * s + 1}h${-2 * s - 2}Z`;
}
