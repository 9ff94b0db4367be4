"""Cache on disk for graphs and measurements: files by name, complete or absent, and never required.

Each file ends with a checksum of its content; damaged files are ignored.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from chemspec.system.files import make_private_folder, write_bytes_atomic

CHECKSUM_BYTES = 16  # bytes


def cache_dir() -> Path:
    """Return the cache folder: `CHEMSPEC_CACHE`, or `chemspec` in the user's cache folder."""
    base = os.environ.get("CHEMSPEC_CACHE")
    if base:
        return Path(base)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "chemspec"


def make_cache_folder() -> Path:
    """Return the cache folder, created with access for its owner only if missing.

    Raises:
        OSError: if it cannot be created.
    """
    path = cache_dir()
    return path if path.is_dir() else make_private_folder(path)


def read_cached(name: str) -> bytes | None:
    """Return the cached content of a name; None if there is none or it is damaged."""
    try:
        stored = (cache_dir() / name).read_bytes()
    except OSError:
        return None
    content = stored[:-CHECKSUM_BYTES]
    return content if stored[-CHECKSUM_BYTES:] == _checksum(content) else None


def write_cached(name: str, content: bytes) -> None:
    """Cache content under a name; a failure is ignored and only makes the next start slower."""
    with suppress(OSError):
        write_bytes_atomic(make_cache_folder() / name, content + _checksum(content), private=True)


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=CHECKSUM_BYTES).digest()
