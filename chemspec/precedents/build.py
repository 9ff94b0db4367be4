"""Build an index from reaction CSVs: streaming, parallel, resumable, deterministic.

A reaction is its product and the reactants that contribute atoms. Rows that repeat it, or without atom maps contain it,
add a patent, reagents and the name of their file. Slow steps (atom maps, fingerprints) run once per reaction, in shards
of `SHARD` on disk; memory holds their text.
"""

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from chemspec.data.shards import claim_shards, read_rows
from chemspec.precedents import index_file
from chemspec.precedents.index_file import product_hash
from chemspec.precedents.rows import (
    Reaction,
    cached_canonical,
    change_of_reaction,
    other_molecules,
    product_fingerprint,
    read_row,
)
from chemspec.system.threads import worker_pool

SHARD = 2_000
BITS = 512
MAX_FILES = 8  # one bit of `flags` each

Numbered = tuple[int, Reaction]
RowData = tuple[int, str, str]  # data of a row on a reaction: number of its file, patent, mixture


@dataclass(frozen=True)
class Report:
    """Statistics of a build."""

    rows: int  # rows read
    repeated: int  # rows that repeat a reaction
    left_out: int  # unusable reactions: missing or wrong atom maps, or no change
    reactions: int  # reactions in the index
    with_reagents: int  # reactions in the index with reagents
    with_patent: int  # reactions in the index with a patent
    changes: tuple[int, int]  # distinct wide and close changes
    size: int  # file size in bytes


def build_index(
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
    """Write an index of the reactions of CSVs, gzipped or not, those that separate reactants from reagents best first.

    Shards are in a folder named like `out` with the ending ".parts". Rows of `reagents_from` only add data to the
    reactions of `files`. Guessing missing atom maps takes five times as long. The fingerprints have `bits`, a multiple
    of 64. At most `limit` rows of each file are used; 0 means all. With one worker no other processes are started.
    `progress` is called with the number of rows done and in total. ValueError for an unreadable file, missing columns,
    too many files, or no usable reaction.
    """
    if bits <= 0 or bits % 64:
        raise ValueError(f"{bits} bits; give a multiple of 64, such as {BITS}")
    everything = [*files, *reagents_from]
    if not files or len(everything) > MAX_FILES:
        raise ValueError(f"{len(everything)} files; give 1 to {MAX_FILES}")
    names = [file.name.removesuffix(".gz").removesuffix(".csv") for file in everything]
    parts = out.with_name(f"{out.name}.parts")
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in everything]
    settings = {"new": len(files), "guess": guess, "bits": bits, "limit": limit}
    claim_shards(parts, {"files": stats, **settings, "shard": SHARD, "format": index_file.FORMAT})
    total = sum(1 for file in everything for _ in islice(read_rows(file), limit or None))
    stream = _ReactionStream(everything, len(files), limit, lambda done: progress(done, total))
    shards = list(_write_shards(stream, parts, (guess, bits), workers))
    arrays, counts = _merge_shards(shards, stream.row_data)
    index_file.write_index(out, arrays, {"files": names, "reactions": len(arrays["close"])})
    shutil.rmtree(parts)
    progress(total, total)
    return Report(
        rows=stream.rows,
        repeated=stream.repeated,
        left_out=counts["left"],
        reactions=len(arrays["close"]),
        with_reagents=counts["reagents"],
        with_patent=counts["patent"],
        changes=(len(arrays["wide"]), counts["close"]),
        size=out.stat().st_size,
    )


class _ReactionStream:
    """Iterates over distinct reactions of the first files, and collects data of other rows on them."""

    def __init__(self, files: Sequence[Path], new: int, limit: int, progress: Callable[[int], None]) -> None:
        self.files, self.new, self.limit, self.progress = files, new, limit, progress
        self.rows = self.reactions = self.repeated = 0  # numbers read so far, and of rows that repeat a reaction
        self.row_data: dict[int, list[RowData]] = {}  # by number of the reaction
        self._numbers: dict[bytes, int] = {}
        self._of_product: dict[bytes, list[tuple[int, str]]] = {}  # reactions that a mixture may contain

    def __iter__(self) -> Iterator[Numbered]:
        for number, file in enumerate(self.files):
            for row in islice(read_rows(file), self.limit or None):
                if not self.rows % 1000:
                    self.progress(self.rows)
                self.rows += 1
                if (reaction := read_row(row)) is None:
                    continue
                earlier = self._find(reaction)
                self.repeated += earlier is not None
                if earlier is None and number >= self.new:
                    continue
                reaction_number = self._add(reaction) if earlier is None else earlier
                self.row_data.setdefault(reaction_number, []).append((number, reaction.patent, reaction.flask))
                if earlier is None:
                    yield reaction_number, reaction
        if not self.reactions:
            raise ValueError(
                f"no row of {', '.join(map(str, self.files))} has a product and reactants: see assets/docs/models.md"
            )

    def _find(self, reaction: Reaction) -> int | None:
        number = self._numbers.get(_digest_texts(reaction.product, *sorted(reaction.reactants.split("."))))
        if number is not None or (reaction.mapped and reaction.flask == reaction.reactants):
            return number
        flask = set(reaction.flask.split("."))
        likely = self._of_product.get(_digest_texts(reaction.product), ())
        return next((number for number, core in likely if flask.issuperset(core.split("."))), None)

    def _add(self, reaction: Reaction) -> int:
        number = self.reactions
        self._numbers[_digest_texts(reaction.product, *sorted(reaction.reactants.split(".")))] = number
        if reaction.mapped or reaction.reactants == reaction.flask:
            self._of_product.setdefault(_digest_texts(reaction.product), []).append((number, reaction.reactants))
        self.reactions += 1
        return number


def _digest_texts(*texts: str) -> bytes:
    return hashlib.blake2b(">".join(texts).encode(), digest_size=12).digest()


def _write_shards(stream: _ReactionStream, parts: Path, settings: tuple[bool, int], workers: int) -> Iterator[Path]:
    reactions = iter(stream)
    chunks = iter(lambda: list(islice(reactions, SHARD)), [])
    jobs = ((parts / f"{number:06d}.npz", chunk) for number, chunk in enumerate(chunks))
    if workers <= 1:
        for shard, chunk in jobs:
            write_shard(shard, chunk, *settings)
            yield shard
        return
    with worker_pool(workers) as pool:
        running: list[tuple[Path, Future[None]]] = []
        for shard, chunk in jobs:
            running.append((shard, pool.submit(write_shard, shard, chunk, *settings)))
            if len(running) > 2 * workers:  # limits memory, since reading is faster than the workers
                first, done = running.pop(0)
                done.result()
                yield first
        for first, done in running:
            done.result()
            yield first


def write_shard(shard: Path, chunk: Sequence[Numbered], guess: bool, bits: int) -> None:
    """Compute changes and fingerprints of reactions, unless the shard exists."""
    if shard.exists():
        return
    entries = [
        (number, result.wide, result.close & 0xFFFFFFFF, cached_canonical(reaction.product), ".".join(result.givers))
        for number, reaction in chunk
        if (result := change_of_reaction(reaction, guess=guess))
    ]
    numbers, wide, close, products, reactants = zip(*entries, strict=True) if entries else ((), (), (), (), ())
    prints = [product_fingerprint(product, bits) for product in products]
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


def _merge_shards(shards: Sequence[Path], row_data: dict[int, list[RowData]]) -> tuple[index_file.Arrays, Counter[str]]:
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
    # Rows may describe the same reaction once it is known which reactants contribute atoms.
    first: dict[str, int] = {}
    for row, text in enumerate(texts):
        earlier = first.setdefault(text, row)
        if earlier != row:
            row_data[int(numbers[earlier])] += row_data.pop(int(numbers[row]))
    order = np.fromiter(first.values(), np.int64)
    heads = np.array([texts[row].partition("\t")[0][:32] for row in order])
    order = order[np.lexsort((heads, close[order], wide[order]))]
    lines, flags = [], np.zeros(len(order), np.uint8)
    counts = Counter(left=len(row_data) - len(order))
    for k, row in enumerate(order):
        product, _, reactants = texts[row].partition("\t")
        entries = row_data[int(numbers[row])]
        givers = tuple(reactants.split("."))
        reagents = max((other_molecules(flask, givers) for _, _, flask in entries), key=len)
        patent = next((patent for _, patent, _ in entries if patent), "")
        for file, _, _ in entries:
            flags[k] |= 1 << file
        counts.update(reagents=bool(reagents), patent=bool(patent))
        lines.append(f"{product}\t{reactants}\t{reagents}\t{patent}")
    groups, starts = np.unique(wide[order], return_index=True)
    packed, blocks = index_file.pack_lines(lines)
    counts["close"] = len(np.unique(np.stack((wide[order], close[order].astype(np.uint64))), axis=1).T)
    arrays: index_file.Arrays = {
        "wide": groups,
        "starts": np.append(starts, len(order)),
        "close": close[order],
        "prints": prints[order],
        "products": np.array([product_hash(line.partition("\t")[0]) for line in lines], np.uint32),
        "flags": flags,
        "text": packed,
        "blocks": blocks,
    }
    return arrays, counts
