// Which point a key leads to from another one.

const DIRECTIONS = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, 1],
  ArrowDown: [0, -1],
};
const STEPS = { PageDown: 1, PageUp: -1 };

// Return the nearest point in the direction of an arrow key, of those that are accepted, or null.
// What lies straight ahead is nearer than what lies to the side.
export function towards(key, { xs, ys }, from, accept) {
  const direction = DIRECTIONS[key];
  if (!direction) return null;
  const [across, upwards] = direction;
  let best = null;
  let least = Infinity;
  for (let point = 0; point < xs.length; point += 1) {
    const [x, y] = [xs[point] - xs[from], ys[point] - ys[from]];
    const ahead = x * across + y * upwards;
    const aside = Math.abs(x * upwards) + Math.abs(y * across);
    if (ahead <= 0 || aside > ahead || !accept(point)) continue;
    const distance = ahead + 2 * aside;
    if (distance < least) [best, least] = [point, distance];
  }
  return best;
}

// Return the point that follows or precedes another in the file, of those that are accepted, or null.
export function nextInFile(key, count, from, accept) {
  const step = STEPS[key] ?? { Home: 1, End: -1 }[key];
  if (!step) return null;
  let point = key in STEPS ? (from ?? -1) + step : step > 0 ? 0 : count - 1;
  while (point >= 0 && point < count && !accept(point)) point += step;
  return point >= 0 && point < count ? point : null;
}
