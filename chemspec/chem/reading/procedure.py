"""Texts of papers around the molecules: numbered steps, and paragraphs of experimental sections."""

import re
import unicodedata
from collections.abc import Iterator

import chemspec.chem.reading.names.lookup as lookup
import chemspec.chem.reading.names.spelling as spelling
from chemspec.chem.molecules.traced_text import TracedText

MAX_STEPS = 9
_NUMERALS = ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"]
_START = r"(?:(?<=[\s;,.:])|^)"
_LETTER = "[a-iA-I]|(?i:i{1,3}|iv|vi{0,3}|ix)"
_MARK = re.compile(
    rf"{_START}\(?(?P<mark>(?:[1-9]|{_LETTER})(?=[.)])|(?:{_LETTER})(?=,\s)|[\u2460-\u2468])[.),]?\)?\s+(?=\S)"
)
_STEP = re.compile(
    rf"{_START}\(?(?P<step>(?:step|schritt|stufe|[ée]tape|etapa|paso)\s+|步骤\s*|工程\s*)?(?P<mark>[1-9]|{_LETTER})(?(step)|(?:st|nd|rd|th)(?:\s+step)?)\)?\s*[:.)]?\s+",
    re.IGNORECASE,
)
_AFTER = r"(?:then|next|followed by|subsequently|afterwards|thereafter|after that)"
_THEN = re.compile(rf"(?<!\s)(?:(?:\s*[,;])?\s+(?:and\s+)?{_AFTER}\s+|\s*;\s*{_AFTER}\b\s*)", re.IGNORECASE)
# What ends a reaction without a step of its own.
_WORKUP = re.compile(
    r"(?:(?:sat(?:\.|urated)?|aq(?:\.|ueous)?|dil(?:\.|ute)?|cold|ice|\d+\s?%|\d+(?:\.\d+)?\s?[MN])[\s,]*)*"
    r"(?:H2O|water|ice|H3O\+|HCl|H2SO4|NH4Cl|NaHCO3|Na2SO3|Na2S2O3|brine|NaCl|NaOH|citric acid|AcOH|MeOH|Rochelle salt"
    r"|(?:aq(?:ueous|\.)?|acid(?:ic)?|basic)?\s*work-?\s?up|quench)(?:[\s(,]*(?:sat|aq|conc|dil|work-?\s?up|quench)[.)]*)*",
    re.IGNORECASE,
)


def split_steps(text: TracedText) -> list[TracedText]:
    """Return the steps of a text, the first with what stands before it; one item if there are no steps.

    Marks are numbers, letters or Roman numerals in their order, or words such as "then".
    """
    marks = _in_order(text.chars)
    if len(marks) > 1:
        starts = [match.start() for match in marks]
        bodies = [match.end() for match in marks]
        before = text[: starts[0]].strip(" \t\r\n,;:")
        steps = [
            text[body:end].strip(" \t\r\n,;") for body, end in zip(bodies, (*starts[1:], len(text.chars)), strict=True)
        ]
        if before and steps:
            gap = before.positions[-1]
            steps[0] = TracedText(
                f"{before.chars}; {steps[0].chars}", (*before.positions, gap, gap, *steps[0].positions)
            )
        return [step for step in steps if step]
    steps, start = [], 0
    for match in _THEN.finditer(text.chars):
        steps.append(text[start : match.start()].strip(" \t\r\n,;"))
        start = match.end()
    steps = [
        step for step in (*steps, text[start:].strip(" \t\r\n,;")) if step and not spelling.is_condition(step.chars)
    ]
    if len(steps) > 1 and not re.search(r"[,;+]|\s\S", steps[0].chars):  # only what the first step starts from
        gap = steps[0].positions[-1]
        first = TracedText(f"{steps[0].chars}; {steps[1].chars}", (*steps[0].positions, gap, gap, *steps[1].positions))
        steps = [first, *steps[2:]]
        return steps if len(steps) > 1 else [first]
    return steps if len(steps) > 1 else [text]


def _in_order(chars: str) -> list[re.Match[str]]:
    """Return the marks of steps that count up from 1, a or i."""
    for series in (_STEP, _MARK):
        candidates = [*series.finditer(chars)]
        for order in ([str(number) for number in range(1, 10)], list("abcdefghi"), _NUMERALS):
            marks: list[re.Match[str]] = []
            for match in candidates:
                if len(marks) < MAX_STEPS and unicodedata.normalize("NFKC", match["mark"]).lower() == order[len(marks)]:
                    marks.append(match)
            if len(marks) > 1:
                return marks
    return []


def is_workup(step: str) -> bool:
    """Return whether a step only ends the reaction before it: water, acid, a quench."""
    return all(_WORKUP.fullmatch(item.strip()) or spelling.is_condition(item) for item in re.split(r"[,;]\s", step))


_AMOUNT = (
    r"(?:\d[\d.,]*|x)\s*(?:×\s*\d[\d.,]*\s*)?"
    r"(?:mg|g|kg|µg|mL|ml|µL|μL|L|mmol|mol|µmol|equiv|eq|mol\s?%|wt\s?%|M|N|%|atm|k?bar|psi|[kM]?Pa)(?![a-z])"
)
_BRACKETS = re.compile(
    rf"\s*(?:\((?=[^()]*(?:{_AMOUNT}|balloon))(?:[^()]|\([^()]*\))*\)|\[(?=[^\[\]]*{_AMOUNT})[^\[\]]*\])"
)
_INERT = ("N#N", "[Ar]", "[He]")
_EXTRACTING = re.compile(r"(?i:EtOAc|ethyl acetate|Et2O|(?:diethyl )?ether|DCM|CH2Cl2|dichloromethane|CHCl3|hexanes?)")
_GAS = re.compile(r"\b(?:(hydrogen|H2|oxygen|O2|CO)[\s-](?:gas|atmosphere|balloon)|atmosphere of (\w+))")
_PROSE = re.compile(
    r"\b(?:was|were|added|stirred|solution|mixture|dissolved|suspension|charged|treated|heated|cooled|refluxed|flask|vial)\b"
)
_SENTENCE = re.compile(r"(?:(?<=[a-z)\]\d])|(?<=°C))\.\s+(?=[A-Z])")
_AFTERWARDS = re.compile(
    r"\b(?:quench|extract|wash|dried|dry over|filter|purif|chromatograph|evaporat|poured|dilut"
    r"|concentrat(?:ion|ed(?:[,.;]|$|\s(?:in|under|to|on|at|by|and|the|with)\b))"
    r"|recrystalli[sz]|brine|organic (?:layer|phase)|work-?up|partition|acidif|NMR|HRMS|Rf)",
    re.IGNORECASE,
)
_PRODUCT = re.compile(
    r"\b(?:to\s+(?:give|afford|yield|provide|furnish|obtain)|(?:gave|afforded|yielded|provided|furnished))\b",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"^(?:the|a|an|of|in|with|to|and|then|by|was|were|containing|added|from|using|crude|title compound|desired"
    r"|product|solution|suspension|mixture|stirred|atmosphere|under|over|via|neat|followed|dissolved|suspended)\s+",
    re.IGNORECASE,
)
MAX_WORDS = 7  # words of a name
MIN_WORDS = 12  # words of a paragraph


def is_paragraph(text: str) -> bool:
    """Return whether a text is prose of an experimental section with amounts in brackets."""
    return len(text.split()) >= MIN_WORDS and len(_PROSE.findall(text)) >= 2 and len(_BRACKETS.findall(text)) >= 1


def compounds(text: str) -> tuple[list[str], list[str], list[str], str]:
    """Return what reacts, what is left out as workup, what before amounts is no name, and the product of a paragraph.

    The product is empty if none is named.
    """
    used: list[str] = []
    workup: list[str] = []
    unread: list[str] = []
    product = ""
    is_over = False
    for sentence in _SENTENCE.split(text):
        end = match.start() if (match := _PRODUCT.search(sentence)) else len(sentence)
        over = _AFTERWARDS.search(sentence[:end])
        ended = over.start() if over and used else end
        for at, name, is_listed in (*_names_before_amounts(sentence[:end]), *_gases(sentence[:end])):
            ends = at > ended or (ended < end and (_WORKUP.fullmatch(name) or _EXTRACTING.fullmatch(name)))
            kind = workup if is_over or ends else used if is_listed else unread
            kind.append(name)
        is_over |= ended < end
        if match:
            named = (name for _, name, is_listed in _names_before_amounts(sentence[match.end() :]) if is_listed)
            product = next(named, product)
    return list(dict.fromkeys(used)), list(dict.fromkeys(workup)), list(dict.fromkeys(unread)), product


def _names_before_amounts(sentence: str) -> Iterator[tuple[int, str, bool]]:
    """Yield where names that end before brackets with amounts end, the longest known one, and whether one is known."""
    start = 0
    for match in _BRACKETS.finditer(sentence):
        item = re.split(r",\s", sentence[start : match.start()])[-1]
        words = re.split(r"\s+|(?<=[;:])", item.strip())
        start = match.end()
        for count in range(min(MAX_WORDS, len(words)), 0, -1):
            name = " ".join(words[-count:]).strip(" ,;:.")
            if not name or _LEAD.match(name + " "):
                continue
            if (named := lookup.look_up(name) or lookup.look_up_systematic(name)) or _is_mixture(name):
                if named is None or named.smiles not in _INERT:
                    yield match.start(), name, True
                break
        else:
            yield match.start(), " ".join(words[-2:]), False


def _is_mixture(name: str) -> bool:
    """Return whether a word lists known names: THF/MeOH/H2O, p-TsOH·H2O."""
    pieces = re.split(rf"[/{spelling.DOTS}]", spelling.split_qualifiers(name)[0])
    return len(pieces) > 1 and all(map(lookup.look_up, pieces))


def _gases(sentence: str) -> list[tuple[int, str, bool]]:
    """Return the gases that react under which a sentence says a mixture is: under a hydrogen atmosphere."""
    gases = ((match.start(), match[1] or match[2]) for match in _GAS.finditer(sentence))
    named = ((at, name, lookup.look_up(name)) for at, name in gases)
    return [(at, f"{name} gas", True) for at, name, gas in named if gas and gas.smiles not in _INERT]
