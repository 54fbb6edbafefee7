// Which of many points is nearest to a place: a grid of cells knows the points in each.

const CELLS = 128; // on each side

// Return what finds points, given where they are.
export function makeGrid(xs, ys) {
  const bounds = [xs, ys].map((all) => {
    let [low, high] = [Infinity, -Infinity];
    for (const one of all) [low, high] = [Math.min(low, one), Math.max(high, one)];
    return { low, size: (high - low) / CELLS || 1 };
  });
  const along = (axis, at) => {
    const { low, size } = bounds[axis];
    return Math.min(CELLS - 1, Math.max(0, Math.floor((at - low) / size)));
  };
  const cellOf = (point) => along(1, ys[point]) * CELLS + along(0, xs[point]);

  // The points of a cell stand next to each other, from `first` of the cell to that of the next.
  const first = new Uint32Array(CELLS * CELLS + 1);
  for (let point = 0; point < xs.length; point += 1) first[cellOf(point) + 1] += 1;
  for (let cell = 0; cell < CELLS * CELLS; cell += 1) first[cell + 1] += first[cell];
  const free = first.slice();
  const members = new Uint32Array(xs.length);
  for (let point = 0; point < xs.length; point += 1) {
    const cell = cellOf(point);
    members[free[cell]] = point;
    free[cell] += 1;
  }

  // Return the nearest point within a radius that is accepted; null if there is none.
  return function nearest(x, y, radius, accept) {
    let best = null;
    let least = radius * radius;
    for (let row = along(1, y - radius); row <= along(1, y + radius); row += 1) {
      for (let column = along(0, x - radius); column <= along(0, x + radius); column += 1) {
        const cell = row * CELLS + column;
        for (let at = first[cell]; at < first[cell + 1]; at += 1) {
          const point = members[at];
          const distance = (xs[point] - x) ** 2 + (ys[point] - y) ** 2;
          if (distance <= least && accept(point)) [best, least] = [point, distance];
        }
      }
    }
    return best;
  };
}
