"""What is worth keeping between runs: files by name, whole or absent, and never needed.

Each file ends with a sum of its content: one that a full disk or a crash of the machine left behind is as good as none.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path

from chemspec.system.files import open_private, private_folder

SUM = 16  # bytes


def cache_dir() -> Path:
    """Return where graphs and measurements are kept: `CHEMSPEC_CACHE`, or `chemspec` in the user's cache folder."""
    base = os.environ.get("CHEMSPEC_CACHE")
    if base:
        return Path(base)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "chemspec"


def make_folder() -> Path:
    """Return that folder; if it is not there, it is made, and only its owner may look into it.

    Raises:
        OSError: if it cannot be made.
    """
    path = cache_dir()
    return path if path.is_dir() else private_folder(path)


def read(name: str) -> bytes | None:
    """Return the content kept under a name, if there is any and it is whole."""
    try:
        kept = (cache_dir() / name).read_bytes()
    except OSError:
        return None
    content = kept[:-SUM]
    return content if kept[-SUM:] == _sum(content) else None


def write(name: str, content: bytes) -> None:
    """Keep content under a name; where that fails, the next start is slower and nothing else."""
    path = cache_dir() / name
    partial = path.with_name(f"{name}.{secrets.token_hex(4)}.partial")  # several threads may keep the same
    try:
        make_folder()
        with open_private(partial, "wb") as file:
            file.write(content)
            file.write(_sum(content))
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _sum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=SUM).digest()
