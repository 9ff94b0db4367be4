"""Stereochemistry that a mapped reaction changes, or keeps, against the rules, and that a product leaves open."""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any

from rdkit import Chem, rdBase

from chemspec.chem.molecules.parsing import fixed_pattern, mol_from_smiles
from chemspec.chem.molecules.query import canonical
from chemspec.chem.reactions.atom_maps import AtomMap

# Whether the two neighbours that tell the side of a double bond are across from each other.
_TRANS = {
    Chem.BondStereo.STEREOE: True,
    Chem.BondStereo.STEREOTRANS: True,
    Chem.BondStereo.STEREOZ: False,
    Chem.BondStereo.STEREOCIS: False,
}

_MITSUNOBU = ("[NX2](C(=O)[O,N])=[NX2]C(=O)[O,N]", "[PX3]")

_WORDS = {Chem.BondStereo.STEREOE: "E", Chem.BondStereo.STEREOZ: "Z"}
# Nitrogen that inverts, and of imines, amidines and guanidines whose E and Z are not told apart.
_LOOSE = "[$([NX3;+0]),$([NX2;H1]=C),$([NX2;!$(N-[N,O])]=C-[NX3])]"
_CENTRE, _DOUBLE_BOND = Chem.StereoType.Atom_Tetrahedral, Chem.StereoType.Bond_Double


def changed_centres(match: AtomMap, left: Any, right: Any) -> tuple[tuple[int, ...], ...]:
    """Return stereocentres of the product that were of the other hand before, those that were none, and those lost.

    Only atoms that keep all their neighbours count: others may well change.
    """
    none = Chem.ChiralType.CHI_UNSPECIFIED
    inverted: list[int] = []
    retained: list[int] = []
    unset, untold = [], []
    for atom, origin in enumerate(match.origin):
        if origin < 0 or match.changes(atom):
            continue
        here, before = right.GetAtomWithIdx(atom), left.GetAtomWithIdx(origin)
        tags = before.GetChiralTag(), here.GetChiralTag()
        if tags[1] == none:
            untold += [atom] * (tags[0] != none)
            continue
        if tags[0] == none:
            unset.append(atom)
            continue
        same = same_hand(before, here, [match.target[near.GetIdx()] for near in before.GetNeighbors()])
        (retained if same else inverted).append(atom)
    if inverted and not retained and _is_meso(match, left, inverted):
        inverted = []  # the map may take either half
    if inverted or unset:
        inverted, unset = _lasting_centres(match, right, inverted, unset)
    if untold:
        centres = Chem.FindMolChiralCenters(right, includeUnassigned=True, useLegacyImplementation=False)  # type: ignore[no-untyped-call]
        untold = [atom for atom in untold if atom in dict(centres)]
    return tuple(inverted), tuple(unset), tuple(untold)


def _is_meso(match: AtomMap, left: Any, atoms: Sequence[int]) -> bool:
    """Return whether the molecules that give these atoms are their own mirror images."""
    molecules = {match.left.molecules[match.origin[atom]] for atom in atoms}
    mirrored = Chem.Mol(left)
    for atom in mirrored.GetAtoms():
        if match.left.molecules[atom.GetIdx()] in molecules:
            atom.InvertChirality()
    return bool(Chem.MolToSmiles(mirrored) == Chem.MolToSmiles(left))


def has_mitsunobu_reagents(left: Any) -> bool:
    """Return whether reactants hold an azodicarboxylate and a phosphine."""
    return all(left.HasSubstructMatch(fixed_pattern(reagent)) for reagent in _MITSUNOBU)


def take_oxygen_of_acid(match: AtomMap, right: Any, carbons: Sequence[int] | None) -> None:
    """Map the oxygen of a Mitsunobu ester to that of the acid; the map has the alcohol's, as after an acylation.

    Of esters of all alcohols, or only of some carbon atoms: those that are inverted.
    """
    for carbon, oxygen, acyl in right.GetSubstructMatches(fixed_pattern("[CX4]-[OX2]-[$([CX3]=O)]")):
        if carbons is not None and carbon not in carbons:
            continue
        alcohol, alkoxide, acid = (match.origin[atom] for atom in (carbon, oxygen, acyl))
        if min(alcohol, alkoxide, acid) >= 0 and alkoxide in match.left.bonds[alcohol].keys() - match.left.bonds[acid]:
            for hydroxyl, order in match.left.bonds[acid].items():
                if order == 1 and match.left.kinds[hydroxyl][0] == 8 and match.target[hydroxyl] < 0:
                    match.pair(oxygen, hydroxyl)
                    break


def unchanged_product(match: AtomMap, left: Any, right: Any) -> Any:
    """Return the product if every centre that exchanges one neighbour, or none, kept its hand."""
    unchanged = Chem.Mol(right)
    for atom, origin in enumerate(match.origin):
        here, before = right.GetAtomWithIdx(atom), left.GetAtomWithIdx(max(origin, 0))
        if origin < 0 or Chem.ChiralType.CHI_UNSPECIFIED in (before.GetChiralTag(), here.GetChiralTag()):
            continue
        now = [near.GetIdx() for near in here.GetNeighbors()]
        order = [match.target[near.GetIdx()] for near in before.GetNeighbors()]
        new = [near for near in now if near not in order]
        if len(new) == sum(near not in now for near in order) == 1:
            order = [near if near in now else new[0] for near in order]
        if sorted(order) == sorted(now) and not same_hand(before, here, order):
            unchanged.GetAtomWithIdx(atom).InvertChirality()
    Chem.AssignStereochemistry(unchanged, cleanIt=True, force=True)
    return unchanged


def same_hand(before: Any, here: Any, order: Sequence[int]) -> bool:
    """Return whether a centre has the hand it had; `order` are its neighbours now in the order of those before."""
    now = [near.GetIdx() for near in here.GetNeighbors()]
    positions = [now.index(near) for near in order]
    swaps = sum(a > b for k, b in enumerate(positions) for a in positions[:k])
    return bool((before.GetChiralTag() == here.GetChiralTag()) == (swaps % 2 == 0))


def _lasting_centres(
    match: AtomMap, right: Any, inverted: Sequence[int], unset: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Leave out centres that are centres only by others that change, and mirror images that symmetry makes alike."""
    rest = Chem.Mol(right)
    for atom in range(len(match.origin)):
        if match.changes(atom):
            rest.GetAtomWithIdx(atom).SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    Chem.AssignStereochemistry(rest, cleanIt=True, force=True)
    centres = {atom.GetIdx() for atom in rest.GetAtoms() if atom.GetChiralTag() != Chem.ChiralType.CHI_UNSPECIFIED}
    turned, unset = [atom for atom in inverted if atom in centres], [atom for atom in unset if atom in centres]
    mirrored = Chem.Mol(rest)
    for atom in turned:
        mirrored.GetAtomWithIdx(atom).InvertChirality()
    Chem.AssignStereochemistry(mirrored, cleanIt=True, force=True)
    return [] if Chem.MolToSmiles(mirrored) == Chem.MolToSmiles(rest) else turned, unset


def flipped_double_bonds(match: AtomMap, left: Any, right: Any) -> tuple[tuple[int, int], ...]:
    """Return double bonds of the product that were of the other side before; none that symmetry makes alike."""
    bonds = []
    for bond in right.GetBonds():
        if (after := _TRANS.get(bond.GetStereo())) is None or any(
            match.origin[atom] < 0 or match.changes(atom) for atom in _ends(bond)
        ):
            continue
        old = left.GetBondBetweenAtoms(*(match.origin[atom] for atom in _ends(bond)))
        if (before := _TRANS.get(old.GetStereo())) is None:
            continue
        same = set(bond.GetStereoAtoms()) & {match.target[atom] for atom in old.GetStereoAtoms()}
        if (after == before) != (len(same) % 2 == 0):  # the side is given by one neighbour of each end
            bonds.append(bond)
    if not bonds:
        return ()
    turned = Chem.Mol(right)
    for bond in bonds:
        swapped = Chem.BondStereo.STEREOZ if _TRANS[bond.GetStereo()] else Chem.BondStereo.STEREOE
        turned.GetBondWithIdx(bond.GetIdx()).SetStereo(swapped)
    if Chem.MolToSmiles(turned) == Chem.MolToSmiles(right):
        return ()
    return tuple(sorted(_ends(bond) for bond in bonds))


def _ends(bond: Any) -> tuple[int, int]:
    first, second = sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
    return first, second


def drop_geometry(smiles: str) -> str:
    """Return the canonical SMILES without E and Z, and with its stereocentres."""
    flat = re.sub(r"[/\\]", "", smiles)
    return smiles if flat == smiles else canonical(flat) or smiles


@lru_cache(maxsize=4000)
def is_enantiopure_from_achiral(reactants: str, product: str) -> bool:
    """Return whether a product is written as one enantiomer though no molecule of the reactants is."""
    return "@" in product and "@" not in reactants and _is_chiral(product)


def _is_chiral(smiles: str) -> bool:
    with rdBase.BlockLogs():
        mol = mol_from_smiles(smiles)
        if mol is None:
            return False
        whole = Chem.MolToSmiles(mol)
        for atom in mol.GetAtoms():
            atom.InvertChirality()
        return bool(Chem.MolToSmiles(mol) != whole)


@lru_cache(maxsize=4000)
def geometry(smiles: str) -> str:
    """Return E or Z of the double bonds that have one, in an order that isomers share; may be empty."""
    with rdBase.BlockLogs():
        mol = mol_from_smiles(smiles)
        ranks = list(Chem.CanonicalRankAtoms(mol, includeChirality=False))
        bonds = [(sorted(ranks[atom] for atom in atoms), atoms) for kind, atoms, _ in _elements(mol) if kind != _CENTRE]
        words = [_WORDS.get(mol.GetBondBetweenAtoms(*atoms).GetStereo(), "?") for _, atoms in sorted(bonds)]
    return "E/Z not set" if set(words) == {"?"} else ",".join(words)


def open_stereo(reactants: str, product: str, origin: Sequence[int], lost: Collection[int]) -> tuple[int, int]:
    """Return how many double bonds and stereocentres a reaction makes without setting them.

    What the reactants leave open themselves does not count, nor do the centres `lost`. `origin` has for each atom of
    the product that of the reactants.
    """
    with rdBase.BlockLogs():
        before = {frozenset(atoms) for _, atoms, is_open in _elements(mol_from_smiles(reactants)) if is_open}
        target = mol_from_smiles(product)
        loose = {hit[0] for hit in target.GetSubstructMatches(fixed_pattern(_LOOSE))}
        kinds = [
            kind
            for kind, atoms, is_open in _elements(target)
            if is_open
            and loose.isdisjoint(atoms)
            and frozenset(origin[atom] for atom in atoms) not in before
            and atoms[0] not in lost
        ]
    return kinds.count(_DOUBLE_BOND), kinds.count(_CENTRE)


def _elements(mol: Any) -> Iterator[tuple[Any, tuple[int, ...], bool]]:
    """Yield double bonds and centres that have a stereochemistry: kind, atoms, and whether it is not set.

    Cumulated double bonds (azides, isocyanates, allenes) have no E and Z, though RDKit lists them.
    """
    for item in Chem.FindPotentialStereo(mol):
        atoms: tuple[int, ...] = (item.centeredOn,)
        if item.type == _DOUBLE_BOND:
            bond = mol.GetBondWithIdx(item.centeredOn)
            atoms = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            if any(mol.GetAtomWithIdx(atom).GetHybridization() == Chem.HybridizationType.SP for atom in atoms):
                continue
        if item.type in (_CENTRE, _DOUBLE_BOND):
            yield item.type, atoms, item.specified == Chem.StereoSpecified.Unspecified
