"""Rows of reaction CSVs as aligned (source, target) texts; the only file of this package that needs RDKit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random

from chemspec import chem
from chemspec.chem.atom_maps import guess_maps
from chemspec.chem.root_align import align_forward, align_retro
from chemspec.settings import Task

Row = Mapping[str, str]
Pair = tuple[str, str]

# The columns that a row needs, by task, and those from which maps can be guessed (`DataSettings.guess_maps`).
COLUMNS = {"forward": ("mapped_core_rxn", "core_reactants", "reactants_and_reagents"), "retro": ("mapped_rxn",)}
PLAIN_COLUMNS = {"forward": ("reactants_and_reagents", "main_product"), "retro": ("product", "reactants")}


ACID, END_ACID = "C(O)=O", re.compile(r"C\(O\)=O(?=\.|$)")


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


def product_of(row: Row, task: Task) -> str:
    """Return the product of a row as it stands in the file."""
    source, target = canonical_pair(row, task)
    return target if task == "forward" else source


def with_one_acid(source: str, target: str) -> str:
    """Return the target with carboxylic acids at its molecules' ends written `C(=O)O`, if the source has no `C(O)=O`.

    Which oxygen came from where is a matter of who made the atom maps, so that of two files one writes every fourth
    such acid the other way; a model of both then lists the same molecule twice.
    """
    return target if ACID in source else END_ACID.sub("C(=O)O", target)


def product_key(task: Task, source: str, target: str) -> str:
    """Return the key of the product of a reaction as a model reads and writes it; empty where it cannot be read.

    It is the canonical SMILES of its largest component; for the forward task without stereochemistry, which the
    USPTO-MIT test set lacks.
    """
    plain = _plain(task, target if task == "forward" else source)
    return (chem.main_product(plain) or "") if plain else ""


def others_key(task: Task, source: str, target: str) -> str:
    """Return the key of everything else: canonical and sorted; empty where it cannot be read."""
    plain = _plain(task, source if task == "forward" else target)
    return ".".join(sorted(plain.split("."))) if plain else ""


def _plain(task: Task, smiles: str) -> str | None:
    return chem.drop_stereo(smiles) if task == "forward" else chem.canonical(smiles)
