"""What a chemist wants of a step: bonds of the target that must break or must stay, and the classes allowed.

Written as text, as in "break C1-N3; keep C5-C6; only amide, ester". A bond is named by its two atoms, numbered from 0
as the canonical SMILES of the target writes them. Of the bonds to break one has to break; none of those to keep may.
Where the target is symmetric, bonds that are alike are one and the same: which of them a step makes nobody can tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from rdkit import Chem

from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.strategy import families, family_of, strategy

Bonds = tuple[tuple[int, int], ...]  # pairs of atoms, numbered from 0 as the canonical SMILES writes them


@dataclass(frozen=True)
class Guide:
    """Names of bonds that must break (one of them is enough) and must stay, and families of steps; empty: all."""

    cut: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = {"break": self.cut, "keep": self.keep, "only": self.only}
        return "; ".join(f"{verb} {', '.join(names)}" for verb, names in parts.items() if names)


def parse(text: str) -> Guide:
    """Read what `str` of a guide writes.

    Raises:
        ValueError: if it is nothing of the kind, or names a family that is not there.
    """
    found: dict[str, list[str]] = {"break": [], "keep": [], "only": []}
    for clause in filter(None, map(str.strip, text.split(";"))):
        verb, _, names = clause.partition(" ")
        if verb not in found or not names.strip():
            raise ValueError(f'the guide says {clause!r}; write as in "break C1-N3; keep C5-C6; only amide, ester"')
        found[verb] += [name.strip() for name in names.split(",") if name.strip()]
    if unknown := [name for name in found["only"] if name not in families()]:
        raise ValueError(f"no class of steps {unknown[0]!r}; there are {', '.join(families())}")
    return Guide(*(tuple(dict.fromkeys(names)) for names in found.values()))


def fitting(guide: Guide, target: str) -> Callable[[str], bool]:
    """Return what tells of reactants whether making the target of them is what the guide wants.

    What a step does is read off a guessed atom map (`strategy`); a step that cannot be read does not fit, and a bond
    breaks only where both of its atoms come from the reactants.

    Raises:
        ValueError: if the target (canonical SMILES) has no bond of a name.
    """
    offered = named(target)
    if missing := [name for name in (*guide.cut, *guide.keep) if name not in offered]:
        raise ValueError(f"no bond {missing[0]} in {target}; there are {', '.join(offered)}")
    kinds = _kinds(target)
    wanted = {kinds[offered[name]] for name in guide.cut}
    kept = Counter(kinds[offered[name]] for name in guide.keep)
    alike = Counter(kinds.values())

    def fits(reactants: str) -> bool:
        step = strategy(reactants, target)
        if step is None:
            return False
        made = Counter(kinds[pair] for pair in step.made)
        joined = {kinds[pair] for pair in step.made if all(step.origin[atom] >= 0 for atom in pair)}
        if guide.only and family_of(step) not in guide.only:
            return False
        return (not wanted or bool(wanted & joined)) and all(made[kind] <= alike[kind] - kept[kind] for kind in kept)

    return fits


@lru_cache(maxsize=100)
def _kinds(target: str) -> dict[tuple[int, int], tuple[int, ...]]:
    """Return of every bond what it has in common with those that symmetry makes of it."""
    mol = mol_from_smiles(target)
    ranks = list(Chem.CanonicalRankAtoms(mol, breakTies=False, includeChirality=False))
    return {pair: tuple(sorted(ranks[atom] for atom in pair)) for pair in named(target).values()}


def named(smiles: str) -> dict[str, tuple[int, int]]:
    """Return the bonds of a molecule by a name such as C3-N4, in the order of their atoms."""
    mol = mol_from_smiles(smiles)
    pairs: Iterable[tuple[int, int]] = sorted(
        (min(ends), max(ends)) for ends in ((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds())
    )
    symbol = [atom.GetSymbol() for atom in mol.GetAtoms()]
    return {f"{symbol[one]}{one}-{symbol[other]}{other}": (one, other) for one, other in pairs}
