"""3-D view of a molecule: conformer by RDKit, rendering by 3Dmol.js, all local."""

import re
from functools import lru_cache
from html import escape
from string import Template

import py3Dmol
import streamlit as st

from chemspec import chem
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.system.forked import Forked
from chemspec.ui.common import escaping, theme, web_files
from chemspec.ui.common.web_files import web_file

_SANDBOX = Forked("chemspec.chem.molecules.sandbox")  # not `parsing.SANDBOX`: structures never wait for it
MAX_ATOMS = 200  # not counting hydrogen
STYLE = {"stick": {"radius": 0.13}, "sphere": {"scale": 0.24}}
ON_WHITE = (("H", "#cbd5d3"), ("C", "#66716f"))  # the usual white and light grey would not show


def show_3d_model(smiles: str, *, height: int = 320, key: str = "view3d") -> None:
    """Show a molecule that can be rotated with the mouse, or a line that says why not."""
    if reason := web_files.missing_reason("3dmol"):
        st.caption(f"No 3-D view here: {reason}.")
        return
    try:
        model = conformer_block(smiles)
    except ValueError as error:
        st.caption(f"No 3-D view: {escaping.plain_text(str(error))}.")
        return
    alt = f"3-D model of {smiles}; drag to turn it, scroll to zoom"
    with st.container(key=key):
        st.iframe(viewer_page(smiles, model, height, theme.is_dark()), height=height, alt=alt)


@lru_cache(maxsize=20)  # the same page again is not sent and loaded again
def viewer_page(smiles: str, model: str, height: int, dark: bool) -> str:
    """Return the viewer as a self-contained page."""
    folder = web_files.part_folder("3dmol")
    assert folder is not None
    library = (folder / web_files.PARTS["3dmol"]).read_text(encoding="utf-8")
    view = py3Dmol.view(width="100%", height=height, js="")
    view.addModel(model.replace("<", ""), "sdf")  # no mol block of ours has one
    view.setStyle(STYLE)
    for element, color in () if dark else ON_WHITE:
        view.addStyle({"elem": element}, {part: {**STYLE[part], "color": color} for part in STYLE})
    view.setBackgroundColor("black" if dark else "white", 0)
    view.zoomTo()
    view.zoom(1.15)  # 3Dmol leaves wide margins; more would cut off what is turned
    return Template(web_file("view3d.html")).substitute(
        color="#e6efed" if dark else "#14211f",
        label=escape(f"3-D model of {smiles}", quote=True),
        library=_escape_script(library),
        view=view.write_html(),
    )


def _escape_script(script: str) -> str:
    """Return a script's text in which no browser sees the end of the script."""
    return re.sub(r"</(?=script)", r"<\\/", script, flags=re.IGNORECASE).replace("<!--", r"<\!--")


def conformer_block(smiles: str) -> str:
    """Return a likely shape of every component, side by side with all hydrogens, as a mol block.

    The same SMILES always gets the same shape. ValueError if there is none, or the time runs out.
    """
    if fault := chem.explain(smiles):
        raise ValueError(fault.message)
    whole = mol_from_smiles(smiles)
    if (count := whole.GetNumHeavyAtoms()) > MAX_ATOMS:
        raise ValueError(f"{count} atoms are too many; the limit is {MAX_ATOMS}")
    if any(atom.GetAtomicNum() == 0 for atom in whole.GetAtoms()):
        raise ValueError("it holds an atom that is not named (*)")
    return shape_in_time(smiles)


@lru_cache(maxsize=200)  # it keeps no exceptions: a busy machine may have more time later
def shape_in_time(smiles: str) -> str:
    """Return `conformer.conformer`, computed in a process of its own; raises ValueError where it takes too long."""
    if block := _SANDBOX.ask("shape", smiles):
        return block
    raise ValueError("no shape was found in the time allowed")
