"""Default location of the index."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from chemspec.asset_files import assets_folder
from chemspec.precedents.search import Precedents
from chemspec.system.home import home_folder

NAME = "precedents.safetensors"
BUILD_COMMAND = "chemspec precedents build --source FOLDER"


def user_index_path() -> Path:
    """Return the path of the user's index: `CHEMSPEC_PRECEDENTS`, else in `CHEMSPEC_HOME`, else in ~/.chemspec."""
    chosen = os.environ.get("CHEMSPEC_PRECEDENTS", "")
    return Path(chosen).expanduser() if chosen else home_folder() / NAME


def index_paths() -> list[Path]:
    """Return the search path: the user's index and, unless `CHEMSPEC_PRECEDENTS` is set, the built-in one."""
    if os.environ.get("CHEMSPEC_PRECEDENTS"):
        return [user_index_path()]
    shipped = assets_folder() / "precedents" / NAME
    try:
        return [user_index_path(), shipped]
    except RuntimeError:  # a user without a home folder
        return [shipped]


def installed() -> Precedents | None:
    """Open the first existing index, or return None; it is cached, and reopened when its file was replaced.

    ValueError, naming the file, if it is damaged, or `CHEMSPEC_PRECEDENTS` names a missing file.
    """
    for path in index_paths():
        if path.is_file():
            about = path.stat()
            return _open(path, about.st_mtime_ns, about.st_size)
    if os.environ.get("CHEMSPEC_PRECEDENTS"):
        raise ValueError(
            f"CHEMSPEC_PRECEDENTS names {index_paths()[0]}, which is not a file; build it: {BUILD_COMMAND}"
        )
    return None


def installed_if_usable() -> Precedents | None:
    """Return the installed index; None without one that can be used, where predictions do without precedents."""
    try:
        return installed()
    except (ValueError, OSError):
        return None


@lru_cache(maxsize=2)
def _open(path: Path, changed: int, size: int) -> Precedents:  # noqa: ARG001 (cache keys)
    return Precedents.open(path)
