"""InChI, with the usual tautomer of amides and aromatic amines where that leaves it open."""

import re
from pathlib import Path
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdinchi

from chemspec.asset_files import read_asset_table
from chemspec.chem import parsing
from chemspec.chem.read.values import Molecules
from chemspec.chem.smiles_syntax import Fault
from chemspec.chem.traced_text import TracedText
from chemspec.chem.trial import RDKIT_ERRORS

_INCHI = re.compile(r"\s*[\"']?(?:InChI\s*=\s*)?(1S?/\S+)")
# In a text, up to what can be no part of it: an arrow, or punctuation before a blank, the end or the next one.
_ANY = re.compile(r"(?:InChI\s*=\s*1S?|(?<![\w/])1S)/[^\s>\"']+?(?=[;,.]?(?:\s|$|InChI=)|[>\"']|[-=]{1,3}>)")
_LONGEST_INCHI = 5000
_MOST = 50  # in one text


def read_one(inchi: str) -> Molecules | Fault:
    """Read a text that is one InChI, with a note where that leaves its tautomer open."""
    line = inchi.strip().strip("\"'")
    match = _INCHI.match(line)
    whole = 0, len(inchi)
    if match is None:
        return Fault("an InChI begins with InChI=1S/ or InChI=1/", *whole, "syntax")
    if len(line) > _LONGEST_INCHI:
        return Fault(f"this InChI is longer than {_LONGEST_INCHI} characters", *whole, "length")
    # RDKit takes seconds to see that 99999 molecules are too many.
    if re.search(r"\d{4}", match[1].split("/")[1]):
        return Fault("the formula in this InChI is too large", *whole, "length")
    if refusal := parsing.inchi_refusal(f"InChI={match[1]}"):
        return Fault(refusal, *whole, "length")
    mol, code, reason = parsing.mol_from_inchi(f"InChI={match[1]}")
    if mol is None or mol.GetNumAtoms() == 0 or code:
        reason = reason.strip().rstrip(".")
        message = "this InChI cannot be turned into a molecule; is it complete?"
        return Fault(f"{message} ({reason})" if reason else message, *whole, "syntax")
    notes = ("InChI names no tautomer: this is one of perhaps several",) * ("/h" in line and "(H" in line)
    return Molecules([str(Chem.MolToSmiles(usual_form(mol, f"InChI={match[1]}")))], notes)


def replace_inchis(text: TracedText) -> tuple[TracedText, tuple[str, ...]] | Fault:
    """Write SMILES for all InChIs in a text, with notes; the first that cannot be read is the fault."""
    notes: dict[str, None] = {}
    faults: list[Fault] = []
    if sum(1 for _ in _ANY.finditer(text.chars)) > _MOST:
        return text.fault(f"more than {_MOST} InChIs are too many for one query", "length")

    def smiles(match: re.Match[str]) -> str:
        read = read_one(match.group()) if not faults else Fault("", 0, 0, "")
        if isinstance(read, Fault):
            faults.append(text[match.start() : match.end()].fault(read.message, read.kind))
            return ""
        notes.update(dict.fromkeys(read.notes))
        return str(read.parts[0])

    changed = text.substitute(_ANY, smiles)
    if not faults and (start := changed.chars.find("InChI=")) >= 0:
        faults.append(changed[start:].fault("an InChI begins with InChI=1S/ or InChI=1/", "syntax"))
    return faults[0] if faults else (changed, tuple(notes))


_RARE = [parsing.mol_from_smarts(row[0]) for row in read_asset_table(Path(__file__).with_name("rare_tautomers.tsv"))]


def usual_form(mol: Any, inchi: str) -> Any:
    """Return the molecule with C(=O)N for C(O)=N and Nc1ncc... for N=c1[nH]c..., where the InChI leaves that open.

    RDKit takes the rare one, and a model has hardly seen it.
    """
    better = Chem.RWMol(mol)
    with rdBase.BlockLogs():
        try:
            for pattern in _RARE:
                while match := better.GetSubstructMatch(pattern):
                    _move_hydrogen(better, match[0], match[1], match[-1])
            plain = parsing.mol_from_smiles(Chem.MolToSmiles(better))
            return plain if plain is not None and rdinchi.MolToInchi(plain)[0] == inchi else mol
        except RDKIT_ERRORS:
            return mol


def _move_hydrogen(mol: Any, taker: int, carbon: int, giver: int) -> None:
    """Move a hydrogen from `giver` to `taker`, which has a double or aromatic bond to the carbon between them."""
    bond = mol.GetBondBetweenAtoms(taker, carbon)
    if not bond.GetIsAromatic() or mol.GetAtomWithIdx(giver).GetIsAromatic():
        bond.SetBondType(Chem.BondType.SINGLE)
        bond.SetStereo(Chem.BondStereo.STEREONONE)
    if not mol.GetAtomWithIdx(giver).GetIsAromatic():
        mol.GetBondBetweenAtoms(carbon, giver).SetBondType(Chem.BondType.DOUBLE)
    for index, hydrogens in ((taker, 1), (giver, -1)):
        atom = mol.GetAtomWithIdx(index)
        if atom.GetIsAromatic() or atom.GetNoImplicit() or atom.GetNumExplicitHs():
            atom.SetNumExplicitHs(atom.GetNumExplicitHs() + hydrogens)
    Chem.SanitizeMol(mol)
