"""Change what is right: texts, bytes and JSON documents as nobody would write them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

PIECES = (
    *(
        "(",
        ")",
        "[",
        "]",
        "1",
        "%10",
        "%(100)",
        "=",
        "#",
        "$",
        ".",
        ">",
        ">>",
        "@",
        "@@",
        "\\",
        "/",
        "*",
        "[13C@H-]",
        "[Uus]",
        "c",
        "n1",
    ),
    *(
        "\0",
        "\n",
        "\r\n",
        "\t",
        ",",
        ";",
        '"',
        "'",
        "\ufeff",
        "\u200b",
        "\u2212",
        "\ud800",
        "\U0001f4a9",
        "=1+1",
        "InChI=1S/",
        "{",
        "}",
    ),
    *(
        "C" * 300,
        "(" * 200,
        "[" * 200,
        "1" * 400,
        "c1" * 60,
        "M  END",
        "$$$$",
        "$RXN",
        "  0999 V2000",
        "&lol;",
        "<!ENTITY a '&a;&a;'>",
    ),
)
RAW = ("NaN", "Infinity", "-1e400", "1" * 400, "[" * 5000 + "]" * 5000, "1e308", "-0.0")
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**63,
    1.5,
    "",
    "x" * 5000,
    "\ud800",
    [],
    {},
    [[]],
    {"a": {}},
    *RAW,
)


def mutated(text: str, random: Random, most: int = 4) -> str:
    """Return a text with up to so many edits."""
    for _ in range(random.randint(0, most)):
        at = random.randint(0, len(text))
        piece = (
            random.choice(PIECES)
            if random.random() < 0.7
            else chr(random.choice((random.randrange(256), random.randrange(0x3000))))
        )
        cut = random.choice((0, 0, 1, 5, 50))
        text = text[:at] + piece * random.choice((1, 1, 1, 7)) + text[at + cut :]
    return text[:20_000]


def broken(raw: bytes, random: Random, most: int = 6) -> bytes:
    """Return bytes with some of them changed, removed, doubled, or cut off."""
    content = bytearray(raw)
    for _ in range(random.randint(1, most)):
        at = random.randint(0, max(0, len(content) - 1))
        kind = random.randrange(5)
        if kind == 0 and content:
            content[at] = random.randrange(256)
        elif kind == 1 and content:
            content[at] ^= 1 << random.randrange(8)
        elif kind == 2:
            del content[at : at + random.choice((1, 8, 200))]
        elif kind == 3:
            content[at:at] = content[at : at + random.choice((1, 8, 200))]
        elif random.random() < 0.2:
            del content[at:]
        else:
            content[at:at] = random.randbytes(random.choice((1, 4, 16)))
    return bytes(content)


def altered(document: Any, random: Random) -> str:
    """Return a JSON document with some values replaced by others, of any kind, and keys lost or added."""
    marks: dict[str, str] = {}

    def other() -> Any:
        value = random.choice(VALUES)
        if value in RAW and isinstance(value, str):
            mark = f"\x01{len(marks)}\x01"
            marks[json.dumps(mark)] = value
            return mark
        return value

    def walk(value: Any, depth: int) -> Any:
        if random.random() < (0.02 if depth else 0.01):
            return other()
        if isinstance(value, dict):
            found = {key: walk(part, depth + 1) for key, part in value.items() if random.random() > 0.01}
            return {**found, random.choice(("x", *value)): other()} if random.random() < 0.15 else found
        if isinstance(value, list):
            several = [walk(part, depth + 1) for part in value]
            return several * random.choice((2, 300)) if random.random() < 0.01 else several
        return value

    text = json.dumps(walk(document, 0))
    for mark, raw in marks.items():
        text = text.replace(mark, raw)
    return mutated(text, random, 2) if random.random() < 0.15 else text
