"""What is typed for one side of a reaction: a SMILES, a name, an InChI, or a list of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import chemspec.chem as chem
import chemspec.chem.reading.names.lookup as lookup
import chemspec.chem.reading.names.near_names as near_names
import chemspec.chem.reading.names.reagents as reagents
import chemspec.chem.reading.names.spelling as spelling
import chemspec.chem.reading.respell as respell
from chemspec.chem.molecules import parsing
from chemspec.chem.molecules.smiles_syntax import Fault
from chemspec.chem.molecules.traced_text import TracedText
from chemspec.chem.reading.advice import STANDS_ALONE, advice_on
from chemspec.chem.reading.values import Molecules

MAX_LIST = 20_000  # characters; a query has far fewer
MAX_ITEMS = 300  # words of a list
MAX_WORDS = 7  # words of a name
MAX_SYSTEMATIC = 20  # names of a list that OPSIN is asked for
JOINED = "read as a list"
_DROPPED = "dropped, taken for a name"
_QUOTES = "\"'`\u00b4\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
_SEPARATOR = re.compile(r"\s*;\s*|[,\uff0c\u3001](?:\s+|$)|\s+[+&|]\s+|\s*[\r\n]+\s*")
_CO = re.compile(r"(?:^|(?<=[,;] )|(?<=[/-]))CO(?=\s*[,;/(-]|$)")
_PRESSURE = re.compile(r"\d\s?(?:atm|k?bar|psi|[kM]?Pa|torr)\b")  # with which CO is carbon monoxide
_AS_SMILES = {
    "CO": "methanol; carbon monoxide is [C-]#[O+]",
    "NO": "hydroxylamine; nitric oxide is [N]=O",
    "CN": "methylamine; hydrogen cyanide is C#N",
    "SN": "thiohydroxylamine; tin is [Sn]",
    "IN": "iodoamine; indium is [In]",
    "PI": "iodophosphine",
}
_FILLER = re.compile(r"ON|On|O/N|N2|(?i:celite|kieselguhr|florisil|silica(?: gel)?)")  # not what reacts
# Last words of names of several words, which are no molecules behind another name.
_CLASS = re.compile(
    r"(?:.*[\s-])?(?:di|tri|mono)?\w*(?:ether|acetal|ketal|oxime|ester|oxide|anhydride|hydrazone|semicarbazone|imine|enamine"
    r"|thioacetal|dithiane|glycol|carbamate|adduct|salt|acid|lactone|lactam|sulfone|amide|dimer|hydro(?:chlor|brom|iod)ide)"
    r"|(?:hemi|mono|di|tri|tetra|penta|hexa)[a-z]*(?:ate|(?<![mn])ide)|acetate|benzoate|sulfate|nitrate|phosphate",
    re.IGNORECASE,
)
_METAL = re.compile(r"\[[A-Z][a-z]?\]")
_ANION = re.compile(r"\S+(?:ate|ite|ide)\)?", re.IGNORECASE)  # no molecule behind a metal
_INVERTED = re.compile(
    r"acid,\s*[^,;]*\b(?:ester|salt|anhydride|amide|hydrazide|chloride|nitrile)$"
    r"|,\s*(?:oxime|(?:mono|di|tri)?hydro(?:chlor|brom)ide|\w+ ether|[a-z]+yl acetal|acetate|benzoate)"
    r"(?: ?\(\d:\d\))?$",
    re.IGNORECASE,
)
# Items that are no molecule of their own but the end of a name in the order of an index: decanoic acid, cerium salt.
_FRAGMENT = re.compile(
    r"(?:(?:\w+ )?(?:salt|adduct|complex)|lactone|(?:di|tri)?acetate|benzoate|sulfate|nitrate|phosphate|[a-z]+yl acetal"
    r"|.*[a-z]-|(?:mono|di|tri)?(?:hydro(?:chlor|brom|iod)ide|hydrate))(?: ?\(\d:\d\))?",
    re.IGNORECASE,
)
_COEFFICIENT = re.compile(r"(?:\d{1,2}(?:\.\d)?|[\u00bd\u00bc]|\d/\d)(?:\s*[x\u00d7])?\s+(?=[A-Za-z\[(])")
_LABEL = re.compile(r"([A-Za-z](?:[A-Za-z .-]{0,30}[A-Za-z.])?)\s*:\s+(?=\S)")  # base: K2CO3
_BLANKS = re.compile(r"\s{2,}|[\r\t]")
_IN_SOLVENT = re.compile(r"\s?\(([^()]{0,30}\sin\s[^()]{1,60})\)|\s?\((in\s[^()]{1,60})\)")  # LiAlH4 (1.0 M in THF)
_GAP = re.compile(r"\s+")
_LINE_BREAK = re.compile(r"\s*[\r\n]+\s*")
_BULLET = re.compile(r"^(?:[-*+\u2022\u2013]|\d{1,2}[.)])\s+")
_WORD = re.compile(r"\S+")
_FILLERS = {"in", "with", "and", "plus", "+", "&", "of", "then", "a", "mixture"}
_OUTSIDE = r"(?![^\[]*\])"  # brackets
_DOT = re.compile(rf"[.{spelling.DOTS}]{_OUTSIDE}")
_ADDUCT = re.compile(rf"[.*{spelling.DOTS}]{_OUTSIDE}|\s+x\s+(?=\d|[A-Z])|\s+[-\u2013]\s+")
_PLUS = re.compile(rf"\+{_OUTSIDE}(?![^(]*\))")
_COMMA = re.compile(r",")
_SLASH = re.compile(r"\s*[/:]\s*")
_HYPHEN = re.compile("[-\u2010-\u2015\u2212]")
_LOOSE_DOT = re.compile(rf"(?<=\S)(?:\s+[.{spelling.DOTS}]\s*|[.{spelling.DOTS}]\s+)(?=\S)")
_RATIO = re.compile(r"[\s(=]+\d+(?:\.\d+)?(?:\s?[:/]\s?\d+(?:\.\d+)?)+\)?$")
_COUNTED = re.compile(r"(\d{1,2})\s*(?=[A-Za-z(])(.+)")
_LOCANT = r"(?:\d{1,2}|[NnOoSs])['\u2032\u2019]*\s*"
_LOCANTS = re.compile(rf"(?<![A-Za-z0-9])({_LOCANT},\s*)(?={_LOCANT}[-,\u2010-\u2015\u2212])")
_CX = re.compile(r"\s\|[^|]*\|\s*$")
_STRUCTURAL = re.compile(r"[=#\[\]]|[cnos]\d|\([A-Z=]")


@dataclass
class ReadItems:
    """What was read so far: SMILES of molecules, notes, and the words that are neither SMILES nor name."""

    smiles: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unread: list[TracedText] = field(default_factory=list)
    named: bool = False

    def add(self, other: ReadItems) -> None:
        """Add what was read in another part."""
        self.smiles += other.smiles
        self.notes += other.notes
        self.unread += other.unread
        self.named |= other.named


def read_mixture(text: TracedText, is_target: bool) -> Molecules | Fault:
    """Read one side of a reaction, or a text without arrows; of a target one molecule, whose name may follow it."""
    if not text.chars.strip(" \t\r\n\ufeff" + _QUOTES):
        return text.fault("nothing to read here; enter a SMILES, such as CCO, or a name", "empty")
    single = read_smiles(text)
    extended = "|" not in text.chars or _CX.search(text.chars)  # between bars a CXSMILES extension, if anything
    if isinstance(single, Molecules) and not any(_DROPPED in note for note in single.notes) and extended:
        return single
    if isinstance(single, Fault) and single.kind == "length":
        return single
    if len(text.chars) > MAX_LIST:
        return text.fault("this list is too long", "length")
    named = lookup.look_up(text.chars)
    if named is None and _INVERTED.search(text.chars):  # before the comma parts it
        named = lookup.look_up_systematic(text.chars)
    if named:
        return Molecules([named.smiles], _meaning(text.chars.strip(), named), "name")
    if (joined := join_tokens(text)) is not None:
        read = read_smiles(joined)
        return read if isinstance(read, Fault) else replace(read, notes=(*read.notes, TOKENS_JOINED))
    return _read_list(text, is_target, single)


def read_smiles(text: TracedText) -> Molecules | Fault:
    """Read a text as one SMILES, perhaps with a name or CXSMILES extension behind it."""
    chars, notes = text.chars, list[str]()
    for spell in (respell.split_ions, respell.spell_isotopes, respell.replace_abbreviations):
        chars, more = spell(chars)
        notes += more
    read = chem.read_query(chars, max_chars=chem.MAX_LENGTH)
    if isinstance(read, chem.Query):
        return Molecules([read.typed], (*notes, *read.notes), "SMILES", query=read)
    return text.restore(read) if chars == text.chars else text.fault(read.message, read.kind)


def _read_list(text: TracedText, is_target: bool, single: Molecules | Fault) -> Molecules | Fault:
    """Read a list; `single` is what became of the text as one SMILES."""
    bare = text.substitute(_BLANKS, lambda match: "\n" if "\n" in match[0] or "\r" in match[0] else " ")
    if bare.chars.count(" ") + bare.chars.count("\n") > MAX_ITEMS:
        return text.fault(f"more than {MAX_ITEMS} words are too many for one query", "length")
    bare = bare.substitute(_IN_SOLVENT, lambda match: f" {match[1] or match[2]}")
    bare = bare.substitute(_LOCANTS, lambda match: re.sub(r"\s", "", match[0]))
    bare = bare.substitute(_LOOSE_DOT, lambda match: _tight_dot(bare.chars, match))
    if _PRESSURE.search(bare.chars):
        bare = bare.substitute(_CO, lambda _: "CO gas")
    contents, parts = ReadItems(), [*_split_outside_brackets(bare)]
    lines = "\n" in text.chars.strip() or "\r" in text.chars.strip()
    for part in parts:
        is_word = len(parts) > 1 and _FILLER.fullmatch(part.chars)
        if part is not parts[0] and _FRAGMENT.fullmatch(part.chars):
            return text.fault(f"{part.chars!r} is the end of a name: write the name in its usual order, without comma")
        contents.add(ReadItems(notes=[f"left out: {part.chars}"]) if is_word else _read_part(part, is_target))
    if lines and is_target and not contents.named and not isinstance(single, Fault):
        count = sum(bool(line.strip()) for line in re.split(r"\r\n|\r|\n", text.chars))
        notes = tuple(note for note in single.notes if _DROPPED not in note)
        return replace(single, notes=(*notes, f"the first of {count} lines; the Batch page takes many"), query=None)
    if contents.unread and lines:
        joined = read_smiles(text.substitute(_LINE_BREAK, lambda _: ""))
        if isinstance(joined, Molecules) and not any(_DROPPED in note for note in joined.notes):
            return replace(joined, notes=(*joined.notes, "line breaks removed"))
    if contents.unread and not _add_systematic(contents):
        if is_target and _is_title_of(contents) and isinstance(first := read_smiles(parts[0]), Molecules):
            return replace(first, notes=(*first.notes, _title_note(text[len(parts[0].chars) :].strip(" ,;"))))
        return _with_unread(text, contents, single)
    if sum(sum(parsing.ring_labels(smiles)) for smiles in contents.smiles) > 2 * parsing.MAX_RINGS:
        return text.fault(parsing.TOO_MANY_RINGS, "length")
    if not contents.smiles:
        return single if isinstance(single, Fault) else text.fault("there is no molecule here", "empty")
    smiles = _different(contents.smiles)
    notes = (*dict.fromkeys(contents.notes), *((JOINED,) * (len(smiles) > 1)))
    return Molecules(smiles, notes, "name" if contents.named or len(smiles) > 1 else "SMILES")


def _named(written: str, named: lookup.Named | None) -> ReadItems | None:
    return ReadItems([named.smiles], list(_meaning(written, named)), named=True) if named else None


def _add_systematic(contents: ReadItems) -> bool:
    if len(contents.unread) > MAX_SYSTEMATIC:
        return False
    for name in (item.chars for item in contents.unread):
        if (named := _named(name, lookup.look_up_systematic(name))) is None:
            return False
        contents.add(named)
    contents.unread.clear()
    return True


def _split_outside_brackets(text: TracedText) -> Iterator[TracedText]:
    """Yield the items of a list; separators between brackets part nothing: water (4:1, v/v)."""
    depth, depths = 0, []
    for char in text.chars:
        depth = 0 if char in "\r\n" else depth + (char in "([") - (char in ")]")
        depths.append(max(depth, 0))
    start = 0
    for match in _SEPARATOR.finditer(text.chars):
        if (
            depths[match.start()] == 0
            or text.chars[match.start() :].count(")") + text.chars[match.start() :].count("]") == 0
        ):
            if item := text[start : match.start()].strip():
                yield item
            start = match.end()
    if item := text[start:].strip():
        yield item


def _read_whole(part: TracedText) -> ReadItems | None:
    """Read words as one name, before they are parted; None if they are none."""
    if _COEFFICIENT.match(part.chars) and " " in part.chars and not spelling.is_condition(part.chars):
        start = _COEFFICIENT.match(part.chars).end()  # type: ignore[union-attr]
        inner = _read_whole(part[start:])
        if inner is not None and inner.smiles:
            return ReadItems(inner.smiles, [*inner.notes, f"left out: {part.chars[:start].strip()}"], named=inner.named)
    return _read_item(part) or _named(part.chars, lookup.look_up_systematic(part.chars))


def _read_part(part: TracedText, is_target: bool) -> ReadItems:
    """Read words that may be names of several words, SMILES, conditions, or the title behind a SMILES."""
    part = _undressed(part)
    spans = [match.span() for match in _WORD.finditer(part.chars)]
    words = [part[start:end] for start, end in spans]
    match = _LABEL.match(part.chars)
    if match and not (spelling.is_condition(part.chars) or lookup.look_up(match[1]) or lookup.look_up(part.chars)):
        labelled = _read_part(part[match.end() :], is_target)
        return replace(labelled, notes=[*labelled.notes, f"left out: {match[0].strip()}"])
    if (whole := _read_whole(part)) is not None:
        return whole
    contents = _read_words(part, words, spans, is_target)
    only_names = len(words) > 1 and contents.named and not any(_looks_like_smiles(word) for word in words)
    if only_names and (is_target or (contents.unread and near_names.near_names(part.chars))):
        return ReadItems(unread=[part])  # a target is one molecule
    return contents


def _read_words(
    part: TracedText, words: Sequence[TracedText], spans: Sequence[tuple[int, int]], is_target: bool
) -> ReadItems:
    contents, position = ReadItems(), 0
    while position < len(words):
        if words[position].chars.lower().strip(".,") in _FILLERS and part.chars != "In":  # indium
            position += 1
            continue
        for end in range(min(len(words), position + MAX_WORDS), position, -1):
            chunk = part[spans[position][0] : spans[end - 1][1]]
            if (item := _read_item(_undressed(chunk))) is not None:
                break
        else:
            item, end = ReadItems(unread=[words[position]]), position + 1
        written, last = part.chars[spans[position][0] : spans[end - 1][1]], "".join(contents.smiles[-1:])
        if contents.named and item.named and _CLASS.fullmatch(written):
            return ReadItems(unread=[part])
        if _METAL.fullmatch(last) and _ANION.fullmatch(written) and words[position - 1].chars.islower():
            return ReadItems(unread=[part])
        behind = words[end:]
        if is_target and not position and behind and item.smiles and not (item.named or _holds_molecules(behind)):
            return ReadItems(item.smiles, [*item.notes, _title_note(part[spans[end][0] :])])
        contents.add(item)
        position = end
    if not contents.unread:
        return contents
    if not contents.smiles:
        return ReadItems(notes=contents.notes, unread=[part])
    is_title = contents.unread[0].positions[0] > part.positions[0] and not any(map(_looks_like_smiles, contents.unread))
    if is_title and len(contents.smiles) == 1 and not contents.named:
        return ReadItems(contents.smiles, [*contents.notes, _title_note(part[spans[1][0] :])])
    return contents


def is_title(text: TracedText) -> bool:
    """Return whether text behind a SMILES certainly is its title: nothing in it is, or was meant as, a molecule."""
    if _SEPARATOR.search(text.chars) or _read_part(text, is_target=False).smiles:
        return False
    return not any(_looks_like_smiles(text[slice(*match.span())]) for match in _WORD.finditer(text.chars))


def _is_title_of(contents: ReadItems) -> bool:
    """Return whether what cannot be read in a list is the title of its one SMILES, and no name that is misspelt."""
    titled = len(contents.smiles) == 1 and not contents.named
    return titled and not any(_looks_like_smiles(word) or near_names.near_names(word.chars) for word in contents.unread)


def _holds_molecules(words: Sequence[TracedText]) -> bool:
    """Return whether words behind a target are molecules rather than its name."""
    return any(
        _looks_like_smiles(word)
        or (len(word.chars) > 2 and _STRUCTURAL.search(word.chars) and chem.is_valid(word.chars))
        for word in words
    )


def _looks_like_smiles(word: TracedText) -> bool:
    """Return whether a word that cannot be read was meant as SMILES rather than as a title."""
    if not _STRUCTURAL.search(word.chars):
        return False
    fault = chem.explain(word.chars)
    kinds = ("ring", "valence", "aromaticity")
    return fault is not None and (fault.kind in kinds or fault.start > 2 or "clos" in fault.message)


def _title_note(rest: TracedText) -> str:
    shown = rest.chars if len(rest.chars) <= 40 else rest.chars[:40] + "..."
    return f"{shown!r} {_DROPPED}"


def _read_item(item: TracedText) -> ReadItems | None:
    """Read one molecule, or several that are written as one word; None if it is none."""
    chars = item.chars
    plain = not any(char.isspace() for char in chars)
    if plain:
        smiles = read_smiles(item)
        if isinstance(smiles, Molecules):
            # A reagent may be meant by a short word in a list that is a SMILES as well.
            abbreviation = len(chars) > 2 and chars.isalnum() and chars.isupper()
            named = _named(chars, lookup.look_up(chars)) if abbreviation else None
            note = [f"{chars} read as SMILES: {_AS_SMILES[chars]}"] if chars in _AS_SMILES else []
            return named or ReadItems([*smiles.parts], [*smiles.notes, *note])
    if len(chars) > spelling.MAX_NAME_CHARS:
        return None
    if (named := _named(chars, lookup.look_up(chars))) and not (
        named.smiles in (["[Ar]"], ["N#N"]) and spelling.is_condition(chars)
    ):
        return named
    if spelling.is_condition(chars):
        return ReadItems(notes=[f"left out: {chars}"])
    return _read_pieces(item, _ADDUCT if not plain else _DOT) or _read_compound(item)


def _read_compound(item: TracedText) -> ReadItems | None:
    if match := _RATIO.search(item.chars):
        contents = _read_item(item[: match.start()])
        if contents is not None:
            contents.notes.append(f"left out: {match.group().strip(' =')}")
        return contents
    for pattern, of_names in ((_ADDUCT, False), (_PLUS, False), (_COMMA, False), (_SLASH, True), (_HYPHEN, True)):
        if (contents := _read_pieces(item, pattern, of_names=of_names)) is not None:
            return contents
    return None


def _read_pieces(item: TracedText, pattern: re.Pattern[str], *, of_names: bool = False) -> ReadItems | None:
    """Read the pieces between separators, only names if SMILES have the separator, too; None unless all can be read."""
    pieces = [*item.split(pattern)]
    if len(pieces) < 2:
        return None
    contents = ReadItems()
    for piece in pieces:
        read = _read_piece(piece, of_names, pattern)
        if read is None and (match := _COUNTED.fullmatch(piece.chars)):
            once = _read_piece(piece[match.start(2) :], False, pattern)
            read = once and ReadItems([".".join(once.smiles * int(match[1]))], once.notes, named=once.named)
        if read is None or (of_names and read.smiles and not read.named):
            contents.unread.append(piece)
        else:
            contents.add(read)
    # Beside names the rest is meant as names, too.
    named = contents.named and pattern in (_DOT, _SLASH) and not any(" " in piece.chars for piece in contents.unread)
    return contents if not contents.unread or named else None


def _read_piece(piece: TracedText, of_names: bool, pattern: re.Pattern[str]) -> ReadItems | None:
    if of_names or pattern.search(piece.chars):
        named = lookup.look_up(piece.chars)
        if named is None and pattern is _SLASH and spelling.is_condition(piece.chars):  # FeBr3/heat
            return ReadItems(notes=[f"left out: {piece.chars}"])
        return None if named and pattern is _HYPHEN and not named.name else _named(piece.chars, named)
    return _read_item(piece)


def _tight_dot(chars: str, match: re.Match[str]) -> str:
    """Return a dot without blanks around it, unless it belongs to an abbreviation such as conc."""
    if match.group().lstrip() == match.group():  # no blank before it
        before = re.split(r"[\s.]", chars[: match.start()])[-1]
        if not (chem.is_valid(before) or lookup.look_up(before)):
            return match.group()
    return "."


def _undressed(part: TracedText) -> TracedText:
    """Return an item of a list without bullet, quotation marks, CXSMILES extension and blanks."""
    part = part.strip()
    if match := _BULLET.match(part.chars):
        part = part[match.end() :]
    for pair in ('""', "''", "``", "\u201c\u201d", "\u201e\u201c", "\u2018\u2019", "\u00ab\u00bb"):
        if len(part.chars) > 2 and part.chars[0] == pair[0] and part.chars[-1] == pair[1]:
            part = part[1:-1].strip()
    return part.strip(" \t,\ufeff")


def _different(smiles: Sequence[str]) -> list[str]:
    """Return the molecules without repetitions: a name next to a SMILES often means the same."""
    unique: dict[str | None, str] = {}
    for written in smiles:
        unique.setdefault(chem.canonical(written), written)
    return [*unique.values()]


def _with_unread(text: TracedText, contents: ReadItems, single: Molecules | Fault) -> Fault:
    first = contents.unread[0]
    if isomers := reagents.find_isomers(spelling.split_qualifiers(spelling.plain_name(first.chars))[0]):
        message = f"{first.chars} may be {', '.join(isomers[:-1])} or {isomers[-1]}: name the one you mean"
        return first.fault(message, choices=isomers)
    if not contents.smiles:
        fault = single if isinstance(single, Fault) else first.fault("this cannot be read")
        advice = advice_on(text.chars.strip(), fault.kind)
        if advice.startswith(STANDS_ALONE) or (advice and fault.kind == "atom" and re.search("[a-z]{4}", text.chars)):
            return text.fault(advice, fault.kind, near_names.near_names(text.chars.strip()))
        return replace(fault, message="; ".join(filter(None, (fault.message, advice))))
    if _looks_like_smiles(first) and (reason := chem.explain(first.chars)) is not None:
        return first.restore(reason)
    advice = advice_on(first.chars)
    if advice.startswith(STANDS_ALONE):
        return first.fault(f"{first.chars!r}: {advice}", choices=near_names.near_names(first.chars))
    neither = f"{first.chars!r} is neither a SMILES nor a name in the built-in list"
    return first.fault("; ".join(filter(None, (neither, advice))))


def _meaning(written: str, named: lookup.Named) -> tuple[str, ...]:
    full_name = (f"{written}: {named.name}",) if written.casefold() != named.name.casefold() else ()
    return (*full_name, *named.notes)


_ATOM_TOKEN = r"(?:\[[^\[\]\s]*\]|Cl|Br|[BCNOPSFIbcnops*])"
_LABEL_TOKEN = r"(?:%\d\d|%\(\d+\)|\d)"
_MARK_TOKEN = r"(?:[-=#$:~/\\().]|->|<-|>>?)"
# Or a single character of an atom: C l, [ N a + ].
_TOKEN = re.compile(rf"{_MARK_TOKEN}?{_ATOM_TOKEN}{_LABEL_TOKEN}*|{_MARK_TOKEN}|{_LABEL_TOKEN}|[A-Za-z@+\[\]]")
MIN_TOKENS = 3
TOKENS_JOINED = "blanks between the tokens removed"


def join_tokens(text: TracedText) -> TracedText | None:
    """Return tokenised SMILES without its blanks; None if the text is none."""
    tokens = text.chars.split()
    if len(tokens) < MIN_TOKENS or not all(map(_TOKEN.fullmatch, tokens)):
        return None
    atoms = sum(token[0].isalpha() or token[0] == "[" for token in tokens)
    # Molecules with blanks around the dots, such as C . O, are a list.
    listed = all((token == ".") == bool(number % 2) for number, token in enumerate(tokens))
    if listed or 2 * atoms < len(tokens) // 2 or min(map(len, tokens)) > 1:
        return None
    return text.substitute(_GAP, lambda _: "") if any(re.fullmatch(_ATOM_TOKEN, token) for token in tokens) else None
