"""Read JSON from untrusted sources: anything but a plain, finite document raises a ValueError."""

from pathlib import Path
from typing import Any

import msgspec

MAX_BYTES = 5_000_000  # bytes of a file; the vocabulary of 30,000 tokens has 0.5 MB


def read_untrusted_json(file: Path) -> Any:
    """Return the content of a JSON file of at most `MAX_BYTES`.

    Raises:
        ValueError: for a larger file, invalid UTF-8 or JSON, NaN, infinities, too large numbers, or too deep nesting.
        OSError: if the file cannot be read.
    """
    with file.open("rb") as opened:  # measured as read: a device has no size
        content = opened.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES // 1_000_000} MB")
    return parse_untrusted_json(content)


def parse_untrusted_json(text: str | bytes) -> Any:
    """Parse a JSON text; see `read_untrusted_json`."""
    try:
        return msgspec.json.decode(text)
    except RecursionError as error:
        raise ValueError("brackets are nested too deeply") from error
