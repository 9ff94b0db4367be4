"""Stereochemistry by law: which substitutions invert, which additions are syn or anti; table `stereo_laws.tsv`.

What is compared is the product and the atom map of a step that is there anyway. A breach comes with the isomer that the
law gives. Centres that the product leaves open break no law.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from rdkit import Chem

from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules.parsing import fixed_pattern
from chemspec.chem.molecules.pattern_screen import may_match
from chemspec.chem.reactions.atom_maps import AtomMap
from chemspec.chem.reactions.stereo import same_hand, unchanged_product

TABLE = Path(__file__).with_name("stereo_laws.tsv")
MAX_CIS_RING = 7  # atoms of a ring whose double bonds are cis
_SMALLEST_RING = 3
_CARBON = 6
_UNSET = Chem.ChiralType.CHI_UNSPECIFIED
_CIS = {Chem.BondStereo.STEREOZ: True, Chem.BondStereo.STEREOCIS: True}
_CIS |= {Chem.BondStereo.STEREOE: False, Chem.BondStereo.STEREOTRANS: False}


class StereoLaw(NamedTuple):
    """A line of the table."""

    kind: str
    subject: str  # SMARTS of the leaving atom, or names of classes
    elements: tuple[frozenset[str], ...]  # elements that come, of an addition for both ends
    reagents: str
    unless: str
    sentence: str


class Breach(NamedTuple):
    """A centre that is against the law, or several."""

    atoms: tuple[int, ...]  # atoms of the product
    sentence: str
    lawful: str  # canonical SMILES of the isomer that the law gives


def breach_of_law(match: AtomMap, left: Any, right: Any, names: Sequence[str], *, mitsunobu: bool) -> Breach | None:
    """Return the first law that a product breaks; None where it keeps them, or they say nothing.

    `names` are the classes of the step; with `mitsunobu` hydroxyl leaves whatever the reagents.
    """
    if breach := _substitution_breach(match, left, right, mitsunobu=mitsunobu):
        return breach
    for law, first, is_lawful in _relations(match, left, right, names):
        if not is_lawful:
            return Breach((first,), law.sentence, isomer_by_law(right, (first,)))
    return None


def left_open_by_product(match: AtomMap, left: Any, right: Any, names: Sequence[str]) -> Breach | None:
    """Return the law that sets how two centres stand to each other where a product leaves one or both of them open.

    The isomer is one of two mirror images where both are open. None where no law speaks, or the product sets them.
    """
    if not any(law.kind != "invert" and set(law.subject.split("|")) & set(names) for law in _laws()):
        return None
    trial = Chem.Mol(right)
    unset = open_centres(right)
    for atom in unset:
        trial.GetAtomWithIdx(atom).SetChiralTag(Chem.ChiralType.CHI_TETRAHEDRAL_CCW)
    Chem.AssignStereochemistry(trial, cleanIt=True, force=True)
    for law, first, is_lawful in _relations(match, left, trial, names) if unset else ():
        atoms = () if is_lawful else (first,)
        isomer = isomer_by_law(_with_open_centres(trial, unset, first, atoms), ())
        return Breach((first,), law.sentence, isomer)
    return None


def _with_open_centres(trial: Any, unset: Collection[int], first: int, inverted: Sequence[int]) -> Any:
    """Return a product with the centre `first` and its neighbours set, and all others open that were open before."""
    mol = Chem.Mol(trial)
    for atom in inverted:
        mol.GetAtomWithIdx(atom).InvertChirality()
    near = {first, *(atom.GetIdx() for atom in mol.GetAtomWithIdx(first).GetNeighbors())}
    for atom in set(unset) - near:
        mol.GetAtomWithIdx(atom).SetChiralTag(_UNSET)
    return mol


def open_centres(mol: Any) -> set[int]:
    """Return the atoms that could be a stereocentre and are not set."""
    return {
        item.centeredOn
        for item in Chem.FindPotentialStereo(mol)
        if item.type == Chem.StereoType.Atom_Tetrahedral and item.specified == Chem.StereoSpecified.Unspecified
    }


def _relations(match: AtomMap, left: Any, right: Any, names: Sequence[str]) -> Iterator[tuple[StereoLaw, int, bool]]:
    """Yield laws on two neighbouring centres, the first of these, and whether the law is kept."""
    for law in _laws():
        if law.kind == "invert" or not set(law.subject.split("|")) & set(names) or not _applies(law, match, left):
            continue
        pairs = _ring_pairs(match, left, right) if law.kind in ("trans", "ring anti") else None
        for first, second in pairs if pairs is not None else _opened(match, left, right):
            if side := _relation(match, left, right, law, first, second):
                yield law, first, side == law.kind.removeprefix("ring ").replace("trans", "anti")


def _applies(law: StereoLaw, match: AtomMap, left: Any) -> bool:
    types = match.left.atom_types
    return (law.reagents == "-" or _has(left, types, law.reagents)) and not _has(left, types, law.unless)


def _has(mol: Any, types: Sequence[int], patterns: str) -> bool:
    """Return whether a flask, with atoms of these types, holds one of the patterns, all parts between dots."""
    return any(
        all(may_match(part, types) and mol.HasSubstructMatch(part) for part in map(fixed_pattern, pattern.split(".")))
        for pattern in patterns.split()
    )


def _substitution_breach(match: AtomMap, left: Any, right: Any, *, mitsunobu: bool) -> Breach | None:
    """Return a substitution at a centre that keeps its configuration or leaves it open, where a law has it inverted."""
    substituted: dict[int, str] = {}
    unset: dict[int, str] = {}
    for atom, sentence in _substitutions(match, left, right, mitsunobu=mitsunobu):
        if left.GetAtomWithIdx(match.origin[atom]).GetChiralTag() != _UNSET:
            (unset if right.GetAtomWithIdx(atom).GetChiralTag() == _UNSET else substituted)[atom] = sentence
    if unset and not substituted:
        return _opened_centres(match, left, right, unset)
    # The product if nothing inverts, compared whole: symmetry maps some rings either way.
    if not substituted or Chem.MolToSmiles(unchanged_product(match, left, right)) != Chem.MolToSmiles(right):
        return None
    atoms = tuple(substituted)
    return Breach(atoms, substituted[atoms[0]], isomer_by_law(right, atoms))


def inversion_of_open_centre(match: AtomMap, left: Any, right: Any, *, mitsunobu: bool) -> str:
    """Return the law on a centre that is open on both sides, where the product has another one; empty without."""
    for atom, sentence in _substitutions(match, left, right, mitsunobu=mitsunobu):
        if match.origin[atom] in open_centres(left) and atom in (centres := open_centres(right)):
            tags = [near.GetChiralTag() for near in right.GetAtoms()]
            if len(centres) > 1 or any(tag != _UNSET for tag in tags):
                return sentence
    return ""


def _substitutions(match: AtomMap, left: Any, right: Any, *, mitsunobu: bool) -> Iterator[tuple[int, str]]:
    """Yield the carbon atoms of a product that exchange a neighbour with inversion by a law, and its sentence."""
    exchanged = [*_single_exchanges(match)]
    incoming = _leaving_by_law(match, left, mitsunobu=mitsunobu) if exchanged else {}
    for atom, gone, new in exchanged:
        if sentence := incoming.get(gone, {}).get(right.GetAtomWithIdx(new).GetSymbol()):
            yield atom, sentence


def _leaving_by_law(match: AtomMap, left: Any, *, mitsunobu: bool) -> dict[int, dict[str, str]]:
    """Return the atoms that leave with inversion by a law: for each element that may come, the law's sentence."""
    incoming: dict[int, dict[str, str]] = {}
    for law in _laws():
        if law.kind != "invert":
            continue
        azo = mitsunobu and "N=" in law.reagents.replace("[NX2](C(=O)[O,N])=[NX2]", "N=")
        if may_match(fixed_pattern(law.subject), match.left.atom_types) and (azo or _applies(law, match, left)):
            for hit in left.GetSubstructMatches(fixed_pattern(law.subject)):
                for element in law.elements[0]:
                    incoming.setdefault(hit[0], {}).setdefault(element, law.sentence)
    return incoming


def _single_exchanges(match: AtomMap) -> Iterator[tuple[int, int, int]]:
    """Yield atoms of a product that exchange one neighbour and have else carbon: the atom, what leaves, what comes."""
    for atom, origin in enumerate(match.origin):
        if origin < 0:
            continue
        before, after = match.left.bonds[origin], match.right.bonds[atom]
        gone = [near for near in before if match.target[near] not in after]
        if len(gone) != 1:
            continue
        new = [near for near in after if match.origin[near] not in before]
        if len(new) != 1 or not all(match.left.kinds[near][0] == _CARBON for near in before if near != gone[0]):
            continue
        yield atom, gone[0], new[0]


def _opened_centres(match: AtomMap, left: Any, right: Any, unset: dict[int, str]) -> Breach | None:
    """Return the breach of a product that leaves open a centre which the reactants set and the law inverts."""
    atoms = tuple(atom for atom in unset if atom in open_centres(right))
    lawful = Chem.Mol(right)
    for atom in atoms:
        before, here = left.GetAtomWithIdx(match.origin[atom]), lawful.GetAtomWithIdx(atom)
        new, _ = _exchanged(match, here, before)
        now = {near.GetIdx() for near in here.GetNeighbors()}
        targets = [match.target[near.GetIdx()] for near in before.GetNeighbors()]
        order = [near if near in now else new[0].GetIdx() for near in targets]
        here.SetChiralTag(Chem.ChiralType.CHI_TETRAHEDRAL_CCW)
        if same_hand(before, here, order):
            here.InvertChirality()
    return (
        Breach(atoms, f"{unset[atoms[0]]}, and this product leaves it open", isomer_by_law(lawful, ()))
        if atoms
        else None
    )


def _exchanged(match: AtomMap, here: Any, before: Any) -> tuple[list[Any], list[Any]]:
    """Return the neighbours that an atom gets, and those that leave it."""
    now = {near.GetIdx() for near in here.GetNeighbors()}
    order = {match.target[near.GetIdx()] for near in before.GetNeighbors()}
    new = [near for near in here.GetNeighbors() if near.GetIdx() not in order]
    return new, [near for near in before.GetNeighbors() if match.target[near.GetIdx()] not in now]


def _opened(match: AtomMap, left: Any, right: Any) -> Iterator[tuple[int, int]]:
    """Yield the C=C bonds that become single between two centres with a configuration, in both directions."""
    for bond in right.GetBonds():
        ends = bond.GetBeginAtom(), bond.GetEndAtom()
        if bond.GetBondTypeAsDouble() != 1 or any(end.GetChiralTag() == _UNSET for end in ends):
            continue
        first, second = (end.GetIdx() for end in ends)
        origins = match.origin[first], match.origin[second]
        before = left.GetBondBetweenAtoms(*origins) if min(origins) >= 0 else None
        if before is not None and before.GetBondType() == Chem.BondType.DOUBLE:
            yield first, second
            yield second, first


def _ring_pairs(match: AtomMap, left: Any, right: Any) -> Iterator[tuple[int, int]]:
    """Yield neighbours in a ring, both with a configuration, of which the first gets a new atom."""
    for atom, origin in enumerate(match.origin):
        here = right.GetAtomWithIdx(atom)
        if origin < 0 or here.GetChiralTag() == _UNSET or not here.IsInRing():
            continue
        if len(_exchanged(match, here, left.GetAtomWithIdx(origin))[0]) != 1:
            continue
        for near in here.GetNeighbors():
            bond = right.GetBondBetweenAtoms(atom, near.GetIdx())
            if near.GetChiralTag() != _UNSET and bond.IsInRing() and near.GetSymbol() == "C":
                yield atom, near.GetIdx()


def _relation(match: AtomMap, left: Any, right: Any, law: StereoLaw, first: int, second: int) -> str:
    """Return "syn" or "anti" for what has come to two neighbouring atoms; empty where the law does not meet them."""
    coming = [_comer(match, left, right, atom, law) for atom in (first, second)]
    if not all(new is not None and symbol in law.elements[k] for k, (new, symbol) in enumerate(coming)):
        return ""
    pair = _cis_pair(match, left, right, first, second, {new for new, _ in coming})
    if pair is None:
        return ""
    (near, far), is_cis = pair
    hands = [
        _handedness(right.GetAtomWithIdx(atom), [new, other, side])
        for atom, other, side, (new, _) in zip((first, second), (second, first), (near, far), coming, strict=True)
    ]
    return "syn" if (hands[0] != hands[1]) == is_cis else "anti"


_HYDROGEN = -1  # stands in place of an atom's number


def _comer(match: AtomMap, left: Any, right: Any, atom: int, law: StereoLaw) -> tuple[int | None, str]:
    """Return what has come to an atom, its number and symbol; of rings at the second atom what was there before."""
    here, before = right.GetAtomWithIdx(atom), left.GetAtomWithIdx(match.origin[atom])
    new, _ = _exchanged(match, here, before)
    if len(new) == 1:
        return new[0].GetIdx(), new[0].GetSymbol()
    if law.kind in ("trans", "ring anti") and not new:
        outside = [
            near
            for near in here.GetNeighbors()
            if near.GetSymbol() in law.elements[1] and not right.GetBondBetweenAtoms(atom, near.GetIdx()).IsInRing()
        ]
        if law.kind == "trans":
            outside = [near for near in outside if any(n.GetIdx() != atom and _is_acyl(n) for n in near.GetNeighbors())]
        return (outside[0].GetIdx(), outside[0].GetSymbol()) if len(outside) == 1 else (None, "")
    if not new and here.GetTotalNumHs() > before.GetTotalNumHs() and here.GetTotalNumHs() == 1:
        return _HYDROGEN, "H"
    return None, ""


def _is_acyl(atom: Any) -> bool:
    return any(
        bond.GetBondTypeAsDouble() == 2 and bond.GetOtherAtom(atom).GetSymbol() == "O" for bond in atom.GetBonds()
    )


def _cis_pair(
    match: AtomMap, left: Any, right: Any, first: int, second: int, new: set[int | None]
) -> tuple[tuple[int, int], bool] | None:
    """Return a neighbour of each of two atoms, and whether they are on the same side; None where that is open."""
    for ring in right.GetRingInfo().AtomRings():
        if first in ring and second in ring and len(ring) <= MAX_CIS_RING and not new & set(ring):
            start, size = ring.index(first), len(ring)
            before, after = ring[start - 1], ring[(start + 1) % size]
            step = -1 if after == second else 1
            return (before if after == second else after, ring[(ring.index(second) - step) % size]), True
    bond = left.GetBondBetweenAtoms(match.origin[first], match.origin[second])
    if bond is None or bond.GetStereo() not in _CIS:
        return None
    atoms = [match.target[atom] for atom in bond.GetStereoAtoms()]
    if bond.GetBeginAtomIdx() != match.origin[first]:
        atoms.reverse()
    return ((atoms[0], atoms[1]), _CIS[bond.GetStereo()]) if min(atoms) >= 0 else None


def _handedness(atom: Any, order: Sequence[int | None]) -> bool:
    """Return the hand of a centre as seen from the first of three neighbours over the other two to the fourth."""
    now = [near.GetIdx() for near in atom.GetNeighbors()]
    now += [_HYDROGEN] * (4 - len(now))
    full = [*order, *(near for near in now if near not in order)]
    positions = [now.index(near) for near in full if near is not None]
    swaps = sum(a > b for k, b in enumerate(positions) for a in positions[:k])
    return bool((atom.GetChiralTag() == Chem.ChiralType.CHI_TETRAHEDRAL_CCW) == (swaps % 2 == 0))


def isomer_by_law(right: Any, atoms: Sequence[int]) -> str:
    """Return the canonical SMILES of a product with these centres inverted."""
    mol = Chem.Mol(right)
    for atom in atoms:
        mol.GetAtomWithIdx(atom).InvertChirality()
    Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
    return str(Chem.MolToSmiles(mol))


@cache
def _laws() -> tuple[StereoLaw, ...]:
    laws = []
    for kind, subject, elements, reagents, unless, sentence in read_asset_table(TABLE):
        if kind == "invert":
            ends: tuple[frozenset[str], ...] = (frozenset(elements.split()),)
        else:
            ends = tuple(frozenset(end.split(",")) for end in elements.split())
        laws.append(StereoLaw(kind, subject, ends, reagents, unless, sentence))
    return tuple(laws)


def set_from_open(match: AtomMap, left: Any, right: Any) -> tuple[int, ...]:
    """Return the stereocentres of a product that its reactants leave open; not those of rings of three that open."""
    before = open_centres(left)
    small = {atom for ring in left.GetRingInfo().AtomRings() if len(ring) == _SMALLEST_RING for atom in ring}
    return tuple(
        atom
        for atom, origin in enumerate(match.origin)
        if origin in before - small and right.GetAtomWithIdx(atom).GetChiralTag() != _UNSET
    )
