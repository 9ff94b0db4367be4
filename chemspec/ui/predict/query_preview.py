"""How the text in the box was read: a drawing, with formula and mass."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from rdkit import rdBase
from rdkit.Chem import Descriptors, rdMolDescriptors

from chemspec.chem.names import name_list
from chemspec.chem.names.short_names import split_drawn_and_named
from chemspec.chem.parsing import mol_from_smiles
from chemspec.settings import Task
from chemspec.ui.common import draw, scheme, theme

_LOWER, _UPPER = (str.maketrans("0123456789", small) for small in ("₀₁₂₃₄₅₆₇₈₉", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
_ISOTOPE = re.compile(r"\[(\d+)([A-Z][a-z]?)\]")


@lru_cache(maxsize=500)
def describe_query(smiles: str) -> str:
    """Return name, formula and mass of one molecule, the name if it has a common one, or how many there are."""
    parts = smiles.split(".")
    with rdBase.BlockLogs():
        mol = mol_from_smiles(smiles)
        formula = rdMolDescriptors.CalcMolFormula(mol, separateIsotopes=True)  # D for deuterium
        formula = _ISOTOPE.sub(lambda isotope: isotope[1].translate(_UPPER) + isotope[2], formula).translate(_LOWER)
        mass = Descriptors.MolWt(mol)  # type: ignore[attr-defined]
    if len(parts) > 1:
        return f"{len(parts)} molecules or ions"
    return " · ".join(filter(None, (name_list.name_in_list(smiles), formula, f"{mass:.1f}")))


def has_bonds_to_mark(smiles: str) -> bool:
    """Return whether this is one molecule with bonds to mark, small enough to be drawn."""
    return "." not in smiles and 1 < mol_from_smiles(smiles).GetNumAtoms() <= draw.MAX_ATOMS


def query_html(smiles: str, task: Task, origins: draw.Colouring | None = None) -> str:
    """Return the drawn query as safe HTML; common reagents of a flask are named below."""
    dark, side = theme.is_dark(), scheme.Side(smiles, origins=origins)
    if task == "retro":
        return f'<div class="cs-read">{scheme.side_html(side, dark=dark)}</div>'
    drawn, names = split_drawn_and_named(smiles.split("."))
    names_html = f"<p>{' · '.join(names)}</p>" if names else ""
    return f'<div class="cs-read">{scheme.side_html(side, dark=dark, only=drawn)}{names_html}</div>'


def other_side_html(smiles: str, task: Task) -> str:
    """Return the other side of a reaction that will be checked, as safe HTML; empty where there is none."""
    if not smiles:
        return ""
    word = "gives, as you wrote" if task == "forward" else "is made from, as you wrote"
    return f'<p class="cs-hint">{word}</p>{query_html(smiles, "retro" if task == "forward" else "forward")}'


def numbered_bonds(made: Sequence[draw.Bonds]) -> tuple[tuple[tuple[int, int], str], ...]:
    """Return the bonds that the cards make, each with the numbers of its cards."""
    numbers: dict[tuple[int, int], list[str]] = {}
    for rank, bonds in enumerate(made, 1):
        for pair in bonds:
            numbers.setdefault(pair, []).append(str(rank))
    return tuple((pair, ",".join(ranks)) for pair, ranks in numbers.items())
