"""3-D view of a molecule: conformer by RDKit, rendering by 3Dmol.js, all local."""

import json
import re
from functools import lru_cache
from html import escape
from string import Template

import streamlit as st

from chemspec import chem
from chemspec.chem import shape
from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.smiles_syntax import Fault
from chemspec.ui.common import escaping, theme, web_files
from chemspec.ui.common.web_files import web_file

MAX_ATOMS = 200  # not counting hydrogen


def show_3d_model(smiles: str, *, height: int = 320, key: str = "view3d") -> None:
    """Show a molecule that can be rotated with the mouse, or a line that says why not."""
    if reason := web_files.missing_reason("3dmol"):
        st.caption(f"No 3-D view here: {reason}.")
        return
    model = conformer_block(smiles)
    if isinstance(model, Fault):
        st.caption(f"No 3-D view: {escaping.plain_text(model.message)}.")
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
    return Template(web_file("view3d.html")).substitute(
        color="#e6efed" if dark else "#14211f",
        label=escape(f"3-D model of {smiles}", quote=True),
        height=height,
        # No browser may see the end of the script in it.
        library=re.sub(r"</(?=script)", r"<\\/", library, flags=re.IGNORECASE).replace("<!--", r"<\!--"),
        dark=json.dumps(dark),
        model=json.dumps(model).replace("<", "\\u003c"),
    )


def conformer_block(smiles: str) -> str | Fault:
    """Return a likely shape of every component, side by side with all hydrogens, as a mol block; or why there is none.

    The same SMILES always gets the same shape, unless the time runs out.
    """
    if (fault := chem.explain(smiles)) is not None:
        return fault
    whole = mol_from_smiles(smiles)
    if whole.GetNumHeavyAtoms() > MAX_ATOMS:
        many = whole.GetNumHeavyAtoms()
        return _shape_fault(smiles, f"{many} atoms are too many; the limit is {MAX_ATOMS}")
    if any(atom.GetAtomicNum() == 0 for atom in whole.GetAtoms()):
        return _shape_fault(smiles, "it holds an atom that is not named (*)")
    try:
        return shape.in_time(smiles)
    except TimeoutError:
        return _shape_fault(smiles, "no shape was found in the time allowed")


def _shape_fault(smiles: str, message: str) -> Fault:
    return Fault(message, 0, len(smiles), "3d")
