"""Texts beside atoms of a drawing, put where they cover no atom, bond or other text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import atan2, cos, hypot, pi, sin

SIZE = 11  # pixels of the font
LETTER = 0.6  # width of a letter, of its size
TURNS, REACHES = 24, (1, 5, 9, 14, 20)  # directions, and pixels from the atom, that are tried

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # middle, half the width, half the height


def place_labels(
    points: Sequence[Point], radii: Sequence[float], bonds: Sequence[tuple[int, int]], labels: Sequence[tuple[int, str]]
) -> list[Box]:
    """Return a box for each label (atom, text), as free as possible, near its atom, and away from its neighbours.

    Args:
        points: of the atoms, then of whatever else should stay free.
        radii: of the circles around these points that labels keep out of.
        bonds: pairs of atoms.
        labels: to place, the most important first.
    """
    taken = [(x, y, radius) for (x, y), radius in zip(points, radii, strict=True)]
    for a, b in bonds:
        (x, y), (u, v) = points[a], points[b]
        taken += [(x + (u - x) * k / 8, y + (v - y) * k / 8, 1.5) for k in range(1, 8)]
    boxes: list[Box] = []
    for atom, text in labels:
        x, y = points[atom]
        near = [points[b if a == atom else a] for a, b in bonds if atom in (a, b)]
        away = atan2(sum(y - v for _, v in near), sum(x - u for u, _ in near))
        wide, high = SIZE * LETTER * len(text) / 2, SIZE * 0.55
        tries = []
        for reach in REACHES:
            for turn in range(TURNS):
                angle = away + 2 * pi * turn / TURNS
                far = radii[atom] + reach
                dx, dy = cos(angle), sin(angle)
                box = (x + dx * (far + wide), y + dy * (far + high), wide, high)
                tries.append((_covered(box, taken, boxes), reach + 12 * min(turn, TURNS - turn) / TURNS, box))
        boxes.append(min(tries)[2])
    return boxes


def _covered(box: Box, taken: Sequence[tuple[float, float, float]], boxes: Sequence[Box]) -> int:
    x, y, wide, high = box
    discs = sum(hypot(max(0, abs(u - x) - wide), max(0, abs(v - y) - high)) < radius for u, v, radius in taken)
    return discs + 5 * sum(abs(u - x) < wide + w + 2 and abs(v - y) < high + h + 1 for u, v, w, h in boxes)


def svg_labels(boxes: Sequence[Box], labels: Sequence[tuple[int, str]], color: str) -> str:
    """Return texts at boxes as SVG elements."""
    return "".join(
        f"<text x='{x:.1f}' y='{y + 0.36 * SIZE:.1f}' text-anchor='middle' fill='{color}' "
        f"style='font:700 {SIZE}px sans-serif'>{escape(text)}</text>"
        for (x, y, _, _), (_, text) in zip(boxes, labels, strict=True)
    )
