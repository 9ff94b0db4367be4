"""Whose conditions are right: the nearest precedent's or the vote's: `python tests/benchmarks/condition_order.py`.

Reactions of the installed index with recorded reagents, each without the rows of its own patent and product. Counted is
how often the first set, work-up left out, is exactly the recorded one, by the similarity of the nearest precedent.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts import script

from chemspec.cli import show
from chemspec.precedents import POOL, Precedents, installed, search

FEWEST = 5  # reactions with the same change


def nearest_rows(index: Precedents, row: int) -> list[tuple[int, float]]:
    """The rows with reagents and the same change as a row, of other patents and products, and their similarities."""
    arrays = index._arrays
    group = int(np.searchsorted(arrays["starts"], row, side="right")) - 1
    first, last = arrays["starts"][group : group + 2].tolist()
    if last - first < FEWEST:
        return []
    close = arrays["close"][first:last] == arrays["close"][row]
    similarity = search._tanimoto_similarity(arrays["prints"][first:last], np.asarray(arrays["prints"][row]))
    product, _, _, patent = index._read_row(row)
    rows = []
    for k in np.argsort(-(close * 2.0 + similarity), kind="stable")[: search.MAX_ROWS_FOR_CONDITIONS].tolist():
        other = index._read_row(first + k)
        if first + k != row and other[2] and other[0] != product and other[3].split(" ")[0] != patent.split(" ")[0]:
            rows.append((first + k, float(similarity[k])))
    return rows[:POOL]


def main(
    limit: Annotated[int, typer.Option(help="Number of reactions.")] = 3000,
    seed: Annotated[int, typer.Option(help="Seed of the selection.")] = 1,
) -> None:
    """Compare two orders of conditions."""
    index = installed()
    assert index is not None
    index._read_block = lru_cache(4000)(index._read_block)  # type: ignore[method-assign]
    numbers = list(range(len(index)))
    random.Random(seed).shuffle(numbers)
    right: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in numbers:
        recorded = frozenset(filter(None, index._read_row(row)[2].split("."))) - search.WORK_UP
        rows = nearest_rows(index, row) if recorded else []
        if not rows:
            continue
        counts = right[int(10 * rows[0][1])]
        counts[0] += 1
        for column, near in ((1, 2.0), (2, 0.0)):  # no precedent is near, or every one
            search.NEAR = near
            first = search.vote_conditions((index._read_row(other)[2], similarity) for other, similarity in rows)[
                0
            ].reagents
            counts[column] += frozenset(first.split(".")) - search.WORK_UP == recorded
        if sum(counts[0] for counts in right.values()) == limit:
            break
    for tenth, (total, voted, nearest) in sorted(right.items()):
        show.print_line(
            f"{tenth / 10:.1f}: {total:5} reactions, vote {voted / total:.1%}, nearest {nearest / total:.1%}"
        )


app = script(main)
if __name__ == "__main__":
    app()
