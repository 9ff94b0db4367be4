"""Notes on what a valid SMILES loses when it is read: stereo without a stereocentre, atoms that are radicals."""

from __future__ import annotations

import re

from chemspec.chem import parsing

_MARK = re.compile("@@?")
_RADICAL = re.compile(r"\[(?:C|CH|CH2|CH3|c)\]")
_ALLENE = re.compile(r"=\[C@@?\](?:\(?=)")
_BARE_CENTRE = re.compile(r"\[C@@?(?::\d+)?\]")


def lost(typed: str, smiles: str) -> tuple[str, ...]:
    """Return notes on what is in a typed valid SMILES but not in the canonical one of the same molecules."""
    notes = []
    bracketed = [part for part in smiles.split(".") if part != "[C]" and _RADICAL.search(part)]
    if any(map(_has_radical, bracketed)):
        centre = _BARE_CENTRE.search(typed)
        meant = f"; perhaps {centre[0][:-1].split(':')[0]}H] was meant for {centre[0]}" if centre else ""
        notes.append(f"an atom in brackets without its hydrogens is read as a radical{meant}")
    if "@" in typed and len(_MARK.findall(typed)) > len(_MARK.findall(smiles)):
        if _ALLENE.search(typed):
            notes.append("the stereo of an allene is left out")
        else:
            notes.append("stereo marks left out: their atoms are no stereocentres")
    return tuple(notes)


def _has_radical(smiles: str) -> bool:
    mol = parsing.mol_from_smiles(smiles)
    return mol is not None and any(
        atom.GetSymbol() == "C" and atom.GetNumRadicalElectrons() > 0 for atom in mol.GetAtoms()
    )
