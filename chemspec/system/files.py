"""Write files wholly or not at all, whenever the process ends."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Put a text in the place of a file; who is killed meanwhile, or has no room, leaves the old one."""
    write_whole_bytes(path, text.encode("utf-8"))


def write_whole_bytes(path: Path, content: bytes) -> None:
    """Put content in the place of a file; who is killed meanwhile, or has no room, leaves the old one."""
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # else the new name may be on the disk before the content is
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
