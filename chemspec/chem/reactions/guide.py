"""Constraints on a retrosynthetic step: bonds to break (one of them), bonds to protect, and allowed reaction classes.

As text "break C1-N3; keep C5-C6; only amide, ester", atoms numbered from 0 in the target's canonical SMILES. Bonds that
are equivalent by symmetry are one.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from rdkit import Chem

from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.reactions.step_class import classify_step, families, family_of

Bonds = tuple[tuple[int, int], ...]  # pairs of atom indices in the order of the canonical SMILES


@dataclass(frozen=True)
class Guide:
    """Names of bonds to break (at least one) and to protect, and allowed families of steps; empty: all."""

    cut: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = {"break": self.cut, "keep": self.keep, "only": self.only}
        return "; ".join(f"{verb} {', '.join(names)}" for verb, names in parts.items() if names)


def parse_guide(text: str) -> Guide:
    """Parse the text form of a guide; ValueError for an invalid text or an unknown family."""
    clauses: dict[str, list[str]] = {"break": [], "keep": [], "only": []}
    for clause in filter(None, map(str.strip, text.split(";"))):
        verb, _, names = clause.partition(" ")
        if verb not in clauses or not names.strip():
            raise ValueError(f'the guide says {clause!r}; write as in "break C1-N3; keep C5-C6; only amide, ester"')
        clauses[verb] += [name.strip() for name in names.split(",") if name.strip()]
    if unknown := [name for name in clauses["only"] if name not in families()]:
        raise ValueError(f"no class of steps {unknown[0]!r}; there are {', '.join(families())}")
    return Guide(*(tuple(dict.fromkeys(names)) for names in clauses.values()))


def guide_predicate(guide: Guide, target: str) -> Callable[[str], bool]:
    """Return a predicate that tests whether a step from reactants to the target satisfies a guide.

    Steps that cannot be analysed (`classify_step`) are rejected, and a bond counts as broken only if both of its atoms
    come from the reactants. ValueError if the target (canonical SMILES) has no bond with a given name.
    """
    bonds = bonds_by_name(target)
    if missing := [name for name in (*guide.cut, *guide.keep) if name not in bonds]:
        raise ValueError(f"no bond {missing[0]} in {target}; there are {', '.join(bonds)}")
    symmetry_classes = _symmetry_classes(target)
    classes_to_break = {symmetry_classes[bonds[name]] for name in guide.cut}
    protected_counts = Counter(symmetry_classes[bonds[name]] for name in guide.keep)
    total_counts = Counter(symmetry_classes.values())

    def fits(reactants: str) -> bool:
        step = classify_step(reactants, target)
        if step is None:
            return False
        formed_counts = Counter(symmetry_classes[pair] for pair in step.made)
        joined = {symmetry_classes[pair] for pair in step.made if all(step.origin[atom] >= 0 for atom in pair)}
        if guide.only and family_of(step) not in guide.only:
            return False
        return (not classes_to_break or bool(classes_to_break & joined)) and all(
            formed_counts[kind] <= total_counts[kind] - protected_counts[kind] for kind in protected_counts
        )

    return fits


@lru_cache(maxsize=100)
def _symmetry_classes(target: str) -> dict[tuple[int, int], tuple[int, ...]]:
    mol = mol_from_smiles(target)
    ranks = list(Chem.CanonicalRankAtoms(mol, breakTies=False, includeChirality=False))
    return {pair: tuple(sorted(ranks[atom] for atom in pair)) for pair in bonds_by_name(target).values()}


def bonds_by_name(smiles: str) -> dict[str, tuple[int, int]]:
    """Return the bonds of a molecule by names such as C3-N4, in the order of their atoms."""
    mol = mol_from_smiles(smiles)
    ends = ((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds())
    pairs = sorted((min(pair), max(pair)) for pair in ends)
    symbol = [atom.GetSymbol() for atom in mol.GetAtoms()]
    return {f"{symbol[first]}{first}-{symbol[second]}{second}": (first, second) for first, second in pairs}
