"""The installed index: that of the user or else the built-in one, with the indexes of own reactions."""

import os
import warnings
from contextlib import suppress
from copy import copy
from functools import lru_cache
from pathlib import Path

from chemspec.asset_files import assets_folder
from chemspec.precedents.search import Precedents
from chemspec.system.files import home_folder

NAME = "precedents.safetensors"
BUILD_COMMAND = "chemspec precedents build --source FOLDER"


def user_index_path() -> Path:
    """Return the path of the user's index: `CHEMSPEC_PRECEDENTS`, else in `CHEMSPEC_HOME`, else in ~/.chemspec."""
    chosen = os.environ.get("CHEMSPEC_PRECEDENTS", "")
    return Path(chosen).expanduser() if chosen else home_folder() / NAME


def installed() -> Precedents | None:
    """Open the user's index or else the built-in one, or return None; cached, and reopened when it was replaced.

    ValueError, naming the file, if it is damaged, or `CHEMSPEC_PRECEDENTS` names a missing file.
    """
    if os.environ.get("CHEMSPEC_PRECEDENTS") and not user_index_path().is_file():
        raise ValueError(
            f"CHEMSPEC_PRECEDENTS names {user_index_path()}, which is not a file; build it: {BUILD_COMMAND}"
        )
    paths = [assets_folder() / "precedents" / NAME]
    with suppress(RuntimeError):  # a user without a home folder
        paths.insert(0, user_index_path())
    path = next(filter(Path.is_file, paths), None)
    if path is None:
        return None
    public = _open_stamped(path)
    if not (indexes := _own_indexes()):
        return public
    joined = copy(public)  # which shares its arrays and caches
    joined.own = indexes
    return joined


def _own_indexes() -> tuple[Precedents, ...]:
    """Return the indexes of own reactions that can be read."""
    indexes = []
    with suppress(RuntimeError, OSError):
        for path in sorted(own_folder().glob("[!.]*.safetensors")):
            try:
                indexes.append(_open_stamped(path))
            except ValueError as error:
                warnings.warn(str(error), RuntimeWarning, stacklevel=3)
    return tuple(indexes)


def own_folder() -> Path:
    """Return the folder of own reactions (`own`); it may be missing."""
    return home_folder() / "reactions"


def _open_stamped(path: Path) -> Precedents:
    about = path.stat()
    return _open(path, about.st_mtime_ns, about.st_size)


def installed_if_usable() -> Precedents | None:
    """Return the installed index; None without one that can be used, where predictions do without precedents."""
    try:
        return installed()
    except (ValueError, OSError):
        return None


@lru_cache(maxsize=16)
def _open(path: Path, changed: int, size: int) -> Precedents:  # noqa: ARG001 (cache keys)
    return Precedents(path)
