"""Texts next to the atoms of an SVG drawing, put where they cover no atom, bond or other text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from math import atan2, cos, hypot, pi, sin
from typing import Any

SIZE = 11  # pixels of the font
TURNS, REACHES = 24, (1, 5, 9, 14, 20)  # directions, and pixels from the atom, that are tried

Disc = tuple[float, float, float]  # middle and radius
Box = tuple[float, float, float, float]  # middle, half the width, half the height


def add_labels(svg: str, mol: Any, points: Sequence[Any], labels: Sequence[tuple[int, str]], color: str) -> str:
    """Return a drawing with labels (atom, text), the most important first, enlarged to hold them.

    `points` are those of the molecule's atoms in the drawing.
    """
    hydrogens = [min(2, atom.GetTotalNumHs()) if atom.GetSymbol() != "C" else 0 for atom in mol.GetAtoms()]
    discs = [(at.x, at.y, 7.0 + 6.0 * count) for at, count in zip(points, hydrogens, strict=True)]
    taken = list(discs)
    for bond in mol.GetBonds():
        a, b = points[bond.GetBeginAtomIdx()], points[bond.GetEndAtomIdx()]
        taken += [(a.x + (b.x - a.x) * k / 8, a.y + (b.y - a.y) * k / 8, 1.5) for k in range(1, 8)]
    for ring in mol.GetRingInfo().AtomRings():  # a label inside could be of any of its atoms
        taken.append((*(sum(discs[atom][axis] for atom in ring) / len(ring) for axis in (0, 1)), 14.0))  # type: ignore[arg-type]
    boxes: list[Box] = []
    for atom, text in labels:
        near = [discs[other.GetIdx()] for other in mol.GetAtomWithIdx(atom).GetNeighbors()]
        boxes.append(_best_box(text, discs[atom], near, taken, boxes))
    width, height = (float(side) for side in re.search(r"width='([\d.]+)px' height='([\d.]+)px'", svg).groups())  # type: ignore[union-attr]
    left, top = min(0.0, *(x - w for x, _, w, _ in boxes)), min(0.0, *(y - h for _, y, _, h in boxes))
    wide = max(width, *(x + w for x, _, w, _ in boxes)) - left
    high = max(height, *(y + h for _, y, _, h in boxes)) - top
    svg = re.sub(r"width='[\d.]+px' height='[\d.]+px'", f"width='{wide:.0f}px' height='{high:.0f}px'", svg, count=1)
    svg = re.sub(r"viewBox='[^']*'", f"viewBox='{left:.1f} {top:.1f} {wide:.1f} {high:.1f}'", svg, count=1)
    texts = "".join(
        f"<text x='{x:.1f}' y='{y + 0.36 * SIZE:.1f}' text-anchor='middle' fill='{color}' "
        f"style='font:700 {SIZE}px sans-serif'>{escape(text)}</text>"
        for (x, y, _, _), (_, text) in zip(boxes, labels, strict=True)
    )
    return svg.replace("</svg>", f"{texts}</svg>")


def _best_box(text: str, atom: Disc, near: Sequence[Disc], taken: Sequence[Disc], boxes: Sequence[Box]) -> Box:
    """Return the box of a label: as free as possible, near its atom, and away from the neighbours of it."""
    x, y, radius = atom
    away = atan2(sum(y - v for _, v, _ in near), sum(x - u for u, _, _ in near))
    wide, high = 0.3 * SIZE * len(text), 0.55 * SIZE
    tries = []
    for reach in REACHES:
        for turn in range(TURNS):
            dx, dy = cos(away + 2 * pi * turn / TURNS), sin(away + 2 * pi * turn / TURNS)
            box = x + dx * (radius + reach + wide), y + dy * (radius + reach + high), wide, high
            tries.append((_covered(box, taken, boxes), reach + 12 * min(turn, TURNS - turn) / TURNS, box))
    return min(tries)[2]


def _covered(box: Box, taken: Sequence[Disc], boxes: Sequence[Box]) -> int:
    x, y, wide, high = box
    discs = sum(hypot(max(0, abs(u - x) - wide), max(0, abs(v - y) - high)) < radius for u, v, radius in taken)
    return discs + 5 * sum(abs(u - x) < wide + w + 2 and abs(v - y) < high + h + 1 for u, v, w, h in boxes)
