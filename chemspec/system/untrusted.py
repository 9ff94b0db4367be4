"""Read JSON from untrusted sources: anything but a plain, finite document raises a ValueError."""

import json
import math
from pathlib import Path
from typing import Any

LARGEST = 2**63
MAX_BYTES = 5_000_000  # of a file; the vocabulary of 30,000 tokens has 0.5 MB


def read_untrusted_json(file: Path) -> Any:
    """Return the content of a JSON file of at most `MAX_BYTES` with finite numbers of at most 64 bits.

    Raises:
        ValueError: for a larger file, invalid UTF-8 or JSON, NaN, infinities, too large numbers, or too deep nesting.
        OSError: if the file cannot be read.
    """
    with file.open("rb") as opened:  # measured as read: a device has no size
        content = opened.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES // 1_000_000} MB")
    return parse_untrusted_json(content.decode("utf-8"))


def parse_untrusted_json(text: str) -> Any:
    """Parse a JSON text; see `read_untrusted_json`."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_parse_finite, parse_int=_parse_integer)
    except RecursionError as error:
        raise ValueError("brackets are nested too deeply") from error


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _parse_integer(text: str) -> int:
    if len(text) > 20 or not -LARGEST <= (number := int(text)) < LARGEST:
        raise ValueError(f"{text[:20]}... is too large a whole number" if len(text) > 20 else f"{text} is too large")
    return number
