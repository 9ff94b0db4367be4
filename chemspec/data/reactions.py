"""Rows of reaction CSVs as aligned (source, target) texts; the only file of this package that needs RDKit."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from chemspec.align import align_forward, align_retro
from chemspec.settings import Task

Row = Mapping[str, str]
Pair = tuple[str, str]

# The columns that a row needs, by task.
COLUMNS = {
    "forward": ("mapped_core_rxn", "core_reactants", "reactants_and_reagents"),
    "retro": ("mapped_rxn",),
}


def variants(row: Row, task: Task, *, count: int, flat_share: float, rng: Random) -> list[Pair]:
    """Up to `count` ways to write one reaction: first the canonical source, then sources rooted at random.

    Args:
        row: a row of the CSV; which columns are read is said in `retro_pair` and `forward_pair`.
        flat_share: the share of variants without stereochemistry (the USPTO-MIT set has none).

    Returns:
        Distinct pairs; none where the atom maps cannot be used.
    """
    pairs: dict[Pair, None] = {}
    for index in range(count):
        stereo = rng.random() >= flat_share
        pair = PAIRS[task](row, None if index == 0 else rng, stereo)
        if pair is not None:
            pairs[pair] = None
    return list(pairs)


def retro_pair(row: Row, rng: Random | None, stereo: bool) -> Pair | None:
    """From `mapped_rxn`: product -> reactants that give it atoms."""
    mapped = row.get("mapped_rxn")
    return align_retro(mapped, rng, stereo=stereo) if mapped else None


def forward_pair(row: Row, rng: Random | None, stereo: bool) -> Pair | None:
    """From `mapped_core_rxn`, `core_reactants`, `reactants_and_reagents`: everything in the flask -> main product."""
    mapped, core, everything = (row.get(column) for column in COLUMNS["forward"])
    if not mapped or not everything:
        return None
    others = everything.split(".")
    for molecule in (core or "").split("."):
        if molecule in others:
            others.remove(molecule)
    return align_forward(mapped, others, rng, stereo=stereo)


PAIRS = {"forward": forward_pair, "retro": retro_pair}


def canonical_pair(row: Row, task: Task) -> Pair:
    """The plain texts of a test row, as they stand in the file: the query and the answer to compare with."""
    if task == "retro":
        return row["product"], row["reactants"]
    return row["reactants_and_reagents"], row["main_product"]
