"""Atom maps of reactions that the general map takes for others: insertions, conjugate additions and metathesis.

A ring that grows by one atom (Baeyer-Villiger, Schmidt, Beckmann) may seem to move a whole carbon group, as may one
that an amine closes on an enone, and one that metathesis closes to lose a vinyl group and to keep a double bond that is
new.
"""

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

from rdkit import Chem

from chemspec.chem.molecules.parsing import fixed_pattern
from chemspec.chem.molecules.rdkit_tasks import RDKIT_ERRORS
from chemspec.chem.reactions.atom_maps import AtomMap

_KETONE = "[CX3](=O)(-[#6])-[#6]"
_INSERTED = (8, 7)
_NUCLEOPHILE = "[#7,#8,#16;!H0;+0]"
_ACCEPTOR = "[CX3]=[CX3]-[$(C=O),$(C#N),$(S=O)]"
_ALKENE = "[CX3;+0]=[CX3;+0]"
_MAX_ALKENES, _MAX_NUCLEOPHILES = 6, 12  # that are tried, of a molecule with more of them


def map_insertion(match: AtomMap, left: Any, right: Any) -> AtomMap | None:
    """Return the map of a product that is a ketone with oxygen or nitrogen put in; None where it is none."""
    whole = _map_by(
        match,
        right,
        (
            _insert(left, carbonyl, sides[0], element)
            for carbonyl, _, *sides in left.GetSubstructMatches(fixed_pattern(_KETONE), uniquify=False)
            for element in _INSERTED
        ),
    )
    if whole is not None:
        new = whole.origin.index(-1)
        source = _source(whole, whole.right.kinds[new][0])
        if source >= 0:
            whole.pair(new, source)
    return whole


def _insert(left: Any, carbonyl: int, side: int, element: int) -> Any | None:
    """Return the molecule of a ketone with an atom put between its carbonyl group and one side, without stereo."""
    edited = _numbered(left)
    edited.RemoveBond(carbonyl, side)
    new = edited.AddAtom(Chem.Atom(element))
    edited.GetAtomWithIdx(new).SetIntProp("origin", -1)
    edited.AddBond(carbonyl, new, Chem.BondType.SINGLE)
    edited.AddBond(new, side, Chem.BondType.SINGLE)
    return _part_with(edited, carbonyl)


def _source(match: AtomMap, element: int) -> int:
    """Return an atom of this element that gives the product nothing yet, best of a peroxide or azide; or -1."""
    kinds, bonds = match.left.kinds, match.left.bonds
    free = [atom for atom, kind in enumerate(kinds) if kind[0] == element and match.target[atom] < 0]
    return min(free, key=lambda atom: all(kinds[near][0] != element for near in bonds[atom]), default=-1)


def map_addition(match: AtomMap, left: Any, right: Any) -> AtomMap | None:
    """Return the map in which a hetero atom adds to an electron-poor alkene; None where the product is another one."""
    acceptors = left.GetSubstructMatches(fixed_pattern(_ACCEPTOR))[:_MAX_ALKENES]
    nucleophiles = left.GetSubstructMatches(fixed_pattern(_NUCLEOPHILE))[:_MAX_NUCLEOPHILES] if acceptors else ()
    pairs = product(nucleophiles, acceptors)
    return _map_by(match, right, (_add(left, nucleophile, beta, alpha) for (nucleophile,), (beta, alpha, _) in pairs))


def _add(left: Any, nucleophile: int, beta: int, alpha: int) -> Any | None:
    """Return the molecule in which a hetero atom with hydrogen is added to the first end of an alkene, no stereo."""
    edited = _numbered(left)
    if edited.GetBondBetweenAtoms(nucleophile, beta) is not None:
        return None
    edited.GetBondBetweenAtoms(beta, alpha).SetBondType(Chem.BondType.SINGLE)
    edited.AddBond(nucleophile, beta, Chem.BondType.SINGLE)
    atom = edited.GetAtomWithIdx(nucleophile)
    atom.SetNumExplicitHs(max(0, atom.GetNumExplicitHs() - 1))
    return _part_with(edited, beta)


def map_metathesis(match: AtomMap, left: Any, right: Any) -> AtomMap | None:
    """Return the map in which two double bonds exchange their ends; None where the product is of another kind."""
    bonds = left.GetSubstructMatches(fixed_pattern(_ALKENE))
    lost = {
        atom for pair in bonds for atom in pair if match.target[atom] < 0 and match.given[match.left.molecules[atom]]
    }
    carbons = [pair for pair in match.made_bonds() if all(match.right.kinds[atom][0] == 6 for atom in pair)]
    if len(bonds) < 2 or len(bonds) > _MAX_ALKENES or not lost or not carbons:
        return None
    ends = (
        pair
        for first, second in combinations(bonds, 2)
        for pair in product((first, first[::-1]), (second, second[::-1]))
    )
    return _map_by(match, right, (_exchange(left, inner, other) for inner, other in ends))


def _exchange(left: Any, inner: tuple[int, int], other: tuple[int, int]) -> Any | None:
    """Return the molecule in which the first ends of two double bonds are joined by one, without stereo."""
    edited = _numbered(left)
    if edited.GetBondBetweenAtoms(inner[0], other[0]) is not None:
        return None
    edited.RemoveBond(*inner)
    edited.RemoveBond(*other)
    edited.AddBond(inner[0], other[0], Chem.BondType.DOUBLE)
    return _part_with(edited, inner[0])


def _numbered(left: Any) -> Any:
    """Return a copy to edit whose atoms know their numbers; an added one needs -1."""
    edited = Chem.RWMol(left)
    for atom in edited.GetAtoms():
        atom.SetIntProp("origin", atom.GetIdx())
    return edited


def _part_with(edited: Any, number: int) -> Any | None:
    """Return the molecule that holds an atom, without stereo; None if an edited one breaks the rules of valence."""
    try:
        Chem.SanitizeMol(edited)
        parts = Chem.GetMolFrags(edited, asMols=True)
    except RDKIT_ERRORS:
        return None
    made = next(part for part in parts if any(atom.GetIntProp("origin") == number for atom in part.GetAtoms()))
    Chem.RemoveStereochemistry(made)
    return made


def _map_by(match: AtomMap, right: Any, candidates: Iterable[Any | None]) -> AtomMap | None:
    """Return the map of the first edited molecule that is the product but for stereo; None if none is."""
    plain = Chem.Mol(right)
    Chem.RemoveStereochemistry(plain)
    target = Chem.MolToSmiles(plain)
    for made in candidates:
        if made is not None and Chem.MolToSmiles(made) == target:
            whole = AtomMap(match.left, match.right)
            for atom, number in zip(made.GetAtoms(), plain.GetSubstructMatch(made), strict=True):
                if (origin := atom.GetIntProp("origin")) >= 0:
                    whole.pair(number, origin)
            return whole
    return None
