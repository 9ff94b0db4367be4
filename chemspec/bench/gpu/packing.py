"""Prepared arrays in a file half as large, and back, exactly: what travels to a machine that is lent for minutes.

A byte for a common token, two for a rare one; sources and targets in turn, end to end; LZMA.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chemspec.data.arrays import Pairs, RaggedArray

COMMON = 250  # tokens of one byte; the others are written as RARE and their number beyond
RARE, MIDDLE, END = 253, 254, 255  # before a rare token, after a source, after a target
MOST_TOKENS = 2 * COMMON
Numbers = NDArray[np.int64]


def pack(folder: Path, file: Path) -> None:
    """Write `train.npz`, `val.npz` if there is one, and `vocab.json` of a data folder into one file.

    Raises:
        ValueError: if the data have too many different tokens.
    """
    parts = {name: Pairs.load(folder / f"{name}.npz") for name in ("train", "val") if (folder / f"{name}.npz").exists()}
    size = 1 + max(int(side.flat.max(initial=0)) for pairs in parts.values() for side in (pairs.sources, pairs.targets))
    counts = sum(np.bincount(side.flat, minlength=size) for p in parts.values() for side in (p.sources, p.targets))
    ids = np.argsort(-np.asarray(counts), kind="stable")[: np.count_nonzero(counts)]
    if len(ids) > MOST_TOKENS:
        raise ValueError(f"{folder} has {len(ids)} different tokens; at most {MOST_TOKENS} can be packed")
    rank = np.zeros(size, dtype=np.int64)
    rank[ids] = np.arange(len(ids))
    bodies = {name: _encode(pairs, rank) for name, pairs in parts.items()}
    vocabulary = (folder / "vocab.json").read_text(encoding="utf-8")
    lengths = {name: len(body) for name, body in bodies.items()}
    head = json.dumps({"vocab.json": vocabulary, "ids": ids.tolist(), "parts": lengths}).encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 26}]
    content = len(head).to_bytes(4, "little") + head + b"".join(bodies.values())
    file.write_bytes(lzma.compress(content, format=lzma.FORMAT_XZ, filters=filters))


def unpack(file: Path, folder: Path) -> None:
    """Write what `pack` read.

    Raises:
        ValueError: if the file is something else or damaged.
    """
    try:
        raw = lzma.decompress(file.read_bytes())
        size = int.from_bytes(raw[:4], "little")
        head, start = json.loads(raw[4 : 4 + size]), 4 + size
        ids = np.array(head["ids"], dtype=np.uint16)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "vocab.json").write_text(head["vocab.json"], encoding="utf-8")
        for name, length in head["parts"].items():
            _decode(raw[start : start + length], ids).save(folder / f"{name}.npz")
            start += length
    except (lzma.LZMAError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} holds no packed reactions: {error}") from error


def _encode(pairs: Pairs, rank: Numbers) -> bytes:
    sources, targets = pairs.sources, pairs.targets
    starts = np.concatenate(([0], np.cumsum(sources.lengths + targets.lengths + 2)))
    codes = np.empty(starts[-1], dtype=np.int64)
    middles = starts[:-1] + sources.lengths
    ends = middles + 1 + targets.lengths
    codes[np.repeat(starts[:-1] - sources.offsets[:-1], sources.lengths) + np.arange(len(sources.flat))] = rank[
        sources.flat
    ]
    codes[np.repeat(middles + 1 - targets.offsets[:-1], targets.lengths) + np.arange(len(targets.flat))] = rank[
        targets.flat
    ]
    marks = np.zeros(len(codes), dtype=bool)
    marks[middles] = marks[ends] = True
    codes[middles], codes[ends] = MIDDLE, END
    rare = ~marks & (codes >= COMMON)
    places = np.arange(len(codes)) + np.cumsum(rare)
    out = np.full(len(codes) + int(rare.sum()), RARE, dtype=np.uint8)
    out[places] = np.where(rare, codes - COMMON, codes)
    return out.tobytes()


def _decode(raw: bytes, ids: NDArray[np.uint16]) -> Pairs:
    read = np.frombuffer(raw, dtype=np.uint8)
    rare = read == RARE  # the byte after it is below COMMON, so it is never taken for a mark
    codes = read.astype(np.int64)
    codes[1:][rare[:-1]] += COMMON
    marks = (read >= RARE)[~rare]
    codes = codes[~rare]
    middles = np.flatnonzero((codes == MIDDLE) & marks)
    ends = np.flatnonzero((codes == END) & marks)
    starts = np.concatenate(([0], ends[:-1] + 1))
    turns = np.zeros(len(codes) + 1, dtype=np.int8)
    turns[starts] += 1
    turns[middles] -= 1
    in_source = np.cumsum(turns[:-1]).astype(bool)
    in_target = ~in_source
    in_target[middles] = in_target[ends] = False

    def ragged(inside: NDArray[np.bool_], lengths: Numbers) -> RaggedArray:
        return RaggedArray(ids[codes[inside]], np.concatenate(([0], np.cumsum(lengths))).astype(np.int64))

    return Pairs(ragged(in_source, middles - starts), ragged(in_target, ends - middles - 1))
