"""InChI, with the usual tautomer of amides and aromatic amines where that leaves it open."""

import re
from pathlib import Path
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdinchi

from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules import parsing
from chemspec.chem.molecules.rdkit_tasks import RDKIT_ERRORS
from chemspec.chem.molecules.smiles_syntax import Fault
from chemspec.chem.molecules.traced_text import TracedText
from chemspec.chem.reading.values import RefusedError

# In a text, up to what can be no part of it: an arrow, or punctuation before a blank, the end or the next one.
_INCHI = re.compile(r"(?:InChI\s*=\s*|(?<![\w/])(?=1S))(1S?/[^\s>\"']+?)(?=[;,.]?(?:\s|$|InChI=)|[>\"']|[-=]{1,3}>)")
_MAX_CHARS = 5000
_MAX_INCHIS = 50  # InChIs of one text
_TAUTOMER = "InChI names no tautomer: this is one of perhaps several"


def replace_inchis(text: TracedText) -> tuple[TracedText, tuple[str, ...]] | Fault:
    """Write SMILES for all InChIs in a text, with a note where one leaves its tautomer open, or return a fault."""
    matches = [*_INCHI.finditer(text.chars)] if "/" in text.chars else []
    if len(matches) > _MAX_INCHIS:
        return text.fault(f"more than {_MAX_INCHIS} InChIs are too many for one query", "length")
    smiles: list[str] = []
    for match in matches:
        try:
            smiles.append(_smiles_of(f"InChI={match[1]}"))
        except RefusedError as error:
            return text[match.start() : match.end()].fault(str(error), error.kind)
    written = iter(smiles)
    changed = text.substitute(_INCHI, lambda _: next(written)) if matches else text
    if (start := changed.chars.find("InChI=")) >= 0:
        return changed[start:].fault("an InChI begins with InChI=1S/ or InChI=1/", "syntax")
    is_open = any("/h" in match[1] and "(H" in match[1] for match in matches)
    return changed, (_TAUTOMER,) * is_open


def _smiles_of(inchi: str) -> str:
    """Return the SMILES of one InChI; RefusedError if there is none."""
    if len(inchi) > _MAX_CHARS:
        raise RefusedError(f"this InChI is longer than {_MAX_CHARS} characters", "length")
    # RDKit takes seconds to see that 99999 molecules are too many.
    if re.search(r"\d{4}", inchi.split("/")[1]):
        raise RefusedError("the formula in this InChI is too large", "length")
    if refusal := parsing.inchi_refusal(inchi):
        raise RefusedError(refusal, "length")
    mol, reason = parsing.mol_from_inchi(inchi)
    if mol is None or mol.GetNumAtoms() == 0:
        reason = reason.strip().rstrip(".")
        message = "this InChI cannot be turned into a molecule; is it complete?"
        raise RefusedError(f"{message} ({reason})" if reason else message, "syntax")
    return str(Chem.MolToSmiles(usual_form(mol, inchi)))


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
