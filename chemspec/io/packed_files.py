"""Unpack files that end in .gz."""

import gzip
import io
import zlib

from chemspec.io import FileError
from chemspec.system.stand_ins import refuse_stand_in


def decompress(raw: bytes, name: str, limit: int) -> bytes:
    """Decompress a .gz file; FileError if it is damaged, or unpacks to more."""
    refuse_stand_in(raw, name, FileError)
    try:
        with gzip.open(io.BytesIO(raw)) as file:
            content = file.read(limit + 1)  # never more, whatever the header says
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{name} cannot be unpacked: {error}") from error
    if len(content) > limit:
        raise FileError(f"{name} unpacks to more than {limit // 1_000_000} MB, the limit; split it")
    return content
