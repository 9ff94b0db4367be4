"""Molfiles and SDF files: their first molecule."""

from __future__ import annotations

from dataclasses import replace

import chemspec.chem.read.molfile as molfile
from chemspec.chem.read.values import Molecules
from chemspec.chem.smiles_syntax import Fault


def read_sdf(text: str, _: str) -> Molecules | Fault:
    """Read a molfile, or the first record of an SDF."""
    lines = molfile.split_lines(text)
    ends = [number for number, line in enumerate(lines) if line.text.startswith("$$$$")]
    others = len(ends) - 1 + bool("".join(line.text for line in lines[ends[-1] + 1 :]).strip()) if ends else 0
    note = f"the first of {others + 1} records; the Batch page takes many"
    molecules = molfile.read_molfile(lines[: ends[0]] if ends and ends[0] else lines)
    return (
        molecules
        if isinstance(molecules, Fault)
        else replace(molecules, notes=(note,) * bool(others) + molecules.notes)
    )
