"""Where the app keeps what outlives a server: jobs, searches for routes and collections."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from chemspec.system.files import private_folder
from chemspec.system.home import folder as folder


class AppDirError(OSError):
    """The folder cannot be made or written; the message says which one and what to do."""


def app_dir() -> Path:
    """The same folder, made if it is not there and known to take files; only its owner may look into it.

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
        # Permission bits do not tell of read-only disks and full ones; a file does.
        with tempfile.TemporaryFile(dir=chosen) as file:
            file.write(b"\n")
    except (OSError, RuntimeError) as error:  # a user without a home folder is a RuntimeError
        reason = getattr(error, "strerror", None) or error
        place = os.environ.get("CHEMSPEC_HOME") or "~/.chemspec"
        raise AppDirError(
            f"the folder {place} cannot be written: {reason}; "
            "make room, or set CHEMSPEC_HOME to a folder that can be written and start the app again"
        ) from error
    return chosen
