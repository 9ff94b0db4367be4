"""What a flask lacks for a reaction, what contradicts it, and what is dangerous, by tables written by hand.

The tables are `flask_needs.tsv`, `flask_sets.tsv`, `flask_conflicts.tsv` and `hazards.tsv`. Only structures are
compared: amounts, temperature and time are not known.
"""

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from rdkit import rdBase

from chemspec.asset_files import read_asset_table
from chemspec.chem.parsing import fixed_pattern, mol_from_smiles
from chemspec.chem.query import main_product
from chemspec.chem.stoichiometry import strategy_of_step
from chemspec.chem.strategy import Strategy

FOLDER = Path(__file__).parent
AS_IF = "the model answers as if it were there"


class ReagentSet(NamedTuple):
    """Reagents with one effect: the word for it, and patterns in any molecule and in those that give no atom."""

    phrase: str
    anywhere: str
    agents: str = ""


class Need(NamedTuple):
    """A line of the table of needs: a pattern of the reactants, and sets of which one is enough."""

    reactants: str
    sets: list[ReagentSet]


@lru_cache(maxsize=4000)
def missing_or_conflicting(flask: str, product: str) -> tuple[str, ...]:
    """Return what a flask with all reagents lacks for a product, and what in it contradicts that, as sentences."""
    product = main_product(product) or product  # the acid of a salt may well do the work
    step = strategy_of_step(flask, product)
    if step is None:
        return ()
    with rdBase.BlockLogs():
        given, agents = split_flask(flask, step)
        whole = [*given, *agents]
        lacking = dict.fromkeys(
            need.sets[0].phrase
            for need in needs_of(flask, step)
            if not any(holds(whole, helps.anywhere) or holds(agents, helps.agents) for helps in need.sets)
        )
        conflicts = dict.fromkeys(
            sentence
            for cause, unless, group, when, sentence in _table("flask_conflicts")
            if _fits(product, group)
            and any(_fits(part, group) for part in given)
            and holds(agents if when == "kept" else whole, cause)
            and not holds(whole, unless)
        )
    missing = (f"Missing in the reaction mixture: {'; '.join(lacking)}; {AS_IF}",) if lacking else ()
    return (*missing, *conflicts)


def needs_of(flask: str, step: Strategy) -> list[Need]:
    """Return what a reaction needs in addition to its reactants, whether or not the flask holds it."""
    names = step.name.split(" + ")
    needs = (need for name in names for classes, need in _needs() if name in classes)
    return [need for need in needs if _applies(need, flask, step)]


def split_flask(flask: str, step: Strategy) -> tuple[list[str], list[str]]:
    """Return the molecules of a flask that give the product atoms, and the others."""
    given: list[str] = []
    agents: list[str] = []
    for part, atoms in atoms_by_molecule(flask):
        (agents if atoms.isdisjoint(step.origin) else given).append(part)
    return given, agents


def atoms_by_molecule(flask: str) -> Iterator[tuple[str, frozenset[int]]]:
    """Yield the molecules of a flask with the indices of their atoms in it; an invalid one has none."""
    start = 0
    for part in flask.split("."):
        mol = _molecule(part)
        end = start + (mol.GetNumAtoms() if mol is not None else 0)
        yield part, frozenset(range(start, end))
        start = end


def _applies(need: Need, flask: str, step: Strategy) -> bool:
    if need.reactants == "-":
        return True
    pattern, whole = fixed_pattern(need.reactants), mol_from_smiles(flask)
    numbered = [atom.GetIdx() for atom in pattern.GetAtoms() if atom.GetAtomMapNum()]
    changed = set(step.before)
    return any({hit[atom] for atom in numbered} <= changed for hit in whole.GetSubstructMatches(pattern))


def holds(parts: Sequence[str], patterns: str) -> bool:
    """Return whether molecules together hold one of the patterns, which blanks part, and all its parts between dots."""
    return any(
        all(any(_fits(part, smarts) for part in parts) for smarts in pattern.split(".")) for pattern in patterns.split()
    )


@lru_cache(maxsize=100_000)  # reagents recur
def _fits(part: str, smarts: str) -> bool:
    mol = _molecule(part)
    return mol is not None and bool(mol.HasSubstructMatch(fixed_pattern(smarts)))


_molecule = lru_cache(maxsize=1000)(mol_from_smiles)


@cache
def _table(name: str) -> list[list[str]]:
    return read_asset_table(FOLDER / f"{name}.tsv")


@cache
def _needs() -> list[tuple[list[str], Need]]:
    """Return the lines of the table of needs, each with the names of its classes."""
    sets = {name: ReagentSet(*cells) for name, *cells in _table("flask_sets")}
    return [
        (classes.split("|"), Need(reactants, [sets[name] for name in names.split("|")]))
        for classes, reactants, names in _table("flask_needs")
    ]


@lru_cache(maxsize=4000)
def hazards(left: str, right: str) -> tuple[str, ...]:
    """Return dangers of a reaction by its structures, in words; amounts are not known: no word is no proof."""
    parts = [*dict.fromkeys([*left.split("."), *right.split(".")])]
    with rdBase.BlockLogs():
        return tuple(sentence for patterns, sentence in _table("hazards") if holds(parts, patterns))
