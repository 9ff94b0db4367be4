"""Where a user's own files are kept: `CHEMSPEC_HOME`, or a folder in the user's home directory."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path

from chemspec.system.files import OTHERS


def folder() -> Path:
    """CHEMSPEC_HOME, else ~/.chemspec; it need not be there: for those who only read.

    Raises:
        RuntimeError: for a user without a home folder.
    """
    chosen = os.environ.get("CHEMSPEC_HOME", "")
    return (Path(chosen) if chosen else Path.home() / ".chemspec").expanduser().absolute()


def warn_if_open() -> str:
    """Return a warning with the command that mends it where other accounts can look into the folder; else nothing."""
    with suppress(OSError, RuntimeError):
        path = folder()
        if os.name == "posix" and path.stat().st_mode & OTHERS:
            return (
                f"other accounts of this machine can look into {path}, where chemspec keeps jobs, searches and "
                "collections; what it makes there is private all the same. "
                f"To close it: chmod 700 {shlex.quote(str(path))}"
            )
    return ""
