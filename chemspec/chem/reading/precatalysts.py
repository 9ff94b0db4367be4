"""Write precatalysts as the metal and the ligand that models know from patents; a drawn one looks like a reactant.

By structure, not by name: the bonds of a metal to carbon, nitrogen or phosphorus are cut. Phosphines stay, and so do
two halides with them; what only stabilises the metal goes (palladacycles, allyl groups, carbenes, bipyridines and
phenylpyridines, sulfonates, counterions). Complexes that models know whole (`complexes.tsv`) stay as they are.
"""

from functools import cache
from pathlib import Path
from typing import Any

from rdkit import Chem

from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules.parsing import fixed_pattern, mol_from_smiles
from chemspec.chem.molecules.query import canonical
from chemspec.chem.reading.names.reagents import name_in_list

MAX_NAME_CHARS = 30
TABLE = Path(__file__).with_name("complexes.tsv")
_METALS = frozenset(["Pd", "Ni", "Ru", "Ir", "Rh", "Pt", "Au", "Co"])
_MARKS = tuple(_METALS)  # metals as a SMILES has them
_BINDING = {"C", "N", "P"}
_HALOGENS = {"F", "Cl", "Br", "I"}
# Carbon that patents leave on its metal: carbon monoxide, cyanide.
_PLAIN_CARBON = "[$([C-]#[O,N]),$(C#[O,N]),$([CX1])]"
_COUNTERIONS = "[F,Cl,Br,I;D0;-] F[P-](F)(F)(F)(F)F F[B-](F)(F)F F[Sb-](F)(F)(F)(F)F [O-]S(=O)(=O)C \
[N-](S(=O)=O)S(=O)=O [O-]Cl(=O)(=O)=O [B-](c)(c)(c)c"
# Ligands that databases write as ions or carbenes next to the metal: palladacycles, photocatalysts, Grubbs catalysts.
_LOOSE = "[c-]:c-c:c-[NX3] [c-]:c-[CX4]-[CX4]-[NX3] [c-]:c-[c,n]:n [#6;X2;v2;+0](-[#7])-[#7] [CH2-]C=[CH2]"
_WITH_LOOSE = "CS(=O)(=O)[OH] c1(-c2ccccn2)ccccn1"  # what goes with them
_WITH_IONS = "c1(-c2ccccn2)ccccn1 C1=CCCC=CCC1"  # and with ions of ruthenium, iridium and rhodium
_IONS = {"[Ru+2]", "[Ir+3]", "[Ir+]", "[Rh+]"}
_METATHESIS = "Cl[Ru]Cl"  # the spelling in which the metathesis of a diene is predicted best
_GRUBBS_PHOSPHINE = "[PX3](C1CCCCC1)(C1CCCCC1)C1CCCCC1"
_PROTONATED = "[PX4;+;!H0]"
_RADICALS = "[#6;v3,v2;X3,X2]1[#6;v3,v2;X3,X2][#6;v3,v2;X3,X2][#6;v3,v2;X3,X2][#6;v3,v2;X3,X2]1"


def split_precatalysts(smiles: str) -> tuple[str, tuple[str, ...]]:
    """Return canonical SMILES of the same flask with precatalysts as metal and ligand, and a note for each.

    A lone molecule stays: it is no catalyst of anything.
    """
    if "." not in smiles or not any(metal in smiles for metal in _MARKS):
        return smiles, ()
    notes = dict[str, None]()
    parts, charge = _without_loose_ligands(smiles.split("."), notes)
    # The charge of complexes that are split: counterions go with them.
    written: list[str] = []
    for part in parts:
        new, left_over = _split(part) if _is_likely(part) else ((part,), 0)
        written += new
        charge += left_over
        if new != (part,):
            notes[f"{_short(part)} read as {' + '.join(dict.fromkeys(map(_short, new)))}"] = None
    if _METATHESIS in written and _METATHESIS not in parts:
        written = [part for part in written if not _has(part, _GRUBBS_PHOSPHINE)]
    ligands = [_plain_ligand(part) for part in written]
    for before, after in zip(written, ligands, strict=True):
        if before != after:
            charge += "+]" in before
            notes[f"{_short(before)} read as {_short(after)}"] = None
    if any("[c-]" in after and "[CH]" in before for before, after in zip(written, ligands, strict=True)):
        ligands = ["[Fe+2]" if part == "[Fe]" else part for part in ligands]
    left = _without_counterions(ligands, charge)
    # Nothing but catalyst: then it is what the question is about.
    if not notes or not any(_is_reactant(part) for part in left):
        return smiles, ()
    joined = ".".join(left)
    return canonical(joined) or joined, tuple(notes)


def _is_likely(part: str) -> bool:
    return "[" in part and any(metal in part for metal in _MARKS) and part not in _known_complexes()


@cache
def _known_complexes() -> frozenset[str]:
    return frozenset(str(canonical(row[0])) for row in read_asset_table(TABLE))


def _is_reactant(part: str) -> bool:
    """Return whether a part is a carbon compound other than a phosphine or a complex."""
    bare = part.replace("Cl", "")
    return ("C" in bare or "c" in bare) and "P" not in bare and not any(metal in part for metal in _MARKS)


def _without_loose_ligands(parts: list[str], notes: dict[str, None]) -> tuple[list[str], int]:
    """Leave out the ligands that stand next to their metal, which becomes neutral; returns its charge as well."""
    ions = not _IONS.isdisjoint(parts)
    loose = [
        part
        for part in parts
        if (("-]" in part or "[C]" in part) and _has(part, _LOOSE)) or (ions and _has(part, _WITH_IONS))
    ]
    if not loose:
        return parts, 0
    notes[f"ligands of the catalyst left out: {', '.join(dict.fromkeys(map(_short, loose)))}"] = None
    aside = {*loose, *(part for part in parts if _has(part, _WITH_LOOSE))}
    charge = 0
    left: list[str] = []
    for part in (part for part in parts if part not in aside):
        mol = mol_from_smiles(part)
        lone = mol.GetNumAtoms() == 1 and mol.GetAtomWithIdx(0).GetSymbol() in _METALS
        charge += Chem.GetFormalCharge(mol) if lone else 0
        left.append(f"[{mol.GetAtomWithIdx(0).GetSymbol()}]" if lone else part)
    return left, charge + sum(Chem.GetFormalCharge(mol_from_smiles(part)) for part in loose)


def _has(part: str, patterns: str) -> bool:
    mol = mol_from_smiles(part)
    return any(mol.HasSubstructMatch(fixed_pattern(pattern)) for pattern in patterns.split())


def _short(part: str) -> str:
    if (symbol := part.strip("[]")) in _METALS:
        return symbol
    if (name := name_in_list(part)) and len(name) < MAX_NAME_CHARS:
        return name
    metal = next((metal for metal in sorted(_METALS) if metal in part), "")
    return f"a complex of {metal}" if metal and len(part) > MAX_NAME_CHARS else part


def _split(part: str) -> tuple[tuple[str, ...], int]:
    """Return metals and ligands of a complex, and its charge; the part alone where it is none of this kind."""
    mol = mol_from_smiles(part)
    metals = [atom for atom in mol.GetAtoms() if atom.GetSymbol() in _METALS]
    plain = {hit[0] for hit in mol.GetSubstructMatches(fixed_pattern(_PLAIN_CARBON))}
    near = [atom for metal in metals for atom in metal.GetNeighbors()]
    if not any(atom.GetSymbol() in _BINDING and atom.GetIdx() not in plain for atom in near):
        return (part,), 0
    pieces = _ligands(mol)
    phosphines = tuple(piece for piece in pieces if "P" in piece or "p" in piece)
    halides = {metal.GetIdx(): sum(a.GetSymbol() in _HALOGENS for a in metal.GetNeighbors()) for metal in metals}
    charge = Chem.GetFormalCharge(mol)
    words: list[str] = []
    for metal in metals:
        symbol = metal.GetSymbol()
        carbene = any(
            bond.GetBondTypeAsDouble() == 2 and bond.GetOtherAtom(metal).GetSymbol() == "C" for bond in metal.GetBonds()
        )
        if symbol == "Ru" and carbene:
            return (_METATHESIS,), charge
        carbon = any(a.GetSymbol() == "C" for a in metal.GetNeighbors())
        two = halides[metal.GetIdx()] == 2 and not carbon and bool(phosphines) and symbol in ("Pd", "Ni")
        words.append(f"Cl[{symbol}]Cl" if two else f"[{symbol}]")
    return (*words, *phosphines), charge


def _ligands(mol: Any) -> list[str]:
    """Return the neutral molecules that are left when all bonds of the metals are cut, ferrocenes as ions."""
    cut = Chem.RWMol(mol)
    gone = [atom.GetIdx() for atom in mol.GetAtoms() if atom.GetSymbol() in _METALS]
    iron = [atom.GetIdx() for atom in mol.GetAtoms() if atom.GetSymbol() == "Fe"]
    for index in gone:
        for near in list(cut.GetAtomWithIdx(index).GetNeighbors()):
            cut.RemoveBond(index, near.GetIdx())
            near.SetNoImplicit(False)
            near.SetNumExplicitHs(0)
            near.SetNumRadicalElectrons(0)
            near.SetFormalCharge(0)
            if near.GetSymbol() == "P":
                near.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    for index in iron:
        _open_ferrocene(cut, index)
    for index in sorted(gone, reverse=True):
        cut.RemoveAtom(index)
    pieces = []
    for piece in Chem.GetMolFrags(cut.GetMol(), asMols=True, sanitizeFrags=False):
        text = canonical(Chem.MolToSmiles(piece))
        pieces += text.split(".") if text else []
    return pieces


def _open_ferrocene(cut: Any, iron: int) -> None:
    """Cut the bonds of an iron atom to its two rings, each of which becomes the anion, and the iron Fe2+."""
    rings = [ring for ring in Chem.GetSymmSSSR(cut) if len(ring) == 5 and iron not in ring]
    bound = {near.GetIdx() for near in cut.GetAtomWithIdx(iron).GetNeighbors()}
    for atom in bound:
        cut.RemoveBond(iron, atom)
    for ring in (list(ring) for ring in rings if bound & set(ring)):
        _make_anion(cut, ring)
    cut.GetAtomWithIdx(iron).SetFormalCharge(2)
    cut.GetAtomWithIdx(iron).SetNumRadicalElectrons(0)


def _make_anion(mol: Any, ring: list[int]) -> None:
    """Give a ring of five carbon atoms the bonds and charge of the cyclopentadienyl anion, at its substituent."""
    head = next((k for k, atom in enumerate(ring) if mol.GetAtomWithIdx(atom).GetDegree() > 2), 0)
    ring = ring[head:] + ring[:head]
    for k, index in enumerate(ring):
        bond, atom = mol.GetBondBetweenAtoms(index, ring[(k + 1) % 5]), mol.GetAtomWithIdx(index)
        bond.SetBondType(Chem.BondType.DOUBLE if k in (1, 3) else Chem.BondType.SINGLE)
        for thing in (bond, atom):
            thing.SetIsAromatic(False)
        atom.SetNoImplicit(False)
        atom.SetNumExplicitHs(0)
        atom.SetNumRadicalElectrons(0)
        atom.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
        atom.SetFormalCharge(-1 if k == 0 else 0)


def _plain_ligand(part: str) -> str:
    """Return the free phosphine of its salt with an acid, and half a ferrocene of radicals as its anion."""
    if "[PH+]" not in part and "[CH]" not in part:
        return part
    mol = Chem.RWMol(mol_from_smiles(part))
    for (index,) in mol.GetSubstructMatches(fixed_pattern(_PROTONATED)):
        atom = mol.GetAtomWithIdx(index)
        atom.SetFormalCharge(0)
        atom.SetNumExplicitHs(0)
        atom.SetNoImplicit(False)
    for ring in mol.GetSubstructMatches(fixed_pattern(_RADICALS)):
        _make_anion(mol, list(ring))
    return canonical(Chem.MolToSmiles(mol)) or part


def _without_counterions(parts: list[str], charge: int) -> list[str]:
    """Leave out as many weakly binding anions as the split complexes had positive charges."""
    left = []
    for part in parts:
        if charge > 0 and "-]" in part and _has(part, _COUNTERIONS):
            charge += Chem.GetFormalCharge(mol_from_smiles(part))
            continue
        left.append(part)
    return left
