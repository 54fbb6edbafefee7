"""Numbers that are to be learned: how they lie, as they come, and whether single precision can tell them apart."""

import math

LARGEST = 1e15  # spread, or one over it: its square is still a number in single precision
FURTHEST = (
    1e5  # spreads from 0, beyond which single precision has no room for what sets numbers apart
)


class Spread:
    """The mean and the deviation of a stream of numbers ("Note on a Method for Calculating ...", Welford, 1962)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.smallest, self.largest = math.inf, -math.inf
        self._squares = 0.0

    def add(self, value: float) -> None:
        """Take in a number."""
        self.count += 1
        gap = value - self.mean
        self.mean += gap / self.count
        self._squares += gap * (value - self.mean)
        self.smallest, self.largest = min(self.smallest, value), max(self.largest, value)

    @property
    def deviation(self) -> float:
        """How far they lie from their mean; 1 where all are the same."""
        # Numbers near the end of what a float holds overflow, to either side: infinitely far apart is right of those.
        return math.sqrt(abs(self._squares) / self.count) if self.largest > self.smallest else 1.0

    def complaint(self) -> str | None:
        """Why they can't be learned as they are, if they can't."""
        if not 1 / LARGEST < self.deviation < LARGEST:
            return f"numbers from {self.smallest:.12g} to {self.largest:.12g}: learn them in another unit, nearer to 1"
        if abs(self.mean) > FURTHEST * self.deviation:
            return (
                f"numbers around {self.mean:.12g} and only {self.deviation:.3g} apart, too close to be told so far from 0: "
                f"take {self.mean:.12g} off them"
            )
        return None
