"""The query of the page: how it was read, its drawing with bonds to mark, and the constraints of a disconnection."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeGuard

import streamlit as st
from rdkit import rdBase
from rdkit.Chem import rdMolDescriptors

from chemspec.chem import formats
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.reactions import guide
from chemspec.chem.reactions.guide import Guide
from chemspec.chem.reactions.step_class import families
from chemspec.chem.reading.names.reagents import name_in_list
from chemspec.chem.reading.names.short_names import split_drawn_and_named
from chemspec.depict.molecules import MAX_ATOMS, Bonds
from chemspec.depict.schemes import Side
from chemspec.types import DecodeResult
from chemspec.ui.common import bond_picker, scheme
from chemspec.ui.common.escaping import Html, plain_text, tag
from chemspec.ui.common.query_box import Read

LINK = "guide"  # parameter of the address
MAX_GUIDE_CHARS = 2000
_GUIDE = "predict_guide"  # session key of the target, and its guide
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
        mass = rdMolDescriptors._CalcMolWt(mol)  # `Descriptors`, with its wrapper, takes 0.1 s to import
    if len(parts) > 1:
        return f"{len(parts)} molecules or ions"
    return " · ".join(filter(None, (name_in_list(smiles), formula, f"{mass:.1f}")))


def has_bonds_to_mark(read: Read, task: str) -> TypeGuard[formats.Input]:
    """Return whether this is one molecule to make, with bonds to mark, small enough to be drawn."""
    if task != "retro" or not isinstance(read, formats.Input) or "." in read.ordered:
        return False
    return bool(1 < mol_from_smiles(read.ordered).GetNumAtoms() <= MAX_ATOMS)


def query_html(smiles: str, task: str) -> Html:
    """Return the drawn query as safe HTML; common reagents of a flask are named below."""
    drawn, names = (None, ()) if task == "retro" else split_drawn_and_named(smiles.split("."))
    named = tag("p", " · ".join(names)) if names else ""
    return tag("div.cs-read", scheme.side_html(Side(smiles), only=drawn), named)


def numbered_bonds(made: Sequence[Bonds]) -> tuple[tuple[tuple[int, int], str], ...]:
    """Return the bonds that the cards make, each with the numbers of its cards."""
    numbers: dict[tuple[int, int], list[str]] = {}
    for rank, bonds in enumerate(made, 1):
        for pair in bonds:
            numbers.setdefault(pair, []).append(str(rank))
    return tuple((pair, ",".join(ranks)) for pair, ranks in numbers.items())


def current_guide(target: str) -> Guide:
    """Return this visitor's constraints for a target."""
    stored: tuple[str, Guide] = st.session_state.get(_GUIDE, ("", Guide()))
    return stored[1] if stored[0] == target else Guide()


def set_guide(target: str, constraints: Guide) -> None:
    """Set the constraints for a target; a callback for buttons."""
    st.session_state[_GUIDE] = (target, constraints)


def follow_guide_link(target: str) -> None:
    """Read the constraints from the address; those that do not fit the target are dropped."""
    text = st.query_params.get(LINK, "")[:MAX_GUIDE_CHARS]
    if not text:
        return
    try:
        constraints = guide.parse_guide(text)
        guide.guide_predicate(constraints, target)
    except ValueError:
        return
    set_guide(target, constraints)


def show_guide_picker(target: str, marked: Sequence[tuple[tuple[int, int], str]]) -> None:
    """Draw the target, to mark its bonds; those that answers make are bold and numbered."""
    constraints, bonds = current_guide(target), guide.bonds_by_name(target)
    broken = {bonds[name] for name in constraints.cut}  # all answers break them: no numbers under the mark
    plain = [(pair, text) for pair, text in marked if pair not in broken]
    bond_picker.show_bond_picker(
        target,
        (constraints.cut, constraints.keep),
        key="predict_bonds",
        on_change=lambda smiles, marks: set_guide(smiles, replace(current_guide(smiles), cut=marks[0], keep=marks[1])),
        bold=tuple(pair for pair, _ in plain),
        notes=tuple(text for _, text in plain),
    )


def _classes_chosen(target: str) -> None:
    set_guide(target, replace(current_guide(target), only=tuple(st.session_state.predict_only)))


def show_class_menu(target: str) -> None:
    """Draw the choice of reaction classes."""
    constraints = current_guide(target)
    st.session_state["predict_only"] = list(constraints.only)
    count = f" ({len(constraints.only)})" * bool(constraints.only)
    with st.popover(f"Classes{count}", type="tertiary"):
        st.multiselect(
            "Only these classes of steps",
            list(families()),
            format_func=families().__getitem__,
            key="predict_only",
            on_change=_classes_chosen,
            args=(target,),
            placeholder="all",
        )
        st.caption("Classes are inferred by comparing structures. If too few answers fit, up to 100 are searched.")


def show_guide_effect(result: DecodeResult, target: str) -> None:
    """Show how many predictions the constraints exclude."""
    constraints = current_guide(target)
    if result.distinct is None or not str(constraints):
        return
    excluded, width = result.distinct.excluded, result.distinct.widths[-1]
    only = [str(families().get(name)) for name in constraints.only]
    verbs = {"breaking": constraints.cut, "keeping": constraints.keep, "only": only}
    words = ", ".join(f"{verb} {' or '.join(names)}" for verb, names in verbs.items() if names)
    head = f"{words[:1].upper()}{words[1:]}: {len(excluded)} other answers left out, {width} candidates searched."
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="predict_guided"):
        st.caption(plain_text(head), width="stretch")
        cleared = (target, Guide())
        st.button("Clear constraints", key="predict_unguide", type="tertiary", on_click=set_guide, args=cleared)
