"""Where the last decoder layer looks in a query, for each token of an answer, as a picture of cells."""

from collections.abc import Sequence
from typing import Any

from chemspec.depict.canvas import Item, Picture

CELL, EDGE, LETTER, LINE = 15, 8, 6.7, 11.0  # pixels: a cell, the margin, a character's width and its line
FIRST = 0.03  # weights below it are left blank
BLUE = (0, 114, 178)
INK = {False: "#1c2026", True: "#e6e8eb"}


def draw_attention(query: Sequence[str], answer: Sequence[str], weights: Any, *, dark: bool = False) -> Picture:
    """Draw the weights (answer tokens, query tokens): a row for each token of the answer, darker for more weight."""
    left = EDGE + LETTER * max(map(len, answer)) + 6
    top = EDGE + LINE * max(map(len, query)) + 4
    items, centre = [], (CELL - LETTER) / 2
    for column, token in enumerate(query):  # written from top to bottom, so that long tokens have room
        for row, letter in enumerate(token):
            at = top - 4 - LINE * (len(token) - row)
            items.append(_text(letter, left + column * CELL + centre, at, dark))
    for row, token in enumerate(answer):
        at = top + row * CELL
        items.append(_text(token, left - 6 - LETTER * len(token), at + (CELL - LINE) / 2, dark))
        for column, weight in enumerate(weights[row]):
            if weight >= FIRST:
                fill = _shade(float(weight), dark)
                items.append(Item(left + column * CELL, at, CELL - 1, CELL - 1, fill=fill))
    width, height = left + len(query) * CELL + EDGE, top + len(answer) * CELL + EDGE
    return Picture(round(width), round(height), tuple(items))


def describe_attention(query: Sequence[str], answer: Sequence[str], weights: Any) -> str:
    """Return in words which query token each token of an answer has most weight on."""
    best = [max(range(len(query)), key=lambda column: row[column]) for row in weights]
    return "; ".join(f"{token}: {query[column]} ({column + 1})" for token, column in zip(answer, best, strict=True))


def _text(text: str, left: float, top: float, dark: bool) -> Item:
    return Item(left, top, LETTER * len(text), LINE, text=text, size=11, mono=True, fill=INK[dark])


def _shade(weight: float, dark: bool) -> str:
    """Return the colour of a weight: from the ground to blue."""
    ground = (14, 17, 23) if dark else (255, 255, 255)
    share = min(1.0, weight) ** 0.6
    return "#" + "".join(f"{round(low + share * (high - low)):02x}" for low, high in zip(ground, BLUE, strict=True))
