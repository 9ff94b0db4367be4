"""Read peptides: Boc-Ala-Lys(Cbz)-OMe, three-letter codes, sequences of one-letter codes, and HELM."""

import re
from functools import cache
from pathlib import Path

from rdkit import Chem, rdBase

from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules.parsing import mol_from_sequence
from chemspec.chem.molecules.query import canonical

MAX_CHARS = 200  # characters
MIN_SEQUENCE = 6  # one-letter codes; fewer are an abbreviation as well
_RESIDUE = re.compile(r"(?:(D|L|DL)-)?([A-Z][a-z]{2}|bAla)(?:\((\w+)\))?")
_SEQUENCE = re.compile(rf"[ACDEFGHIKLMNPQRSTVWY]{{{MIN_SEQUENCE},100}}")
_HELM = re.compile(r"PEPTIDE\d+\{.*\}.*\$.*")


_CYCLIC = re.compile(r"(?:cyclo|c)-?[\[(](.+)[\])]", re.IGNORECASE)  # cyclo(Gly-Pro)


@cache
def _table(kind: str) -> dict[str, str]:
    rows = read_asset_table(Path(__file__).with_name("peptides.tsv"))
    return {name: "".join(smiles) for row_kind, name, *smiles in rows if row_kind == kind}


def read(text: str) -> str | None:
    """Return the canonical SMILES of a peptide in its usual notation; None if the text is none."""
    if len(text) > MAX_CHARS:
        return None
    if _HELM.fullmatch(text) or _SEQUENCE.fullmatch(text):
        return _read_by_rdkit(text)
    if match := _CYCLIC.fullmatch(text):
        return _read_codes(match[1], cyclic=True)
    return _read_codes(text) if "-" in text else None


def _read_by_rdkit(text: str) -> str | None:
    with rdBase.BlockLogs():
        mol = mol_from_sequence(text)
        return canonical(Chem.MolToSmiles(mol)) if mol is not None and mol.GetNumAtoms() else None


def _read_codes(text: str, *, cyclic: bool = False) -> str | None:
    """Read residues in three-letter code between hyphens; free ends may be left out."""
    parts = re.findall(r"(?:(?:D|L|DL)-)?[^-()]+(?:\([^()]*\)[^-()]*)?", text)
    if "-".join(parts) != text or not (residues := [part for part in parts if _residue(part)]):
        return None
    start = parts[0] if parts[0] in {*_table("protecting"), "H"} else ""
    end = parts[-1] if parts[-1] in _table("end") else ""
    if len(parts) != len(residues) + bool(start) + bool(end) or not (start or end or len(residues) > 1):
        return None
    before = _table("protecting").get(start, "")
    chain = "".join(f"N{_residue(residue)}C(=O)" for residue in residues)
    if cyclic:
        return None if start or end else canonical(f"N%11{chain[1:-5]}C%11=O")
    chain += _table("end").get(end, "O")
    if before:  # its bond is to the first nitrogen
        chain = f"N({before})" + chain[1:] if chain[1] != "9" else f"N9({before})" + chain[2:]
    return canonical(chain)


def _residue(part: str) -> str:
    """Return the SMILES of a residue between N and C(=O); empty if it is none."""
    match = _RESIDUE.fullmatch(part)
    side = _table("residue").get(match[2], "") if match else ""
    if match is None or not side or (match[3] and ("{}" not in side or match[3] not in _table("protecting"))):
        return ""
    if match[1] in ("D", "DL"):
        turned = {"@@": "@", "@": "@@"}
        side = re.sub("@@?", lambda mark: turned[mark[0]] if match[1] == "D" else "", side)
    group = _table("protecting")[match[3]] if match[3] else ""
    bare = "cn{}" in side
    filled = f"({group})" if group and bare else group
    return side.replace("cn{}", "c[nH]" if not group else f"cn{filled}") if bare else side.replace("{}", filled)
