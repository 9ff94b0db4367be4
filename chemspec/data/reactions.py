"""Rows of reaction CSVs as aligned (source, target) texts; the only file of this package that needs RDKit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from chemspec.chem import canonical, drop_stereo, main_product
from chemspec.chem.atom_maps import guess_maps
from chemspec.chem.root_align import align_forward, align_retro
from chemspec.data import reagents
from chemspec.settings import Task
from chemspec.tasks import TASKS, Pair, Row, WritePair


def variants(row: Row, task: Task, *, count: int, flat_share: float, rng: Random, guess: bool = False) -> list[Pair]:
    """Return up to `count` ways to write one reaction: first the canonical source, then sources rooted at random.

    Args:
        row: a row of the CSV; which columns are read is said in `chemspec.tasks`.
        task: which side is the source.
        count: of variants wanted.
        flat_share: the share of variants without stereochemistry (the USPTO-MIT set has none).
        rng: chooses roots, order and stereochemistry.
        guess: where a row has no atom maps, guess them.

    Returns:
        Distinct pairs; none where the atom maps cannot be used.
    """
    write = _ALIGN[TASKS.lookup(task).name](row, guess)
    if write is None:
        return []
    pairs: dict[Pair, None] = {}
    for index in range(count):
        stereo, start = rng.random() >= flat_share, None if index == 0 else rng
        pair = write(start, stereo)
        if pair is not None:
            pairs[pair] = None
    return list(pairs)


def align_retro_row(row: Row, guess: bool) -> WritePair | None:
    """Return what writes product and reactants of a row, aligned; None without usable maps."""
    mapped = row.get("mapped_rxn")
    if not mapped and guess:
        product, reactants = canonical_pair(row, "retro")
        mapped = (guess_maps(reactants, product) or ("",))[0]
    return (lambda start, stereo: align_retro(mapped, start, stereo=stereo)) if mapped else None


def align_forward_row(row: Row, guess: bool) -> WritePair | None:
    """Return what writes the flask and the product of a row, aligned; None without usable maps."""
    reaction = _with_others(row) or (guess_maps(*canonical_pair(row, "forward")) if guess else None)
    if reaction is None:
        return None
    write = partial(align_forward, *reaction)
    return lambda start, stereo: write(start, stereo=stereo)


def _with_others(row: Row) -> tuple[str, list[str]] | None:
    """Return the row's mapped reaction, and the molecules in the flask that it lacks."""
    mapped, core, everything = (row.get(column) for column in TASKS.lookup("forward").mapped)
    if not mapped or not everything:
        return None
    others = everything.split(".")
    for molecule in (core or "").split("."):
        if molecule in others:
            others.remove(molecule)
    return mapped, others


def canonical_pair(row: Row, task: Task) -> Pair:
    """Return the plain texts of a test row, as they stand in the file: the query and the answer to compare with."""
    return _PLAIN[TASKS.lookup(task).name](row)


def product_of(row: Row, task: Task) -> str:
    """Return the product of a row as it stands in the file."""
    return row[TASKS.lookup(task).product]


def product_key(task: Task, source: str, target: str) -> str:
    """Return the key of the product of a reaction as a model reads and writes it; empty where it cannot be read.

    It is the canonical SMILES of its largest component; without stereochemistry where test sets lack it.
    """
    plain = _plain(task, TASKS.lookup(task).sides(source, target)[1])
    return (main_product(plain) or "") if plain else ""


def others_key(task: Task, source: str, target: str) -> str:
    """Return the key of everything else: canonical and sorted; empty where it cannot be read."""
    plain = _plain(task, TASKS.lookup(task).sides(source, target)[0])
    return ".".join(sorted(plain.split("."))) if plain else ""


def _plain(task: Task, smiles: str) -> str | None:
    return canonical(smiles) if TASKS.lookup(task).stereo else drop_stereo(smiles)


# Of each task the query and the answer of a row as they stand in the file, ...
_PLAIN: dict[Task, Callable[[Row], Pair]] = {
    "forward": lambda row: (row["reactants_and_reagents"], row["main_product"]),
    "retro": lambda row: (row["product"], row["reactants"]),
    "reagents": reagents.plain,
}
# ... and from a row, and whether to guess maps where it has none, what writes aligned pairs of it; None where none can.
_ALIGN: dict[Task, Callable[[Row, bool], WritePair | None]] = {
    "forward": align_forward_row,
    "retro": align_retro_row,
    "reagents": reagents.align_row,
}
