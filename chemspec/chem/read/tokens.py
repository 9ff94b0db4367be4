"""Tokenised SMILES, as in the source and target files of translation models: blanks between the tokens."""

from __future__ import annotations

import re

from chemspec.chem.traced_text import TracedText

_ATOM = r"(?:\[[^\[\]\s]*\]|Cl|Br|[BCNOPSFIbcnops*])"
_LABEL = r"(?:%\d\d|%\(\d+\)|\d)"
_MARK = r"(?:[-=#$:~/\\().]|->|<-|>>?)"
_PIECE = re.compile(rf"(?:{_MARK}?{_ATOM}{_LABEL}*|{_MARK}|{_LABEL})")
_LETTER = re.compile(r"[A-Za-z@+\-\[\]\d().=#]")
FEWEST = 3  # pieces
NOTE = "blanks between the tokens removed"


def join_tokens(text: TracedText) -> TracedText | None:
    """Return tokenised SMILES without its blanks; None if the text is none."""
    pieces = text.chars.split()
    if len(pieces) < FEWEST or not any(len(piece) == 1 for piece in pieces):
        return None
    whole = all(_PIECE.fullmatch(piece) for piece in pieces)
    # Split into single characters: C l, [ N a + ].
    single = all(len(piece) == 1 or piece == ">>" for piece in pieces) and all(
        _LETTER.fullmatch(piece) or piece in (">", ">>") for piece in pieces
    )
    atoms = sum(piece[0].isalpha() or piece[0] == "[" for piece in pieces)
    if not (whole or single) or 2 * atoms < len(pieces) // 2 or set(pieces) <= {"+", "."}:
        return None
    if not any(re.fullmatch(_ATOM, piece) for piece in pieces) or _is_flask(pieces):
        return None
    return text.without_blanks()


def _is_flask(pieces: list[str]) -> bool:
    """Return whether the pieces are molecules with blanks around the dots, such as C . O."""
    return all((piece == ".") == bool(number % 2) for number, piece in enumerate(pieces))
