"""What is worth keeping between runs: files by name, whole or absent, and never needed."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return where graphs and measurements are kept: `CHEMSPEC_CACHE`, or `chemspec` in the user's cache folder."""
    base = os.environ.get("CHEMSPEC_CACHE")
    if base:
        return Path(base)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "chemspec"


def read(name: str) -> bytes | None:
    """Return the content kept under a name, if there is any."""
    try:
        return (cache_dir() / name).read_bytes()
    except OSError:
        return None


def write(name: str, content: bytes) -> None:
    """Keep content under a name; where that fails, the next start is slower and nothing else."""
    path = cache_dir() / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_bytes(content)
        partial.replace(path)
    except OSError:
        pass
