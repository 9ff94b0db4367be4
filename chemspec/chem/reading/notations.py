"""Bring what other programs write around SMILES into plain text, or refuse a notation by its name."""

import json
import re
from collections.abc import Sequence

from chemspec.chem.molecules import parsing
from chemspec.chem.molecules.smiles_syntax import Fault
from chemspec.chem.molecules.traced_text import TracedText
from chemspec.chem.reading.names import formulas, lookup
from chemspec.chem.reading.names.peptides import MIN_SEQUENCE

MAX_TOKENS = 40
# A SMILES in code: Chem.MolFromSmiles("CCO"), ['CCO'], {"smiles": "CCO"}.
CODE = re.compile(
    r"""(?:\w[\w.]*\s*=\s*(?:[\w.]*\s*\()?|[\w.]*\s*\(|\[|\{\s*["']\w+["']\s*:)\s*(["'])(?P<smiles>[^"'\s]+)\1\s*,?\s*[\])}]*\s*;?"""
)
# Reactions in LaTeX, lists of SMILES in code, a row of a CSV file: \ce{A -> B}, ["CCO", "CN"], "A>>B","US123".
_AROUND = re.compile(
    r"""\$*\s*\\(?:ce|mathrm)\s*\{(?P<tex>.+)\}\s*\$*"""
    r"""|[\[(]\s*(?P<list>(["'])[^"']+\3(?:\s*,\s*(["'])[^"']+\4)+),?\s*[\])]"""
    r"""|"(?P<cell>[^">]+>[^"]+)"\s*,.*"""
)
_QUOTED_COMMA = re.compile(r"""(?<=["'])\s*,\s*(?=["'])""")
# Tokens without attributes: <RX_1>, </SMILES>, <|endoftext|>, [START_SMILES], [CLS].
_TAG = re.compile(r"<\|?/?[A-Za-z][\w-]{0,20}\|?>")
_TOKEN = re.compile(
    r"\[(?:(?:START|END)(?:_[A-Z0-9_]+)?|PRODUCTS?|REACTANTS?|REAGENTS?|CLS|SEP|PAD|BOS|EOS|SOS|MASK|UNK|GO|INST|/INST|Predict|RX_\d+|RETRO\w*|FORWARD\w*|TASK\w*|[A-Z]+\d*_[A-Z0-9_]+)\]"
)
_DOCUMENT = re.compile(r"\s*<(?:\?xml|!|CDXML|cml|html|head|body|svg|molecule\s|list|reaction\s|mml)", re.IGNORECASE)
_ENZYME = re.compile(
    r"(?:\||(?<=>)(?=\s*(?:EC\W*)?\d++\.))\s*(?:EC[\s:=]*)?\d+(?:\.(?:\d+|-|x|n\d+)){1,3}\|?(?=\s*(?:>|$|\.))"
)
_EDITS = re.compile(r"(?<=\S)\s+(?:[\d,]*;)*(?:\d+-\d++(?:-\d++(?:\.\d++)?)?+[;,]?)++\s*$")
_SCORE = re.compile(r"(?<=[A-Za-z0-9)\]])\s*[,;\t]\s*(?:0?\.\d+|1\.0+)\s*$")
_CX_POLYMER = re.compile(r"\|[^|]*\bSg:[^|]*\|")
_BIGSMILES = re.compile(r"\{\s*(?:\[[$<>]?\d?\]|[^{}]*\[[$<>]\d?\])")
_REPEAT = re.compile(r"(?:\[[^\[\]]+\]|\([^()]+\))(?:n|_n|_\{n\})(?=$|[\s\-A-Z(\[])")
_FASTA = re.compile(r">[^\n>]*\n([A-Z\s*]+)")
_SELFIES = re.compile(r"(?:\.?\[[^\[\]\s]+\])+")
_SELFIES_ATOMS = re.compile(r"(?:\[[=#]?(?:C|N|O|S|F|Cl|Br|I|P)\]){3,}")
_SELFIES_MARK = re.compile(r"\[[=#/\\]?[A-Za-z]*(?:Branch|Ring)\d?_?\d?\]|\[[=#]?(?:C|N|O|S|F|Cl|Br|I|P)\]\[")
_BRACKET = re.compile(r"\[([a-z]?[A-Z][A-Za-z0-9']{0,8})\]")
_R_GROUP = re.compile(r"(?:R(?:'|\d{0,2})|R[a-f]|X\d?|Ar\d|Alk|Aryl|Alkyl|EWG|EDG|LG|PG|Nu|Het)'?")
_ISOTOPES = ("D", "T")
# Elements whose symbol is a group as well.
_GROUPS_AND_ELEMENTS = {
    "Ar": ("argon", "aryl"),
    "Ts": ("tennessine", "tosyl"),
    "Ac": ("actinium", "acetyl"),
    "Pr": ("praseodymium", "propyl"),
    "Nb": ("niobium", "norbornyl"),
    "Rf": ("rutherfordium", "perfluoroalkyl"),
    "Am": ("americium", "amyl"),
}
_LABEL = re.compile(
    r"(?P<reactant>reactants?|starting[ _]materials?|substrates?)|(?P<agent>reagents?|agents?|solvents?|catalysts?"
    r"|conditions?)|(?P<product>products?|target)",
    re.IGNORECASE,
)
_SECTION = re.compile(rf"(?:(?<![a-z])|(?=(?-i:[A-Z]{{6}})))(?:{_LABEL.pattern})\s*[:=]\s*", re.IGNORECASE)
_STRING_ESCAPES = re.compile(r"\\[nrt]")


def unescape_string(text: str) -> str:
    r"""Return a molfile that was pasted as a string of JSON or Python, with \n written out, as lines; else the text."""
    if len(_STRING_ESCAPES.findall(text)) < 4 or not re.search(r"V[23]000|M  END|\$RXN", text) or text.count("\n") > 2:
        return text
    body = text.strip().rstrip(",;")
    if len(body) > 1 and body[0] == body[-1] and body[0] in "\"'":
        body = body[1:-1]
    try:
        return str(json.loads(f'"{body.replace(chr(34), chr(92) + chr(34))}"'))
    except ValueError:
        return body.replace("\\n", "\n").replace("\\r", "").replace("\\t", "\t")


def without_blank_lines(text: str) -> tuple[str, bool]:
    """Return a molfile without the blank lines that were put after each of its lines, and whether there were any."""
    lines = text.replace("\r\n", "\n").split("\n")
    if len(lines) < 9 or not any("V2000" in line or "V3000" in line for line in lines[4:10]):
        return text, False
    if any(line.strip() for line in lines[1::2]):
        return text, False
    return "\n".join(lines[::2]), True


def without_margin(text: str) -> str:
    """Return a molfile without what stands before each of its lines, as in a quoted mail or an indented block."""
    end = re.search(r"^([>|\s]{1,12})M  END", text, re.MULTILINE)
    margin = end[1] if end else ""
    lines = text.split("\n")
    if not margin.strip("\r\n") or not all(f"{line} ".startswith(margin) or not line.strip() for line in lines):
        return text
    return "\n".join(line[len(margin) :] for line in lines)


def is_tokens(text: str) -> bool:
    """Return whether a text in angle brackets is SMILES among special tokens of a model rather than XML."""
    tags = _TAG.findall(text)
    if not tags or len(tags) > MAX_TOKENS or _DOCUMENT.match(text) or '="' in text:
        return False
    rest = _TAG.sub(" ", text).strip()
    return bool(rest) and "<" not in rest and len(rest.split()) <= 200


def translate(text: TracedText) -> tuple[TracedText, tuple[str, ...]] | Fault:
    """Return a text without the marks of other programs, and notes; or a fault that names a notation not read."""
    if fault := _refused(text):
        return fault
    notes: list[str] = []
    if match := CODE.fullmatch(text.chars.strip()):
        text = text.strip()[match.start("smiles") : match.end("smiles")]
        notes.append("the code around the SMILES left out")
    if match := _AROUND.fullmatch(text.chars.strip()):
        text = text.strip()[slice(*match.span(match.lastgroup or 0))].substitute(_QUOTED_COMMA, lambda _: "; ")
    if is_tokens(text.chars) or _TOKEN.search(text.chars):
        shown = " ".join(dict.fromkeys((*_TAG.findall(text.chars), *_TOKEN.findall(text.chars))))
        text = text.substitute(_TAG, lambda match: _section_mark(match[0])).substitute(_TOKEN, lambda _: " ").strip()
        notes.append(f"special tokens left out: {shown}"[:120])
    for pattern, what in ((_ENZYME, "the enzyme"), (_EDITS, "the list of changed bonds"), (_SCORE, "a score")):
        match = pattern.search(text.chars)
        if match and (pattern is _ENZYME or ">" in text.chars[: match.start()]):
            notes.append(f"{what} left out: {match[0].strip(' |')}"[:120])
            text = text.substitute(pattern, lambda _: "").strip()
    if (match := _FASTA.fullmatch(text.chars.strip())) and "-" not in text.chars:
        letters = re.sub(r"[\s*]", "", match[1])
        helm = f"PEPTIDE1{{{'.'.join(letters)}}}$$$$" if len(letters) < MIN_SEQUENCE else letters
        text = text.substitute(re.compile(r"(?s).+"), lambda _: helm)
        notes.append("read as FASTA: the sequence of a peptide")
    if (
        _SELFIES.fullmatch(text.chars.strip())
        and _SELFIES_MARK.search(text.chars)
        and (_SELFIES_ATOMS.fullmatch(text.chars.strip()) or not parsing.mol_from_smiles(text.chars.strip()))
    ):
        return _from_selfies(text, notes)
    return text, tuple(notes)


def _section_mark(tag: str) -> str:
    """Return the label that a token stands for: <product> begins a section."""
    name = tag.strip("<>|")
    return f" {name}: " if _LABEL.fullmatch(name) else " "


def split_sections(text: TracedText) -> dict[str, TracedText] | None:
    """Return the texts of sections by role, REACTANT: ... REAGENT: ... PRODUCT: ...; None if there are none."""
    matches = [*_SECTION.finditer(text.chars)]
    if not matches or matches[0].start() > 0:
        return None
    roles = [match.lastgroup or "" for match in matches]
    if roles == ["product"]:
        return None
    ends = [*(match.start() for match in matches[1:]), len(text.chars)]
    sections: dict[str, TracedText] = {}
    for match, role, end in zip(matches, roles, ends, strict=True):
        part = text[match.end() : end].strip(" \t\r\n,;>")
        if not part:
            continue
        before = sections.get(role)
        if before is not None:
            part = TracedText(
                f"{before.chars}; {part.chars}",
                (*before.positions, part.positions[0], part.positions[0], *part.positions),
            )
        sections[role] = part
    return sections or None


def _from_selfies(text: TracedText, notes: Sequence[str]) -> tuple[TracedText, tuple[str, ...]] | Fault:
    try:
        import selfies  # rarely needed, so not at every start

        smiles = selfies.decoder(text.chars.strip())
    except Exception as error:  # the package raises errors of several types
        return text.fault(f"this is SELFIES, which cannot be read ({error}); write it as SMILES"[:300])
    changed = text.substitute(re.compile(r"(?s).+"), lambda _: smiles)
    return changed, (*notes, f"read from SELFIES: {smiles}"[:200])


def _is_smiles_around(chars: str, match: re.Match[str]) -> bool:
    """Return whether what stands around a match, up to arrows and commas, is a SMILES, as )n( is in caffeine's."""
    start = max(chars.rfind(sign, 0, match.start()) for sign in ">,;") + 1
    ends = (chars.find(sign, match.end()) for sign in ">,;")
    end = min((position for position in ends if position >= 0), default=len(chars))
    return parsing.mol_from_smiles(chars[start:end].strip()) is not None


def _refused(text: TracedText) -> Fault | None:
    chars = text.chars
    if match := _CX_POLYMER.search(chars):
        return _at(
            text, match, "this is a polymer (brackets in CXSMILES), which stands for no certain molecule; write one out"
        )
    if match := _BIGSMILES.search(chars):
        return _at(text, match, "this is BigSMILES, a polymer, which stands for no certain molecule; write one out")
    if (match := _REPEAT.search(chars)) and not (
        re.search(r"\s", chars.strip()) or _is_smiles_around(chars, match) or lookup.look_up(chars)
    ):
        return _at(text, match, "this is a polymer (n units), which stands for no certain molecule; write one out")
    return _bracketed_group(text)


def _bracketed_group(text: TracedText) -> Fault | None:
    """Return a fault for a group in brackets, such as [NO2], [Boc] or [R1], which SMILES takes for an atom."""
    for match in _BRACKET.finditer(text.chars):
        label = match[1]
        around = text.chars[: match.start()][-1:] + text.chars[match.end() :][:1]
        if label in _GROUPS_AND_ELEMENTS:
            if not re.search(r"[A-Za-z0-9)(=\[\]]", around):
                continue
            element, group = _GROUPS_AND_ELEMENTS[label]
            return _at(text, match, f"[{label}] is {element}; {_written_out(label, group)}")
        if (
            label in _ISOTOPES
            or parsing.mol_from_smiles(match[0]) is not None
            or not re.search(r"[A-Za-z0-9)(=.\[\]]|^$", around)
        ):
            continue
        if _R_GROUP.fullmatch(label):
            return _at(text, match, f"{label} stands for an R group, not for an atom; draw the one that is meant")
        if formulas.group_smiles(label) or (formulas.read(f"Me{label}") and not formulas.read(label)):
            return _at(text, match, f"[{label}] is a group and no atom; {_written_out(label, label)}")
    return None


def _written_out(label: str, group: str) -> str:
    smiles = formulas.group_smiles(label)
    return f"for {group} write {smiles}" if smiles else f"write {group} out"


def _at(text: TracedText, match: re.Match[str], message: str) -> Fault:
    return text[match.start() : match.end()].fault(message)
