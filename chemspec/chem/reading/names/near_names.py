"""Offer listed names of which a text is misspelt by a letter or two."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import lru_cache

import chemspec.chem.reading.names.reagents as reagents
import chemspec.chem.reading.names.spelling as spelling
from chemspec.chem.molecules.query import canonical

ALIKE = 0.85  # share of letters, from which on the usual name of a molecule is offered


@lru_cache(maxsize=1000)  # asked for the message and for its choices
def near_names(text: str) -> tuple[str, ...]:
    """Return names of at most three listed molecules of which a text is misspelt by a letter or two."""
    name = spelling.split_qualifiers(spelling.plain_name(text))[0].lower()
    if not 5 <= len(name) <= 40 or not re.search("[a-z]{4}", name):
        return ()
    names: dict[str | None, str] = {}
    # Without doubled letters, too.
    for near in (near for form in dict.fromkeys((name, re.sub(r"([a-z])\1", r"\1", name))) for near in _edits(form)):
        if entry := reagents.find_by_hand(near) or reagents.find_in_list(near):
            is_alike = SequenceMatcher(None, name, entry[1].lower()).ratio() > ALIKE
            names.setdefault(canonical(entry[0]), entry[1] if is_alike else near.strip(" -"))
            if len(names) == 3:
                break
    return tuple(names.values())


def _edits(name: str) -> Iterator[str]:
    """Yield the texts at one edit of a letter from a name, the likely ones first; locants and hyphens stay."""
    cuts = [(name[:at], name[at:]) for at in range(len(name) + 1)]
    letters = "abcdefghijklmnopqrstuvwxyz"
    yield from (head + tail[1] + tail[0] + tail[2:] for head, tail in cuts if len(tail) > 1 and tail[:2].isalpha())
    yield from (head + tail[1:] for head, tail in cuts if tail[:1].isalpha())
    yield from (head + letter + tail[1:] for head, tail in cuts if tail[:1].isalpha() for letter in letters)
    yield from (head + letter + tail for head, tail in cuts if (tail or head)[:1].isalpha() for letter in letters)
