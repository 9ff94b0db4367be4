"""ChemDraw files (CDXML): their molecules, or one side of the reaction in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rdkit import rdBase

import chemspec.chem.read.cdxml as cdxml
from chemspec.chem import parsing
from chemspec.chem.read.values import EXPORT, Molecules, roles_of, side_note
from chemspec.chem.smiles_syntax import Fault
from chemspec.chem.trial import RDKIT_ERRORS


def read_cdxml(text: str, side: str) -> Molecules | Fault:
    """Return the molecules of a ChemDraw file, or one side of the reaction in it."""
    facts = cdxml.check_cdxml(text)
    if isinstance(facts, Fault):
        return facts
    whole = 0, len(text)
    with rdBase.BlockLogs():
        try:
            mols = parsing.mols_from_cdxml(facts.clean)
        except RDKIT_ERRORS as error:
            reason = str(error).strip().split("\n")[0]
            message = f"RDKit cannot read this ChemDraw file: {reason}; {EXPORT}"
            return Fault(message, *whole, "other")
    if facts.steps:
        mols = _one_side(mols, side)
    mols = [mol for mol in mols if mol.GetNumAtoms()]
    if not mols:
        what = f"the reaction has no {roles_of(side)[0]}" if facts.steps else "there is no molecule here"
        return Fault(f"{what} (of what RDKit can read); {EXPORT}", *whole, "empty")
    for mol in mols:
        if fault := cdxml.query_fault(mol):
            return Fault(fault.message, *whole, fault.kind)
    notes = (side_note(side),) * bool(facts.steps) + facts.notes
    return Molecules(mols, notes)


def _one_side(mols: Sequence[Any], side: str) -> list[Any]:
    """Return of the molecules of a ChemDraw file those that are asked for, in the first reaction step."""
    steps = [mol.GetIntProp("CDX_STEP_ID") for mol in mols if mol.HasProp("CDX_STEP_ID")]
    names = {"reactant": "CDX_REAGENT_ID", "agent": "CDX_AGENT_ID", "product": "CDX_PRODUCT_ID"}
    roles = [names[role] for role in roles_of(side)]
    return [mol for mol in mols if any(map(mol.HasProp, roles)) and mol.GetIntProp("CDX_STEP_ID") == steps[0]]
