"""Read reactions from ORD's data files (protobuf, JSON) and Lowe's text mining of patents (XML, RSMI) as table rows.

A row has the columns of the reaction tables: `reactants_and_reagents`, `reactants`, `core_reactants`, `product`,
`main_product`, `mapped_rxn`, `mapped_core_rxn`, `patent_id`, `id` and `yield`; what a record lacks is empty.
"""

import csv
import gzip
import json
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree import ElementTree

import chemspec.chem as chem
from chemspec.chem.formats import Input, read_input
from chemspec.tasks import Row

MAX_BYTES = 1 << 30  # bytes of a file that is read as a whole, unpacked
MAX_DEPTH = 100  # elements of XML inside one another
_MAPPED = re.compile(r":\d+\]")
_DTD = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
Compounds = Sequence[tuple[str, str]]  # role and SMILES


def is_reaction_file(path: Path) -> bool:
    """Return whether a file is of these formats: by its name, and JSON and XML by their first 64 kB as well."""
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    if ending not in _MARKS or not path.is_file():
        return False
    try:
        with _open(path) as file:
            head = file.read(1 << 16)
            return any(mark in head for mark in _MARKS[ending])
    except (OSError, EOFError, zlib.error):
        return b"" in _MARKS[ending]


def _open(path: Path) -> BinaryIO:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def read_reaction_file(path: Path) -> Iterator[Row]:
    """Yield the reactions of a file as rows; ValueError naming the file if it cannot be read completely."""
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    readers = {".pb": _read_protobuf, ".json": _read_json, ".xml": _read_xml, ".rsmi": _read_rsmi}
    try:
        with _open(path) as file:
            yield from readers[ending](file)
    except _ERRORS as error:
        kinds = {".pb": "ORD protobuf", ".json": "ORD JSON", ".xml": "reaction XML", ".rsmi": "an RSMI table"}
        raise ValueError(f"{path} is damaged or not {kinds[ending]}: {error}") from error


_MARKS = {".pb": [b""], ".rsmi": [b""], ".json": [b'"reactions"', b'"outcomes"'], ".xml": [b"reactionSmiles"]}
_ERRORS = (OSError, EOFError, zlib.error, ElementTree.ParseError, struct.error, LookupError, TypeError, ValueError,
           AttributeError, RecursionError, csv.Error)  # fmt: skip


def _row(smiles: str, *, number: str = "", patent: str = "", amount: str = "", compounds: Compounds = ()) -> Row:
    """Return the row of a reaction SMILES, whose atom maps are read, or of compounds with their roles."""
    left, agents, right = [*smiles.split(" ")[0].split(">"), "", "", ""][:3]
    is_mapped = bool(_MAPPED.search(left) and _MAPPED.search(right))
    numbers = {*_MAPPED.findall(right)}
    core = [part for part in left.split(".") if not is_mapped or numbers & {*_MAPPED.findall(part)}]
    aside = [part for part in left.split(".") if part not in core]
    products = sorted(right.split("."), key=lambda part: (bool(_MAPPED.search(part)), len(part)))
    if compounds and not is_mapped:
        core = [text for role, text in compounds if role == "REACTANT"]
        aside = [text for role, text in dict.fromkeys(compounds) if role not in ("REACTANT", "PRODUCT", *_NO_PART)]
        agents, products = "", [text for role, text in compounds if role == "PRODUCT"]
    reactants, main = _plain(core, whole=True), _plain(products[-1:])
    flask = _plain([*core, *aside, *agents.split(".")]) if reactants or not any(core) else ""
    mapped = f"{'.'.join(core)}>>{products[-1]}" if is_mapped else ""
    return {
        "reactants_and_reagents": flask, "core_reactants": reactants, "reactants": reactants, "main_product": main,
        "product": main, "mapped_rxn": mapped, "mapped_core_rxn": mapped, "patent_id": patent, "id": number,
        "yield": amount,
    }  # fmt: skip


_NO_PART = ("WORKUP", "INTERNAL_STANDARD", "AUTHENTIC_STANDARD", "BYPRODUCT", "SIDE_PRODUCT")


def _plain(parts: Iterable[str], *, whole: bool = False) -> str:
    """Return molecules as one canonical SMILES without atom maps; what cannot be read is left out, or empties it."""
    texts = [chem.canonical(_MAPPED.sub("]", part)) for part in parts if part]
    return "" if whole and None in texts else ".".join(filter(None, texts))


def _read_rsmi(file: BinaryIO) -> Iterator[Row]:
    lines = (line.decode("utf-8", "replace") for line in file)
    for fields in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        cells = {str(name).casefold(): (text or "").strip() for name, text in fields.items()}
        amount = cells.get("textminedyield") or cells.get("calculatedyield") or ""
        patent, paragraph = cells.get("patentnumber", ""), cells.get("paragraphnum", "")
        number = "|".join(filter(None, (patent, cells.get("year", ""), paragraph)))
        yield _row(cells["reactionsmiles"], number=number, patent=patent, amount=amount.strip("~><%"))


def _read_xml(file: BinaryIO) -> Iterator[Row]:
    head = file.read(4096)
    if _DTD.search(head):
        raise ValueError("it declares entities, which are not read")
    file.seek(0)
    depth = 0
    for event, element in ElementTree.iterparse(file, ("start", "end")):
        depth += 1 if event == "start" else -1
        if depth > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} elements inside one another")
        if event == "end" and element.tag.rpartition("}")[2] == "reaction":
            named = {inner.tag.rpartition("}")[2]: inner for inner in element.iter()}
            texts = {name: (inner.text or "").strip() for name, inner in named.items()}
            patent = texts.get("documentId", "")
            number = "|".join(filter(None, (patent, texts.get("paragraphNum", ""))))
            if texts.get("reactionSmiles"):
                yield _row(texts["reactionSmiles"], number=number, patent=patent, amount=_xml_yield(element))
            element.clear()


def _xml_yield(reaction: Any) -> str:
    """Return the yield of the first product, in per cent."""
    for inner in reaction.iter():
        if any("PERCENTYIELD" in value.upper() for value in inner.attrib.values()):
            return re.sub(r"[^\d.]", "", inner.text or "")
    return ""


def _read_json(file: BinaryIO) -> Iterator[Row]:
    raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ValueError(f"it unpacks to more than {MAX_BYTES:,} bytes; split it")
    document = json.loads(raw)
    for reaction in document if isinstance(document, list) else document.get("reactions", [document]):
        yield _ord_row(_snake(reaction))


def _snake(value: Any) -> Any:
    """Return JSON of ORD with the names of its schema: reactionRole is reaction_role."""
    if isinstance(value, Mapping):
        return {
            re.sub(r"(?<=[a-z])[A-Z]", lambda match: f"_{match[0].lower()}", name): _snake(part)
            for name, part in value.items()
        }
    return [_snake(part) for part in value] if isinstance(value, list) else value


def _ord_row(reaction: Mapping[str, Any]) -> Row:
    """Return the row of one reaction: its mapped SMILES if it has one, else its compounds."""
    texts = {str(item.get("type", "")): str(item.get("value", "")) for item in reaction.get("identifiers", ())}
    written = texts.get("REACTION_CXSMILES") or texts.get("REACTION_SMILES") or ""
    inputs = [compound for part in reaction.get("inputs", {}).values() for compound in part.get("components", ())]
    products = [product for outcome in reaction.get("outcomes", ()) for product in outcome.get("products", ())]
    compounds = [(str(compound.get("reaction_role", "")), _smiles_of(compound)) for compound in inputs]
    desired = [product for product in products if product.get("is_desired_product")] or products[:1]
    if any(role == "REACTANT" and not smiles for role, smiles in compounds):
        compounds = []  # a reaction without one of its reactants is another
    compounds += [("PRODUCT", _smiles_of(product)) for product in desired]
    amounts = (
        measured["percentage"].get("value")
        for product in desired
        for measured in product.get("measurements", ())
        if measured.get("type") == "YIELD" and measured.get("percentage")
    )
    amount = next((f"{value:.4g}" for value in amounts if isinstance(value, int | float)), "")
    patent = str(reaction.get("provenance", {}).get("patent", ""))
    number = str(reaction.get("reaction_id", ""))
    return _row(written, number=number, patent=patent, amount=amount, compounds=[c for c in compounds if c[1]])


def _smiles_of(compound: Mapping[str, Any]) -> str:
    texts = {str(item.get("type", "")): str(item.get("value", "")) for item in compound.get("identifiers", ())}
    written = texts.get("SMILES") or texts.get("CXSMILES", "").split(" ")[0]
    others = (texts[kind] for kind in ("MOLBLOCK", "INCHI", "CAS_NUMBER", "IUPAC_NAME", "NAME") if kind in texts)
    return written or next((read.smiles for read in map(_read_forward, others) if isinstance(read, Input)), "")


def _read_forward(text: str) -> Input | chem.Fault:
    return read_input(text, task="forward")


# The parts of ORD's schema that a row needs: number of a field -> name and kind, "*" for several.
_TYPES = ("UNSPECIFIED", "CUSTOM", "REACTION_SMILES", "RDFILE", "RINCHI", "REACTION_TYPE", "REACTION_CXSMILES")
_COMPOUND_TYPES = (
    "UNSPECIFIED",
    "CUSTOM",
    "SMILES",
    "INCHI",
    "MOLBLOCK",
    "IUPAC_NAME",
    "NAME",
    "CAS_NUMBER",
    "",
    "",
    "CXSMILES",
)
_ROLES = (
    "UNSPECIFIED", "REACTANT", "REAGENT", "SOLVENT", "CATALYST", "WORKUP", "INTERNAL_STANDARD", "AUTHENTIC_STANDARD",
    "PRODUCT", "BYPRODUCT", "SIDE_PRODUCT",
)  # fmt: skip
_MEASURED = ("UNSPECIFIED", "CUSTOM", "IDENTITY", "YIELD")
_IDENTIFIER = {1: ("type", _COMPOUND_TYPES), 3: ("value", "text")}
_COMPOUND = {1: ("identifiers*", _IDENTIFIER), 3: ("reaction_role", _ROLES)}
_MEASUREMENT = {2: ("type", _MEASURED), 8: ("percentage", {1: ("value", "float")})}
_PRODUCT = {1: ("identifiers*", _IDENTIFIER), 2: ("is_desired_product", "bool"), 3: ("measurements*", _MEASUREMENT)}
_REACTION = {
    1: ("identifiers*", {1: ("type", _TYPES), 3: ("value", "text")}),
    2: ("inputs", {1: ("key", "text"), 2: ("value", {1: ("components*", _COMPOUND)})}),
    8: ("outcomes*", {3: ("products*", _PRODUCT)}),
    9: ("provenance", {5: ("patent", "text")}),
    10: ("reaction_id", "text"),
}


def _read_protobuf(file: BinaryIO) -> Iterator[Row]:
    raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ValueError(f"it unpacks to more than {MAX_BYTES:,} bytes; split it")
    for number, value in _fields(memoryview(raw)):
        if number == 3 and isinstance(value, memoryview):
            yield _ord_row(_message(value, _REACTION))


def _message(raw: memoryview, schema: Mapping[int, tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a message that a schema names."""
    message: dict[str, Any] = {}
    for number, value in _fields(raw):
        if number not in schema:
            continue
        name, kind = schema[number]
        if name == "inputs":
            entry = _message(value, kind)
            message.setdefault(name, {})[entry.get("key", "")] = entry.get("value", {})
        elif name.endswith("*"):
            message.setdefault(name[:-1], []).append(_value(value, kind))
        else:
            message[name] = _value(value, kind)
    return message


def _value(value: Any, kind: Any) -> Any:
    if isinstance(kind, dict):
        return _message(value, kind)
    if isinstance(kind, tuple):
        return kind[value] if value < len(kind) else ""
    if kind == "text":
        return bytes(value).decode("utf-8", "replace")
    return struct.unpack("<f", value)[0] if kind == "float" else bool(value)


def _fields(raw: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield number and content of the fields of a protobuf message; ValueError if it is cut off."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        number, wire = tag >> 3, tag & 7
        value: Any
        if wire == 0:
            value, at = _varint(raw, at)
        else:
            size, at = {1: (8, at), 5: (4, at)}.get(wire) or (_varint(raw, at) if wire == 2 else (len(raw) + 1, at))
            value, at = raw[at : at + size], at + size
            if at > len(raw):
                raise ValueError("a field is cut off or of an unknown kind")
        yield number, value


def _varint(raw: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(raw):
            break
        byte, at = raw[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number is cut off")
