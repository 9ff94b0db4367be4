"""Write files wholly or not at all, whenever the process ends; if need be, so that only their owner can read them."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
OTHERS = 0o077  # permission bits of everybody but the owner


def write_whole(path: Path, text: str, *, private: bool = False) -> None:
    """Put a text in the place of a file, as `write_whole_bytes` does."""
    write_whole_bytes(path, text.encode("utf-8"), private=private)


def write_whole_bytes(path: Path, content: bytes, *, private: bool = False) -> None:
    """Put content in the place of a file; a process that is killed meanwhile, or has no room, leaves the old one.

    Args:
        path: of the file.
        content: all of it.
        private: whether only the owner may read it, whatever the umask.
    """
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with open_private(new, "wb") if private else new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # else the new name may be on the disk before the content is
        new.replace(path)
    finally:
        with suppress(OSError):  # the error that brought us here says more
            new.unlink(missing_ok=True)


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner may look into, and its parents likewise; an open one is closed if it is ours.

    Raises:
        OSError: if it cannot be made.
    """
    if not path.is_dir():
        if not path.parent.is_dir():
            private_folder(path.parent)
        path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    elif path.stat().st_mode & OTHERS:
        with suppress(PermissionError):  # of another account, or on a disk without such bits
            path.chmod(PRIVATE_FOLDER)
    return path


def open_private(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Open a file for writing that only its owner may read, whatever the umask; one that is there is closed to others.

    Args:
        path: of the file.
        mode: as for `open`.
        options: of `open`.

    Raises:
        OSError: if it cannot be opened.
    """
    opener = partial(os.open, mode=PRIVATE_FILE)
    file = open(path, mode, opener=opener, **options)  # noqa: SIM115
    if os.fstat(file.fileno()).st_mode & OTHERS:
        with suppress(PermissionError):  # of another account, or on a disk without such bits
            path.chmod(PRIVATE_FILE)
    return file


def private_file(path: Path) -> Path:
    """Make an empty file that only its owner may read, for a library that opens files by name; or close one to others.

    Raises:
        OSError: if it cannot be made.
    """
    if not path.exists() or path.stat().st_mode & OTHERS:
        open_private(path, "ab").close()
    return path
