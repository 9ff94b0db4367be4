"""Read chemistry in whatever format it comes as one query for a model; some formats are refused with a remedy."""

import codecs
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rdkit import Chem, rdBase

import chemspec.chem as chem
import chemspec.chem.reading.drawing as drawing
import chemspec.chem.reading.ket as ket
import chemspec.chem.reading.molfile as molfile
import chemspec.chem.reading.reaction_files as reaction_files
from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules import salts
from chemspec.chem.molecules.rdkit_tasks import RDKIT_ERRORS
from chemspec.chem.molecules.smiles_syntax import Fault
from chemspec.chem.reading.notations import CODE, is_tokens, unescape_string, without_blank_lines, without_margin
from chemspec.chem.reading.photocatalysts import leave_out_photocatalysts
from chemspec.chem.reading.precatalysts import split_precatalysts
from chemspec.chem.reading.respell import respell
from chemspec.chem.reading.typed import lost, read_typed
from chemspec.chem.reading.values import EXPORT, OTHER_SIDE, Input, Molecules, Reaction, side_note
from chemspec.settings import Task
from chemspec.tasks import TASKS

MAX_TEXT = 200_000  # characters or bytes; no single reaction is longer
TABLE = Path(__file__).with_name("refused.tsv")
_ROWS = [(kind, start, message.format(export=EXPORT)) for kind, start, message in read_asset_table(TABLE)]
_BINARY = [(bytes.fromhex(start), message) for kind, start, message in _ROWS if kind == "binary"]
_REFUSED = [(re.compile(start), message) for kind, start, message in _ROWS if kind == "text"]


def decode(raw: bytes) -> str | Fault:
    """Decode text of unknown encoding: by its byte order mark, else UTF-8, else Latin-1."""
    for magic, message in _BINARY:
        if raw.startswith(magic):
            return Fault(message, 0, 0, "other")
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = raw.decode("utf-16", errors="replace")
    else:
        try:
            text = raw.removeprefix(codecs.BOM_UTF8).decode("utf-8")
        except UnicodeDecodeError:
            text = raw.decode("latin-1")
    if "\0" in text:
        return Fault(f"this is no text file; {EXPORT}", 0, 0, "other")
    return text


def refusal_of(text: str) -> str:
    """Return why a text of some other format is refused; empty if it is of none known."""
    start = text.lstrip("\ufeff \t\r\n")
    return next((message for pattern, message in _REFUSED if pattern.match(start)), "")


def read_sdf(text: str) -> Molecules | Fault:
    """Read a molfile, or the first record of an SDF."""
    lines = molfile.split_lines(text)
    ends = [number for number, line in enumerate(lines) if line.text.startswith("$$$$")]
    others = len(ends) - 1 + bool("".join(line.text for line in lines[ends[-1] + 1 :]).strip()) if ends else 0
    note = f"the first of {others + 1} records; the Batch page takes many"
    molecules = molfile.read_molfile(lines[: ends[0]] if ends and ends[0] else lines)
    if isinstance(molecules, Fault):
        return molecules
    return replace(molecules, notes=(note,) * bool(others) + molecules.notes)


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes:
        name: shown to users; empty if texts of it are refused.
        recognise: whether a text is of it.
        read: reads a text of it.
        endings: endings of its files.
        starts: what its files begin with, by which those with another ending are known.
    """

    name: str
    recognise: Callable[[str], bool]
    read: Callable[[str], Molecules | Reaction | Fault]
    endings: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()


def _starts_with(mark: str) -> Callable[[str], bool]:
    return lambda text: text.lstrip("\ufeff \t\r\n").startswith(mark)


def _is_molfile(text: str) -> bool:
    if "\n" not in text and "\r" not in text:
        return False
    lines = molfile.split_lines(text)
    return molfile.find_counts(lines) is not None or any(line.text.startswith("M  END") for line in lines)


# In this order; text of no format is what a user typed.
FORMATS = (
    Format("RDF", reaction_files.is_rdf, reaction_files.read_rdf, (".rdf",), reaction_files.RDF_STARTS),
    Format("RXN", _starts_with("$RXN"), reaction_files.read_rxn, (".rxn",), ("$RXN",)),
    Format("SDF", lambda text: "$$$$" in text and _is_molfile(text), read_sdf, (".sdf", ".sd")),
    Format("molfile", _is_molfile, read_sdf, (".mol",)),
    Format(
        "CDXML",
        lambda text: _starts_with("<")(text) and not is_tokens(text),
        drawing.read_cdxml,
        (".cdxml",),
        ("<?xml", "<!DOCTYPE", "<CDXML"),
    ),
    Format("KET", ket.is_ket, ket.read_ket, (".ket",), ("{",)),
    Format("", lambda text: bool(refusal_of(text)), lambda text: Fault(refusal_of(text), 0, len(text), "other")),
)
FILE_FORMATS = tuple(file_format.name for file_format in FORMATS if file_format.endings)
ENDINGS = tuple(ending for file_format in FORMATS for ending in file_format.endings)
STARTS = tuple(start for file_format in FORMATS for start in file_format.starts)
_MARKS = re.compile(
    r"\s|[<{_]|^[$@]|^(?:chemspec|https?|ftp|data|doi):|^10\.|^www\.|^(?i:s?chembl\d)|^[A-Za-z]+\W?\d{3,}$"
    r"|[A-Za-z]{14}-|(?:Branch|Ring)\d"
)


def recognise(text: str) -> Format | None:
    """Return the format of a text; None for what a user typed."""
    if not _MARKS.search(text):  # quicker than to try each
        return None
    return next((file_format for file_format in FORMATS if file_format.recognise(text)), None)


def read_text(text: str | bytes, task: Task, max_chars: int) -> Input | Fault:
    """Read the query in a text or file of any known format, or say why it is refused; never raises.

    Of a reaction the forward task takes reactants and agents, the retro task the product, a task about whole reactions
    both sides without agents. Of its canonical SMILES at most `max_chars` are accepted. A fault points into the text
    (of bytes, into the decoded text).
    """
    if len(text) > MAX_TEXT:
        size = f"{len(text) / 1000:,.0f} kB"
        message = f"{size} are too much for one query (the limit is {MAX_TEXT // 1000} kB); use the Batch page"
        return Fault(message, 0, 0, "length")
    decoded = text if isinstance(text, str) else decode(text)
    if isinstance(decoded, Fault):
        return decoded
    decoded, doubled = without_blank_lines(without_margin(unescape_string(decoded)))
    if doubled:
        read_again = read_text(decoded, task, max_chars)
        note = "blank lines after every line left out"
        return replace(read_again, notes=(note, *read_again.notes)) if isinstance(read_again, Input) else read_again
    file_format = None if CODE.fullmatch(decoded.strip()) else recognise(decoded)
    whole = TASKS.lookup(task).whole
    read = file_format.read(decoded) if file_format else read_typed(decoded, task)
    kind = file_format.name if file_format else "reaction SMILES"
    if isinstance(read, Fault):
        return read
    if isinstance(read, Molecules):
        missing = Fault(chem.NO_REACTION, 0, len(text), "reaction")
        return missing if whole else _query([read], read.kind or kind, (0, len(text)), max_chars)
    flask = _side(read, ("reactant",) if whole else ("reactant", "agent"), kind, max_chars)
    target = _side(read, ("product",), kind, max_chars)
    if whole:
        return _whole(read, flask, target, max_chars)
    query, other = (target, flask) if task == "retro" else (flask, target)
    if isinstance(query, Fault):
        return query
    notes = (*read.notes, side_note(task), *query.notes)
    if isinstance(other, Input):
        return replace(query, notes=notes, other=other.ordered)
    is_missing = other.kind == "reaction"
    return replace(query, notes=notes if is_missing else (*notes, f"{OTHER_SIDE}: {other.message}"))


def _side(reaction: Reaction, roles: Sequence[str], kind: str, max_chars: int) -> Input | Fault:
    """Return what has these roles in a reaction as a query."""
    read: list[Molecules] = []
    for side in (reaction.sides[role] for role in roles if role in reaction.sides):
        if isinstance(side, Fault):
            return side
        read.append(side)
    if not any(side.parts for side in read):
        return Fault(f"the reaction has no {roles[0]}", *reaction.arrow, "reaction")
    return _query(read, kind, reaction.arrow, max_chars)


def _whole(reaction: Reaction, left: Input | Fault, right: Input | Fault, max_chars: int) -> Input | Fault:
    """Return a whole reaction as a query that knows its agents."""
    if isinstance(left, Fault) or isinstance(right, Fault):
        return left if isinstance(left, Fault) else right
    agents = _side(reaction, ("agent",), left.kind, max_chars)
    if isinstance(agents, Fault) and agents.kind != "reaction":  # another fault than that there are none
        return agents
    smiles, ordered = f"{left.smiles}>>{right.smiles}", f"{left.ordered}>>{right.ordered}"
    notes = dict.fromkeys((*reaction.notes, *left.notes, *right.notes))
    if isinstance(agents, Fault):
        return Input(smiles, left.kind, tuple(notes), ordered)
    return Input(smiles, left.kind, (*notes, chem.LEFT_OUT), ordered, agents=agents.smiles)


def _query(read: Sequence[Molecules], kind: str, whole: tuple[int, int], max_chars: int) -> Input | Fault:
    """Return molecules as a query; `whole` is where they stand in the text, if they do not say it themselves."""
    span = read[0].span or whole
    parts = [part for molecules in read for part in molecules.parts]
    with rdBase.BlockLogs():
        try:
            written = ".".join(part if isinstance(part, str) else Chem.MolToSmiles(part) for part in parts)
        except RDKIT_ERRORS as error:  # RDKit reads more than it can write
            return Fault(f"RDKit cannot write this as SMILES: {error}", *span, "other")
    query = read[0].query if len(read) == 1 else None
    if query is None or len(written) > max_chars:
        new = chem.read_query(written, max_chars=max_chars)
        if isinstance(new, Fault):
            return Fault(new.message, *span, new.kind)
        query = new
    groups = any(not isinstance(part, str) and part.GetStereoGroups() for part in parts)
    relative = ("and/or stereo groups left out: read as the one isomer that is drawn",)
    notes = dict.fromkeys((*(note for molecules in read for note in molecules.notes), *relative * groups, *query.notes))
    smiles, changes = respell(query.smiles)
    smiles, split = split_precatalysts(smiles)
    smiles, without = leave_out_photocatalysts(smiles)
    changes = (*changes, *split, *without)
    lost_notes = lost(query.typed, query.smiles) if read[0].kind else ()
    ordered = salts.in_typed_order(query.typed, smiles)
    return Input(smiles, kind, (*notes, *changes, *lost_notes), ordered, steps=read[-1].steps)
