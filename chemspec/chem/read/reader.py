"""Read chemistry in whatever format it comes (`file_formats.py`) as one query for a model."""

from dataclasses import replace

from rdkit import Chem, rdBase

import chemspec.chem as chem
from chemspec.chem import salts
from chemspec.chem.read.file_formats import REACTION_FORMATS, Format, decode, recognise
from chemspec.chem.read.respell import respell
from chemspec.chem.read.typed import read_typed
from chemspec.chem.read.values import WHOLE, Input, Molecules, join_sides, side_note
from chemspec.chem.smiles_syntax import Fault
from chemspec.chem.trial import RDKIT_ERRORS
from chemspec.chem.weapons_convention import refusal
from chemspec.settings import Task
from chemspec.tasks import TASKS

LARGEST = 200_000  # characters or bytes; no single reaction is longer


def read_any(text: str | bytes, *, task: Task, max_chars: int = 1000) -> Input | Fault:
    """Read the query in a text or file of any known format, or say why it is refused; never raises.

    Of a reaction the forward task takes reactants and agents, the retro task the product, a task about whole reactions
    both sides without agents. Of its canonical SMILES at most `max_chars` are accepted. A fault points into the text
    (of bytes, into the decoded text). Chemicals of the Chemical Weapons Convention are refused
    (`chem.weapons_convention`), whatever the format.
    """
    query = _read_any(text, task, max_chars)
    if isinstance(query, Input) and (reason := _refusal(query, task)):
        return Fault(reason, 0, len(text), "regulated")
    return query


def _refusal(query: Input, task: Task) -> str:
    """Return why no prediction is made about a query or the other side of its reaction; empty if there is no reason."""
    left, _, right = query.smiles.partition(chem.ARROW)
    targets, flasks = (left, query.other) if task == "retro" else (right or query.other, left)
    agents = ".".join(filter(None, (flasks, query.agents)))
    return refusal(agents) or refusal(targets, target=True)


def _read_any(text: str | bytes, task: Task, max_chars: int) -> Input | Fault:
    if len(text) > LARGEST:
        size = f"{len(text) / 1000:,.0f} kB"
        message = f"{size} are too much for one query (the limit is {LARGEST // 1000} kB); use the Batch page"
        return Fault(message, 0, 0, "length")
    decoded = text if isinstance(text, str) else decode(text)
    if isinstance(decoded, Fault):
        return decoded
    file_format = recognise(decoded)
    if file_format is None:
        return read_typed(decoded, task, max_chars)
    if TASKS.lookup(task).whole:
        return _whole(decoded, file_format, max_chars)
    query = _query(decoded, file_format, task, max_chars)
    if isinstance(query, Input) and side_note(task) in query.notes:
        other = "forward" if task == "retro" else "retro"
        return query.with_other_side(_query(decoded, file_format, other, max_chars))
    return query


def _query(text: str, file_format: Format, side: str, max_chars: int) -> Input | Fault:
    """Read one side of a reaction, or what is none: `side` is a task about molecules, or one of `WHOLE`."""
    molecules = file_format.read(text, side)
    return molecules if isinstance(molecules, Fault) else _finish(molecules, file_format.name, text, max_chars)


def _whole(text: str, file_format: Format, max_chars: int) -> Input | Fault:
    sides: list[Input] = []
    for role in WHOLE:
        read = _query(text, file_format, role, max_chars) if file_format.name in REACTION_FORMATS else None
        if isinstance(read, Input) and side_note(role) in read.notes:
            sides.append(replace(read, notes=tuple(note for note in read.notes if note != side_note(role))))
        elif role != "agent":
            return read if isinstance(read, Fault) else Fault(chem.NO_REACTION, 0, len(text), "reaction")
        elif isinstance(read, Fault) and read.kind not in ("reaction", "empty"):  # these say that there are none
            return read
    return join_sides(sides, file_format.name, ())


def _finish(molecules: Molecules, kind: str, text: str, max_chars: int) -> Input | Fault:
    with rdBase.BlockLogs():
        try:
            written = [part if isinstance(part, str) else Chem.MolToSmiles(part) for part in molecules.parts]
        except RDKIT_ERRORS as error:  # RDKit reads more than it can write
            return Fault(f"RDKit cannot write this as SMILES: {error}", 0, len(text), "other")
    query = chem.read_query(".".join(written), max_chars=max_chars)
    if isinstance(query, Fault):
        return Fault(query.message, 0, len(text), query.kind)
    groups = any(not isinstance(part, str) and part.GetStereoGroups() for part in molecules.parts)
    relative = ("and/or stereo groups left out: read as the one isomer that is drawn",)
    smiles, changes = respell(query.smiles)
    notes = molecules.notes + relative * groups + query.notes + changes
    return Input(smiles, kind, notes, salts.in_typed_order(query.typed, smiles))
