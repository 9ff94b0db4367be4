"""The folder of stored jobs, searches for routes and collections."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from chemspec.system.files import private_folder, write_whole
from chemspec.system.home import folder as folder


class AppDirError(OSError):
    """The folder cannot be made or written; the message says which one and what to do."""


def ensure_app_dir() -> Path:
    """Return the app's folder, created if missing and checked to be writable; private to its owner.

    Raises:
        AppDirError: if it cannot be made or written.
    """
    try:
        chosen = folder()
        if not chosen.is_dir():  # the mode of an existing one is for its owner to choose, see `home.warn_if_open`
            private_folder(chosen)
        for name in ("jobs", "plans"):  # the names of the folders in them are secrets; earlier versions left them open
            if (chosen / name).is_dir():
                private_folder(chosen / name)
        # Permission bits do not reveal read-only and full disks; writing a file does.
        with tempfile.TemporaryFile(dir=chosen) as file:
            file.write(b"\n")
    except (OSError, RuntimeError) as error:  # a user without a home folder is a RuntimeError
        reason = getattr(error, "strerror", None) or error
        path = os.environ.get("CHEMSPEC_HOME") or "~/.chemspec"
        raise AppDirError(
            f"the folder {path} cannot be written: {reason}; "
            "make room, or set CHEMSPEC_HOME to a folder that can be written and start the app again"
        ) from error
    return chosen


def expired_for_a_day(folder: Path, names: Iterable[str], now: float) -> set[str]:
    """Return which of these names have been expired for a day, and store when each expired first.

    A clock that jumps makes everything old at once; a day is time to set it right, and then nothing is deleted.
    """
    file = folder / "old.json"
    before: dict[str, float] = {}
    with suppress(OSError, ValueError, TypeError):
        before = {str(name): float(since) for name, since in json.loads(file.read_text(encoding="ascii")).items()}
    since = {name: min(now, before.get(name, now)) for name in names}
    if since != before:
        with suppress(OSError):  # then the day begins with the next attempt
            write_whole(file, json.dumps(since), private=True)
    return {name for name, first in since.items() if now - first >= 86_400}
