"""The file of an index: arrays of safetensors, mapped into memory; nothing in it can be executed.

R reactions in groups of one `wide` change, in these by `close` change and then by product, so that what is looked at
together lies together and like texts are packed together.

    wide       G      numbers of the wide changes, ascending
    starts     G + 1  where each group begins
    close      R      the close change of each reaction, its lower half
    prints     R, B   packed fingerprints of the products
    products   R      hashes of the products
    flags      R      files that have the reaction, a bit each
    text       bytes  blocks of `BLOCK` lines, each packed by zlib: product, reactants, reagents, patent, parted by tabs
    blocks     K + 1  where each block begins
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

FORMAT = "chemspec precedents 1"
BLOCK = 64
TYPES = {
    "wide": np.uint64,
    "starts": np.uint32,
    "close": np.uint32,
    "prints": np.uint8,
    "products": np.uint32,
    "flags": np.uint8,
    "text": np.uint8,
    "blocks": np.uint32,
}
Arrays = dict[str, NDArray[Any]]


def write(path: Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> None:
    """Write an index wholly or not at all.

    Args:
        path: file to write.
        arrays: those listed above.
        about: what to tell of it: `files` is a list of names, in the order of the bits of `flags`.
    """
    exact = {name: np.ascontiguousarray(arrays[name], dtype=kind) for name, kind in TYPES.items()}
    text = json.dumps(dict(about))
    sums = [zlib.crc32(array.data) for array in exact.values()]
    head = json.dumps({"format": FORMAT, "about": text, "sums": [*sums, zlib.crc32(text.encode())]})
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(save(exact, {"precedents": head}))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays, mapped into memory, and what is told of them.

    Every byte is read once, to compare sums: a tenth of a second for 500,000 reactions.

    Raises:
        ValueError: naming the file, where it is something else, cut off or damaged.
        OSError: where it cannot be read.
    """
    with path.open("rb") as raw:
        size = int.from_bytes(raw.read(8), "little")
    try:
        with safe_open(path, framework="np") as file:
            head = json.loads((file.metadata() or {}).get("precedents", "{}"))
        if head.get("format") != FORMAT:
            raise ValueError(f"its format is {head.get('format', 'unknown')!r}, and {FORMAT!r} is read")
        arrays = _mapped(path, size)
        parts = [*(array.data for array in arrays.values()), head["about"].encode()]
        if [zlib.crc32(part) for part in parts] != head["sums"]:
            raise ValueError("it is damaged")
        about = json.loads(head["about"])
        _check(arrays, about)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"part {error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(f"{path} is no index of precedents: {why}; make it anew: chemspec precedents build") from error
    return arrays, about


def _mapped(path: Path, size: int) -> Arrays:
    """Map the arrays where safetensors, which has checked them, says that they are."""
    with path.open("rb") as raw:
        raw.seek(8)
        header = json.loads(raw.read(size))
    arrays = {}
    for name, kind in TYPES.items():
        begin, end = header[name]["data_offsets"]
        shape = tuple(header[name]["shape"])
        if np.dtype(kind).itemsize * int(np.prod(shape)) != end - begin:
            raise ValueError(f"its part {name} has another type")
        arrays[name] = np.memmap(path, kind, "r", 8 + size + begin, shape) if end > begin else np.empty(shape, kind)
    return arrays


def _check(arrays: Arrays, about: Any) -> None:
    """Refuse arrays that do not fit together, so that no look-up can leave them."""
    rows = len(arrays["close"])
    if not rows:
        raise ValueError("it holds no reaction")
    if any(len(arrays[name]) != rows for name in ("prints", "products", "flags")) or arrays["prints"].ndim != 2:
        raise ValueError("its parts are not of one length")
    starts, blocks = (arrays[name].astype(np.int64) for name in ("starts", "blocks"))
    for edges, first, last in ((starts, 0, rows), (blocks, 0, len(arrays["text"]))):
        if not len(edges) or edges[0] != first or edges[-1] != last or (np.diff(edges) < 0).any():
            raise ValueError("its parts do not fit together")
    if len(starts) != len(arrays["wide"]) + 1 or len(blocks) != -(-rows // BLOCK) + 1:
        raise ValueError("its parts do not fit together")
    if not isinstance(about, dict) or not all(isinstance(name, str) for name in about["files"]):
        raise ValueError("it does not say what it was made from")


def pack(lines: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """Return lines in packed blocks, and where each begins."""
    packed = [
        zlib.compress("\n".join(lines[first : first + BLOCK]).encode(), 9) for first in range(0, len(lines), BLOCK)
    ]
    edges = np.cumsum([0, *map(len, packed)])
    return np.frombuffer(b"".join(packed), np.uint8), edges.astype(np.uint32)


def unpack(arrays: Arrays, block: int) -> list[str]:
    """Return the lines of a block."""
    first, last = arrays["blocks"][block : block + 2].tolist()
    return zlib.decompress(arrays["text"][first:last].tobytes()).decode().split("\n")
