"""Folder of a user's files: `CHEMSPEC_HOME`, or `.chemspec` in the home directory."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path

from chemspec.system.files import OTHERS_BITS


def home_folder() -> Path:
    """Return CHEMSPEC_HOME, else ~/.chemspec, which may be missing; RuntimeError for a user without a home folder."""
    chosen = os.environ.get("CHEMSPEC_HOME", "")
    return (Path(chosen) if chosen else Path.home() / ".chemspec").expanduser().absolute()


def permission_warning() -> str:
    """Return a warning, with a command to fix it, if other accounts can read the folder; else empty."""
    with suppress(OSError, RuntimeError):
        path = home_folder()
        if os.name == "posix" and path.stat().st_mode & OTHERS_BITS:
            return (
                f"other accounts of this machine can look into {path}, where chemspec keeps jobs, searches and "
                "collections; what it makes there is private all the same. "
                f"To close it: chmod 700 {shlex.quote(str(path))}"
            )
    return ""
