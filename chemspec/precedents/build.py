"""Build an index from reaction CSVs: in several processes, with the same bytes for any number of them.

A reaction is its product and the reactants that contribute atoms. Rows that repeat it, or without atom maps contain it,
add a patent, reagents and the name of their file. Slow steps (atom maps, fingerprints) run once per reaction.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chemspec.data.shards import read_rows
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

CHUNK = 2_000  # reactions of one job of a process
BITS = 512
MAX_FILES = 8  # one bit of `flags` each

Numbered = tuple[int, Reaction]
RowData = tuple[int, str, str]  # data of a row on a reaction: number of its file, patent, mixture
# Of reactions: numbers, wide and close changes, fingerprints of the products, and lines of product and reactants.
Measured = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], list[str]]


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

    @property
    def text(self) -> str:
        """The numbers as lines of text."""
        wide, close = self.changes
        return (
            f"{self.reactions} reactions, {self.size / 1e6:.1f} MB\n"
            f"  of {self.rows} rows; {self.repeated} repeat a reaction, {self.left_out} reactions cannot be used\n"
            f"  with reagents {self.with_reagents}, with a patent's number {self.with_patent}\n"
            f"  different changes {wide}, {close} with what is next to them"
        )


def build_index(
    files: Sequence[Path],
    out: Path,
    *,
    reagents_from: Sequence[Path] = (),
    guess: bool = True,
    bits: int = BITS,
    workers: int = 2,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Report:
    """Write an index of the reactions of CSVs, gzipped or not, those that separate reactants from reagents best first.

    Rows of `reagents_from` only add data to the reactions of `files`. Guessing missing atom maps takes five times as
    long. The fingerprints have `bits`, a multiple of 64. With one worker no other processes are started. `progress` is
    called with the number of rows done and in total. ValueError for an unreadable file, missing columns, too many
    files, or no usable reaction.
    """
    if bits <= 0 or bits % 64:
        raise ValueError(f"{bits} bits; give a multiple of 64, such as {BITS}")
    everything = [*files, *reagents_from]
    if not files or len(everything) > MAX_FILES:
        raise ValueError(f"{len(everything)} files; give 1 to {MAX_FILES}")
    names = [file.name.removesuffix(".gz").removesuffix(".csv") for file in everything]
    total = sum(1 for file in everything for _ in read_rows(file))
    stream = _ReactionStream(everything, len(files), lambda done: progress(done, total))
    arrays, counts = _merge_chunks(list(_measure_chunks(stream, (guess, bits), workers)), stream.row_data)
    index_file.write_index(out, arrays, {"files": names, "reactions": len(arrays["close"])})
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

    def __init__(self, files: Sequence[Path], new: int, progress: Callable[[int], None]) -> None:
        self.files, self.new, self.progress = files, new, progress
        self.rows = self.reactions = self.repeated = 0  # numbers read so far, and of rows that repeat a reaction
        self.row_data: dict[int, list[RowData]] = {}  # by number of the reaction
        self._numbers: dict[bytes, int] = {}
        self._of_product: dict[bytes, list[tuple[int, str]]] = {}  # reactions that a mixture may contain

    def __iter__(self) -> Iterator[Numbered]:
        for number, file in enumerate(self.files):
            for row in read_rows(file):
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


def _measure_chunks(stream: _ReactionStream, settings: tuple[bool, int], workers: int) -> Iterator[Measured]:
    reactions = iter(stream)
    chunks = iter(lambda: list(islice(reactions, CHUNK)), [])
    if workers <= 1:
        yield from (measure_reactions(chunk, *settings) for chunk in chunks)
        return
    with worker_pool(workers) as pool:
        running: list[Future[Measured]] = []
        for chunk in chunks:
            running.append(pool.submit(measure_reactions, chunk, *settings))
            if len(running) > 2 * workers:  # limits memory, since reading is faster than the workers
                yield running.pop(0).result()
        yield from (done.result() for done in running)


def measure_reactions(chunk: Sequence[Numbered], guess: bool, bits: int) -> Measured:
    """Compute changes and fingerprints of reactions; unusable ones are left out."""
    entries = [
        (number, result.wide, result.close & 0xFFFFFFFF, cached_canonical(reaction.product), ".".join(result.givers))
        for number, reaction in chunk
        if (result := change_of_reaction(reaction, guess=guess))
    ]
    numbers, wide, close, products, reactants = zip(*entries, strict=True) if entries else ((), (), (), (), ())
    prints = np.array([product_fingerprint(product, bits) for product in products], np.uint8)
    return (
        np.array(numbers, np.int64),
        np.array(wide, np.uint64),
        np.array(close, np.uint32),
        prints.reshape(len(products), bits // 8),
        list(map("\t".join, zip(products, reactants, strict=True))),
    )


def _merge_chunks(
    chunks: Sequence[Measured], row_data: dict[int, list[RowData]]
) -> tuple[index_file.Arrays, Counter[str]]:
    numbers, wide, close, prints = (np.concatenate(column) for column in list(zip(*chunks, strict=True))[:4])
    texts = [text for chunk in chunks for text in chunk[4]]
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
