"""Arrows of drawings: what a molecule is by its position, where no list says so."""

from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, float]
REACH = 1.5  # of an arrow to each side, in its lengths
CROSSED_OUT = "the arrow is crossed out: the drawing says that this does not happen"
OPPOSITE = {"reactant": "product", "product": "reactant", "agent": "agent"}


@dataclass(frozen=True)
class Arrow:
    """A reaction arrow."""

    tail: Point  # where it begins
    head: Point  # where it points to
    retro: bool = False  # whether it stands for "is made from"
    note: str = ""  # what else its shape says

    def _along(self, point: Point) -> tuple[float, float]:
        """Return how far along the arrow a point lies (0: tail, 1: head), and how far to its side, in arrow lengths."""
        x, y = self.head[0] - self.tail[0], self.head[1] - self.tail[1]
        length = x * x + y * y or 1.0
        from_tail = point[0] - self.tail[0], point[1] - self.tail[1]
        along = (from_tail[0] * x + from_tail[1] * y) / length
        offset = abs(from_tail[1] * x - from_tail[0] * y) / length
        return along, offset

    def role(self, point: Point) -> str:
        """Return what stands there: a reactant, a product, or between them an agent."""
        along, _ = self._along(point)
        role = "reactant" if along < 0 else "product" if along > 1 else "agent"
        return OPPOSITE[role] if self.retro else role

    def reaches(self, box: Sequence[Point]) -> bool:
        """Return whether an object stands in line with the arrow, or over or under it."""
        return min(self._along(point)[1] for point in box) <= REACH

    def holds(self, box: Sequence[Point]) -> bool:
        """Return whether a text stands over or under the arrow."""
        positions = [self._along(point) for point in box]
        middle = sum(along for along, _ in positions) / len(positions)
        nearest = min(offset for _, offset in positions)
        return 0 <= middle <= 1 and nearest <= REACH


def middle_of(points: Sequence[Point]) -> Point:
    """Return the middle of the box around points."""
    xs, ys = zip(*points, strict=True)
    return (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2
