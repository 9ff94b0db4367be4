"""Root-aligned SMILES: write two molecules so that their common parts are equal text, copied token by token.

Those of Zhong et al. (2022) start at the same atom; here the target also visits its atoms in the source's order.
"""

from collections.abc import Sequence
from contextlib import suppress
from operator import itemgetter
from random import Random

from rdkit import Chem, rdBase

from chemspec.chem import ARROW, canonical
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.molecules.rdkit_tasks import RDKIT_ERRORS
from chemspec.chem.reactions.atom_maps import map_atoms

Mol = Chem.Mol
TRIES_PER_VARIANT = 4  # random variants drawn per requested one; small molecules have few distinct ones
MINOR_ATOMS, MINOR_SHARE = 2, 1 / 3  # a reactant that contributes no more to the product is written as canonical SMILES


def smiles_variants_of_query(smiles: str, count: int, rng: Random) -> list[str]:
    """Return up to `count` distinct SMILES variants of a query: unchanged, then written like sources in training.

    The query is canonical SMILES of molecules, or of both sides of a reaction. Each molecule starts at a random atom,
    and the molecules of a side are in random order. Variants that do not parse as the same molecules (RDKit rarely
    loses stereochemistry) are left out.
    """
    variants = {smiles: None}
    with rdBase.BlockLogs():
        sides = [[mol_from_smiles(part) for part in side.split(".")] for side in smiles.split(ARROW)]
        if any(mol is None or not mol.GetNumAtoms() for mols in sides for mol in mols):
            return [smiles]
        for _ in range(TRIES_PER_VARIANT * count):
            if len(variants) >= count:
                break
            text = ARROW.join(write_randomly(mols, rng) for mols in sides)
            if text not in variants and ARROW.join(canonical(side) or "" for side in text.split(ARROW)) == smiles:
                variants[text] = None
    return list(variants)


def write_randomly(mols: Sequence[Mol], rng: Random) -> str:
    """Return SMILES of molecules in random order, each started at a random atom."""
    texts = [write_from(mol, rng.randrange(mol.GetNumAtoms()))[0] for mol in mols]
    rng.shuffle(texts)
    return ".".join(texts)


def write_from(mol: Mol, root: int) -> tuple[str, list[int]]:
    """Return canonical SMILES started at atom `root` (-1: any), and the atom indices in the order written."""
    smiles = Chem.MolToSmiles(mol, rootedAtAtom=root)
    # RDKit leaves the order of the last SMILES it wrote in this property, as text: "[3,2,1,0,]".
    return smiles, [int(index) for index in mol.GetProp("_smilesAtomOutputOrder").strip("[],").split(",")]


def write_in_order(mol: Mol, rank: Sequence[float], root: int) -> str:
    """Return SMILES started at `root`, that visits neighbours by ascending `rank`, ties in canonical order."""
    canonical = Chem.CanonicalRankAtoms(mol)
    order = sorted(range(mol.GetNumAtoms()), key=lambda atom: (rank[atom], canonical[atom]))
    renumbered = Chem.RenumberAtoms(mol, order)
    return str(Chem.MolToSmiles(renumbered, rootedAtAtom=order.index(root), canonical=False))


def _parse_molecules(mapped: str, *, stereo: bool) -> list[Mol] | None:
    parts = [part for part in mapped.split(".") if part]
    mols = [mol_from_smiles(part) for part in parts]  # None for parts that are too long
    if not mols or None in mols:
        return None
    if not stereo:
        for mol in mols:
            Chem.RemoveStereochemistry(mol)
    return mols


def _map_numbers(mol: Mol) -> list[int]:
    return [atom.GetAtomMapNum() for atom in mol.GetAtoms()]


def _without_maps(mol: Mol) -> Mol:
    """Return the molecule without atom maps, with reassigned stereo and the same atom order."""
    bare = Chem.Mol(mol)
    for atom in bare.GetAtoms():
        atom.SetAtomMapNum(0)
    # Atom maps can make equal groups look different, which creates false stereocentres.
    Chem.AssignStereochemistry(bare, cleanIt=True, force=True)
    return bare


def _write_like_source(target: Mol, position_of_map: dict[int, int], source_bonds: dict[int, set[int]]) -> str:
    """Write `target` (mapped) in the order of the source, given as source positions by atom map number."""
    maps = _map_numbers(target)
    rank: list[float] = [position_of_map.get(number, -1) if number else -1 for number in maps]
    _rank_new_atoms(target, maps, rank, position_of_map, source_bonds)
    root = min(range(len(rank)), key=lambda atom: (maps[atom] not in position_of_map, rank[atom]))
    return write_in_order(_without_maps(target), rank, root)


def _rank_new_atoms(
    target: Mol, maps: list[int], rank: list[float], position_of_map: dict[int, int], source_bonds: dict[int, set[int]]
) -> None:
    """Rank atoms that the source lacks: at the neighbour they replace, else just after their own neighbour."""
    frontier = [atom for atom in range(len(rank)) if rank[atom] >= 0]
    while frontier:
        following = []
        for atom in frontier:
            here = {maps[neighbour.GetIdx()] for neighbour in target.GetAtomWithIdx(atom).GetNeighbors()}
            lost = [
                position_of_map[number]
                for number in source_bonds.get(maps[atom], ())
                if number in position_of_map and number not in here
            ]
            later = [position for position in lost if position > rank[atom]]
            for neighbour in target.GetAtomWithIdx(atom).GetNeighbors():
                index = neighbour.GetIdx()
                if rank[index] < 0:
                    rank[index] = min(later) if later else rank[atom] + 0.5
                    following.append(index)
        frontier = following
    for atom, value in enumerate(rank):
        if value < 0:
            rank[atom] = len(position_of_map)


def write_in_order_of(molecule: str, model: str) -> str | None:
    """Return SMILES of a molecule that visits its atoms in the order of another SMILES, as far as they have them.

    None where either is unreadable or several molecules, or they have nothing in common.
    """
    with rdBase.BlockLogs(), suppress(*RDKIT_ERRORS):
        source, target = mol_from_smiles(model), mol_from_smiles(molecule)
        if source is None or target is None or "." in f"{model}{molecule}":
            return None
        match = map_atoms(model, molecule)
        if match is None or max(match.origin, default=-1) < 0:
            return None
        for mol in (source, target):
            for atom in mol.GetAtoms():
                atom.SetAtomMapNum(0)
        for atom, origin in enumerate(match.origin):
            if origin >= 0:
                target.GetAtomWithIdx(atom).SetAtomMapNum(origin + 1)
                source.GetAtomWithIdx(origin).SetAtomMapNum(origin + 1)
        positions = {origin + 1: origin for origin in match.origin if origin >= 0}
        return _write_like_source(target, positions, _neighbours_by_map([source]))
    return None


def _neighbours_by_map(mols: Sequence[Mol]) -> dict[int, set[int]]:
    bonds: dict[int, set[int]] = {}
    for mol in mols:
        maps = _map_numbers(mol)
        for bond in mol.GetBonds():
            first, second = maps[bond.GetBeginAtomIdx()], maps[bond.GetEndAtomIdx()]
            if first and second:
                bonds.setdefault(first, set()).add(second)
                bonds.setdefault(second, set()).add(first)
    return bonds


def _bonded_oxygens(center: Chem.Atom) -> list[tuple[Chem.Atom, tuple[object, int]]]:
    bonded = [(bond.GetOtherAtom(center), bond.GetBondType()) for bond in center.GetBonds()]
    return [(atom, (bond, atom.GetFormalCharge())) for atom, bond in bonded if atom.GetAtomicNum() == 8]


def _unify_oxygen_maps(mol: Mol, product: Mol) -> Mol:
    """Return `mol` with consistently mapped oxygens: the =O of an acid becomes the =O of its amide.

    Sources differ in mapping the oxygens of acid, nitro and sulfonyl groups, and a model trained on both conventions
    predicts the same molecule twice.
    """
    tidy = Chem.Mol(mol)
    twins = {atom.GetAtomMapNum(): atom for atom in product.GetAtoms() if atom.GetAtomMapNum()}
    for center in tidy.GetAtoms():
        twin = twins.get(center.GetAtomMapNum())
        if twin is None:
            continue
        bond_of_oxygen = {atom.GetAtomMapNum(): kind for atom, kind in _bonded_oxygens(twin) if atom.GetAtomMapNum()}
        free = [(atom, kind, atom.GetAtomMapNum()) for atom, kind in _bonded_oxygens(center)]
        free = [entry for entry in free if entry[2] in bond_of_oxygen or entry[2] not in twins]
        numbers = [number for _, _, number in free if number in bond_of_oxygen]
        for atom, _, _ in free:
            atom.SetAtomMapNum(0)
        numbers.sort(key=lambda number: all(kind != bond_of_oxygen[number] for _, kind, _ in free))
        for number in numbers:
            best = max(free, key=lambda entry: (entry[1] == bond_of_oxygen[number], entry[2] == number))
            best[0].SetAtomMapNum(number)
            free.remove(best)
    return tidy


def _write_side(mols: Sequence[Mol], rng: Random | None) -> tuple[list[str], dict[int, int]]:
    """Write each molecule (randomly rooted); returns texts and text positions by atom map number."""
    texts: list[str] = []
    position_of_map: dict[int, int] = {}
    offset = 0
    for mol in mols:
        maps, bare = _map_numbers(mol), _without_maps(mol)
        text, order = write_from(bare, -1 if rng is None else rng.randrange(bare.GetNumAtoms()))
        texts.append(text)
        for position, atom in enumerate(order):
            if maps[atom]:
                position_of_map.setdefault(maps[atom], offset + position)
        offset += len(order)
    return texts, position_of_map


def align_retro(mapped: str, rng: Random | None = None, *, stereo: bool = True) -> tuple[str, str] | None:
    """Return product and reactants of `reactants>>product` with atom maps, reactants written in the product's order.

    Reactants that contribute no atom are left out. `rng` chooses the first atom of the product, without it that of its
    canonical SMILES. None if the maps are unusable: parse failure, no common mapped atom, or a repeated map number on
    one side.
    """
    with rdBase.BlockLogs(), suppress(RuntimeError, ValueError):  # RDKit can parse some molecules but not write them
        if (sides := _parse_sides(mapped, stereo=stereo)) is None:
            return None
        reactants, product = sides
        (source,), position_of_map = _write_side([product], rng)
        bonds = _neighbours_by_map([product])
        givers: list[tuple[int, str]] = []  # position of the first atom in the source, and SMILES
        for mol in reactants:
            positions = [position_of_map[number] for number in _map_numbers(mol) if number in position_of_map]
            if not positions:
                continue
            whole = _unify_oxygen_maps(mol, product)
            # Such as an oxidant or a methylene Wittig reagent.
            minor = len(positions) <= MINOR_ATOMS and len(positions) < MINOR_SHARE * mol.GetNumAtoms()
            bare = Chem.MolToSmiles(_without_maps(whole)) if minor else ""
            givers.append((min(positions), bare or _write_like_source(whole, position_of_map, bonds)))
        return source, ".".join(text for _, text in sorted(givers, key=itemgetter(0)))
    return None


def align_forward(
    mapped: str, others: Sequence[str] = (), rng: Random | None = None, *, stereo: bool = True
) -> tuple[str, str] | None:
    """Return precursors and product of `reactants>>product` with atom maps, the product in the precursors' order.

    The product starts at the first remaining atom of the SMILES of the reactant that contributes most atoms. Unmapped
    reagents (`others`) are added to the reactants. `rng` chooses first atoms and the order of molecules, without it
    canonical SMILES in alphabetical order. None if the maps are unusable.
    """
    with rdBase.BlockLogs(), suppress(RuntimeError, ValueError):
        sides = _parse_sides(mapped, stereo=stereo)
        reagents = _parse_molecules(".".join(others), stereo=stereo) if others else []
        if sides is None or reagents is None:
            return None
        reactants, product = sides
        maps = _map_numbers(product)
        contributed = [sum(number in maps for number in _map_numbers(mol) if number) for mol in reactants]
        main = contributed.index(max(contributed))
        # The main reactant's atoms come first, independent of the order in which molecules are written.
        ordered = [reactants[main], *reactants[:main], *reactants[main + 1 :], *reagents]
        texts, position_of_map = _write_side(ordered, rng)
        target = _write_like_source(product, position_of_map, _neighbours_by_map(reactants))
        if rng is None:
            texts.sort()
        else:
            rng.shuffle(texts)
        return ".".join(texts), target
    return None


def _parse_sides(mapped: str, *, stereo: bool) -> tuple[list[Mol], Mol] | None:
    parts = mapped.split(">")
    if len(parts) != 3:  # a molecule, or a dative bond, whose > is not distinguished from an arrow here
        return None
    reactants, products = _parse_molecules(parts[0], stereo=stereo), _parse_molecules(parts[2], stereo=stereo)
    if reactants is None or products is None or len(products) != 1:
        return None
    numbers = [[number for mol in mols for number in _map_numbers(mol) if number] for mols in (reactants, products)]
    left, right = map(set, numbers)
    unique = [len(left), len(right)] == [*map(len, numbers)]
    return (reactants, products[0]) if unique and left & right else None
