"""A molecule in three dimensions: shape by RDKit, picture by 3Dmol.js, all on this machine."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from html import escape
from string import Template
from typing import Any

import py3Dmol
import streamlit as st
from rdkit import Chem, rdBase
from rdkit.Chem import rdDistGeom, rdForceFieldHelpers
from rdkit.Geometry import Point3D

from chemspec import chem
from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.smiles_syntax import Fault
from chemspec.ui.common import safe, theme, vendor
from chemspec.ui.common.web_files import web_file

MOST_ATOMS = 200  # not counting hydrogen
SECONDS = 2.0  # for all components together
SEED = 7
GAP = 2.5  # Å between components
STEPS = 20  # of the optimizer between two looks at the clock
STYLE = {"stick": {"radius": 0.13}, "sphere": {"scale": 0.24}}
ON_WHITE = (("H", "#cbd5d3"), ("C", "#66716f"))  # the usual white and light grey would not show


def show(smiles: str, *, height: int = 320, key: str = "view3d") -> None:
    """Put a molecule on the page that can be turned with the mouse, or a line that says why not."""
    if reason := vendor.why_not("3dmol"):
        st.caption(f"No 3-D view here: {reason}.")
        return
    model = conformer(smiles)
    if isinstance(model, Fault):
        st.caption(f"No 3-D view: {safe.plain(model.message)}.")
        return
    alt = f"3-D model of {smiles}; drag to turn it, scroll to zoom"
    with st.container(key=key):
        st.iframe(page(smiles, model, height, theme.dark()), height=height, alt=alt)


@lru_cache(maxsize=20)  # kept, because a page that differed at every run would be sent and loaded anew
def page(smiles: str, model: str, height: int, dark: bool) -> str:
    """Return the viewer as a page that asks nobody for anything.

    Args:
        smiles: the molecule, to name the picture.
        model: a mol block, from `conformer`.
        height: in pixels.
        dark: for a dark page.
    """
    place = vendor.folder("3dmol")
    assert place is not None
    library = (place / vendor.PARTS["3dmol"]).read_text(encoding="utf-8")
    view = py3Dmol.view(width="100%", height=height, js="")
    view.addModel(model.replace("<", ""), "sdf")  # which in no mol block of ours is
    view.setStyle(STYLE)
    for element, color in () if dark else ON_WHITE:
        view.addStyle({"elem": element}, {part: {**STYLE[part], "color": color} for part in STYLE})
    view.setBackgroundColor("black" if dark else "white", 0)
    view.zoomTo()
    view.zoom(1.15)  # 3Dmol leaves wide margins; more would cut off what is turned
    return Template(web_file("view3d.html")).substitute(
        color="#e6efed" if dark else "#14211f",
        label=escape(f"3-D model of {smiles}", quote=True),
        library=_inert(library),
        view=view.write_html(),
    )


def _inert(script: str) -> str:
    """Return a script's text in which no browser sees the end of the script."""
    return re.sub(r"</(?=script)", r"<\\/", script, flags=re.IGNORECASE).replace("<!--", r"<\!--")


def conformer(smiles: str) -> str | Fault:
    """Return a likely shape of every component, side by side with all hydrogens, as a mol block; or why there is none.

    The same SMILES always gets the same shape (ETKDG, then MMFF94 or, where that lacks parameters, UFF), unless the
    time runs out.
    """
    if (fault := chem.explain(smiles)) is not None:
        return fault
    whole = mol_from_smiles(smiles)
    if whole.GetNumHeavyAtoms() > MOST_ATOMS:
        many = whole.GetNumHeavyAtoms()
        return _fault(smiles, f"{many} atoms are too many; the limit is {MOST_ATOMS}")
    if any(atom.GetAtomicNum() == 0 for atom in whole.GetAtoms()):
        return _fault(smiles, "it holds an atom that is not named (*)")
    try:
        return _shape(smiles)
    except TimeoutError:
        return _fault(smiles, "no shape was found in the time allowed")


@lru_cache(maxsize=200)  # which keeps no exceptions: a busy machine may have more time later
def _shape(smiles: str) -> str:
    whole = mol_from_smiles(smiles)
    for atom in whole.GetAtoms():
        atom.SetAtomMapNum(0)
    end = time.monotonic() + SECONDS
    parts = []
    with rdBase.BlockLogs():
        for fragment in Chem.GetMolFrags(whole, asMols=True):
            part = Chem.AddHs(fragment)
            _embed(part, end)
            _relax(part, end)
            parts.append(part)
        return str(Chem.MolToMolBlock(_side_by_side(parts)))


def _fault(smiles: str, message: str) -> Fault:
    return Fault(message, 0, len(smiles), "3d")


def _embed(mol: Any, end: float) -> None:
    """Give the molecule coordinates, or raise TimeoutError."""
    large = mol.GetNumHeavyAtoms() > 80  # for these a start by chance is faster
    for by_chance in (large, not large):
        params: Any = rdDistGeom.ETKDGv3()
        params.randomSeed = SEED
        params.useRandomCoords = by_chance
        params.timeout = 1  # whole seconds
        if time.monotonic() < end and rdDistGeom.EmbedMolecule(mol, params) == 0:
            return
    raise TimeoutError


def _relax(mol: Any, end: float) -> None:
    """Go downhill in energy as far as time allows."""
    if rdForceFieldHelpers.MMFFHasAllMoleculeParams(mol):
        field = rdForceFieldHelpers.MMFFGetMoleculeForceField(mol, rdForceFieldHelpers.MMFFGetMoleculeProperties(mol))
    elif rdForceFieldHelpers.UFFHasAllMoleculeParams(mol):
        field = rdForceFieldHelpers.UFFGetMoleculeForceField(mol)
    else:
        return  # the embedding's shape is good enough to look at
    field.Initialize()
    while time.monotonic() < end and field.Minimize(maxIts=STEPS):
        pass


def _side_by_side(parts: list[Any]) -> Any:
    """Return one molecule of many, none in another's way."""
    whole, right = Chem.Mol(), 0.0
    for part in parts:
        places = part.GetConformer().GetPositions()  # (atoms, 3), in Å
        left, middle = places[:, 0].min(), (places.max(axis=0) + places.min(axis=0)) / 2
        offset = Point3D(right - left, -middle[1], -middle[2])
        whole = Chem.CombineMols(whole, part, offset)
        right += places[:, 0].max() - left + GAP
    return whole
