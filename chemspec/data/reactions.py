"""Convert rows of reaction CSVs to aligned (source, target) texts: the only module of this package with RDKit."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

from rdkit import rdBase

from chemspec.chem import ARROW, canonical, drop_stereo, main_product
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.molecules.salts import other_reagents
from chemspec.chem.reactions.atom_maps import guess_maps
from chemspec.chem.reactions.root_align import align_forward, align_retro, write_randomly
from chemspec.settings import Task
from chemspec.tasks import TASKS, Pair, Row, WritePair


def smiles_variants(
    row: Row, task: Task, *, count: int, flat_share: float, rng: Random, guess: bool = False
) -> list[Pair]:
    """Return up to `count` SMILES variants of a reaction: first the canonical source, then randomly rooted ones.

    Pairs are distinct; there are none if the atom maps of the row are unusable, which `guess` guesses if they are
    missing. `flat_share` is the share of variants without stereochemistry (USPTO-MIT has none).
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
    """Return a function that writes aligned product and reactants of a row; None without usable atom maps."""
    mapped = row.get("mapped_rxn")
    if not mapped and guess:
        product, reactants = canonical_pair(row, "retro")
        mapped = (guess_maps(reactants, product) or ("",))[0]
    return (lambda start, stereo: align_retro(mapped, start, stereo=stereo)) if mapped else None


def align_forward_row(row: Row, guess: bool) -> WritePair | None:
    """Return a function that writes aligned reaction mixture and product of a row; None without usable atom maps."""
    reaction = _mapped_and_others(row) or (guess_maps(*canonical_pair(row, "forward")) if guess else None)
    if reaction is None:
        return None
    write = partial(align_forward, *reaction)
    return lambda start, stereo: write(start, stereo=stereo)


def _mapped_and_others(row: Row) -> tuple[str, list[str]] | None:
    """Return the row's mapped reaction, and the molecules of the mixture that it lacks."""
    mapped, core, everything = (row.get(column) for column in TASKS.lookup("forward").mapped)
    if not mapped or not everything:
        return None
    others = everything.split(".")
    for molecule in (core or "").split("."):
        if molecule in others:
            others.remove(molecule)
    return mapped, others


def reagents_pair(row: Row) -> Pair:
    """Return `reactants>>product` of a row and its other molecules in normal form (`chemspec.chem.molecules.salts`)."""
    core, product = row.get("core_reactants") or "", row.get("main_product") or ""
    return f"{core}{ARROW}{product}", other_reagents(row.get("reactants_and_reagents") or "", core)


def align_reagents_row(row: Row, guess: bool) -> WritePair | None:
    """Return a function that writes query and reagents of a row, or None; `guess` finds unknown core reactants."""
    if guess and not row.get("core_reactants"):
        mixture, product = row.get("reactants_and_reagents") or "", row.get("main_product") or ""
        row = {**row, "core_reactants": _guess_core(mixture, product)}
    query, answer = reagents_pair(row)
    core, _, product = query.partition(ARROW)
    if not (core and product and answer):
        return None

    def write(start: Random | None, stereo: bool) -> Pair | None:
        texts = [side if stereo else drop_stereo(side) for side in (core, product)]
        if start is not None:
            texts = [_write_randomly(side, start) if side else None for side in texts]
        return (ARROW.join(filter(None, texts)), answer) if all(texts) else None

    return write


def _guess_core(flask: str, product: str) -> str:
    """Return the molecules of a mixture that contribute atoms to the product, by guessed atom maps; else empty."""
    guessed = guess_maps(flask, product) if flask and product else None
    if guessed is None:
        return ""
    have, idle = (Counter(map(canonical, parts)) for parts in (flask.split("."), guessed[1]))
    return ".".join(filter(None, (have - idle).elements()))


def _write_randomly(side: str, rng: Random) -> str | None:
    """Write a side with randomly rooted molecules in random order."""
    with rdBase.BlockLogs():
        mols = [mol_from_smiles(part) for part in side.split(".")]
        if any(mol is None for mol in mols):
            return None
        return write_randomly(mols, rng)


def canonical_pair(row: Row, task: Task) -> Pair:
    """Return query and expected output of a test row, as written in the file."""
    spec = TASKS.lookup(task)
    if spec.whole:
        return reagents_pair(row)
    query, answer = spec.columns
    return row[query], row[answer]


def product_of(row: Row, task: Task) -> str:
    """Return the product of a row as written in the file."""
    return row[TASKS.lookup(task).product]


def product_key(task: Task, source: str, target: str) -> str:
    """Return the canonical SMILES of a pair's main product, without stereo if test sets have none, or empty."""
    plain = canonical_for_task(task, TASKS.lookup(task).sides(source, target)[1])
    return (main_product(plain) or "") if plain else ""


def canonical_for_task(task: Task, smiles: str) -> str | None:
    """Return the canonical SMILES of molecules, without stereochemistry if the task's test sets have none."""
    return canonical(smiles) if TASKS.lookup(task).stereo else drop_stereo(smiles)


# Function that writes aligned pairs of a row, guessing missing atom maps if told to; None if there are no usable maps.
_ALIGN: dict[Task, Callable[[Row, bool], WritePair | None]] = {
    "forward": align_forward_row,
    "retro": align_retro_row,
    "reagents": align_reagents_row,
}
