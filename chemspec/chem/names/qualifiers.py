"""Words next to a name that change no molecule: strength, state, amount, purity, conditions."""

from __future__ import annotations

import re

_NUMBER = r"\d+(?:[.,]\d+)?"
_UNIT = (
    r"(?:[mM]ol\s?[/·]\s?[lL]|mol\s?%|mol-?%|wt\.?\s?%|w/w\s?%|vol\.?\s?%|%\s?(?:w/w|v/v|w/v|aq\.?|wt\.?)?|mM|M|N"
    r"|equiv(?:alents?)?\b\.?|eq\b\.?|mmol|mol|mL|ml|µL|μL|uL|L|mg|kg|g|ppm)"
)
_STRENGTH = rf"{_NUMBER}\s*{_UNIT}(?![A-Za-z0-9])"
_WORDS = (
    r"(?:conc(?:entrated|d)?|dil(?:uted?)?|aq(?:ueous)?|sat(?:urated|urd|d)?|sol(?:utio)?n|anh(?:ydr)?(?:ous)?|cat(?:alytic)?"
    r"|glacial|fuming|dry|neat|excess|degassed|absolute|abs|activated|powdered|granular|solid|liquid|gaseous|freshly"
    r"|distilled|technical|reagent|grade|ice-cold|cold|hot|commercial|dust|powder|turnings|filings|granules|pellets|beads"
    r"|wire|foil|ribbon|shavings|metal|flakes|chips|sponge|gas|crystals?)"
)
_LEADING = re.compile(rf"(?:{_STRENGTH}|{_WORDS}(?:\.|(?=[\s,])))[\s,]*(?:of\s+)?", re.IGNORECASE)
_UNIT_CASE = re.compile(rf"{_NUMBER}\s*(?:m|n)(?![A-Za-z0-9])")  # 4 m is no strength
_INSIDE = rf"(?:{_STRENGTH}|{_WORDS}\.?|[aslg]|aq|ac|\d+(?:\.\d+)?(?:\s?[:/]\s?\d+(?:\.\d+)?)+)"
_TRAILING = re.compile(
    rf"(?:\s*\({_INSIDE}(?:[\s,;]+{_INSIDE})*\)|[\s,]+{_STRENGTH}|\s+{_WORDS}\.?"
    r"|[\s=]+\d+(?:\.\d+)?(?:\s?[:/]\s?\d+(?:\.\d+)?)+)$",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    rf"\(?(?:{_STRENGTH}|-?{_NUMBER}\s*(?:°|º|deg\.?\s?)\s?[CF]?|-?{_NUMBER}\s?(?:h|hr|hrs|hours?|min|mins|minutes|s|d|days?"
    r"|K|atm|bar|psi|MPa|W)\b\.?"
    rf"|r\.?\s?t\.?|room temp(?:erature)?|reflux|overnight|o/n|heat|\u0394|cat\.?|conc\.?|aq\.?"
    rf"|{_NUMBER}(?:\s?[:/]\s?{_NUMBER})+|to|for|at|under|then|quant\.?|work-?up"
    r"|(?:mineral|paraffin) oil|(?:one|small) portions?|portions|dropwise)\)?",
    re.IGNORECASE,
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
    """Return whether a text is a temperature, time, ratio or the like, and no molecule."""
    return _CONDITION.fullmatch(text.strip(" ,")) is not None
