"""Which index is used where nobody names one."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from chemspec.asset_files import assets
from chemspec.precedents.search import Precedents
from chemspec.system.home import folder

NAME = "precedents.safetensors"
HOW = "chemspec precedents build --source FOLDER"


def own_place() -> Path:
    """Return where a user's own index lies: `CHEMSPEC_PRECEDENTS`, else in `CHEMSPEC_HOME`, else in ~/.chemspec."""
    chosen = os.environ.get("CHEMSPEC_PRECEDENTS", "")
    return Path(chosen).expanduser() if chosen else folder() / NAME


def places() -> list[Path]:
    """Return where an index is looked for: the user's own place, then, unless it was named, the shipped one."""
    if os.environ.get("CHEMSPEC_PRECEDENTS"):
        return [own_place()]
    shipped = assets() / "precedents" / NAME
    try:
        return [own_place(), shipped]
    except RuntimeError:  # a user without a home folder
        return [shipped]


def installed() -> Precedents | None:
    """Open the first index that is there; None if none is. It is opened once, and again when its file was replaced.

    Raises:
        ValueError: naming the file, where it is damaged, or `CHEMSPEC_PRECEDENTS` names one that is not there.
    """
    for path in places():
        if path.is_file():
            about = path.stat()
            return _open(path, about.st_mtime_ns, about.st_size)
    if os.environ.get("CHEMSPEC_PRECEDENTS"):
        raise ValueError(f"CHEMSPEC_PRECEDENTS names {places()[0]}, which is no file; make it: {HOW}")
    return None


@lru_cache(maxsize=2)
def _open(path: Path, changed: int, size: int) -> Precedents:  # noqa: ARG001 (they tell an old one from a new one)
    return Precedents.open(path)
