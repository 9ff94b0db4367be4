"""Packed table of molecules: found by a name or CAS number, or by canonical SMILES, in a memory-mapped file.

Layout: a header; buckets of names, in each the low bits of a name's hash and the number of its molecule; the first
SMILES of each block; the blocks, deflated lines of SMILES, CAS number and usual name, in the order of their SMILES.
Names are kept as hashes of 48 bits: of 10 million texts that are no names about one is taken for one.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

MAGIC = b"CSNAMES1"
BLOCK = 64  # molecules
_HEADER = struct.Struct("<8s5I")  # magic, names, molecules, bytes of first SMILES, bytes of sizes, bytes of blocks
_ENTRY = struct.Struct("<II")  # low bits of the hash, number of the molecule
_BUCKETS = 1 << 16
_STARTS = struct.Struct(f"<{_BUCKETS + 1}I")


@dataclass(frozen=True)
class Record:
    """A molecule of the table: canonical SMILES, CAS number and usual name, which may be empty."""

    smiles: str
    cas: str
    name: str


def _hash(key: str) -> tuple[int, int]:
    digest = int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=6).digest(), "little")
    return digest >> 32, digest & 0xFFFFFFFF


class NameTable:
    """A packed table, read where it is needed."""

    def __init__(self, path: Path) -> None:
        """Open a file that `write_table` wrote; ValueError if it is none."""
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        magic, names, self._count, firsts, sizes, _ = _HEADER.unpack_from(self._map)
        if magic != MAGIC:
            raise ValueError(f"{path} is no packed table of names")
        self._starts = _HEADER.size
        self._entries = self._starts + _STARTS.size
        start = self._entries + names * _ENTRY.size
        self._firsts = zlib.decompress(self._map[start : start + firsts]).decode().split("\n")
        lengths = struct.unpack_from(f"<{sizes // 4}I", self._map, start + firsts)
        self._blocks = [start + firsts + sizes]
        for length in lengths:
            self._blocks.append(self._blocks[-1] + length)
        self._block = lru_cache(maxsize=64)(self._read_block)

    def __len__(self) -> int:
        return int(self._count)

    def find(self, key: str) -> tuple[Record, ...]:
        """Return the molecules that a normalised name or a CAS number means; several if it is ambiguous."""
        bucket, low = _hash(key)
        begin, end = struct.unpack_from("<II", self._map, self._starts + 4 * bucket)
        entries = self._map[self._entries + begin * _ENTRY.size : self._entries + end * _ENTRY.size]
        return tuple(self._record(number) for entry, number in _ENTRY.iter_unpack(entries) if entry == low)

    def __iter__(self) -> Iterator[Record]:
        """Yield all molecules in the order of their SMILES."""
        return (Record(*line.split("\t")) for block in range(len(self._firsts)) for line in self._block(block))

    def find_smiles(self, smiles: str) -> Record | None:
        """Return the molecule of a canonical SMILES; None if the table lacks it."""
        block = bisect_right(self._firsts, smiles) - 1
        lines = self._block(block) if block >= 0 else ()
        line = next((line for line in lines if line.startswith(f"{smiles}\t")), None)
        return Record(*line.split("\t")) if line else None

    def _record(self, number: int) -> Record:
        return Record(*self._block(number // BLOCK)[number % BLOCK].split("\t"))

    def _read_block(self, block: int) -> tuple[str, ...]:
        start, end = self._blocks[block : block + 2]
        return tuple(zlib.decompress(self._map[start:end]).decode().split("\n"))


def write_table(path: Path, records: Iterable[Record], owners: Mapping[str, Iterable[str]]) -> None:
    """Write a packed table of molecules, and of which SMILES each key means."""
    ordered = sorted(records, key=lambda record: record.smiles)
    number = {record.smiles: position for position, record in enumerate(ordered)}
    lines = ["\t".join((record.smiles, record.cas, record.name)) for record in ordered]
    blocks = [
        zlib.compress("\n".join(lines[start : start + BLOCK]).encode(), 9) for start in range(0, len(lines), BLOCK)
    ]
    entries = sorted((*_hash(key), number[smiles]) for key, all_smiles in owners.items() for smiles in all_smiles)
    counts = [0] * (_BUCKETS + 1)
    for bucket, *_ in entries:
        counts[bucket + 1] += 1
    for bucket in range(_BUCKETS):
        counts[bucket + 1] += counts[bucket]
    firsts = zlib.compress("\n".join(record.smiles for record in ordered[::BLOCK]).encode(), 9)
    sizes = struct.pack(f"<{len(blocks)}I", *map(len, blocks))
    header = _HEADER.pack(MAGIC, len(entries), len(ordered), len(firsts), len(sizes), sum(map(len, blocks)))
    packed = b"".join(_ENTRY.pack(low, owner) for _, low, owner in entries)
    path.write_bytes(b"".join((header, _STARTS.pack(*counts), packed, firsts, sizes, *blocks)))
