"""Selectivity: predicted products that differ only in the atom of a reactant that gets the new bond.

Products of one flask belong together if one new bond joins the same two reactants, the same atom of one of them is at
its end, and the formula is the same, halogens counted as one element, by guessed atom maps.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem.rdMolDescriptors import CalcMolFormula

from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.review.suggestions import DOUBTFUL, Suggestion, format_percent

MIN_SECOND = 0.01  # probability of the second atom, below which there is no choice to show
MIN_TOTAL = DOUBTFUL  # probability of all atoms together, below which it is not known what reacts
HALOGENS = ("F", "Cl", "Br", "I")


@dataclass(frozen=True)
class Site:
    """An atom of a reactant that gets the new bond in some of the predictions."""

    atom: int  # its index in the SMILES of the reactant
    equivalent: tuple[int, ...]  # atoms that are the same by symmetry, `atom` included
    probability: float  # sum of the predictions with the bond there
    ranks: tuple[int, ...]  # ranks of these suggestions


@dataclass(frozen=True)
class Selectivity:
    """A reactant, and the atoms of it that get the new bond in different predictions."""

    reactant: str  # SMILES
    sites: tuple[Site, ...]  # the likeliest first, two at least
    calibrated: bool  # whether the probabilities are calibrated; else they are the model's own

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
            answers = f"answer{'s' * (len(site.ranks) > 1)} {', '.join(map(str, site.ranks))}"
            symbol = mol.GetAtomWithIdx(site.atom).GetSymbol()
            parts.append(f"{format_percent(site.probability)} at atom {numbers}, {symbol} ({answers})")
        return f"new bond of {self.reactant}: {'; '.join(parts)}"

    @property
    def meaning(self) -> str:
        """What the probabilities are."""
        whose = "calibrated probability" if self.calibrated else "the model's probability, not calibrated,"
        return f"{whose} that the product with the new bond there is right; no measured ratio of isomers, no yield"


def find_selectivity(query: str, suggestions: Sequence[Suggestion]) -> tuple[Selectivity, ...]:
    """Return the choices between atoms of which the first prediction is one, at most two, the closest first."""
    candidates = [suggestion for suggestion in suggestions if _joins_two(suggestion)]
    if len(candidates) < 2 or candidates[0].rank != 1:
        return ()
    groups: dict[object, list[tuple[int, Suggestion]]] = defaultdict(list)
    with rdBase.BlockLogs():
        flask = mol_from_smiles(query)
        molecules = Chem.GetMolFrags(flask)
        number = {atom: number for number, atoms in enumerate(molecules) for atom in atoms}
        ranks = list(Chem.CanonicalRankAtoms(flask, breakTies=False))
        for suggestion in candidates:
            assert suggestion.step is not None
            product, (pair,) = mol_from_smiles(suggestion.best.canonical), suggestion.step.made
            first, second = (suggestion.step.origin[atom] for atom in pair)
            alike = product.GetBondBetweenAtoms(*pair).GetBondTypeAsDouble(), _formula(product)
            if number[first] != number[second]:
                groups[number[first], ranks[second], alike].append((first, suggestion))
                groups[number[second], ranks[first], alike].append((second, suggestion))
    choices = []
    for group in groups.values():
        here = number[group[0][0]]
        if group[0][1].rank == 1 and (sites := _sites(group, molecules[here], ranks)):
            calibrated = all(suggestion.calibrated for _, suggestion in group)
            choices.append(Selectivity(query.split(".")[here], sites, calibrated))
    return tuple(sorted(choices, key=lambda choice: -choice.sites[1].probability))


def _joins_two(suggestion: Suggestion) -> bool:
    step = suggestion.step
    if suggestion.task != "forward" or step is None or len(step.made) != 1 or min(step.origin) < 0:
        return False
    return not (step.rearranges_carbon or step.unlikely_change)


def _formula(product: Any) -> frozenset[tuple[str, int]]:
    formula: Counter[str] = Counter()
    for element, count in re.findall(r"([A-Z][a-z]?)(\d*)", CalcMolFormula(product)):
        formula["halogen" if element in HALOGENS else element] += int(count or 1)
    return frozenset(formula.items())


def _sites(group: Sequence[tuple[int, Suggestion]], molecule: Sequence[int], ranks: Sequence[int]) -> tuple[Site, ...]:
    """Return the atoms of a molecule between which there is a choice, the likeliest first; empty without one."""
    members: dict[int, list[tuple[int, Suggestion]]] = defaultdict(list)
    for atom, suggestion in group:
        members[ranks[atom]].append((atom, suggestion))
    sites = [
        Site(
            molecule.index(same[0][0]),
            tuple(index for index, atom in enumerate(molecule) if ranks[atom] == rank),
            min(1.0, sum(suggestion.probability for _, suggestion in same)),
            tuple(suggestion.rank for _, suggestion in same),
        )
        for rank, same in members.items()
    ]
    sites.sort(key=lambda site: -site.probability)
    if len(sites) < 2 or sites[1].probability < MIN_SECOND or sum(site.probability for site in sites) < MIN_TOTAL:
        return ()
    return tuple(sites)
