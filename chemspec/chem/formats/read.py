"""Read chemistry in whatever format it comes as one query for a model. The way back is in `exports.py`."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdinchi

import chemspec.chem as chem
import chemspec.chem.formats.cdxml as cdxml
import chemspec.chem.formats.molfile as molfile
import chemspec.chem.formats.name_list as name_list
import chemspec.chem.formats.reagents as reagents
from chemspec.chem import parsing, salts
from chemspec.chem.formats.molfile import NumberedLine
from chemspec.chem.smiles_syntax import Fault
from chemspec.chem.trial import RDKIT_ERRORS
from chemspec.settings import Task
from chemspec.tasks import TASKS

WHOLE = ("reactant", "product", "agent")  # what a reaction consists of
_REACTION = re.compile(
    "(?P<reactant>.*?)(?:(?<!-)>(?P<agent>.*?)(?<!-)>|[\u2192\u21d2\u27f6\u27f9\u279c\u2794])(?P<product>.*)", re.DOTALL
)
OTHER_SIDE = "the other side cannot be read"
LARGEST = 200_000  # characters or bytes; no single reaction is longer


@dataclass(frozen=True)
class Input:
    """A query read from some format.

    Attributes:
        smiles: canonical, without atom maps.
        kind: "SMILES", "reaction SMILES", "molfile", "SDF", "RXN", "RDF", "InChI", "CDXML" or "name".
        notes: what was changed or left out.
        ordered: the same molecules in the order of the text, the ions of a salt side by side.
        other: of a reaction the side that is not the query, ordered likewise: its product, or its reactants and agents;
            empty of anything else, and where the whole reaction is the query.
        agents: of a reaction that is the query what stands between its arrows, which is no part of that.
    """

    smiles: str
    kind: str
    notes: tuple[str, ...]
    ordered: str = ""
    other: str = ""
    agents: str = ""

    @property
    def reaction(self) -> str:
        """The whole reaction as SMILES, the query on its side of the arrow; empty where none was read."""
        if chem.ARROW in self.ordered:
            return self.ordered.replace(chem.ARROW, f">{self.agents}>")
        sides = (self.other, self.ordered) if _side_note("retro") in self.notes else (self.ordered, self.other)
        return ">>".join(sides) if self.other else ""


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
    decoded = text if isinstance(text, str) else _decode(text)
    if isinstance(decoded, Fault):
        return decoded
    if TASKS.lookup(task).whole:
        return _whole(decoded, task, max_chars)
    found = _query(decoded, task, max_chars)
    if isinstance(found, Input) and _side_note(task) in found.notes:
        other = _query(decoded, "forward" if task == "retro" else "retro", max_chars)
        if isinstance(other, Input):
            return replace(found, other=other.ordered)
        if other.kind != "reaction":  # else there is none
            return replace(found, notes=(*found.notes, f"{OTHER_SIDE}: {other.message}"))
    return found


def _query(text: str, side: str, max_chars: int) -> Input | Fault:
    """Read one side of a reaction, or what is none: `side` is a task about molecules, or one of `WHOLE`."""
    kind, read = _recognise(text)
    found = read(text, side)
    if isinstance(found, Fault):
        return found
    if isinstance(found, _Molecules):
        return _finish(found, kind, text, max_chars)
    smiles = _smiles(text, TASKS[side].name, max_chars)
    if isinstance(smiles, Input) or smiles.kind == "length":
        return smiles
    parts = _written_sides(text, _roles(side), max_chars)
    return _together(parts, side) if isinstance(parts, list) else parts or smiles


def _together(parts: Sequence[Input], side: str) -> Input:
    """Return what stands on one side of a reaction that was written with names."""
    smiles, ordered = (".".join(texts) for texts in zip(*((part.smiles, part.ordered) for part in parts), strict=True))
    notes = dict.fromkeys((_side_note(side), *(note for part in parts for note in part.notes)))
    return Input(chem.canonical(smiles) or smiles, "reaction SMILES", tuple(notes), ordered)


def _whole(text: str, task: Task, max_chars: int) -> Input | Fault:
    """Read a whole reaction as one query, `reactants>>product`."""
    kind, _ = _recognise(text)
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
    notes = dict.fromkeys(note for side in sides[:2] for note in side.notes if note not in map(_side_note, WHOLE))
    left_out = (chem.LEFT_OUT,) * bool(agents)
    return Input(smiles, "reaction SMILES" if kind == "name" else kind, (*notes, *left_out), ordered, agents=agents)


def _written_sides(text: str, roles: Sequence[str], max_chars: int) -> list[Input] | Fault | None:
    """Read sides of a reaction, each as a query of its own, so that names will do; None where there is no reaction.

    Where there are no agents, these are left out.
    """
    match = _REACTION.fullmatch(text)
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
        read = _query(text, role, max_chars) if _recognise(text)[0] in ("RXN", "RDF", "CDXML") else None
        if isinstance(read, Input) and _side_note(role) in read.notes:
            found.append(read)
        elif role != "agent":
            return read if isinstance(read, Fault) else Fault(chem.NO_REACTION, 0, len(text), "reaction")
        elif isinstance(read, Fault) and read.kind not in ("reaction", "empty"):  # these say that there are none
            return read
    return found


@dataclass(frozen=True)
class _Molecules:
    """Molecules or SMILES that were read, and what to say about it."""

    parts: Sequence[Any]
    notes: tuple[str, ...] = ()


Reader = Callable[[str, str], _Molecules | Fault | None]  # None: this is no text for that reader


def _finish(found: _Molecules, kind: str, text: str, max_chars: int) -> Input | Fault:
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


# --- bytes ---------------------------------------------------------------------------------------

_EXPORT = "export the structure as molfile, RXN or SMILES"
_UNPACK = "unpack it and choose one file, or use the Batch page for tables"
_BINARY = (
    (b"\x1f\x8b", "a gzip archive", _UNPACK),
    (b"PK\x03\x04", "a zip archive or an Office document", _UNPACK),
    (b"PK\x05\x06", "an empty zip archive", _UNPACK),
    (b"BZh", "a bzip2 archive", _UNPACK),
    (b"\xfd7zXZ", "an xz archive", _UNPACK),
    (b"7z\xbc\xaf", "a 7z archive", _UNPACK),
    (b"VjCD0100", "a binary ChemDraw file (CDX)", "save it as CDXML"),
    (b"\xd0\xcf\x11\xe0", "an old Office document or ISIS sketch", _EXPORT),
    (b"%PDF", "a PDF", _EXPORT),
    (b"\x89PNG", "a picture", _EXPORT),
    (b"\xff\xd8\xff", "a picture", _EXPORT),
    (b"GIF8", "a picture", _EXPORT),
)


def _decode(raw: bytes) -> str | Fault:
    """Return text of unknown encoding: by its mark, else UTF-8, else Latin-1."""
    for magic, what, advice in _BINARY:
        if raw.startswith(magic):
            return Fault(f"this is {what}, not text; {advice}", 0, 0, "other")
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = raw.decode("utf-16", errors="replace")
    else:
        try:
            text = raw.removeprefix(codecs.BOM_UTF8).decode("utf-8")
        except UnicodeDecodeError:
            text = raw.decode("latin-1")
    if "\0" in text:
        return Fault(f"this is no text file; {_EXPORT}", 0, 0, "other")
    return text


# --- which format --------------------------------------------------------------------------------

_INCHI = re.compile(r"\s*[\"']?(?:InChI\s*=\s*)?(1S?/\S+)")
_KEY = re.compile(r"\s*(?:InChIKey\s*=\s*)?[A-Z]{14}-[A-Z]{10}-[A-Z]\s*$", re.IGNORECASE)
_REFUSED = (
    (r"\{", f"this is JSON (perhaps Ketcher's KET); {_EXPORT}"),
    (r"@<TRIPOS>", f"this is a mol2 file, which is not read; {_EXPORT}"),
    (r"(?:HEADER|CRYST1|COMPND|HETATM|ATOM  )[ \d]", f"this is a PDB file: coordinates without bond orders; {_EXPORT}"),
    (r"data_\S*\s|loop_\s", f"this is a CIF file: coordinates without bond orders; {_EXPORT}"),
    (
        r"\d+[ \t]*\r?\n.*\r?\n\s*[A-Z][a-z]?(?:\s+-?\d*\.\d+){3}",
        f"this is an XYZ file: coordinates without bonds; {_EXPORT}",
    ),
    (r"(?:\[[^\[\]]+\])*\[=?(?:Branch|Ring)\d\]", "this is SELFIES; write it as SMILES"),
)


def _recognise(text: str) -> tuple[str, Reader]:
    """Return the name of the format and what reads it."""
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("$RDFILE"):
        return "RDF", _rdf
    if start.startswith("$RXN"):
        return "RXN", _rxn
    lines = molfile.split_lines(text)
    if molfile.has_counts(lines) or any(line.text.startswith("M  END") for line in lines):
        return ("SDF" if "$$$$" in text else "molfile"), _sdf
    if start.startswith("<"):
        return "CDXML", _xml
    if start.startswith("InChI=") or _INCHI.match(start):
        return "InChI", _inchi
    if _KEY.match(text):
        return "InChIKey", _inchikey
    for pattern, message in _REFUSED:
        if re.match(pattern, start):
            # The loop's message is bound now, not when the reader is called.
            return "", lambda text, _, why=message: Fault(why, 0, len(text), "other")  # type: ignore[misc]
    return "name", _name


# --- molfiles and what holds them ----------------------------------------------------------------


def _sdf(text: str, _: str) -> _Molecules | Fault:
    """Read a molfile, or the first record of an SDF."""
    lines = molfile.split_lines(text)
    ends = [number for number, line in enumerate(lines) if line.text.startswith("$$$$")]
    others = len(ends) - 1 + bool("".join(line.text for line in lines[ends[-1] + 1 :]).strip()) if ends else 0
    note = f"the first of {others + 1} records; the Batch page takes many"
    mol = molfile.read_molfile(lines[: ends[0]] if ends and ends[0] else lines)
    return mol if isinstance(mol, Fault) else _Molecules([mol], (note,) * bool(others))


def _rdf(text: str, side: str) -> _Molecules | Fault:
    """Read the first reaction of an RDF, else its first molecule."""
    lines = molfile.split_lines(text)
    marks = [k for k, line in enumerate(lines) if line.text.startswith(("$RFMT", "$MFMT"))]
    starts = [k for k, line in enumerate(lines) if line.text.startswith("$RXN")]
    if not starts and not marks:
        return molfile.blame(lines[0], "this RDF holds no reaction; export one as RXN", "empty")
    first = starts[0] if starts else marks[0] + 1
    ends = (k for k, line in enumerate(lines) if k > first and re.match(r"\$(?:DTYPE|RFMT|MFMT|RIREG|RXN)", line.text))
    record = lines[first : next(ends, len(lines))]
    many = max(len(marks), len(starts))
    notes = (f"the first of {many} records; the Batch page takes many",) * (many > 1)
    if not starts:
        mol = molfile.read_molfile(record) if record else None
        if mol is None:
            return molfile.blame(lines[-1], "the file was cut off, copy it whole")
        return mol if isinstance(mol, Fault) else _Molecules([mol], notes)
    return _reaction(record, side, notes)


def _rxn(text: str, side: str) -> _Molecules | Fault:
    lines = molfile.split_lines(text)
    first = next(k for k, line in enumerate(lines) if line.text.strip("\ufeff \t"))
    return _reaction(lines[first:], side, ())


def _reaction(lines: Sequence[NumberedLine], side: str, notes: tuple[str, ...]) -> _Molecules | Fault:
    """Return the side of an RXN record (its first line is $RXN) that is asked for."""
    sides = _sides_v3000(lines) if "V3000" in lines[0].text else _sides_v2000(lines)
    if isinstance(sides, Fault):
        return sides
    wanted = [blocks for name, blocks in sides.items() if name.lower() in _roles(side)]
    # RDKit would take as long for many molecules of some rings as for one of many.
    if refusal := parsing.molblock_refusal(*(molfile.block_of(block) for blocks in wanted for block in blocks)):
        return Fault(refusal, lines[0].start, lines[-1].start + len(lines[-1].text), "length")
    mols = [molfile.read_molfile(block) for blocks in wanted for block in blocks]
    for mol in mols:
        if isinstance(mol, Fault):
            return mol
    if not mols:
        return molfile.blame(lines[0], f"the reaction has no {_roles(side)[0]}", "reaction")
    return _Molecules(mols, (*notes, _side_note(side)))


def _roles(side: str) -> tuple[str, ...]:
    """Return what of a reaction is on a side: of the task `retro` the product, of others what goes into the flask."""
    return (side,) if side in WHOLE else ("product",) if side == "retro" else ("reactant", "agent")


def _side_note(side: str) -> str:
    if side in WHOLE:
        return f"reaction: each {side} of it"
    if side == "retro":
        return "reaction: its product is the query, the rest is left out"
    return "reaction: its reactants and agents are the query, the product is left out"


Blocks = dict[str, list[Sequence[NumberedLine]]]


def _sides_v2000(lines: Sequence[NumberedLine]) -> Blocks | Fault:
    starts = [k for k, line in enumerate(lines) if line.text.strip() == "$MOL"]
    head = lines[1 : starts[0]] if starts else lines[1:]
    counts = next((_counts(line.text) for line in reversed(head) if line.text.strip()), None)
    if counts is None:
        place = head[-1] if head else lines[0]
        message = "this should be the line with the numbers of reactants and products"
        return molfile.blame(place, message, "reaction")
    if sum(counts) != len(starts):
        message = f"the file announces {sum(counts)} molecules but holds {len(starts)}"
        return molfile.blame(lines[0], f"{message}; was it cut off?", "reaction")
    ends = [*starts[1:], len(lines)]
    blocks = [lines[start + 1 : end] or lines[start:end] for start, end in zip(starts, ends, strict=True)]
    sides: Blocks = {}
    for name, count in zip(("REACTANT", "PRODUCT", "AGENT"), counts, strict=False):
        sides[name], blocks = blocks[:count], blocks[count:]
    return sides


def _counts(text: str) -> list[int] | None:
    """Return numbers of reactants, products and perhaps agents."""
    if not re.fullmatch(r"[ \d]+", text):
        return None
    wide = [text[k : k + 3].strip() for k in range(0, len(text.rstrip()), 3)]
    numbers = wide if all(word.isdigit() for word in wide) else text.split()
    return [int(word) for word in numbers[:3]] if len(numbers) >= 2 else None


def _sides_v3000(lines: Sequence[NumberedLine]) -> Blocks | Fault:
    sides: Blocks = {"REACTANT": [], "PRODUCT": [], "AGENT": []}
    side, begin = "", None
    for k, line in enumerate(lines):
        words = line.text.split()
        if words[:2] != ["M", "V30"] or len(words) < 4:
            continue
        if words[2] == "BEGIN" and words[3] in sides:
            side = words[3]
        elif words[2:4] == ["BEGIN", "CTAB"]:
            begin = k
        elif words[2:4] == ["END", "CTAB"] and begin is not None and side:
            # The counts line of a V3000 molfile always reads like this; and so it ends.
            top = NumberedLine(lines[begin].number, lines[begin].start, "  0  0  0  0  0  0            999 V3000")
            end = NumberedLine(line.number, line.start, "M  END")
            sides[side].append([top, *lines[begin : k + 1], end])
            begin = None
    if begin is not None or not any(line.text.startswith("M  END") for line in lines):
        return molfile.blame(lines[-1], "the file was cut off, copy it whole")
    return sides


# --- XML -----------------------------------------------------------------------------------------


def _xml(text: str, side: str) -> _Molecules | Fault:
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
            message = f"RDKit cannot read this ChemDraw file: {reason}; {_EXPORT}"
            return Fault(message, *whole, "other")
    if facts.steps:
        mols = _one_side(mols, side)
    mols = [mol for mol in mols if mol.GetNumAtoms()]
    if not mols:
        what = f"the reaction has no {_roles(side)[0]}" if facts.steps else "there is no molecule here"
        return Fault(f"{what} (of what RDKit can read); {_EXPORT}", *whole, "empty")
    for mol in mols:
        if fault := cdxml.query_fault(mol):
            return Fault(fault.message, *whole, fault.kind)
    notes = (_side_note(side),) * bool(facts.steps) + facts.notes
    return _Molecules(mols, notes)


def _one_side(mols: Sequence[Any], side: str) -> list[Any]:
    """Return of the molecules of a ChemDraw file those that are asked for, in the first reaction step."""
    steps = [mol.GetIntProp("CDX_STEP_ID") for mol in mols if mol.HasProp("CDX_STEP_ID")]
    names = {"reactant": "CDX_REAGENT_ID", "agent": "CDX_AGENT_ID", "product": "CDX_PRODUCT_ID"}
    roles = [names[role] for role in _roles(side)]
    return [mol for mol in mols if any(map(mol.HasProp, roles)) and mol.GetIntProp("CDX_STEP_ID") == steps[0]]


# --- InChI ---------------------------------------------------------------------------------------

_LONGEST_INCHI = 5000


def _inchi(text: str, _: str) -> _Molecules | Fault:
    start = next(k for k, char in enumerate(text) if not char.isspace() and char != "\ufeff")
    line = text[start:].split("\n")[0].strip().strip("\"'")
    match = _INCHI.match(line)
    whole = start, start + len(line)
    if match is None:
        return Fault("an InChI begins with InChI=1S/ or InChI=1/", *whole, "syntax")
    if len(line) > _LONGEST_INCHI:
        return Fault(f"this InChI is longer than {_LONGEST_INCHI} characters", *whole, "length")
    # RDKit takes seconds to see that 99999 molecules are too many.
    if re.search(r"\d{4}", match[1].split("/")[1]):
        return Fault("the formula in this InChI is too large", *whole, "length")
    if refusal := parsing.inchi_refusal(f"InChI={match[1]}"):
        return Fault(refusal, *whole, "length")
    mol, code, reason = parsing.mol_from_inchi(f"InChI={match[1]}")
    if mol is None or mol.GetNumAtoms() == 0 or code:
        reason = reason.strip().rstrip(".")
        message = "this InChI cannot be turned into a molecule; is it complete?"
        return Fault(f"{message} ({reason})" if reason else message, *whole, "syntax")
    others = sum(piece.strip().startswith("InChI=") for piece in text.split("\n")) - 1
    notes = ("InChI names no tautomer: this is one of perhaps several",) * ("/h" in line and "(H" in line)
    notes += (f"the first of {others + 1} InChIs",) * (others > 0)
    return _Molecules([_common_form(mol, f"InChI={match[1]}")], notes)


# Nitrogen that takes the hydrogen, carbon, and what gives it: imidic acids, imines on an aromatic ring, lactims.
_RARE = tuple(
    parsing.mol_from_smarts(pattern)
    for pattern in (
        *("[NX2]=[CX3]-[OX2H,SX2H]", "[NX2]=[c]:[nH]", "[NX2]=[c]:[a]:[a]:[nH]", "[NX2]=[c]:[a]:[nH]"),
        "[nX2;r6]:[c;r6]-[OX2H,SX2H]",
    )
)


def _common_form(mol: Any, inchi: str) -> Any:
    """Return the molecule with C(=O)N for C(O)=N and Nc1ncc... for N=c1[nH]c..., where the InChI leaves that open.

    RDKit takes the rare one, and a model has hardly seen it.
    """
    better = Chem.RWMol(mol)
    with rdBase.BlockLogs():
        try:
            for pattern in _RARE:
                while match := better.GetSubstructMatch(pattern):
                    _move_hydrogen(better, match[0], match[1], match[-1])
            plain = parsing.mol_from_smiles(Chem.MolToSmiles(better))
            return plain if plain is not None and rdinchi.MolToInchi(plain)[0] == inchi else mol
        except RDKIT_ERRORS:
            return mol


def _move_hydrogen(mol: Any, taker: int, carbon: int, giver: int) -> None:
    """Move a hydrogen from `giver` to `taker`, which has a double or aromatic bond to the carbon between them."""
    bond = mol.GetBondBetweenAtoms(taker, carbon)
    if not bond.GetIsAromatic() or mol.GetAtomWithIdx(giver).GetIsAromatic():
        bond.SetBondType(Chem.BondType.SINGLE)
        bond.SetStereo(Chem.BondStereo.STEREONONE)
    if not mol.GetAtomWithIdx(giver).GetIsAromatic():
        mol.GetBondBetweenAtoms(carbon, giver).SetBondType(Chem.BondType.DOUBLE)
    for index, hydrogens in ((taker, 1), (giver, -1)):
        atom = mol.GetAtomWithIdx(index)
        if atom.GetIsAromatic() or atom.GetNoImplicit() or atom.GetNumExplicitHs():
            atom.SetNumExplicitHs(atom.GetNumExplicitHs() + hydrogens)
    Chem.SanitizeMol(mol)


def _inchikey(text: str, _: str) -> Fault:
    message = "an InChIKey is a fingerprint that cannot be turned back into a molecule"
    return Fault(f"{message}; look it up (PubChem) and enter its SMILES", 0, len(text), "other")


# --- names and SMILES ----------------------------------------------------------------------------

LONGEST_LIST = 20_000  # characters; a query has far fewer
_SEPARATOR = re.compile(r"\s*;\s*|,(?:\s+|$)|\s+\+\s+|\s*\n\s*")
_FILLER = re.compile(
    r"(?:^|\s+)(?:(?:in|with|and|plus|\+)(?:\s+|$))+", re.IGNORECASE
)  # between molecules, and means none
_DOT = re.compile(r"\.(?![^\[]*\])")  # not within brackets


def _name(text: str, side: str) -> _Molecules | Fault | None:
    """Read names, alone or in a list with SMILES; None where the text should be read as one SMILES.

    Commas, semicolons, plus signs and lines part the molecules of a list, for the forward task blanks as well, and dots
    where a part is a name. What follows the target of a retro question is taken for its name, as in .smi files.
    """
    if ">" in text or _REACTION.fullmatch(text) or len(text) > LONGEST_LIST or chem.is_valid(text.strip()):
        return None
    listed = _listed(text, side)
    if len(listed) == 1 and (found := reagents.find_by_name(listed[0])):
        return _Molecules([found[0]], _meaning(listed[0], found[1]))
    named = {part: reagents.find_by_name(part) for part in listed}
    smiles = {part: found[0] if found else part for part, found in named.items()}
    if sum(sum(parsing.ring_labels(written)) for written in smiles.values()) > 2 * parsing.MOST_RINGS:
        return Fault(parsing.TOO_MANY_RINGS, 0, len(text), "length")
    unread = [part for part, written in smiles.items() if not chem.is_valid(written)]
    if len(listed) < 2 or (side == "retro" and not any(named.values())) or (unread and len(unread) == len(listed)):
        return None
    if unread and not any(named.values()):
        return None
    for part in unread:
        at = text.index(part)
        message = f"{part!r} is neither a SMILES nor a name in the built-in list"
        return Fault(message, at, at + len(part), "other")
    notes = [note for part, found in named.items() if found for note in _meaning(part, found[1])]
    different = {chem.canonical(written): written for written in smiles.values()}
    return _Molecules(list(different.values()), (*notes, "a list, joined"))


def _listed(text: str, side: str) -> list[str]:
    """Return the parts of a list as they stand in the text."""
    found: list[str] = []
    parts = _SEPARATOR.split(text.strip())
    if side != "retro":  # whose target may have its name behind it
        parts = [piece for part in parts for piece in ([part] if reagents.find_by_name(part) else _FILLER.split(part))]
    for part in filter(None, map(str.strip, parts)):
        pieces = [piece.strip() for piece in _DOT.split(part) if piece.strip()]
        whole = len(pieces) < 2 or reagents.find_by_name(part) or chem.is_valid(part)
        if not whole and any(map(reagents.find_by_name, pieces)):
            found += [word for piece in pieces for word in _words(piece, side)]
        else:
            found += _words(part, side)
    return found


def _words(part: str, side: str) -> list[str]:
    """Return what blanks part, where they part molecules."""
    if side == "retro" or " " not in part or reagents.find_by_name(part):
        return [part]
    return part.split()


def _meaning(name: str, full: str) -> tuple[str, ...]:
    return (f"{name}: {full}",) if name.casefold() != full.casefold() else ()


def _smiles(text: str, task: Task, max_chars: int) -> Input | Fault:
    """Read a SMILES or reaction SMILES, the first of several lines."""
    lines = [line for line in molfile.split_lines(text) if line.text.strip("\ufeff \t")]
    # A reaction may be broken at its arrow.
    whole = len(lines) < 2 or any(
        line.text.strip().startswith(">") or line.text.rstrip().endswith(">") for line in lines
    )
    first = NumberedLine(1, 0, text) if whole else lines[0]
    read = chem.read_query(first.text, task, max_chars=max_chars)
    if isinstance(read, Fault) and not whole:
        joined = chem.read_query("".join(line.text.strip() for line in lines), task, max_chars=max_chars)
        if not isinstance(joined, Fault):
            notes = (*joined.notes, "line breaks removed")
            return Input(joined.smiles, _kind(text), notes, salts.in_typed_order(joined.typed, joined.smiles))
    if isinstance(read, Fault):
        message = read.message + _advice(first.text.strip(), read)
        return Fault(message, first.start + read.start, first.start + read.end, read.kind)
    notes = read.notes
    if not whole:
        notes += (f"the first of {len(lines)} lines; the Batch page takes many",)
    if found := reagents.find_by_name(first.text):
        notes += (f"read as SMILES; {found[1]} is {found[0]}",)
    return Input(read.smiles, _kind(first.text), notes, salts.in_typed_order(read.typed, read.smiles))


def _kind(text: str) -> str:
    return "reaction SMILES" if re.search("(?<!-)>", text) or "\N{RIGHTWARDS ARROW}" in text else "SMILES"


def _advice(text: str, fault: Fault) -> str:
    """Return what to add to a fault in a text that was probably never meant as SMILES."""
    if fault.kind in ("empty", "length", "reaction"):
        return ""
    if re.fullmatch(r"\d{2,7}-\d\d-\d", text):
        known = name_list.is_cas(text)
        told = "this CAS number is not in the built-in list" if known else "no CAS number has these digits"
        return f"; {told}: enter the SMILES"
    if re.fullmatch(r"(?:[A-Z][a-z]?\d*){2,}", text) and re.search(r"H\d", text):
        return "; a formula fits many molecules, enter the SMILES of the one you mean"
    if re.search(r"[a-z]{4}", re.sub(r"[bcnops]{4,}", "", text)) and re.fullmatch(r"[\w\s,()'\-\[\]]+", text):
        return "; this name is not in the built-in list and no simple systematic one: enter the SMILES"
    return ""
