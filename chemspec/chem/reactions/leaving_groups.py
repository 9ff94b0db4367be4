"""What the molecules that give atoms lose in a reaction, in words: leaving groups, from a table and by element."""

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path

from rdkit import Chem

from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules.parsing import shared_mol
from chemspec.chem.reactions.atom_maps import AtomMap
from chemspec.chem.reactions.mol_graph import is_acyl

FOLDER = Path(__file__).parent
ACYL = ("CC(=O)O", "O=C(O)C(F)(F)F", "CO", "CCO")  # leaving groups whose words mean that an acyl group is bound to them
_ALKYL = ("C", "CC", "Cc1ccccc1")  # they leave heteroatoms; a longer chain is no leaving group of its carbon atom
_METALS = {3: "lithium", 12: "Grignard", 14: "silyl", 50: "stannane", 30: "zinc"}  # the first counts


def describe_leaving_groups(match: AtomMap, reactants: str) -> str:
    """Return what the molecules that give atoms lose, in words; empty where there is no word for a part of it."""
    words = []
    for part in connected_groups(match.left.bonds, match.lost):
        plain = _canonical_fragment(_fragment(reactants, tuple(sorted(part))))
        if plain in ("CCC", "CC(C)C") and not _is_branched(match, part):
            plain = ""
        held = {far for atom in part for far in match.left.bonds[atom]} - set(part)
        if plain in ACYL and not any(is_acyl(match.left, atom) for atom in held):
            plain = ""
        if plain in _ALKYL and any(match.left.kinds[atom][0] == 6 for atom in held):
            plain = ""
        elements = {match.left.kinds[atom][0] for atom in part}
        metal = next((word for number, word in _METALS.items() if number in elements), "")
        if plain == "O":
            words.append(_name_of_oxygen(match, part[0]))
        else:
            words.append(metal or _leaving_words().get(plain, ""))
    return " + ".join(sorted(words)) if all(words) else ""


@lru_cache(maxsize=4000)  # the answers for a flask lose the same
def _fragment(reactants: str, atoms: tuple[int, ...]) -> str:
    return str(Chem.MolFragmentToSmiles(shared_mol(reactants), atoms, isomericSmiles=False))


@lru_cache(maxsize=4000)
def _canonical_fragment(smiles: str) -> str:
    mol = shared_mol(smiles)
    return str(Chem.MolToSmiles(mol)) if mol is not None else ""


def _is_branched(match: AtomMap, part: Sequence[int]) -> bool:
    """Return whether an alkyl group was bound by the atom in its middle, as isopropyl and tert-butyl are."""
    bonds, inside = match.left.bonds, set(part)
    return any(bonds[atom].keys() - inside and len(bonds[atom].keys() & inside) > 1 for atom in part)


def connected_groups(bonds: Sequence[Iterable[int]], atoms: Sequence[int]) -> list[list[int]]:
    """Return atoms in groups that are bonded to each other."""
    left, pieces = set(atoms), []
    while left:
        piece = [left.pop()]
        for atom in piece:
            near = [far for far in bonds[atom] if far in left]
            left -= set(near)
            piece += near
        pieces.append(piece)
    return pieces


def _name_of_oxygen(match: AtomMap, oxygen: int) -> str:
    """Return what an oxygen that leaves alone was part of."""
    for near, order in match.left.bonds[oxygen].items():
        if match.left.kinds[near][0] != 6:
            return ""
        if order == 2:
            others = {match.left.kinds[far][0] for far in match.left.bonds[near] if far != oxygen}
            return "aldehyde or ketone" if others <= {1, 6} else ""
        if any(kind == 2 and match.left.kinds[far][0] == 8 for far, kind in match.left.bonds[near].items()):
            return "acid"
    return "alcohol"


@cache
def _leaving_words() -> dict[str, str]:
    return {row[0]: row[1] for row in read_asset_table(FOLDER / "leaving_groups.tsv")}
