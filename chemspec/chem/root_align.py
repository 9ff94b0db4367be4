"""Root-aligned SMILES: write two molecules so that what they share reads the same.

The root-aligned SMILES of Zhong et al. (2022) start source and target at the same atom. Here the target also visits
its atoms in the order in which the source wrote them, so that shared parts are copied token by token even where the
canonical ranks of the two molecules differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from rdkit import Chem, rdBase

from chemspec.chem import ARROW, LONGEST, canonical
from chemspec.chem.parsing import mol_from_smiles

Mol = Chem.Mol
TRIES = 4  # random spellings drawn for each one wanted; a molecule of few atoms has few
MINOR_ATOMS, MINOR_SHARE = 2, 1 / 3  # a reactant that gives the product no more is written by its canonical SMILES


def spellings(smiles: str, count: int, rng: Random) -> list[str]:
    """Return up to `count` different ways to write a query: as it is, then as training wrote its sources.

    Each molecule starts at a random atom, and the molecules of a side stand in random order. A spelling that does not
    read as the same molecules again (RDKit loses stereochemistry in rare ones) is left out.

    Args:
        smiles: canonical, of one molecule or several, or of the two sides of a reaction.
        count: of spellings wanted.
        rng: chooses atoms and order.
    """
    found = {smiles: None}
    with rdBase.BlockLogs():
        sides = [[mol_from_smiles(part) for part in side.split(".")] for side in smiles.split(ARROW)]
        if any(mol is None or not mol.GetNumAtoms() for mols in sides for mol in mols):
            return [smiles]
        for _ in range(TRIES * count):
            if len(found) >= count:
                break
            text = ARROW.join(write_at_random(mols, rng) for mols in sides)
            if text not in found and ARROW.join(canonical(side) or "" for side in text.split(ARROW)) == smiles:
                found[text] = None
    return list(found)


def write_at_random(mols: Sequence[Mol], rng: Random) -> str:
    """Return SMILES of molecules in random order, each started at a random atom."""
    texts = [write_from(mol, rng.randrange(mol.GetNumAtoms()))[0] for mol in mols]
    rng.shuffle(texts)
    return ".".join(texts)


def write_from(mol: Mol, root: int) -> tuple[str, list[int]]:
    """Return canonical SMILES started at atom `root`, and the atom indices in the order written."""
    smiles = Chem.MolToSmiles(mol, rootedAtAtom=root)
    return smiles, _written_order(mol)


def write_in_order(mol: Mol, rank: Sequence[float], root: int) -> str:
    """Return SMILES started at `root`, that visits neighbours by ascending `rank`, ties in canonical order."""
    canonical = Chem.CanonicalRankAtoms(mol)
    order = sorted(range(mol.GetNumAtoms()), key=lambda atom: (rank[atom], canonical[atom]))
    renumbered = Chem.RenumberAtoms(mol, order)
    return str(Chem.MolToSmiles(renumbered, rootedAtAtom=order.index(root), canonical=False))


def _written_order(mol: Mol) -> list[int]:
    # RDKit leaves the order of the last SMILES it wrote in this property, as text: "[3,2,1,0,]".
    return [int(index) for index in mol.GetProp("_smilesAtomOutputOrder").strip("[],").split(",")]


def _parse(mapped: str, *, stereo: bool) -> list[Mol] | None:
    parts = [part for part in mapped.split(".") if part]
    if any(len(part) > LONGEST for part in parts):
        return None
    mols = [mol_from_smiles(part) for part in parts]
    if not mols or any(mol is None for mol in mols):
        return None
    if not stereo:
        for mol in mols:
            Chem.RemoveStereochemistry(mol)
    return mols


def _maps(mol: Mol) -> list[int]:
    return [atom.GetAtomMapNum() for atom in mol.GetAtoms()]


def _bare(mol: Mol) -> Mol:
    """Return the molecule without atom maps, stereo reassigned, atoms where they were."""
    bare = Chem.Mol(mol)
    for atom in bare.GetAtoms():
        atom.SetAtomMapNum(0)
    # Maps can make two like groups look different, and so a centre that is none.
    Chem.AssignStereochemistry(bare, cleanIt=True, force=True)
    return bare


def _follow(target: Mol, place: dict[int, int], source_bonds: dict[int, set[int]]) -> str:
    """Write `target` (mapped) in the order `place`: atom map number -> place in the source."""
    maps = _maps(target)
    rank: list[float] = [place.get(number, -1) if number else -1 for number in maps]
    _place_new_atoms(target, maps, rank, place, source_bonds)
    root = min(range(len(rank)), key=lambda atom: (maps[atom] not in place, rank[atom]))
    return write_in_order(_bare(target), rank, root)


def _place_new_atoms(
    target: Mol, maps: list[int], rank: list[float], place: dict[int, int], source_bonds: dict[int, set[int]]
) -> None:
    """Give atoms that the source lacks the place of the neighbour they replace, else just after where they hang."""
    frontier = [atom for atom in range(len(rank)) if rank[atom] >= 0]
    while frontier:
        following = []
        for atom in frontier:
            here = {maps[neighbour.GetIdx()] for neighbour in target.GetAtomWithIdx(atom).GetNeighbors()}
            lost = [
                place[number] for number in source_bonds.get(maps[atom], ()) if number in place and number not in here
            ]
            later = [spot for spot in lost if spot > rank[atom]]
            for neighbour in target.GetAtomWithIdx(atom).GetNeighbors():
                index = neighbour.GetIdx()
                if rank[index] < 0:
                    rank[index] = min(later) if later else rank[atom] + 0.5
                    following.append(index)
        frontier = following
    for atom, value in enumerate(rank):
        if value < 0:
            rank[atom] = len(place)


def _bonds(mols: Sequence[Mol]) -> dict[int, set[int]]:
    """Return atom map number -> map numbers of its neighbours."""
    bonds: dict[int, set[int]] = {}
    for mol in mols:
        maps = _maps(mol)
        for bond in mol.GetBonds():
            one, other = maps[bond.GetBeginAtomIdx()], maps[bond.GetEndAtomIdx()]
            if one and other:
                bonds.setdefault(one, set()).add(other)
                bonds.setdefault(other, set()).add(one)
    return bonds


def _oxygens(center: Chem.Atom) -> list[tuple[Chem.Atom, tuple[object, int]]]:
    """Return the oxygens bonded to an atom, each with its bond and charge."""
    bonded = [(bond.GetOtherAtom(center), bond.GetBondType()) for bond in center.GetBonds()]
    return [(atom, (bond, atom.GetFormalCharge())) for atom, bond in bonded if atom.GetAtomicNum() == 8]


def _keep_oxygens(mol: Mol, product: Mol) -> Mol:
    """Return `mol` with oxygens of one atom mapped as they are bonded: the =O of an acid becomes that of its amide.

    Which oxygen of an acid, a nitro or a sulfonyl group came from where is a matter of who made the atom maps, and a
    model of two opinions lists the same molecule twice.
    """
    tidy = Chem.Mol(mol)
    twins = {atom.GetAtomMapNum(): atom for atom in product.GetAtoms() if atom.GetAtomMapNum()}
    for center in tidy.GetAtoms():
        twin = twins.get(center.GetAtomMapNum())
        if twin is None:
            continue
        kept = {atom.GetAtomMapNum(): kind for atom, kind in _oxygens(twin) if atom.GetAtomMapNum()}
        free = [(atom, kind, atom.GetAtomMapNum()) for atom, kind in _oxygens(center)]
        free = [one for one in free if one[2] in kept or one[2] not in twins]
        numbers = [number for _, _, number in free if number in kept]
        for atom, _, _ in free:
            atom.SetAtomMapNum(0)
        numbers.sort(key=lambda number: all(kind != kept[number] for _, kind, _ in free))
        for number in numbers:
            best = max(free, key=lambda one: (one[1] == kept[number], one[2] == number))
            best[0].SetAtomMapNum(number)
            free.remove(best)
    return tidy


def _is_minor(mol: Mol, place: dict[int, int]) -> bool:
    """Return whether a reactant gives the product hardly an atom: an oxidant, say, or a Wittig reagent of methylene."""
    given = sum(number in place for number in _maps(mol))
    return given <= MINOR_ATOMS and given < MINOR_SHARE * mol.GetNumAtoms()


def _root(mol: Mol, rng: Random | None) -> int:
    """Return a random atom, or without `rng` the one at which the canonical SMILES starts."""
    if rng is not None:
        return rng.randrange(mol.GetNumAtoms())
    Chem.MolToSmiles(mol)
    return _written_order(mol)[0]


def _write_side(mols: Sequence[Mol], rng: Random | None) -> tuple[list[str], dict[int, int]]:
    """Write each molecule (rooted at random), and say at which place each atom map number was written."""
    texts: list[str] = []
    place: dict[int, int] = {}
    offset = 0
    for mol in mols:
        maps, bare = _maps(mol), _bare(mol)
        text, order = write_from(bare, _root(bare, rng))
        texts.append(text)
        for spot, atom in enumerate(order):
            if maps[atom]:
                place.setdefault(maps[atom], offset + spot)
        offset += len(order)
    return texts, place


def align_retro(mapped: str, rng: Random | None = None, *, stereo: bool = True) -> tuple[str, str] | None:
    """Return product and reactants of an atom-mapped reaction, reactants written in the product's order.

    Args:
        mapped: `reactants>>product` with atom maps; reactants that give no atom to the product are left out.
        rng: where the product's SMILES starts; None: its canonical SMILES.
        stereo: False leaves stereochemistry out on both sides.

    Returns:
        (source, target), or None if the maps cannot be used: parse failure, no mapped atom in common, or a map number
        used twice on one side.
    """
    with rdBase.BlockLogs():
        try:
            sides = _sides(mapped, stereo=stereo)
            return None if sides is None else _align_retro(*sides, rng)
        except (RuntimeError, ValueError):  # what RDKit raises for molecules that it read but cannot write
            return None


def _align_retro(reactants: list[Mol], product: Mol, rng: Random | None) -> tuple[str, str]:
    (source,), place = _write_side([product], rng)
    bonds = _bonds([product])
    givers = [mol for mol in reactants if any(number in place for number in _maps(mol))]
    givers = [_keep_oxygens(mol, product) for mol in givers]
    givers.sort(key=lambda mol: min(place[number] for number in _maps(mol) if number in place))
    texts = (Chem.MolToSmiles(_bare(mol)) if _is_minor(mol, place) else _follow(mol, place, bonds) for mol in givers)
    return source, ".".join(texts)


def align_forward(
    mapped: str, others: Sequence[str] = (), rng: Random | None = None, *, stereo: bool = True
) -> tuple[str, str] | None:
    """Return precursors and product of an atom-mapped reaction, the product written in the precursors' order.

    The product starts at the first atom of the main reactant's SMILES that survives; the main reactant is the one that
    gives the product most atoms.

    Args:
        mapped: `reactants>>product` with atom maps.
        others: unmapped reagents that stand among the reactants in the source.
        rng: starts of the SMILES and order of the molecules; None: canonical SMILES in alphabetical order.
        stereo: False leaves stereochemistry out on both sides.

    Returns:
        (source, target), or None if the maps cannot be used.
    """
    with rdBase.BlockLogs():
        try:
            sides = _sides(mapped, stereo=stereo)
            reagents = _parse(".".join(others), stereo=stereo) if others else []
            if sides is None or reagents is None:
                return None
            return _align_forward(*sides, reagents, rng)
        except (RuntimeError, ValueError):
            return None


def _align_forward(reactants: list[Mol], product: Mol, reagents: list[Mol], rng: Random | None) -> tuple[str, str]:
    maps = _maps(product)
    given = [sum(number in maps for number in _maps(mol) if number) for mol in reactants]
    main = max(range(len(reactants)), key=lambda index: given[index])
    # The main reactant's atoms take the first places, whatever the order in which the molecules are written.
    ordered = [reactants[main], *reactants[:main], *reactants[main + 1 :], *reagents]
    texts, place = _write_side(ordered, rng)
    target = _follow(product, place, _bonds(reactants))
    if rng is None:
        texts.sort()
    else:
        rng.shuffle(texts)
    return ".".join(texts), target


def _sides(mapped: str, *, stereo: bool) -> tuple[list[Mol], Mol] | None:
    """Return reactants and the one product, if their maps can be used."""
    parts = mapped.split(">")
    if len(parts) != 3:  # a molecule, or a dative bond, whose > is not told from an arrow here
        return None
    reactants, products = _parse(parts[0], stereo=stereo), _parse(parts[2], stereo=stereo)
    if reactants is None or products is None or len(products) != 1:
        return None
    return (reactants, products[0]) if _usable(products, reactants) else None


def _usable(products: Sequence[Mol], reactants: Sequence[Mol]) -> bool:
    ours = [number for mol in products for number in _maps(mol) if number]
    theirs = [number for mol in reactants for number in _maps(mol) if number]
    unique = len(set(ours)) == len(ours) and len(set(theirs)) == len(theirs)
    return unique and bool(set(ours) & set(theirs))
