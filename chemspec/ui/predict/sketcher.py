"""The structure editor: Ketcher in a frame."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit.components.v1 as components
from rdkit import Chem, rdBase

from chemspec import chem
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.ui.common import web_files

MAX_CHARS = 4 * chem.MAX_LENGTH  # characters; three sides of a reaction and more


def show_sketcher(smiles: str, *, key: str, height: int = 480) -> str:
    """Draw a canvas with a (reaction) SMILES, nothing if unreadable; one per page (Ketcher allows no more).

    Returns what is on it: `smiles` until a person draws, then a (reaction) SMILES, canonical where RDKit can read it;
    "" for a canvas wiped clean.
    """
    # The canvas puts a text on itself once for each `push`, and unless it has reported a later edit than `seen`.
    options = {"smiles": kekulized(smiles), "push": f"of {smiles}", "seen": 0, "height": height}
    drawn = parse_drawing(_sketcher_component(web_files.vendor_dir())(**options, key=key, default=None))
    if drawn is None or canonical_sides(drawn) == canonical_sides(smiles):
        return smiles
    return canonical_sides(drawn)


@lru_cache
def _sketcher_component(home: Path) -> Any:
    # Here and not in a page: Streamlit requires that an imported module declares a component.
    return components.declare_component("sketcher", path=home / "ketcher")


def parse_drawing(report: Any) -> str | None:
    """Return the SMILES of what the sketcher reports, None where it reports nothing usable."""
    match report:
        case {"smiles": str(drawn), "edit": int()} if len(drawn) <= MAX_CHARS:
            return drawn.partition(" ")[0]  # what follows a blank is an extension: CXSMILES
    return None


@lru_cache(maxsize=1000)
def canonical_sides(text: str) -> str:
    """Return the (reaction) SMILES with every readable side canonical: Ketcher writes C1C=CC=CC=1 for c1ccccc1."""
    sides = chem.ARROW_HEAD.split(text.strip())
    return ">".join(chem.canonical(side) or side for side in sides)


@lru_cache(maxsize=1000)
def kekulized(text: str) -> str:
    """Return a (reaction) SMILES with alternating bonds in its rings; empty if unreadable.

    Ketcher draws aromatic rings with circles.
    """

    def side(smiles: str) -> str:
        with rdBase.BlockLogs():
            mol = mol_from_smiles(smiles)
            Chem.Kekulize(mol, clearAromaticFlags=True)
            return str(Chem.MolToSmiles(mol, canonical=False))

    sides = chem.ARROW_HEAD.split(text.strip())
    readable = len(sides) in (1, 3) and all(not smiles or chem.is_valid(smiles) for smiles in sides)
    return ">".join(side(smiles) if smiles else "" for smiles in sides) if readable else ""
