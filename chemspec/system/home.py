"""Where a user's own things are kept: `CHEMSPEC_HOME`, or a folder in the user's home."""

from __future__ import annotations

import os
from pathlib import Path


def folder() -> Path:
    """CHEMSPEC_HOME, else ~/.chemspec; it need not be there: for those who only read.

    Raises:
        RuntimeError: for a user without a home folder.
    """
    chosen = os.environ.get("CHEMSPEC_HOME", "")
    return (Path(chosen) if chosen else Path.home() / ".chemspec").expanduser().absolute()
