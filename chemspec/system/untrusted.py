"""Read JSON from untrusted sources: anything but a plain, finite document raises a ValueError."""

import json
import math
from pathlib import Path
from typing import Any

LARGEST = 2**63


def read_untrusted_json(file: Path) -> Any:
    """Return the content of a JSON file with finite numbers of at most 64 bits.

    Raises:
        ValueError: for invalid UTF-8 or JSON, NaN, infinities, numbers that are too large, or too deep nesting.
        OSError: if the file cannot be read.
    """
    return parse_untrusted_json(file.read_text(encoding="utf-8"))


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
