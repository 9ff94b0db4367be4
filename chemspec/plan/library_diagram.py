"""Diagram of intermediates that the best routes of several targets share: each at the left, its targets at the right.

It is made of blocks as narrow as a phone, one for each intermediate; a target that needs several is drawn in the block
of each, under the number of its row. A page lets the blocks flow; a file has them in columns.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from chemspec.chem.reading.names.reagents import name_of
from chemspec.depict import canvas
from chemspec.depict.canvas import Item, Picture
from chemspec.depict.molecules import Depiction, svg_size
from chemspec.plan.depict import DARK, LIGHT
from chemspec.plan.library import SharedIntermediate, shared_intermediates

MAX_SHOWN = 12  # intermediates that are drawn
MAX_DRAWN = 6  # targets that are drawn of each
LEFT, GAP, RIGHT = (138, 110), 40, (168, 120)  # size of an intermediate, width of the lines, size of a target
MARGIN, ROW, SIZE, LINE = 6, 14, 12, 15  # around all; between molecules; size and height of a text
WIDTH = MARGIN + LEFT[0] + GAP + RIGHT[0] + MARGIN  # of a block
COLUMNS = 3  # of blocks in a file


@dataclass(frozen=True)
class _Entry:
    """A molecule with its caption."""

    molecule: Depiction
    size: tuple[float, float]
    caption: tuple[tuple[str, str, bool], ...]  # lines: text, colour, whether it is bold

    @property
    def height(self) -> float:
        return self.size[1] + LINE * len(self.caption) + ROW


def summarize(rows: Sequence[dict[str, Any]], shared: Sequence[SharedIntermediate]) -> str:
    """Return in words what targets share, and what of it the diagram leaves out."""
    if not shared:
        return "No intermediate is in the best routes of several targets."
    targets = {number for entry in shared for number in entry.targets}
    count = sum(1 + entry.others for entry in shared)
    parts = [f"{len(targets):,} of {len(rows):,} targets share {count:,} intermediate{'s' * (count > 1)} with others."]
    if count > len(shared):
        parts.append("Of intermediates that the same targets share, only the last is drawn.")
    if len(shared) > MAX_SHOWN:
        parts.append(f"These are {MAX_SHOWN} of {len(shared):,}, those of most targets; the table names all.")
    return " ".join(parts)


def draw_library(rows: Sequence[dict[str, Any]]) -> Picture | None:
    """Return the whole diagram, with `summarize` above it, on a light page; None if nothing is shared."""
    shared = shared_intermediates(rows)
    if not shared:
        return None
    words = summarize(rows, shared)
    blocks = draw_blocks(rows, shared)
    columns = min(COLUMNS, len(blocks))
    width = columns * WIDTH
    inner = width - 2 * MARGIN
    lines = [Item(MARGIN, MARGIN, inner, LINE, text="Shared intermediates", size=14, bold=True, fill=LIGHT.text)]
    lines += [
        Item(MARGIN, MARGIN + (LINE + 2) * number, inner, LINE, text=text, size=SIZE, fill=LIGHT.text)
        for number, text in enumerate(textwrap.wrap(words, width // 6), 1)
    ]
    bottoms = [lines[-1].top + LINE + ROW] * columns
    items = [*lines]
    for block in blocks:  # each goes to the column that ends highest
        column = bottoms.index(min(bottoms))
        items += [_moved(item, column * WIDTH, bottoms[column]) for item in block.items]
        bottoms[column] += block.height + ROW
    return Picture(width, round(max(bottoms)), tuple(items), description=words)


def draw_blocks(
    rows: Sequence[dict[str, Any]], shared: Sequence[SharedIntermediate], *, dark: bool = False
) -> list[Picture]:
    """Return a picture for each of the first intermediates, with its targets."""
    return [_draw_block(rows, entry, dark=dark) for entry in shared[:MAX_SHOWN]]


def _draw_block(rows: Sequence[dict[str, Any]], shared: SharedIntermediate, *, dark: bool) -> Picture:
    left = [_intermediate(shared, dark=dark)]
    right = [_target(rows[number], number, dark=dark) for number in shared.targets[:MAX_DRAWN]]
    height = max(sum(entry.height for entry in side) for side in (left, right))
    (begin,) = _stack(left, MARGIN, LEFT[0], height)
    ends = _stack(right, WIDTH - MARGIN - RIGHT[0], RIGHT[0], height)
    fill, bar = (DARK if dark else LIGHT).text, MARGIN + LEFT[0] + GAP / 2
    middles = [begin[0].middle, *(end[0].middle for end in ends)]
    start = begin[0].left + begin[0].width + 4
    items = [
        Item(start, middles[0] - 0.8, bar - start, 1.6, fill=fill),
        Item(bar - 0.8, min(middles) - 0.8, 1.6, max(middles) - min(middles) + 1.6, fill=fill),
    ]
    for end in ends:
        items += [*canvas.arrow(bar, end[0].left - 4, end[0].middle, fill, 0.8), *end]
    about = f"{shared.smiles}, in the routes to {len(shared.targets)} targets"
    return Picture(WIDTH, round(height), (*begin, *items), description=about)


def _stack(entries: Sequence[_Entry], left: float, width: float, height: float) -> list[list[Item]]:
    """Return the items of entries one below the other, evenly spaced: of each the molecule, then its caption."""
    space = (height - sum(entry.height for entry in entries)) / len(entries)  # half of it above each, half below
    stacked, top = [], space / 2
    for entry in entries:
        wide, high = entry.size
        stacked.append([Item(left + (width - wide) / 2, top, wide, high, molecule=entry.molecule)])
        for number, (text, fill, bold) in enumerate(entry.caption):
            at = top + high + number * LINE
            stacked[-1].append(Item(left, at, width, LINE, text=text, size=SIZE, bold=bold, anchor="middle", fill=fill))
        top += entry.height + space
    return stacked


def _moved(item: Item, right: float, down: float) -> Item:
    corners = tuple((x + right, y + down) for x, y in item.corners)
    return replace(item, left=item.left + right, top=item.top + down, corners=corners)


def _intermediate(entry: SharedIntermediate, *, dark: bool) -> _Entry:
    colours, count = DARK if dark else LIGHT, len(entry.targets)
    caption = [(f"in {count} routes", colours.text, True)]
    if name := name_of(entry.smiles):
        caption.insert(0, (_cut(name, LEFT[0]), colours.text, False))
    if count > MAX_DRAWN:
        caption.append((f"{count - MAX_DRAWN} more not drawn", colours.text, False))
    if entry.others:
        caption.append((f"with {entry.others} more before", colours.text, False))
    return _Entry(*_fitted(entry.smiles, LEFT, dark=dark), tuple(caption))


def _target(row: dict[str, Any], number: int, *, dark: bool) -> _Entry:
    colours = DARK if dark else LIGHT
    steps = f"{row['steps']} step{'s' * (row['steps'] != 1)}"
    named = row["target"] if row["target"] != row["smiles"] and len(row["target"]) <= 20 else ""
    head = ", ".join(filter(None, (f"row {number + 1}", named, steps)))
    caption = [(_cut(head, RIGHT[0]), colours.text, False)]
    if row["status"] != "solved":
        caption.append(("no route from stock", colours.unlisted, False))
    return _Entry(*_fitted(row["smiles"], RIGHT, dark=dark), tuple(caption))


def _fitted(smiles: str, most: tuple[int, int], *, dark: bool) -> tuple[Depiction, tuple[float, float]]:
    """Return a molecule, smaller than usual where it would be larger than the space, and its size."""
    molecule = Depiction(smiles, dark=dark)
    width, height = svg_size(molecule.svg)
    if (scale := min(most[0] / max(width, 1), most[1] / max(height, 1))) < 1:
        width, height = round(scale * width), round(scale * height)
        molecule = Depiction(smiles, width, height, dark=dark)
    return molecule, (width, height)


def _cut(text: str, width: int) -> str:
    most = width // 6  # characters
    return text if len(text) <= most else f"{text[: most - 1]}…"
