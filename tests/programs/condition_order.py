"""Whose conditions are right: the nearest precedent's or the vote's: `python tests/programs/condition_order.py`.

Reactions of the installed index with recorded reagents, each without the rows of its own patent and product. Counted is
how often the first set, work-up left out, is exactly the recorded one, by the similarity of the nearest precedent.
"""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import script

from chemspec.precedents import POOL, Precedents, installed, search
from chemspec.terminal import console

MIN_REACTIONS = 5  # reactions with the same change
NEAR = search.NEAR


class Row(NamedTuple):
    """A precedent: joined reagents, similarity, and whether it makes the very change, or loses the same atoms."""

    reagents: str
    similarity: float
    close: bool
    loses_the_same: bool


def nearest_rows(index: Precedents, row: int) -> list[Row]:
    """The rows with reagents and the same change as a row, of other patents and products, the nearest first."""
    arrays = index._arrays
    group = int(np.searchsorted(arrays["starts"], row, side="right")) - 1
    first, last = arrays["starts"][group : group + 2].tolist()
    if last - first < MIN_REACTIONS:
        return []
    close = arrays["close"][first:last] == arrays["close"][row]
    similarity = index._similarity(index._read_row(row).product, first, last)
    product, reactants, _, patent = index._read_row(row)
    lost = search.lost_atoms(reactants, product)
    rows = []
    for k in np.argsort(-(close * 2.0 + similarity), kind="stable")[: search.MAX_ROWS_FOR_CONDITIONS].tolist():
        other = index._read_row(first + k)
        if first + k != row and other[2] and other[0] != product and other[3].split(" ")[0] != patent.split(" ")[0]:
            same = search.lost_atoms(other[1], other[0]) == lost
            rows.append(Row(other[2], float(similarity[k]), bool(close[k]), same))
    return rows


def is_right(rows: Sequence[Row], recorded: frozenset[str]) -> bool:
    """Whether the first set of conditions, work-up left out, is the recorded one."""
    first = search.vote_conditions((row.reagents, row.similarity) for row in rows[:POOL])[0].reagents
    return frozenset(first.split(".")) - search.WORK_UP == recorded


def main(
    limit: Annotated[int, typer.Option(help="Number of reactions.")] = 3000,
    seed: Annotated[int, typer.Option(help="Seed of the selection.")] = 1,
) -> None:
    """Compare two orders of conditions, and precedents with and without the same lost atoms."""
    index = installed()
    assert index is not None
    index._read_row = lru_cache(200_000)(index._read_row)  # type: ignore[method-assign]
    numbers = list(range(len(index)))
    random.Random(seed).shuffle(numbers)
    right: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    wide: Counter[str] = Counter()  # of reactions without a precedent of the very change
    for row in numbers:
        recorded = frozenset(filter(None, index._read_row(row)[2].split("."))) - search.WORK_UP
        rows = nearest_rows(index, row) if recorded else []
        if not rows:
            continue
        counts = right[int(10 * rows[0].similarity)]
        counts[0] += 1
        for column, near in ((1, 2.0), (2, 0.0)):  # no precedent is near, or every one
            search.NEAR = near
            counts[column] += is_right(rows, recorded)
        if not rows[0].close:
            search.NEAR = NEAR
            same = [each for each in rows if each.loses_the_same]
            kind = "same atoms" if same else "other atoms alone"
            wide[kind] += 1
            wide[f"{kind}, all right"] += is_right(rows, recorded)
            wide[f"{kind}, those right"] += bool(same) and is_right(same, recorded)
        if sum(counts[0] for counts in right.values()) == limit:
            break
    for tenth, (total, voted, nearest) in sorted(right.items()):
        console.print_line(
            f"{tenth / 10:.1f}: {total:5} reactions, vote {voted / total:.1%}, nearest {nearest / total:.1%}"
        )
    console.print_line(f"Without a precedent of the very change: {dict(sorted(wide.items()))}")


app = script(main)
if __name__ == "__main__":
    app()
