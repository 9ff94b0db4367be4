"""Texts in drawings: words that name molecules, as over an arrow, and labels of atoms that are groups, such as Boc."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rdkit import Chem

from chemspec.asset_files import read_asset_table
from chemspec.chem.names import reagents
from chemspec.chem.parsing import mol_from_smiles

LONGEST = 500  # characters; what stands over an arrow is shorter
_NUMBER = r"(?:ca\.?|~|<|>|≥|≤)?\s*\d+(?:[.,]\d+)?(?:\s*(?:-|–|to|:)\s*\d+(?:[.,]\d+)?)?"
_UNIT = (
    r"(?:mol\s?-?%|(?:wt|w/w|v/v|vol)\.?\s?-?%|%|equiv(?:alents?|s)?\.?|eqs?\.?|mmol|µmol|umol|mol|mM|M|N|mL|ml|µL|uL|L"
    r"|mg|g|kg|vols?\.?|x|×|Å|A|°\s?C|°|C|K|h|hrs?\.?|hours?|min\.?|minutes?|s|d|days?|bar|atm|psi|W|nm)"
)
_AMOUNT = rf"{_NUMBER}\s*{_UNIT}(?![A-Za-z(])"
_STATE = (
    r"(?:aq(?:ueous)?|sat(?:urated|d|'d)?|conc(?:entrated)?|dil(?:ute)?|cat(?:alytic)?|anh(?:yd(?:rous)?)?|abs(?:olute)?"
    r"|dry|excess|xs|glacial|neat|fuming|solid|powder(?:ed)?)\b\.?"
)
_LEFT = re.compile(rf"^(?:\(?(?:\d{{1,2}}|[a-h]|[ivx]+)[.)]\)?\s+|{_AMOUNT}\s*(?:of\s+)?|{_STATE}\s*)", re.IGNORECASE)
_RIGHT = re.compile(
    rf"\s*(?:\(\s*(?:{_AMOUNT}|{_STATE}|g|s|l|aq)(?:[,;\s]+(?:{_AMOUNT}|{_STATE}))*\s*\)|\b{_AMOUNT}|\b{_STATE})$",
    re.IGNORECASE,
)
_LIST = re.compile(r"\s*[;\n]\s*|,\s+|,$|\s+[+&]\s+|\s+(?:and|then|with|in)\s+|\s*→\s*")
_CLOSE = re.compile(r"[,/]|\s+")  # parts names only where all pieces are names
_ATMOSPHERE = {"n2", "ar", "nitrogen", "argon", "air"}  # above the flask, not in it


@dataclass(frozen=True)
class Label:
    """What a text in a drawing says."""

    smiles: tuple[str, ...] = ()  # of the molecules that are named
    notes: tuple[str, ...] = ()  # what the names stand for
    rest: tuple[str, ...] = ()  # words that name no molecule, such as conditions


def read_label(text: str) -> Label:
    """Read the names in a text; amounts, states and conditions are no molecules."""
    text = text.strip()
    if len(text) > LONGEST:
        return Label(rest=(f"{text[:60]}...",))
    if whole := _name(" ".join(text.split())):
        return _label([whole], [])
    entries: list[tuple[str, str, str]] = []
    rest: list[str] = []
    for part in filter(None, _LIST.split(text)):
        part = " ".join(part.split())
        named = _name(part)
        several = [] if named else [_name(piece) for piece in filter(None, _CLOSE.split(part))]
        if named:
            entries.append(named)
        elif several and None not in several:
            entries += [entry for entry in several if entry]
        else:
            rest.append(part)
    return _label(entries, rest)


def _label(entries: list[tuple[str, str, str]], rest: list[str]) -> Label:
    in_flask = [entry for entry in entries if entry[0].casefold() not in _ATMOSPHERE]
    above = [name for name, _, _ in entries if name.casefold() in _ATMOSPHERE]
    notes = [name if name.casefold() == full.casefold() else f"{name}: {full}" for name, full, _ in in_flask]
    return Label(tuple(smiles for _, _, smiles in in_flask), tuple(notes), (*rest, *above))


def _name(text: str) -> tuple[str, str, str] | None:
    """Return the name in a text, its full name and its SMILES."""
    while text:
        if reagent := reagents.find_by_name(text):
            return text, reagent[1], reagent[0]
        bare = _RIGHT.sub("", _LEFT.sub("", text, count=1), count=1).strip()
        if bare == text:
            return None
        text = bare
    return None


def text_note(words: Sequence[str]) -> list[str]:
    """Return a note on texts of a drawing that name no molecule; empty if there is none."""
    return [f"text in the drawing left out: {', '.join(filter(None, words))[:60]!r}"] * any(words)


TABLE = Path(__file__).with_name("groups.tsv")


def only_numbers(label: str, symbol: str) -> bool:
    """Return whether a label says no more than the element of its atom: C, C7, CH3, H2N, 12 and the like."""
    bare = label.strip()
    if re.fullmatch(r"\d{1,4}[a-z]?'?", bare):
        return True
    element = re.escape(symbol)
    return bool(re.fullmatch(rf"(?i:{element})(?:\d{{1,4}}[a-z]?'*|H\d?)?|H\d?{element}", bare))


@cache
def _known() -> dict[str, str]:
    return {name: smiles for names, smiles in read_asset_table(TABLE) for name in names.split()}


def group_smiles(label: str) -> str:
    """Return the SMILES of a group, its first atom the one with the open bond; empty if it is not known."""
    return _known().get(re.sub(r"\s+", "", label), "")


def expand_groups(mol: Any, labels: dict[int, str]) -> Any:
    """Return a molecule with groups in place of labelled atoms (by index), which have one bond each.

    The molecule is as drawn, not sanitized, so that the stereo of a drawn centre is there whatever the label holds.
    RDKIT_ERRORS if a group does not fit.
    """
    changed = Chem.RWMol(mol)
    for index, label in labels.items():
        group = mol_from_smiles(group_smiles(label))
        start = changed.GetNumAtoms()
        changed.InsertMol(group)
        neighbour = changed.GetAtomWithIdx(index).GetNeighbors()[0].GetIdx()
        # The first atom of the group takes the place of the labelled one, so that the stereo of its neighbour stays.
        first = Chem.Atom(changed.GetAtomWithIdx(start))
        first.SetNumRadicalElectrons(0)
        changed.ReplaceAtom(index, first)
        for bond in list(changed.GetAtomWithIdx(start).GetBonds()):
            other = bond.GetOtherAtomIdx(start)
            changed.AddBond(index, other, bond.GetBondType())
            changed.GetBondBetweenAtoms(index, other).SetIsAromatic(bond.GetIsAromatic())
            changed.RemoveBond(start, other)
        changed.GetBondBetweenAtoms(index, neighbour).SetBondType(Chem.BondType.SINGLE)
        changed.RemoveAtom(start)
    whole = changed.GetMol()
    Chem.SanitizeMol(whole)
    if whole.GetNumConformers():
        Chem.DetectBondStereochemistry(whole)
    Chem.AssignStereochemistry(whole, cleanIt=True, force=True)
    return whole
