"""Spellings of one name (Greek letters, primes, British and American forms), and qualifiers that change no molecule."""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import chemspec.chem.reading.names.additive as additive
from chemspec.asset_files import read_asset_table


def _table(name: str) -> list[list[str]]:
    return [*read_asset_table(Path(__file__).with_name(f"{name}.tsv"))]


QUALIFIERS = {of: "|".join(row[1] for row in _table("qualifiers") if row[0] == of) for of, _ in _table("qualifiers")}
_SIGNS = {row[0]: row[1] for row in _table("signs")}
DOTS = _SIGNS["."]  # of adducts
_PLAIN = str.maketrans({sign: text for text, signs in _SIGNS.items() for sign in signs})
MAX_CONDITION_CHARS = 60
MAX_NAME_CHARS = 1000  # of a name with its qualifiers
_LOCANT = r"(?<![A-Za-z0-9])((?:\d{1,2}|[NnOoSs])'*)"
_COMMA = re.compile(_LOCANT + r"\s*,\s*(?=(?:\d{1,2}|[NnOoSs])'*\s*[-,])")
_HYPHEN = re.compile(_LOCANT + r"(?:\s+-\s*|-\s+)(?=[A-Za-z(\[])")
_OTHER_FORMS = [(re.compile(pattern, re.IGNORECASE), form) for pattern, form in _table("spellings")]
_GROUP_NAMES = [name for _, name in _table("symbols")]
_SYMBOL = re.compile(  # 4-Br-toluene, 2,6-diCl-pyridine
    rf"(?<=[\dNnOoMmPpSs']-)((?i:di|tri)-?)?(?:{'|'.join(f'({pattern})' for pattern, _ in _table('symbols'))})"
    r"(?:-(?=[a-z(])|(?=-[\dA-Z]))"
)


def _plain_signs(text: str) -> str:
    """Return a text with Greek letters by name, and plain dashes, primes, digits and letters without accents."""
    text = text.translate(_PLAIN)
    if text.isascii():
        return text
    letters = (char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return "".join(letters).translate(_PLAIN)


def plain_name(name: str) -> str:
    """Return a name in ASCII, without blanks around locants: beta-alanine, N,N-dimethylformamide."""
    return _HYPHEN.sub(r"\1-", _COMMA.sub(r"\1,", " ".join(_plain_signs(name).split())))


_METAL_FIRST = re.compile(r"([A-Z][a-z]?)(?:[\s-]+(?=[a-z(])|(?=\([IV0]+\)))")


def other_forms(name: str) -> Iterator[str]:
    """Yield other spellings of a plain name, such as sulfonyl for sulphonyl, palladium acetate for Pd(II) acetate."""
    match = _METAL_FIRST.match(name)
    metal = additive.SYMBOLS.get(match[1], "") if match else ""
    changed = f"{metal} {name[match.end() :]}" if match and metal else name
    for pattern, form in _OTHER_FORMS:
        changed = pattern.sub(form, changed)
    changed = _SYMBOL.sub(lambda match: (match[1] or "") + _GROUP_NAMES[(match.lastindex or 0) - 2], changed)
    without_state = changed.replace(f"({[*additive.ROMAN][additive.METALS[metal][1]]})", "") if metal else changed
    yield from (form for form in dict.fromkeys((changed, without_state, name.replace(".", " "))) if form != name)


_CAPITALS = re.compile(
    r"(?<![A-Za-z])(?:n|[nops]\d{1,2}|[os](?=-(?!but|tol|xyl|anis|cres)))(?='*[,-])|(?<![a-z\d])\d{1,2}[a-z]?h(?=-)"
    r"|\((?:\d*[a-z]?'*[rsez],? ?)++\)"
)
_GROUP = re.compile(rf"(?:(?:di|tri|tetra)-?)?(?:{QUALIFIERS['group']})", re.IGNORECASE)
_ON_ATOM = r"(?:sil|german|stann|phosphin|phosphan|boran|arsin)(?:ane|yl|yn|e(?![a-z]))"
_RUN = re.compile(rf"(?:\)(?:{_GROUP.pattern})+|(?:{_GROUP.pattern}){{2,}})(?={_ON_ATOM})", re.IGNORECASE)


def with_hyphens(name: str) -> str:
    """Return a name with hyphens between all that is on silicon, phosphorus or the like: chloro-dimethyl-vinyl-silane.

    Without them, what stands before a group counts as a part of it.
    """
    return _RUN.sub(lambda run: _GROUP.sub(r"\g<0>-", run[0].replace(")", ")-")), name)


def opsin_forms(name: str) -> Iterator[str]:
    """Yield a name as OPSIN understands it: capital locants, hyphens between what is on silicon, words in full."""
    hyphened = with_hyphens(name.lower() if name.isupper() else name)
    capitals = _CAPITALS.sub(lambda match: match[0].upper(), hyphened)  # n,n-dimethyl, (2r)-
    yield from dict.fromkeys((hyphened, capitals, *other_forms(hyphened)))


# Atomic where repeated: `1/1/1/1` or `aq aq aq` can be parted in many ways, and trying all takes exponential time.
_NUMBER = r"\d+(?:[.,]\d+)?"
_RANGE = (
    rf"(?:(?:ca\.?|c\.|about|approx\.?|circa|max\.?|min\.?|below|above|[~<>≤≥≈])\s*)?{_NUMBER}"
    rf"(?:\s*(?:-|to|~|→|\+-)\s*{_NUMBER})?"
)
_STRENGTH = rf"(?:{_RANGE}|(?<![A-Za-z])[xn](?=\s?eq))\s*(?:{QUALIFIERS['unit']})(?![A-Za-z0-9])"
_WORDS = f"(?:{QUALIFIERS['word']})"
_LEADING = re.compile(rf"(?:{_STRENGTH}|{_WORDS}(?:\.|(?=[\s,])))[\s,]*(?:of\s+)?", re.IGNORECASE)
_RATIO = r"\d+(?:\.\d+)?(?:\s?[:/]\s?\d+(?:\.\d+)?)+"
_CONDITIONS = "|".join(
    rf"(?:{row[0]})".replace("NUMBER", _NUMBER).replace("RANGE", _RANGE) for row in _table("conditions")
)
_ANY = rf"(?>(?:{_CONDITIONS}|{_STRENGTH}|{_RATIO})(?![A-Za-z0-9%]))"
_INSIDE = rf"(?>(?:{_STRENGTH}|{_ANY}|{_WORDS}\.?|[aslg]|ac|by vol(?:ume)?\.?)(?=[\s,;\])]))"
_TRAILING = re.compile(
    rf"(?:\s*[\[(]{_INSIDE}(?:[\s,;]++{_INSIDE})*+[\])]|[\s,]+{_STRENGTH}|\s+{_WORDS}\.?|[\s=]+{_RATIO})$",
    re.IGNORECASE,
)
_CONDITION = re.compile(rf"[(\[]?{_ANY}(?:[\s,;:/→(]*+{_ANY})*+[)\]]?\.?", re.IGNORECASE)


def split_qualifiers(text: str) -> tuple[str, tuple[str, ...]]:
    """Separate a name from qualifiers before and behind it: `4M HCl` is HCl and 4M. A long text stays as it is."""
    if len(text) > MAX_NAME_CHARS:
        return text, ()
    left_out: list[str] = []
    while match := _LEADING.match(text):
        if match.end() == len(text):
            break
        left_out.append(match.group().strip(" ,"))
        text = text[match.end() :]
    behind: list[str] = []
    while (match := _TRAILING.search(text)) and match.start():
        behind.insert(0, match.group().strip(" ,="))
        text = text[: match.start()]
    return text.strip(" ,"), (*left_out, *behind)


def is_condition(text: str) -> bool:
    """Return whether a text is a temperature, time, ratio, apparatus or the like, and no molecule."""
    plain = " ".join(_plain_signs(text).split()).strip(" ,")
    return len(plain) <= MAX_CONDITION_CHARS and _CONDITION.fullmatch(plain) is not None
