"""Normalise species to the spelling that models were trained on: [H][H], organometals without charges, HX."""

import re
from typing import Any

from rdkit import Chem, rdBase

import chemspec.chem.reading.names.reagents as reagents
from chemspec.chem.molecules.parsing import fixed_pattern, mol_from_smiles
from chemspec.chem.molecules.query import canonical
from chemspec.chem.molecules.rdkit_tasks import RDKIT_ERRORS
from chemspec.chem.molecules.salts import charge_of

_ALKALI = r"\[(?:Li|Na|K|Cs)\]"
_LIKELY = re.compile(rf"\[HH\]|\[1H|\[H\+\]|\[OH3\+\]|\[(?:CH?\d?|c)-\]|\[N@@?H?\]|O\]?{_ALKALI}|{_ALKALI}\[?O")
_ALKALI_OXIDE = "[Li,Na,K,Cs;D1;+0]-[OX2]"
_MARKED_AMINE = re.compile(r"\[N@@?H?\]")
# Names of reagents that are never meant as SMILES, all of whose letters are atoms.
_ABBREVIATIONS = "NBS|NCS|NIS|PCC|BOP|BPO|BOPCl|BOP-Cl|IBCF|CSI|BrCN|CNBr|O2|CO2|SO2|CS2|N2|Cl2|Br2|I2|CBS"
_ABBREVIATION = re.compile(rf"(?:(?<=[.>])|^)({_ABBREVIATIONS})(?=[.>]|$)")
# A carbanion that no neighbouring group stabilises.
_CARBANIONS = ("[C-;!$(*=[O,N,S]);!$(*#[N,O]);!$(*[C,S,N,P]=[O,S,N]);!$(*C#N);!$(*[N+,P+,S+])]", "[c-]")
_METALS = {"Li", "Mg", "Zn"}


def replace_abbreviations(text: str) -> tuple[str, tuple[str, ...]]:
    """Replace NBS and the like among the molecules of a SMILES by the reagent, with notes."""
    notes: dict[str, None] = {}

    def reagent(match: re.Match[str]) -> str:
        smiles, name = reagents.find_by_name(match[1]) or ("", "")
        notes[f"{match[1]} read as {name}, not as SMILES"] = None
        return smiles

    changed = _ABBREVIATION.sub(reagent, text)
    # A formula such as O2 may be an atom with a ring label: then another part closes the ring.
    if not notes or not all(map(mol_from_smiles, filter(None, re.split(">+", changed)))):
        return text, ()
    return changed, tuple(notes)


def spell_isotopes(text: str) -> tuple[str, tuple[str, ...]]:
    """Write [2H] for [D] and [3H] for [T], with a note."""
    changed = text.replace("[D]", "[2H]").replace("[T]", "[3H]")
    return changed, ("[D] and [T] read as [2H] and [3H]",) * (changed != text)


_HYDRIDES = {f"[{metal}H]": f"[{metal}+].[H-]" for metal in ("Li", "Na", "K", "Cs")}
_HYDRIDES |= {f"[{metal}H2]": f"[{metal}+2].[H-].[H-]" for metal in ("Mg", "Ca")}


def hydrides_as_ions(smiles: str) -> tuple[str, tuple[str, ...]]:
    """Return canonical SMILES with ionic hydrides such as [NaH] as ions, and a note for each kind; or as they are."""
    parts = smiles.split(".")
    notes = tuple(f"{part} written as ions" for part in dict.fromkeys(parts) if part in _HYDRIDES)
    joined = ".".join(_HYDRIDES.get(part, part) for part in parts)
    return (canonical(joined) or joined, notes) if notes else (smiles, ())


def split_ions(text: str) -> tuple[str, tuple[str, ...]]:
    """Write a dot for the bond ~ between the ions of one compound, as the tools of rxn4chemistry write it."""
    if "~" not in text:
        return text, ()
    sides = re.split(r"(>+|\.)", text)
    for number, side in enumerate(sides):
        parts = side.split("~")
        if len(parts) > 1 and all(map(mol_from_smiles, parts)) and _is_compound(parts):
            sides[number] = ".".join(parts)
    changed = "".join(sides)
    return changed, ("~ between the ions of a compound read as a dot",) * (changed != text)


def _is_compound(parts: list[str]) -> bool:
    return any(map(charge_of, parts)) or bool({"Cl", "Br", "I", "F", "O"} & set(parts[1:]) and len(parts[0]) > 1)


def respell(smiles: str) -> tuple[str, tuple[str, ...]]:
    """Return canonical SMILES of the same flask in the spelling that models know, and notes on what was changed."""
    if not _LIKELY.search(smiles):
        return smiles, ()
    parts = smiles.split(".")
    notes: list[str] = []
    with rdBase.BlockLogs():
        try:
            parts = [_plain_spelling(part, notes) for part in parts]
            parts = _join_acids(_join_organometals(parts, notes), notes)
        except RDKIT_ERRORS:
            return smiles, ()
    joined = ".".join(parts)
    return (canonical(joined) or joined, tuple(notes)) if notes else (smiles, ())


def _plain_spelling(part: str, notes: list[str]) -> str:
    """Spell hydrogen out, without protium; leave out the stereo of neutral nitrogen.

    That of a bridgehead follows from its neighbours, and models never saw it.
    """
    if "[1H" in part:
        notes.append("the isotope of [1H] left out")
        part = part.replace("[1H", "[H")
    if part == "[HH]":
        notes.append("[HH] written as [H][H]")
        return "[H][H]"
    if pairs := (mol := Chem.RWMol(mol_from_smiles(part))).GetSubstructMatches(fixed_pattern(_ALKALI_OXIDE)):
        for metal, oxygen in pairs:
            mol.RemoveBond(metal, oxygen)
            mol.GetAtomWithIdx(metal).SetFormalCharge(1)
            bridge = mol.GetAtomWithIdx(oxygen)  # the oxygen of two metals in [Na]O[Na]
            bridge.SetFormalCharge(bridge.GetFormalCharge() - 1)
        notes.append(f"{part} written as ions")
        return str(Chem.MolToSmiles(mol))
    plain = _MARKED_AMINE.sub("N", part)
    if plain != part:
        notes.append("the stereo marks of nitrogen left out: models are trained without them")
    return plain


def _join_organometals(parts: list[str], notes: list[str]) -> list[str]:
    """Bond carbanions to Li+, Mg2+ or Zn2+: [CH3-].[Mg+]Br is C[Mg]Br."""
    mol = Chem.RWMol(mol_from_smiles(".".join(parts), sanitize=True))
    patterns = map(fixed_pattern, _CARBANIONS)
    carbons = [match[0] for pattern in patterns for match in mol.GetSubstructMatches(pattern)]
    metals = [atom for atom in mol.GetAtoms() if atom.GetSymbol() in _METALS and atom.GetFormalCharge() > 0]
    joined = 0
    for metal in metals:
        while metal.GetFormalCharge() and (ligand := _next_ligand(mol, carbons, metal, joined)) is not None:
            metal.SetFormalCharge(metal.GetFormalCharge() - 1)
            ligand.SetFormalCharge(0)
            ligand.SetNoImplicit(True)
            mol.AddBond(metal.GetIdx(), ligand.GetIdx(), Chem.BondType.SINGLE)
            joined += 1
    if not joined:
        return parts
    Chem.SanitizeMol(mol)
    written = str(Chem.MolToSmiles(mol)).split(".")
    new = [part for part in written if part not in parts]
    notes.append(f"ions written as one organometal: {', '.join(dict.fromkeys(new))}")
    return written


def _next_ligand(mol: Any, carbons: list[int], metal: Any, joined: int) -> Any | None:
    """Return a carbanion without a metal, and after the last the halide of a metal that has one."""
    free = [mol.GetAtomWithIdx(index) for index in carbons if mol.GetAtomWithIdx(index).GetFormalCharge() < 0]
    if free:
        return free[0]
    if any(neighbour.GetSymbol() == "C" for neighbour in metal.GetNeighbors()) and joined:
        halides = (a for a in mol.GetAtoms() if a.GetSymbol() in ("Cl", "Br", "I") and a.GetFormalCharge() == -1)
        return next(halides, None)
    return None


def _join_acids(parts: list[str], notes: list[str]) -> list[str]:
    """Write H+ (or H3O+) and a halide as the acid."""
    left = list(parts)
    for proton in ("[H+]", "[OH3+]"):
        for halide in ("[Cl-]", "[Br-]", "[I-]", "[F-]"):
            while proton in left and halide in left:
                left.remove(proton)
                left[left.index(halide)] = halide[1:-2]
                left += ["O"] * (proton == "[OH3+]")
                note = f"{proton} and {halide} written as {halide[1:-2]}"
                notes += [note] * (note not in notes)
    return left
