"""File format of an index: safetensors arrays, without code.

R reactions in groups of the same `wide` change, sorted by `close` change and then by product, for locality and
compression.

    wide       G      hashes of the wide changes, ascending
    starts     G + 1  start of each group
    close      R      hash of the close change of each reaction, lower half
    prints     R, B   packed fingerprints of the products
    products   R      hashes of the products
    flags      R      files that contain the reaction, one bit each
    text       bytes  blocks of `BLOCK` lines, compressed by zlib: product, reactants, reagents, patent, by tabs
    blocks     K + 1  start of each block
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit.Chem import rdFingerprintGenerator
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from chemspec.chem.molecules.parsing import shared_mol
from chemspec.system.files import write_bytes_atomic


def product_hash(product: str) -> int:
    """Return a 32-bit hash of a product; hits must be compared as text."""
    return int.from_bytes(blake2b(product.encode(), digest_size=4).digest(), "little")


def product_fingerprint(smiles: str, bits: int) -> NDArray[np.uint8]:
    """Return the packed circular fingerprint of a valid molecule (radius 2)."""
    return np.packbits(_fingerprint_generator(bits).GetFingerprintAsNumPy(shared_mol(smiles)))


@cache
def _fingerprint_generator(bits: int) -> Any:
    return rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=bits)


FORMAT = "chemspec precedents 1"
BLOCK = 64
TYPES = {
    "wide": np.uint64, "starts": np.uint32, "close": np.uint32, "prints": np.uint8, "products": np.uint32,
    "flags": np.uint8, "text": np.uint8, "blocks": np.uint32,
}  # fmt: skip
Arrays = dict[str, NDArray[Any]]


def write_index(path: Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> None:
    """Write the arrays listed above atomically, with metadata: `files` are names, in order of the bits of `flags`."""
    exact = {name: np.ascontiguousarray(arrays[name], dtype=kind) for name, kind in TYPES.items()}
    text = json.dumps(dict(about))
    sums = [zlib.crc32(array.data) for array in exact.values()]
    head = json.dumps({"format": FORMAT, "about": text, "sums": [*sums, zlib.crc32(text.encode())]})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes_atomic(path, save(exact, {"precedents": head}))


def read_index(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the metadata: 46 MB for 500,000 reactions.

    ValueError, naming the file, if it is missing, damaged or not an index; OSError if it cannot be read.
    """
    if not path.is_file():
        raise ValueError(f"{path} is not a file; build an index: chemspec precedents build --source FOLDER")
    try:
        with safe_open(path, framework="np") as file:
            head = json.loads((file.metadata() or {}).get("precedents", "{}"))
            if head.get("format") != FORMAT:
                raise ValueError(f"its format is {head.get('format', 'unknown')!r}, but {FORMAT!r} is needed")
            arrays = {name: file.get_tensor(name) for name in TYPES}
        parts = [*(array.data for array in arrays.values()), head["about"].encode()]
        if [zlib.crc32(part) for part in parts] != head["sums"]:
            raise ValueError("it is damaged")
        about = json.loads(head["about"])
        _check_consistency(arrays, about)
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError) as error:
        why = f"part {error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(
            f"{path} is not an index of precedents: {why}; build it again: chemspec precedents build"
        ) from error
    return arrays, about


def _check_consistency(arrays: Arrays, about: Any) -> None:
    """Raise if arrays are inconsistent, so that no look-up is out of bounds."""
    rows, starts, blocks = len(arrays["close"]), arrays["starts"].astype(np.int64), arrays["blocks"].astype(np.int64)
    fits = (
        rows > 0,
        all(arrays[name].dtype == kind for name, kind in TYPES.items()),
        all(len(arrays[name]) == rows for name in ("prints", "products", "flags")) and arrays["prints"].ndim == 2,
        (len(starts), len(blocks)) == (len(arrays["wide"]) + 1, -(-rows // BLOCK) + 1),
        all((np.diff(edges) >= 0).all() for edges in (starts, blocks)),
        [*starts[[0, -1]], *blocks[[0, -1]]] == [0, rows, 0, len(arrays["text"])],
        all(isinstance(name, str) for name in about["files"]),
    )
    if not all(fits):
        raise ValueError("its parts do not fit together")


def pack_lines(lines: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """Compress lines in blocks; returns these with the start of each."""
    packed = [
        zlib.compress("\n".join(lines[first : first + BLOCK]).encode(), 9) for first in range(0, len(lines), BLOCK)
    ]
    edges = np.cumsum([0, *map(len, packed)])
    return np.frombuffer(b"".join(packed), np.uint8), edges.astype(np.uint32)


def unpack_block(arrays: Arrays, block: int) -> list[str]:
    """Decompress the lines of a block."""
    first, last = arrays["blocks"][block : block + 2].tolist()
    return zlib.decompress(arrays["text"][first:last].tobytes()).decode().split("\n")
