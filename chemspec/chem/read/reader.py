"""Read chemistry in whatever format it comes as one query for a model.

The formats are in `registry.py`; what `read_any` returns is in `values.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rdkit import Chem, rdBase

import chemspec.chem as chem
from chemspec.chem import salts
from chemspec.chem.read.decode import decode
from chemspec.chem.read.registry import REACTION_FORMATS, recognise
from chemspec.chem.read.texts import REACTION, read_smiles
from chemspec.chem.read.values import OTHER_SIDE, WHOLE, Input, Molecules, roles_of, side_note
from chemspec.chem.smiles_syntax import Fault
from chemspec.chem.trial import RDKIT_ERRORS
from chemspec.settings import Task
from chemspec.tasks import TASKS

LARGEST = 200_000  # characters or bytes; no single reaction is longer


def read_any(text: str | bytes, *, task: Task, max_chars: int = 1000) -> Input | Fault:
    """Read the query in a text or file of any known format, or say what is wrong with it; never raises.

    Of a reaction the forward task takes reactants and agents, the retro task the product, a task about whole reactions
    both sides without agents. A fault points into the text (of bytes, into the decoded text).

    Args:
        text: what a user pasted, or the content of a file.
        task: which side of a reaction is the query.
        max_chars: longest canonical SMILES accepted.
    """
    if len(text) > LARGEST:
        size = f"{len(text) / 1000:,.0f} kB"
        message = f"{size} are too much for one query (the limit is {LARGEST // 1000} kB); use the Batch page"
        return Fault(message, 0, 0, "length")
    decoded = text if isinstance(text, str) else decode(text)
    if isinstance(decoded, Fault):
        return decoded
    if TASKS.lookup(task).whole:
        return _whole(decoded, task, max_chars)
    found = _query(decoded, task, max_chars)
    if isinstance(found, Input) and side_note(task) in found.notes:
        other = _query(decoded, "forward" if task == "retro" else "retro", max_chars)
        if isinstance(other, Input):
            return replace(found, other=other.ordered)
        if other.kind != "reaction":  # else there is none
            return replace(found, notes=(*found.notes, f"{OTHER_SIDE}: {other.message}"))
    return found


def _query(text: str, side: str, max_chars: int) -> Input | Fault:
    """Read one side of a reaction, or what is none: `side` is a task about molecules, or one of `WHOLE`."""
    known = recognise(text)
    found = known.read(text, side)
    if isinstance(found, Fault):
        return found
    if isinstance(found, Molecules):
        return _finish(found, known.name, text, max_chars)
    smiles = read_smiles(text, TASKS[side].name, max_chars)
    if isinstance(smiles, Input) or smiles.kind == "length":
        return smiles
    parts = _written_sides(text, roles_of(side), max_chars)
    return _together(parts, side) if isinstance(parts, list) else parts or smiles


def _together(parts: Sequence[Input], side: str) -> Input:
    """Return what stands on one side of a reaction that was written with names."""
    smiles, ordered = (".".join(texts) for texts in zip(*((part.smiles, part.ordered) for part in parts), strict=True))
    notes = dict.fromkeys((side_note(side), *(note for part in parts for note in part.notes)))
    return Input(chem.canonical(smiles) or smiles, "reaction SMILES", tuple(notes), ordered)


def _whole(text: str, task: Task, max_chars: int) -> Input | Fault:
    """Read a whole reaction as one query, `reactants>>product`."""
    kind = recognise(text).name
    if kind == "name":
        read = chem.read_query(text, task, max_chars=max_chars)
        if isinstance(read, chem.Query):
            return Input(read.smiles, "reaction SMILES", read.notes, read.smiles, agents=read.agents)
        sides = None if read.kind == "length" else _written_sides(text, WHOLE, max_chars)
        if not isinstance(sides, list):
            return sides or read
    else:
        sides = _drawn_sides(text, max_chars)
        if isinstance(sides, Fault):
            return sides
    smiles, ordered = (
        chem.ARROW.join(texts) for texts in zip(*((side.smiles, side.ordered) for side in sides[:2]), strict=True)
    )
    agents = ".".join(side.smiles for side in sides[2:])
    notes = dict.fromkeys(note for side in sides[:2] for note in side.notes if note not in map(side_note, WHOLE))
    left_out = (chem.LEFT_OUT,) * bool(agents)
    return Input(smiles, "reaction SMILES" if kind == "name" else kind, (*notes, *left_out), ordered, agents=agents)


def _written_sides(text: str, roles: Sequence[str], max_chars: int) -> list[Input] | Fault | None:
    """Read sides of a reaction, each as a query of its own, so that names will do; None where there is no reaction.

    Where there are no agents, these are left out.
    """
    match = REACTION.fullmatch(text)
    if match is None or chem.ARROW_HEAD.search(match["product"]):
        return None
    found: list[Input] = []
    for role in roles:
        part, start = match[role] or "", match.start(role)
        read = _query(part, "retro" if role == "product" else "forward", max_chars)
        if isinstance(read, Input):
            found.append(read)
        elif part.strip():
            return Fault(read.message, start + read.start, start + read.end, read.kind)
        elif role != "agent":
            return Fault(f"the reaction has no {role}", match.end("reactant"), match.start("product"), "reaction")
    return found


def _drawn_sides(text: str, max_chars: int) -> list[Input] | Fault:
    """Read reactants and product of a drawn reaction, and its agents if it has any."""
    found: list[Input] = []
    for role in WHOLE:
        read = _query(text, role, max_chars) if recognise(text).name in REACTION_FORMATS else None
        if isinstance(read, Input) and side_note(role) in read.notes:
            found.append(read)
        elif role != "agent":
            return read if isinstance(read, Fault) else Fault(chem.NO_REACTION, 0, len(text), "reaction")
        elif isinstance(read, Fault) and read.kind not in ("reaction", "empty"):  # these say that there are none
            return read
    return found


def _finish(found: Molecules, kind: str, text: str, max_chars: int) -> Input | Fault:
    """Return the molecules as one query, by the rules for SMILES."""
    with rdBase.BlockLogs():
        try:
            written = [part if isinstance(part, str) else Chem.MolToSmiles(part) for part in found.parts]
        except RDKIT_ERRORS as error:  # RDKit reads more than it can write
            return Fault(f"RDKit cannot write this as SMILES: {error}", 0, len(text), "other")
    query = chem.read_query(".".join(written), max_chars=max_chars)
    if isinstance(query, Fault):
        return Fault(query.message, 0, len(text), query.kind)
    groups = any(not isinstance(part, str) and part.GetStereoGroups() for part in found.parts)
    relative = ("and/or stereo groups left out: read as the one isomer that is drawn",)
    notes = found.notes + relative * groups + query.notes
    return Input(query.smiles, kind, notes, salts.in_typed_order(query.typed, query.smiles))
