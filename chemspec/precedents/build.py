"""Make an index from reaction CSVs: as a stream, in processes, resumable, the same result every time.

A reaction is known by its product and the molecules that give it atoms. Rows that repeat it bring what they know: a
patent, reagents, the name of their file. So does a row without atom maps, if its flask holds the reactants of a known
reaction to its product. What takes time (atom maps, fingerprints) is done once for each reaction, in shards of `SHARD`
that stay on disk until the index is written; memory holds their texts.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from chemspec.data.shards import read_rows
from chemspec.precedents import index_file
from chemspec.precedents.hashing import product_hash
from chemspec.precedents.rows import Reaction, canonical, change, fingerprint, read_row, without
from chemspec.system.workers import leave_with_parent

SHARD = 2_000
BITS = 512
MOST_FILES = 8  # a bit each

Numbered = tuple[int, Reaction]
Brought = tuple[int, str, str]  # what a row knows of a reaction: number of its file, patent, flask


@dataclass(frozen=True)
class Report:
    """What became of the rows.

    Attributes:
        rows: read.
        repeated: that repeat a reaction.
        left_out: reactions that cannot be used: without atom maps, with wrong ones, or nothing changes.
        reactions: in the index.
        with_reagents, with_patent: of these.
        changes: different ones, wide and close.
        size: bytes of the file.
    """

    rows: int
    repeated: int
    left_out: int
    reactions: int
    with_reagents: int
    with_patent: int
    changes: tuple[int, int]
    size: int


def build(
    files: Sequence[Path],
    out: Path,
    *,
    reagents_from: Sequence[Path] = (),
    guess: bool = True,
    bits: int = BITS,
    limit: int = 0,
    workers: int = 2,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Report:
    """Write an index of the reactions of CSVs.

    Args:
        files: CSVs, gzipped or not. Those that tell reactants from reagents best come first.
        out: file to write; what is not finished lies beside it, in a folder with the ending ".parts".
        reagents_from: CSVs whose rows only add what they know to the reactions of `files`.
        guess: the atom maps of reactions that have none: five times as much work for each.
        bits: of the fingerprints, a multiple of 64.
        limit: use only so many rows of each file; 0 means all.
        workers: processes; with 1, everything happens in this one.
        progress: called with rows done and rows in all.

    Raises:
        ValueError: for an unreadable file, columns that are missing, too many files, or if no reaction is left.
    """
    if bits <= 0 or bits % 64:
        raise ValueError(f"{bits} bits; give a multiple of 64, such as {BITS}")
    everything = [*files, *reagents_from]
    if not files or len(everything) > MOST_FILES:
        raise ValueError(f"{len(everything)} files; give 1 to {MOST_FILES}")
    names = [_name(file) for file in everything]
    parts = out.with_name(f"{out.name}.parts")
    _claim(parts, everything, {"new": len(files), "guess": guess, "bits": bits, "limit": limit})
    total = sum(_rows(file, limit) for file in everything)
    stream = _Stream(everything, len(files), limit, lambda done: progress(done, total))
    shards = list(_shards(stream, parts, (guess, bits), workers))
    arrays, counts = _merge(shards, stream.brought)
    about = {"files": names, "reactions": len(arrays["close"])}
    index_file.write(out, arrays, about)
    shutil.rmtree(parts)
    progress(total, total)
    return Report(
        stream.rows,
        stream.repeated,
        counts["left"],
        len(arrays["close"]),
        counts["reagents"],
        counts["patent"],
        (len(arrays["wide"]), counts["close"]),
        out.stat().st_size,
    )


def _name(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(".csv")


def _rows(file: Path, limit: int) -> int:
    return sum(1 for _ in islice(read_rows(file), limit or None))


def _claim(parts: Path, files: Sequence[Path], settings: dict[str, Any]) -> None:
    """Keep shards only if they were made from the same files with the same settings."""
    told = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    wanted = json.dumps({"files": told, **settings, "shard": SHARD, "format": index_file.FORMAT})
    stamp = parts / "made-from.json"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir(parents=True)
        stamp.write_text(wanted, encoding="utf-8")


class _Stream:
    """The reactions of the first files, each once; what other rows know of them is kept aside.

    Attributes:
        rows, reactions: so many read so far.
        repeated: rows of reactions that were known.
        brought: of each reaction, by its number, what its rows know.
    """

    def __init__(self, files: Sequence[Path], new: int, limit: int, progress: Callable[[int], None]) -> None:
        self.files, self.new, self.limit, self.progress = files, new, limit, progress
        self.rows = self.reactions = self.repeated = 0
        self.brought: dict[int, list[Brought]] = {}
        self._known: dict[bytes, int] = {}
        self._of_product: dict[bytes, list[tuple[int, str]]] = {}  # reactions that a flask may turn out to be

    def __iter__(self) -> Iterator[Numbered]:
        for number, file in enumerate(self.files):
            for row in islice(read_rows(file), self.limit or None):
                if not self.rows % 1000:
                    self.progress(self.rows)
                self.rows += 1
                if (reaction := read_row(row)) is None:
                    continue
                known = self._find(reaction)
                self.repeated += known is not None
                if known is None and number >= self.new:
                    continue
                place = self._add(reaction) if known is None else known
                self.brought.setdefault(place, []).append((number, reaction.patent, reaction.flask))
                if known is None:
                    yield place, reaction
        if not self.reactions:
            raise ValueError(
                f"no row of {', '.join(map(str, self.files))} has a product and reactants: see training.md"
            )

    def _find(self, reaction: Reaction) -> int | None:
        """Return the number of a reaction if it is known."""
        place = self._known.get(_hash(reaction.product, *sorted(reaction.reactants.split("."))))
        if place is not None or (reaction.mapped and reaction.flask == reaction.reactants):
            return place
        flask = set(reaction.flask.split("."))
        likely = self._of_product.get(_hash(reaction.product), ())
        return next((place for place, core in likely if flask.issuperset(core.split("."))), None)

    def _add(self, reaction: Reaction) -> int:
        place = self.reactions
        self._known[_hash(reaction.product, *sorted(reaction.reactants.split(".")))] = place
        if reaction.mapped or reaction.reactants == reaction.flask:
            self._of_product.setdefault(_hash(reaction.product), []).append((place, reaction.reactants))
        self.reactions += 1
        return place


def _hash(*texts: str) -> bytes:
    return hashlib.blake2b(">".join(texts).encode(), digest_size=12).digest()


# --- shards ----------------------------------------------------------------------------------------


def _shards(stream: _Stream, parts: Path, settings: tuple[bool, int], workers: int) -> Iterator[Path]:
    """Yield the shards of a stream, in order, each written."""
    jobs = ((parts / f"{number:06d}.npz", chunk) for number, chunk in enumerate(_chunks(stream)))
    if workers <= 1:
        for shard, chunk in jobs:
            write_shard(shard, chunk, *settings)
            yield shard
        return
    with ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("spawn"), initializer=leave_with_parent
    ) as pool:
        running: list[tuple[Path, Future[None]]] = []
        try:
            for shard, chunk in jobs:
                running.append((shard, pool.submit(write_shard, shard, chunk, *settings)))
                if len(running) > 2 * workers:  # reading is faster than the work; memory is not to hold it all
                    first, done = running.pop(0)
                    done.result()
                    yield first
            for first, done in running:
                done.result()
                yield first
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _chunks(stream: _Stream) -> Iterator[list[Numbered]]:
    reactions = iter(stream)
    while chunk := list(islice(reactions, SHARD)):
        yield chunk


def write_shard(shard: Path, chunk: Sequence[Numbered], guess: bool, bits: int) -> None:
    """Write what takes time to find out about reactions, unless it is there already."""
    if shard.exists():
        return
    found = [
        (number, done.wide, done.close & 0xFFFFFFFF, canonical(reaction.product), ".".join(done.givers))
        for number, reaction in chunk
        if (done := change(reaction, guess=guess))
    ]
    numbers, wide, close, products, reactants = zip(*found, strict=True) if found else ((), (), (), (), ())
    prints = [fingerprint(product, bits) for product in products]
    partial = shard.with_suffix(".partial.npz")
    np.savez(
        partial,
        numbers=np.array(numbers, np.int64),
        wide=np.array(wide, np.uint64),
        close=np.array(close, np.uint32),
        prints=np.array(prints, np.uint8).reshape(len(prints), bits // 8),
        text=np.frombuffer("\n".join(map("\t".join, zip(products, reactants, strict=True))).encode(), np.uint8),
    )
    partial.replace(shard)


# --- the index -------------------------------------------------------------------------------------


def _merge(shards: Sequence[Path], brought: dict[int, list[Brought]]) -> tuple[index_file.Arrays, Counter[str]]:
    """Return the arrays of the index, and counts."""
    columns: dict[str, list[Any]] = {name: [] for name in ("numbers", "wide", "close", "prints")}
    texts: list[str] = []
    for shard in shards:
        with np.load(shard, allow_pickle=False) as file:
            for name, column in columns.items():
                column.append(file[name])
            texts += file["text"].tobytes().decode().splitlines()
    numbers, wide, close, prints = (np.concatenate(column) for column in columns.values())
    if not len(numbers):
        raise ValueError("no usable reaction: atom maps missing, unusable, or nothing changes")
    # Two rows may turn out to be one reaction only now that it is known what gives atoms.
    first: dict[str, int] = {}
    for place, text in enumerate(texts):
        known = first.setdefault(text, place)
        if known != place:
            brought[int(numbers[known])] += brought.pop(int(numbers[place]))
    kept = np.fromiter(first.values(), np.int64)
    heads = np.array([texts[place].partition("\t")[0][:32] for place in kept])
    kept = kept[np.lexsort((heads, close[kept], wide[kept]))]
    lines, flags = [], np.zeros(len(kept), np.uint8)
    counts = Counter(left=len(brought) - len(kept))
    for k, place in enumerate(kept):
        product, _, reactants = texts[place].partition("\t")
        known_of = brought[int(numbers[place])]
        givers = tuple(reactants.split("."))
        reagents = max((without(flask, givers) for _, _, flask in known_of), key=len)
        patent = next((patent for _, patent, _ in known_of if patent), "")
        for file, _, _ in known_of:
            flags[k] |= 1 << file
        counts.update(reagents=bool(reagents), patent=bool(patent))
        lines.append(f"{product}\t{reactants}\t{reagents}\t{patent}")
    groups, starts = np.unique(wide[kept], return_index=True)
    packed, blocks = index_file.pack(lines)
    counts["close"] = len(np.unique(np.stack((wide[kept], close[kept].astype(np.uint64))), axis=1).T)
    arrays: index_file.Arrays = {
        "wide": groups,
        "starts": np.append(starts, len(kept)),
        "close": close[kept],
        "prints": prints[kept],
        "products": np.array([product_hash(line.partition("\t")[0]) for line in lines], np.uint32),
        "flags": flags,
        "text": packed,
        "blocks": blocks,
    }
    return arrays, counts
