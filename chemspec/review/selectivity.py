"""Selectivity: predicted products that differ only in the atom of a reactant that gets the new bond.

Products of one flask belong together if the same two reactants are joined by one new bond, which has the same atom of
one of them at one end, if the same hydrogen count changes, and if at the other end the same kind of thing makes room:
a hydrogen, a halide or sulfonate, another leaving group by its element, or a bond of the reactant itself, as in an
epoxide. Where the atoms came from is inferred by comparing structures.

The probabilities are those of the predictions: how probable it is that a product is the right one. They are no
measured ratio of isomers, and no yields.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rdkit import Chem, rdBase

from chemspec.chem.parsing import mol_from_smiles
from chemspec.review.suggestions import DOUBTFUL, Suggestion, format_percent

MIN_SECOND = 0.01  # probability of the second atom, below which there is no choice to show
MIN_TOTAL = DOUBTFUL  # of all atoms together, below which it is not known what reacts
HALIDES = frozenset(("F", "Cl", "Br", "I", "S"))  # and sulfonates


@dataclass(frozen=True)
class Site:
    """An atom of a reactant that gets the new bond in some of the predictions.

    Attributes:
        atom: its index in the SMILES of the reactant.
        equivalent: atoms that are the same by symmetry, `atom` included.
        probability: of the predictions with the bond there, added up.
        ranks: of these suggestions.
    """

    atom: int
    equivalent: tuple[int, ...]
    probability: float
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Selectivity:
    """A reactant, and the atoms of it that get the new bond in different predictions.

    Attributes:
        reactant: SMILES.
        sites: the likeliest first, two at least.
        calibrated: whether the probabilities are calibrated; else they are the model's own.
    """

    reactant: str
    sites: tuple[Site, ...]
    calibrated: bool

    @property
    def shown(self) -> tuple[Site, ...]:
        """The atoms with a probability that is worth a word."""
        return tuple(site for site in self.sites if site.probability >= MIN_SECOND)

    @property
    def text(self) -> str:
        """The probabilities in words; atoms are numbered from 1 as in the SMILES."""
        mol = mol_from_smiles(self.reactant)
        parts = []
        for site in self.shown:
            numbers = " or ".join(str(atom + 1) for atom in site.equivalent)
            symbol = mol.GetAtomWithIdx(site.atom).GetSymbol()
            ranks = ", ".join(map(str, site.ranks))
            answers = "answer" if len(site.ranks) == 1 else "answers"
            parts.append(f"{format_percent(site.probability)} at atom {numbers}, {symbol} ({answers} {ranks})")
        return f"new bond of {self.reactant}: {'; '.join(parts)}"

    @property
    def meaning(self) -> str:
        """What the probabilities are."""
        whose = "calibrated probability" if self.calibrated else "the model's probability, not calibrated,"
        return f"{whose} that the product with the new bond there is right; no measured ratio of isomers, no yield"


def find_selectivity(query: str, suggestions: Sequence[Suggestion]) -> tuple[Selectivity, ...]:
    """Return the choices between atoms that the first prediction and others of a forward model make, at most two.

    Args:
        query: SMILES of the flask.
        suggestions: of its review.
    """
    candidates = [suggestion for suggestion in suggestions if _joins_two(suggestion)]
    if len(candidates) < 2 or candidates[0].rank != 1:
        return ()
    with rdBase.BlockLogs():
        flask = _Flask(query)
        groups: dict[object, list[tuple[int, Suggestion]]] = defaultdict(list)
        for suggestion in candidates:
            for key, atom in _ends(flask, suggestion):
                groups[key].append((atom, suggestion))
    choices = [_choice(flask, group) for group in groups.values() if group[0][1].rank == 1]
    return tuple(sorted(filter(None, choices), key=lambda choice: -choice.sites[1].probability))


class _Flask:
    """The molecules of a flask; atoms are numbered as the whole SMILES writes them."""

    def __init__(self, smiles: str) -> None:
        self.mol: Any = mol_from_smiles(smiles)
        self.parts = smiles.split(".")
        self.molecules = [*Chem.GetMolFrags(self.mol)]
        self.part_of = {atom: number for number, atoms in enumerate(self.molecules) for atom in atoms}
        self.ranks = list(Chem.CanonicalRankAtoms(self.mol, breakTies=False))

    def leaving_kind(self, leaving: Iterable[int], site: int) -> frozenset[str]:
        """Return the elements by which what leaves was bonded to an atom, halides and sulfonates as one."""
        kinds = set()
        for number in leaving:
            atom = self.mol.GetAtomWithIdx(number)
            near = {far.GetSymbol() for far in atom.GetNeighbors() if far.GetIdx() != site}
            kinds.add("halide" if {atom.GetSymbol(), *near} & HALIDES else atom.GetSymbol())
        return frozenset(kinds)


def _joins_two(suggestion: Suggestion) -> bool:
    step = suggestion.step
    return (
        suggestion.task == "forward"
        and step is not None
        and len(step.made) == 1
        and min(step.origin) >= 0
        and not (step.carbon_moves or step.bond_shifted)
    )


def _ends(flask: _Flask, suggestion: Suggestion) -> list[tuple[object, int]]:
    """Return for both ends of the new bond what is the same in predictions that differ in this end, and its atom."""
    step = suggestion.step
    assert step is not None
    product = mol_from_smiles(suggestion.best.canonical)
    pair = step.made[0]
    ends = step.origin[pair[0]], step.origin[pair[1]]
    if flask.part_of[ends[0]] == flask.part_of[ends[1]]:
        return []
    target = {origin: atom for atom, origin in enumerate(step.origin)}
    givers = {flask.part_of[origin] for origin in step.origin}
    hydrogens = sum(atom.GetTotalNumHs() for atom in product.GetAtoms())
    leaving: dict[int, set[int]] = defaultdict(set)  # atom that stays -> atoms from which it parts
    parted: dict[int, set[int]] = defaultdict(set)
    for giver in givers:
        for origin in flask.molecules[giver]:
            atom = flask.mol.GetAtomWithIdx(origin)
            hydrogens -= atom.GetTotalNumHs() if origin in target else 0
            for near in atom.GetNeighbors():
                if origin in target and near.GetIdx() not in target:
                    leaving[origin].add(near.GetIdx())
                elif origin in target and not product.GetBondBetweenAtoms(target[origin], target[near.GetIdx()]):
                    parted[origin].add(near.GetIdx())
    order = product.GetBondBetweenAtoms(*pair).GetBondTypeAsDouble()
    found = []
    for site, other in (ends, ends[::-1]):
        here = flask.part_of[site]
        changed = {atom for atom in (*leaving, *parted) if flask.part_of[atom] == here}
        if changed - {site} - parted[site]:
            continue  # something else happens in this reactant
        room = flask.leaving_kind(leaving[site], site) if leaving[site] else "bond" if parted[site] else "hydrogen"
        fixed = frozenset(
            (flask.ranks[atom], tuple(sorted(flask.ranks[near] for near in nears)))
            for atom, nears in leaving.items()
            if nears and flask.part_of[atom] != here
        )
        partner = flask.parts[flask.part_of[other]], flask.ranks[other]
        key = flask.parts[here], partner, fixed, room, hydrogens, order, len(givers)
        found.append((key, site))
    return found


def _choice(flask: _Flask, group: Sequence[tuple[int, Suggestion]]) -> Selectivity | None:
    sites: dict[int, list[tuple[int, Suggestion]]] = defaultdict(list)
    for atom, suggestion in group:
        sites[flask.ranks[atom]].append((atom, suggestion))
    part = flask.part_of[group[0][0]]
    atoms = flask.molecules[part]
    found = sorted(
        (
            Site(
                atoms.index(members[0][0]),
                tuple(number for number, atom in enumerate(atoms) if flask.ranks[atom] == rank),
                min(1.0, sum(suggestion.probability for _, suggestion in members)),
                tuple(suggestion.rank for _, suggestion in members),
            )
            for rank, members in sites.items()
        ),
        key=lambda site: -site.probability,
    )
    total = sum(site.probability for site in found)
    if len(found) < 2 or found[1].probability < MIN_SECOND or total < MIN_TOTAL:
        return None
    return Selectivity(flask.parts[part], tuple(found), all(suggestion.calibrated for _, suggestion in group))
