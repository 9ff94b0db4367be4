"""Read JSON that anybody may have written: what is not a plain, finite document is one kind of error."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

LARGEST = 2**63


def read_json(file: Path) -> Any:
    """Return the content of a JSON file, numbers finite and of at most 64 bits.

    Raises:
        ValueError: for anything else: no UTF-8, no JSON, NaN and its like, 1e400, or brackets nested without end.
        OSError: for a file that cannot be read.
    """
    return parse_json(file.read_text(encoding="utf-8"))


def parse_json(text: str) -> Any:
    """Return the content of a JSON text; see `read_json`."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_whole)
    except RecursionError as error:
        raise ValueError("brackets are nested too deeply") from error


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _whole(text: str) -> int:
    if len(text) > 20 or not -LARGEST <= (number := int(text)) < LARGEST:
        raise ValueError(f"{text[:20]}... is too large a whole number" if len(text) > 20 else f"{text} is too large")
    return number
