"""Atomic writes, and files and folders that only their owner can read."""

import os
import secrets
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
REPLACE_WAITS = (0.01, 0.03, 0.1, 0.3, 1.0)  # seconds; readers have a file open for milliseconds
OTHERS_BITS = 0o077  # permission bits of group and others


def write_text_atomic(path: Path, text: str, *, private: bool = False) -> None:
    """Replace a file's content by a text, as `write_bytes_atomic` does."""
    write_bytes_atomic(path, text.encode("utf-8"), private=private)


def write_bytes_atomic(path: Path, content: bytes, *, private: bool = False) -> None:
    """Replace a file's content, as `open_atomic` does."""
    with open_atomic(path, private=private) as file:
        file.write(content)


@contextmanager
def open_atomic(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces `path` when it is complete.

    After an error, a kill or on a full disk the old content is left. With `private` only the owner may read it,
    whatever the umask.
    """
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with open_private(new, "wb") if private else new.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # else the new name may reach the disk before the content
        _replace(new, path)
    finally:
        with suppress(OSError):  # the original error is more informative
            new.unlink(missing_ok=True)


def _replace(new: Path, path: Path) -> None:
    """Move a file to the place of another; on Windows a reader keeps that from being replaced while it is open."""
    for wait in REPLACE_WAITS if sys.platform == "win32" else ():
        try:
            new.replace(path)
            return
        except PermissionError:
            time.sleep(wait)
    new.replace(path)


def make_private_folder(path: Path) -> Path:
    """Create a folder with access for its owner only, including its parents; an existing one of ours is restricted."""
    if not path.is_dir():
        if not path.parent.is_dir():
            make_private_folder(path.parent)
        path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    elif path.stat().st_mode & OTHERS_BITS:
        with suppress(PermissionError):  # owned by another account, or a disk without permission bits
            path.chmod(PRIVATE_FOLDER)
    return path


def open_private(path: Path, mode: str) -> IO[Any]:
    """Open a file for writing that only its owner may read, regardless of the umask; an existing one is restricted."""
    opener = partial(os.open, mode=PRIVATE_FILE)
    file = open(path, mode, opener=opener)  # noqa: SIM115
    if os.fstat(file.fileno()).st_mode & OTHERS_BITS:
        with suppress(PermissionError):  # owned by another account, or a disk without permission bits
            path.chmod(PRIVATE_FILE)
    return file


def make_private_file(path: Path) -> Path:
    """Create an empty file that only its owner may read, or restrict an existing one; for libraries that take paths."""
    if not path.exists() or path.stat().st_mode & OTHERS_BITS:
        open_private(path, "ab").close()
    return path


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
                f"other accounts of this machine can look into {path}, where chemspec keeps jobs and collections; "
                "what it makes there is private all the same. "
                f"To close it: chmod 700 {shlex.quote(str(path))}"
            )
    return ""
