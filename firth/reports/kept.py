"""Which examples are in a page: the worst of all, and the worst of every cell of its table."""

from collections import Counter

from firth.reports.case import Case

MOST = 400  # examples
WORST = 100  # of these, whatever their cells
MOST_CHARACTERS = 600_000  # of all texts; each takes up to six bytes of a page


class Kept:
    """Examples as they come, of which no more are held than twice as many as a page has."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.seen = 0
        self._cases: list[Case] = []

    def add(self, case: Case) -> None:
        """Keep an example, as long as it is among those that a page would have."""
        self.seen += 1
        self._cases.append(case)
        # What is not among them now never will be: others only come before it.
        if len(self._cases) >= 2 * self.most:
            self._cases = self._chosen()

    def cases(self) -> list[Case]:
        """Return what a page has, the worst first."""
        fitting = []
        size = 0
        for case in self._chosen():
            size += case.size
            if size > MOST_CHARACTERS:
                break
            fitting.append(case)
        return sorted(fitting, key=_order)

    def _chosen(self) -> list[Case]:
        """Return the examples that a page has room for, the most wanted first."""
        ordered = sorted(self._cases, key=_order)
        worst = ordered[:WORST]
        met = Counter(cell for case in worst for cell in case.cells)
        ranked = []
        for case in ordered[WORST:]:
            rank = min((met[cell] for cell in case.cells), default=0)
            met.update(case.cells)
            ranked.append((rank, case))
        ranked.sort(key=lambda one: one[0])  # stable: of one rank the worst first
        return [*worst, *(case for _, case in ranked)][: self.most]


def _order(case: Case) -> tuple[bool, float, int]:
    """Return by what examples are ordered: wrong ones first, the worst of them before others."""
    return case.right, -case.badness, case.line
