"""The structure editor: Ketcher in a frame, synchronised with a text in both directions.

Text and canvas cannot chase each other, because neither side speaks unless a person acted:

* Python sends a text to the canvas only when it means something else than the canvas is known to hold, and gives it a
  new `push`. The canvas takes a text only with a push that it has not seen, so a re-run of the page changes nothing.
* The canvas reports only what differs from what it read right after a text was put on it: an edit by hand. Each report
  has a number, `edit`, that grows. Python sends the last one back as `seen`. A text that was sent before Python had
  seen the last edit is out of date, and the canvas drops it: who acted last wins.
* Texts are compared as molecules: Ketcher writes C1C=CC=CC=1 for c1ccccc1, and that is no change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from secrets import token_hex
from typing import Any

import streamlit as st
import streamlit.components.v1 as components
from rdkit import Chem, rdBase

from chemspec import chem
from chemspec.chem.parsing import mol_from_smiles
from chemspec.ui.common import web_files

LONGEST = 4 * chem.LONGEST  # characters; three sides of a reaction and more


@dataclass
class _Canvas:
    """The server's state of one visitor's canvas.

    Attributes:
        holds: what is on it: the text sent last, or the drawing reported last.
        text: the text box's content at the last run.
        push: names the text sent last.
        drawn: an edit that this run has not returned yet.
    """

    holds: str = ""
    text: str = ""
    push: str = ""
    drawn: str | None = None


def show_sketcher(
    smiles: str, *, key: str, height: int = 480, on_change: Callable[[str], None] | None = None
) -> str | None:
    """Draw a canvas that shows `smiles` and can be drawn on; one per page (Ketcher allows no more).

    Args:
        smiles: a SMILES or reaction SMILES. What cannot be read leaves the canvas as it was; "" clears it.
        key: of the widget; also keeps the state.
        height: in pixels.
        on_change: gets what was drawn, before the script runs.

    Returns:
        What a person drew since the last run, as (reaction) SMILES, canonical where RDKit can read it, "" for a canvas
        wiped clean; None where nothing was drawn or what was drawn means the same as `smiles`.
    """
    if web_files.part_folder("ketcher") is None:
        return None
    state: _Canvas = st.session_state.setdefault(f"_{key}_canvas", _Canvas())
    state.text = smiles
    if not state.push or (_is_readable(smiles) and not same_molecules(smiles, state.holds)):
        state.push = token_hex(8)
        state.holds = smiles if _is_readable(smiles) else ""

    def canvas_changed() -> None:
        report = _reported_edit(st.session_state.get(key))
        if report is None:
            return
        state.holds = canonical_sides(report[0])
        if not same_molecules(state.holds, state.text):
            state.drawn = state.holds
            if on_change:
                on_change(state.holds)

    report = _reported_edit(st.session_state.get(key))
    _sketcher_component(web_files.vendor_dir())(
        smiles=kekulized(state.holds),
        push=state.push,
        seen=report[1] if report else 0,
        height=height,
        key=key,
        default=None,
        on_change=canvas_changed,
    )
    new, state.drawn = state.drawn, None
    return new


@lru_cache
def _sketcher_component(home: Path) -> Any:
    # Here and not in a page: Streamlit requires that an imported module declares a component.
    return components.declare_component("sketcher", path=home / "ketcher")


def _reported_edit(value: Any) -> tuple[str, int] | None:
    """Return the drawing that the browser reports, and the number of the edit; None for anything else."""
    match value:
        case {"smiles": str(drawn), "edit": int(edit)} if len(drawn) <= LONGEST:
            return drawn.partition(" ")[0], edit  # what follows a blank is an extension: CXSMILES
    return None


def same_molecules(a: str, b: str) -> bool:
    """Return whether two (reaction) SMILES mean the same; what cannot be read equals only itself."""
    return a == b or canonical_sides(a) == canonical_sides(b)


@lru_cache(maxsize=1000)
def canonical_sides(text: str) -> str:
    """Return the (reaction) SMILES with every readable side canonical."""
    sides = chem.ARROW_HEAD.split(text.strip())
    return ">".join(chem.canonical(side) or side for side in sides)


@lru_cache(maxsize=1000)
def kekulized(text: str) -> str:
    """Return a (reaction) SMILES with alternating bonds in its rings: of aromatic ones Ketcher draws circles."""

    def side(smiles: str) -> str:
        with rdBase.BlockLogs():
            mol = mol_from_smiles(smiles)
            if mol is None:
                return smiles
            Chem.Kekulize(mol, clearAromaticFlags=True)
            return str(Chem.MolToSmiles(mol, canonical=False))

    return ">".join(map(side, chem.ARROW_HEAD.split(text.strip())))


@lru_cache(maxsize=1000)
def _is_readable(text: str) -> bool:
    """Return whether there is anything the canvas could show; nothing at all is an empty canvas."""
    sides = chem.ARROW_HEAD.split(text.strip())
    return len(sides) in (1, 3) and all(not side or chem.is_valid(side) for side in sides)
