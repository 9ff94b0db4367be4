"""Reaction arrows as they are typed: the sides of a reaction, whichever way its arrow points."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.query import ARROW_HEAD
from chemspec.chem.smiles_syntax import Fault
from chemspec.chem.traced_text import TracedText

# A retrosynthetic arrow, and one to the left: the product stands before it.
_BACK = "\u21d2\u27f9\u21e8\u21d0\u27f8\u2190\u27f5\u2b05"
_FORTH = (
    "\u2192\u27f6\u279c\u2794\u279d\u279e\u2799\u279b\u27a1\u27a4\u2b95\u2b62\u21a6\u27fc\u21fe\u21e2\u21c0\U0001f852\U0001f812"
    "\u21cc\u21c4\u21cb\u21c6"
)
_BLANK = r"(?:(?<=\s)|^)"
_END = r"(?=\s|$)"
_ARROW = re.compile(
    rf"(?P<back>[{_BACK}]\ufe0f?|{_BLANK}(?:<[-=]+|<<){_END})"
    rf"|(?P<forth>[{_FORTH}]\ufe0f?|{_BLANK}(?:<[-=]+>|[-=~]+>|=|gives|yields|affords|produces){_END}|(?<![-=])[-=]{{2,9}}>|=>|>{{3,}})"
)
_DATIVE = re.compile(r"->|<-")


@dataclass(frozen=True)
class Sides:
    """The sides of a reaction, in the order of time whatever its arrow was, and the span of its arrow."""

    reactants: TracedText
    agents: TracedText
    products: TracedText
    arrow: TracedText
    notes: tuple[str, ...] = ()


def split_reaction(text: TracedText) -> Sides | Fault | None:
    """Split a reaction at its arrow; None if the text has none."""
    chars = text.chars
    arrows = [*_ARROW.finditer(chars)] if ">" in chars or "<" in chars or not chars.isascii() or " " in chars else []
    heads = [
        head.start()
        for head in ARROW_HEAD.finditer(chars)
        if not any(a.start() <= head.start() < a.end() for a in arrows)
    ]
    if not arrows and not heads and _is_no_dative_bond(chars):
        arrows = [*re.finditer("(?P<back>(?!))|(?P<forth>->)", chars)]
    if not arrows:
        return _plain_sides(text, heads) if heads else None
    start, end = arrows[0].span()
    arrow = text[start:end]
    if len(arrows) + len(heads) > 1:
        return text[start : arrows[-1].end()].fault("these are several steps; enter one step at a time", "reaction")
    before, behind, none = text[:start].strip(), text[end:].strip(), text[:0]
    if arrows[0]["back"]:
        return Sides(behind, none, before, arrow, (f"{arrow.chars} points at the starting materials",))
    return Sides(before, none, behind, arrow)


def _plain_sides(text: TracedText, heads: list[int]) -> Sides | Fault:
    first, last = heads[0], heads[-1]
    if len(heads) != 2:
        message = f"reactants>agents>products has two >, this reaction {len(heads)}"
        return text[first : last + 1].fault(message, "reaction")
    arrow = text[first : last + 1]
    return Sides(text[:first].strip(), text[first + 1 : last].strip(), text[last + 1 :].strip(), arrow)


def _is_no_dative_bond(chars: str) -> bool:
    """Return whether -> within a word is an arrow: what it makes of the text is no molecule, or bonds to a carbon."""
    if "->" not in chars:
        return False
    mol = mol_from_smiles(chars)
    if mol is None:
        return not re.search(r"->(?:\[|B(?!r))", chars)  # whose bonds are dative ones
    return any(str(bond.GetBondType()) == "DATIVE" and bond.GetEndAtom().GetSymbol() == "C" for bond in mol.GetBonds())
