"""Spellings of one name (Greek letters, primes, British and American forms), and qualifiers that change no molecule."""

import re
from collections.abc import Iterator
from pathlib import Path

from chemspec.asset_files import read_asset_table

_GREEK: dict[str, str] = dict(read_asset_table(Path(__file__).with_name("greek.tsv")))
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u00ad\u02d7\ufe63\uff0d"
PRIMES = "\u2018\u2019\u201b\u2032\u02b9\u02bc`\u00b4\uff07"
DOTS = "\u00b7\u2022\u2219\u22c5\u30fb\u2027"  # of adducts
_SIGNS = {
    **{sign: name for name, signs in _GREEK.items() for sign in signs},
    **dict.fromkeys(DASHES, "-"),
    **dict.fromkeys(PRIMES, "'"),
    **dict.fromkeys(DOTS, "."),
    "\u2033": "''",
    "\u00a0": " ",
    "\u00b1": "+-",
    "\u00b9": "1",
    "\u00b2": "2",
    "\u00b3": "3",
    "\u00fc": "u",
    "\u00f6": "o",
    "\u00e9": "e",
    **{chr(0x2080 + digit): str(digit) for digit in range(10)},
}
_TABLE = str.maketrans(_SIGNS)
MAX_CONDITION_CHARS = 60  # characters
_DEGREES = str.maketrans(
    {**dict.fromkeys(DASHES, "-"), "\u2103": "°C", "\u2109": "°F", "º": "°", "˚": "°", "\u00a0": " ", "\u2009": " "}
)
_DOTTED_GREEK = re.compile(rf"\.({'|'.join(_GREEK)})\.", re.IGNORECASE)
_LOCANT = r"(?<![A-Za-z0-9])((?:\d{1,2}|[NnOoSs])'*)"
_COMMA = re.compile(_LOCANT + r"\s*,\s*(?=(?:\d{1,2}|[NnOoSs])'*\s*[-,])")
_HYPHEN = re.compile(_LOCANT + r"(?:\s+-\s*|-\s+)(?=[A-Za-z(\[])")
_OTHER_FORMS = read_asset_table(Path(__file__).with_name("spellings.tsv"))


def plain_name(name: str) -> str:
    """Return a name in ASCII, without blanks around locants: beta-alanine, N,N-dimethylformamide."""
    text = _DOTTED_GREEK.sub(r"\1", name.strip().translate(_TABLE))
    return _HYPHEN.sub(r"\1-", _COMMA.sub(r"\1,", " ".join(text.split())))


def other_forms(name: str) -> Iterator[str]:
    """Yield other spellings of a plain name, such as sulfonyl for sulphonyl."""
    changed = name
    for pattern, form in _OTHER_FORMS:
        changed = re.sub(pattern, form, changed, flags=re.IGNORECASE)
    if changed != name:
        yield changed
    if "." in name:
        yield name.replace(".", " ")


_CAPITALS = re.compile(
    r"(?<![A-Za-z])(?:n|[nops]\d{1,2}|[os](?=-(?!but|tol|xyl|anis|cres)))(?='*[,-])|(?<![a-z\d])\d{1,2}[a-z]?h(?=-)"
    r"|\((?:\d*[a-z]?'*[rsez],? ?)+\)"
)
_GROUPS = (
    r"(?:tert-|sec-|iso|n-)?(?:meth|eth|prop|but|pent|hex|hept|oct|dec)(?:yl|oxy)(?!ene|id)|vinyl|allyl|benzyl|phenyl|phenoxy|acetoxy|cyclohexyl"
    r"|cyclopentyl|fluoro|chloro|bromo|iodo|trimethylsilyl"
)
_GROUP = re.compile(rf"(?:(?:di|tri|tetra)-?)?(?:{_GROUPS})", re.IGNORECASE)
_ON_ATOM = r"(?:sil|german|stann|phosphin|phosphan|boran|arsin)(?:ane|yl|yn|e(?![a-z]))"
_RUN = re.compile(rf"\)?(?:{_GROUP.pattern})+(?={_ON_ATOM})", re.IGNORECASE)


def with_capitals(name: str) -> str:
    """Return a name with locants and stereo descriptors in capitals: n,n-dimethyl, (2r)-."""
    return _CAPITALS.sub(lambda match: match[0].upper(), name)


def with_hyphens(name: str) -> str:
    """Return a name with hyphens between all that is on silicon, phosphorus or the like: chloro-dimethyl-vinyl-silane.

    Without them, what stands before a group counts as a part of it.
    """
    return _RUN.sub(_hyphened, name)


def _hyphened(match: re.Match[str]) -> str:
    groups = [*[")"] * match[0].startswith(")"), *_GROUP.findall(match[0])]
    return f"{'-'.join(groups)}-" if len(groups) > 1 else match[0]


_NUMBER = r"\d+(?:[.,]\d+)?"
_RANGE = rf"(?:(?:ca\.?|c\.|about|[~<>≤≥≈])\s*)?{_NUMBER}(?:\s*(?:-|to|~|→)\s*{_NUMBER})?"
_UNIT = (
    r"(?:[mM]ol\s?[/·]\s?[lL]|mol\s?%|mol-?%|wt\.?\s?%|w/w\s?%|vol\.?\s?%|%\s?(?:w/w|v/v|w/v|w/t|aq\.?|wt\.?)?|mM|M|N"
    r"|equiv(?:alents?)?\b\.?|eq\b\.?|mmol|mol|mL|ml|µL|μL|mul|uL|L|mg|kg|g|ppm|atm|bar|psig?|[kM]?Pa|torr|mmHg|vols?\b)"
)
_STRENGTH = rf"(?:{_RANGE}|(?<![A-Za-z])[xn](?=\s?eq))\s*{_UNIT}(?![A-Za-z0-9])"
_WORDS = (
    r"(?:conc(?:entrated|d)?|dil(?:uted?)?|aq(?:ueous)?|sat(?:urated|urd|d)?|sol(?:utio)?n|anh(?:ydr)?(?:ous)?|cat(?:alytic|alyst)?"
    r"|glacial|fuming|dry|neat|excess|degassed|absolute|abs|activated|powdered|granular|solid|liquid|gaseous|freshly"
    r"|distilled|technical|reagent|grade|ice-cold|cold|hot|commercial|dust|powder|turnings|filings|granules|pellets|beads"
    r"|wire|foil|ribbon|shavings|metal|flakes|chips|sponge|gas|crystals?|balloon|dispersion|suspension|slurry|bubbled|atmosphere"
    r"|purged|(?:dispersion |suspension )?in (?:mineral |paraffin )?oil|(?:mineral|paraffin) oil|cas)"
)
_LEADING = re.compile(rf"(?:{_STRENGTH}|{_WORDS}(?:\.|(?=[\s,])))[\s,]*(?:of\s+)?", re.IGNORECASE)
_UNIT_CASE = re.compile(rf"{_NUMBER}\s*(?:m|n)(?![A-Za-z0-9])")  # 4 m is no strength
_RATIO = r"\d+(?:\.\d+)?(?:\s?[:/]\s?\d+(?:\.\d+)?)+"
_INSIDE = rf"(?:{_STRENGTH}|{_WORDS}\.?|[aslg]|aq|ac|{_RATIO}|v/v|w/w|by vol(?:ume)?\.?)"
_TRAILING = re.compile(
    rf"(?:\s*[\[(]{_INSIDE}(?:[\s,;]+{_INSIDE})*[\])]|[\s,]+{_STRENGTH}|\s+{_WORDS}\.?|[\s=]+{_RATIO})$", re.IGNORECASE
)
_CONDITIONS = "|".join(
    rf"(?:{row[0]})".replace("NUMBER", _NUMBER).replace("RANGE", _RANGE)
    for row in read_asset_table(Path(__file__).with_name("conditions.tsv"))
)
_CONDITION = re.compile(
    rf"[(\[]?(?:{_STRENGTH}|{_RATIO}|{_CONDITIONS})(?:[\s,;:/]*(?:{_STRENGTH}|{_CONDITIONS}))*[)\]]?\.?", re.IGNORECASE
)


def split_qualifiers(text: str) -> tuple[str, tuple[str, ...]]:
    """Separate a name from qualifiers before and behind it: `4M HCl` is HCl and 4M."""
    left_out: list[str] = []
    while match := _LEADING.match(text):
        if match.end() == len(text) or _UNIT_CASE.match(text):
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
    plain = text.strip(" ,").translate(_DEGREES)
    return len(plain) <= MAX_CONDITION_CHARS and _CONDITION.fullmatch(plain) is not None
