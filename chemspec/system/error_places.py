"""Where an error occurred, for logs: its message may contain a query and is left out."""

import traceback
from pathlib import Path

MAX_FRAMES = 8  # frames


def describe_error(error: BaseException) -> str:
    """Return kind and places of an error, the innermost first: "ValueError at rows.py:12 < worker.py:40"."""
    frames = [
        f"{Path(frame.filename).name}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    ]
    return f"{type(error).__name__} at {' < '.join(reversed(frames))}"
