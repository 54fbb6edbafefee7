"""Numbers to learn: their mean and deviation, and whether single precision can tell them apart."""

import math

LARGEST = 1e15  # spread, or one over it: its square is still a number in single precision
# Deviations from 0, beyond which single precision has no room for what sets numbers apart.
FURTHEST = 1e5


class Spread:
    """The mean and the deviation of a stream of numbers.

    "Note on a Method for Calculating Corrected Sums of Squares and Products", Welford, 1962.
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.smallest = math.inf
        self.largest = -math.inf
        self._squares = 0.0

    def add(self, value: float) -> None:
        """Take in a number."""
        self.count += 1
        gap = value - self.mean
        self.mean += gap / self.count
        self._squares += gap * (value - self.mean)
        self.smallest = min(self.smallest, value)
        self.largest = max(self.largest, value)

    @property
    def deviation(self) -> float:
        """How far they lie from their mean; 1 where all are the same."""
        if not self.largest > self.smallest:
            return 1.0
        # Numbers near the end of what a float holds overflow, to either side: infinitely far
        # apart is right of those.
        return math.sqrt(abs(self._squares) / self.count)

    def complaint(self) -> str | None:
        """Why they can't be learned as they are, if they can't."""
        if not 1 / LARGEST < self.deviation < LARGEST:
            found = f"numbers from {self.smallest:.12g} to {self.largest:.12g}"
            return f"{found}: learn them in another unit, nearer to 1"
        if abs(self.mean) > FURTHEST * self.deviation:
            found = f"numbers around {self.mean:.12g} and only {self.deviation:.3g} apart"
            cure = f"take {self.mean:.12g} off them"
            return f"{found}, too close to be told so far from 0: {cure}"
        return None
