"""Rows of reaction CSVs as aligned (source, target) texts; the only file of this package that needs RDKit."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from chemspec.chem.atom_maps import guess_maps
from chemspec.chem.root_align import align_forward, align_retro
from chemspec.settings import Task

Row = Mapping[str, str]
Pair = tuple[str, str]

# The columns that a row needs, by task, and those from which maps can be guessed (`DataSettings.guess_maps`).
COLUMNS = {"forward": ("mapped_core_rxn", "core_reactants", "reactants_and_reagents"), "retro": ("mapped_rxn",)}
PLAIN_COLUMNS = {"forward": ("reactants_and_reagents", "main_product"), "retro": ("product", "reactants")}


def variants(row: Row, task: Task, *, count: int, flat_share: float, rng: Random, guess: bool = False) -> list[Pair]:
    """Return up to `count` ways to write one reaction: first the canonical source, then sources rooted at random.

    Args:
        row: a row of the CSV; which columns are read is said in `COLUMNS`.
        task: which side is the source.
        count: of variants wanted.
        flat_share: the share of variants without stereochemistry (the USPTO-MIT set has none).
        rng: chooses roots, order and stereochemistry.
        guess: where a row has no atom maps, guess them.

    Returns:
        Distinct pairs; none where the atom maps cannot be used.
    """
    reaction = _mapped(row, task) or (_guessed(row, task) if guess else None)
    if reaction is None:
        return []
    mapped, others = reaction
    pairs: dict[Pair, None] = {}
    for index in range(count):
        stereo, start = rng.random() >= flat_share, None if index == 0 else rng
        pair = (
            align_retro(mapped, start, stereo=stereo)
            if task == "retro"
            else align_forward(mapped, others, start, stereo=stereo)
        )
        if pair is not None:
            pairs[pair] = None
    return list(pairs)


def _mapped(row: Row, task: Task) -> tuple[str, list[str]] | None:
    """Return the row's mapped reaction, and the molecules in the flask that it lacks."""
    if task == "retro":
        mapped = row.get("mapped_rxn")
        return (mapped, []) if mapped else None
    mapped, core, everything = (row.get(column) for column in COLUMNS["forward"])
    if not mapped or not everything:
        return None
    others = everything.split(".")
    for molecule in (core or "").split("."):
        if molecule in others:
            others.remove(molecule)
    return mapped, others


def _guessed(row: Row, task: Task) -> tuple[str, list[str]] | None:
    source, target = canonical_pair(row, task)
    precursors, product = (source, target) if task == "forward" else (target, source)
    return guess_maps(precursors, product)


def canonical_pair(row: Row, task: Task) -> Pair:
    """Return the plain texts of a test row, as they stand in the file: the query and the answer to compare with."""
    if task == "retro":
        return row["product"], row["reactants"]
    return row["reactants_and_reagents"], row["main_product"]
