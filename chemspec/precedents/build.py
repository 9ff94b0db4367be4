"""Build an index from reaction CSVs: in several processes, with the same bytes for any number of them.

A reaction is its product and the reactants that contribute atoms. Rows that repeat it, or without atom maps contain it,
add a patent, reagents and the name of their file. Slow steps (atom maps, fingerprints) run once per reaction.
"""

from __future__ import annotations

import re
import shutil
import zlib
from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import chemspec.chem as chem
from chemspec.data.shards import claim_shards, read_rows
from chemspec.precedents import index_file
from chemspec.precedents.change import change_of, change_of_mapped
from chemspec.precedents.search import OWN
from chemspec.system.files import write_bytes_atomic
from chemspec.system.threads import worker_pool
from chemspec.version import __version__

CHUNK = 2_000  # reactions of one job of a process
BITS = 512
MAX_FILES = 8  # one bit of `flags` each
# Limit of processor time for guessing the maps of a row; never reached, so that the index does not depend on the
# machine.
SECONDS = 20.0
PATENT = re.compile(r"((?:US|EP|WO)[A-Z]*\d+[A-Z]?\d?)(?:\|(\d{4})(?=\||$))?")
PRODUCT = ("main_product", "product")
REACTANTS = ("core_reactants", "reactants", "reactants_and_reagents")
FLASK = ("reactants_and_reagents", "reactants")
MAPPED = ("mapped_core_rxn", "mapped_rxn")


@dataclass
class Report:
    """Statistics of a build."""

    rows: int = 0  # rows read
    repeated: int = 0  # rows that repeat a reaction
    left_out: int = 0  # unusable reactions: missing or wrong atom maps, or no change
    reactions: int = 0  # reactions in the index
    with_reagents: int = 0  # reactions in the index with reagents
    with_patent: int = 0  # reactions in the index with a patent
    changes: tuple[int, int] = (0, 0)  # distinct wide and close changes
    size: int = 0  # file size in bytes

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


@dataclass(frozen=True)
class Row:
    """A row of a CSV, before any chemistry."""

    product: str  # SMILES of one molecule, as written in the row
    reactants: str  # SMILES of the molecules that contribute atoms, or of all if the row does not separate them
    flask: str  # SMILES of the whole reaction mixture
    mapped: str  # the reaction with atom maps, or empty
    patent: str  # number of the patent, followed by a blank and its year if known; or empty
    file: int  # number of its file


@dataclass(frozen=True)
class Measured:
    """A reaction as it is stored."""

    wide: int  # hash of the change of the reaction centre
    close: int  # lower half of the hash with its neighbours
    product: str  # canonical SMILES
    reactants: str  # canonical SMILES of the molecules that contribute atoms
    prints: bytes  # packed fingerprint of the product


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

    Rows of `reagents_from` only add data to the reactions of `files`. Guessing missing atom maps takes twice as long.
    What is measured is stored in a folder next to `out`, and an interrupted build goes on from there. The fingerprints
    have `bits`, a multiple of 64. With one worker no other processes are started. `progress` is called with the number
    of reactions done and in total. ValueError for an unreadable file, missing columns, too many files, or no usable
    reaction.
    """
    if bits <= 0 or bits % 64:
        raise ValueError(f"{bits} bits; give a multiple of 64, such as {BITS}")
    everything = [*files, *reagents_from]
    if not files or len(everything) > MAX_FILES:
        raise ValueError(f"{len(everything)} files; give 1 to {MAX_FILES}")
    report = Report()
    numbers, total = _number_reactions(everything, len(files), report)
    folder = out.with_name(f"{out.name}.partial")
    options = {"version": __version__, "chunk": CHUNK, "guess": guess, "bits": bits}
    claim_shards(folder, {**options, "files": [_identity(file) for file in everything]})
    _measure_all(
        _first_rows(everything, numbers),
        folder,
        total,
        workers,
        partial(measure_reactions, guess=guess, bits=bits),
        progress,
    )
    measured = [item for number in range(0, total, CHUNK) for item in _read_chunk(folder, number)]
    report.left_out = measured.count(None)
    arrays = _merge_rows(measured, zip(_iterate_rows(everything), numbers, strict=True), bits, report)
    names = [file.name.removesuffix(".gz").removesuffix(".csv") for file in everything]
    index_file.write_index(out, arrays, {"files": names, "reactions": report.reactions})
    report.size = out.stat().st_size
    shutil.rmtree(folder)
    return report


def _identity(file: Path) -> list[Any]:
    """Return what shows that a file is the same as before."""
    about = file.stat()
    return [str(file.absolute()), about.st_size, about.st_mtime_ns]


def _iterate_rows(files: Sequence[Path]) -> Iterator[Row | None]:
    for number, file in enumerate(files):
        for fields in read_rows(file):
            yield read_row(fields, number)


def _digest(*parts: str) -> bytes:
    return blake2b("\0".join(parts).encode(), digest_size=12).digest()


def _number_reactions(files: Sequence[Path], new: int, report: Report) -> tuple[array[int], int]:
    """Return for each row the number of its reaction, -1 without one, and how many reactions there are.

    Only the first `new` files have reactions, the others add rows to these. Of a row only a digest is kept.
    """
    numbers = array("i")
    by_digest: dict[bytes, int] = {}
    of_product: defaultdict[bytes, list[tuple[int, str]]] = defaultdict(list)  # reactions that a mixture may contain
    total = 0
    for row in _iterate_rows(files):
        report.rows += 1
        numbers.append(-1)
        if row is None:
            continue
        key, product = _digest(row.product, *sorted(row.reactants.split("."))), _digest(row.product)
        earlier = by_digest.get(key)
        if earlier is None and not (row.mapped and row.flask == row.reactants):
            flask = set(row.flask.split("."))
            likely = of_product.get(product, ())
            earlier = next((number for number, parts in likely if flask.issuperset(parts.split("."))), None)
        if earlier is not None:
            report.repeated += 1
            numbers[-1] = earlier
        elif row.file < new:
            numbers[-1] = by_digest[key] = total
            if row.mapped or row.reactants == row.flask:
                of_product[product].append((total, row.reactants))
            total += 1
    if not total:
        raise ValueError(
            f"no row of {', '.join(map(str, files))} has a product and reactants: see assets/docs/models.md"
        )
    return numbers, total


def _first_rows(files: Sequence[Path], numbers: Sequence[int]) -> Iterator[Row]:
    """Yield the first row of each reaction."""
    expected = 0
    for row, number in zip(_iterate_rows(files), numbers, strict=True):
        if row is not None and number == expected:
            expected += 1
            yield row


def _measure_all(
    rows: Iterator[Row],
    folder: Path,
    total: int,
    workers: int,
    measure: Callable[[Sequence[Row]], list[Measured | None]],
    progress: Callable[[int, int], None],
) -> None:
    """Measure reactions in chunks, and store each in a file of the folder; those that are there are kept."""
    running: deque[tuple[int, Future[list[Measured | None]]]] = deque()

    def store(first: int, measured: list[Measured | None]) -> None:
        write_bytes_atomic(_chunk_file(folder, first), zlib.compress(msgspec.json.encode(measured), 1))
        progress(min(first + CHUNK, total), total)

    with worker_pool(workers) if workers > 1 else nullcontext() as pool:
        for first in range(0, total, CHUNK):
            chunk = list(islice(rows, CHUNK))
            if _chunk_file(folder, first).exists():
                progress(min(first + CHUNK, total), total)
            elif pool is None:
                store(first, measure(chunk))
            else:
                running.append((first, pool.submit(measure, chunk)))
            while len(running) > 2 * workers:
                number, done = running.popleft()
                store(number, done.result())
        for number, done in running:
            store(number, done.result())


def _chunk_file(folder: Path, first: int) -> Path:
    return folder / f"reactions-{first:09}.json.z"


def _read_chunk(folder: Path, first: int) -> list[Measured | None]:
    return msgspec.json.decode(zlib.decompress(_chunk_file(folder, first).read_bytes()), type=list[Measured | None])


def read_row(fields: Mapping[str, str], file: int) -> Row | None:
    """Return a row with any of the supported columns; None without product or reactants."""
    product, reactants, flask, mapped = (
        next((fields[name] for name in names if fields.get(name)), "") for names in (PRODUCT, REACTANTS, FLASK, MAPPED)
    )
    if not product or not reactants:
        return None
    if label := fields.get("label"):  # of an own reaction
        patent = own_source(label)
    else:
        match = PATENT.match(fields.get("patent_id") or fields.get("id") or "")
        patent = " ".join(filter(None, match.groups())) if match else ""
    return Row(product, reactants, flask, mapped, patent, file)


def own_source(label: str) -> str:
    """Return what stands in the place of a patent's number at an own reaction; without blanks, which precede a year."""
    return "\N{NO-BREAK SPACE}".join(f"{OWN} {label}".split())


def measure_reactions(rows: Iterable[Row], *, guess: bool, bits: int) -> list[Measured | None]:
    """Return changes and fingerprints of reactions, by guessed atom maps if theirs are unusable and `guess` is set.

    None for one that is invalid, has several products, or changes nothing.
    """
    measured: list[Measured | None] = []
    for row in rows:
        single = "." not in row.product
        change = change_of_mapped(row.mapped) if single and row.mapped else None
        if change is None and single and guess:
            change = change_of(row.reactants, row.product, seconds=SECONDS)
        if change is None:
            measured.append(None)
            continue
        product = _canonical(row.product)
        prints = index_file.product_fingerprint(product, bits).tobytes()
        measured.append(Measured(change.wide, change.close & 0xFFFFFFFF, product, ".".join(change.givers), prints))
    return measured


@dataclass
class _Merged:
    """What the rows of a reaction say of it."""

    reagents: str = ""  # the longest list
    patent: str = ""  # the first
    flags: int = 0  # files with the reaction, one bit each

    def add(self, other: _Merged) -> None:
        """Add rows that come later."""
        self.reagents = max(self.reagents, other.reagents, key=len)
        self.patent = self.patent or other.patent
        self.flags |= other.flags


def _merge_rows(
    measured: Sequence[Measured | None], rows: Iterable[tuple[Row | None, int]], bits: int, report: Report
) -> index_file.Arrays:
    # Rows may describe the same reaction once it is known which reactants contribute atoms.
    first_of: dict[tuple[str, str], int] = {}
    for number, item in enumerate(measured):
        if item is not None:
            first_of.setdefault((item.product, item.reactants), number)
    if not first_of:
        raise ValueError("no usable reaction: atom maps missing, unusable, or nothing changes")
    facts: dict[int, _Merged] = {}
    for row, number in rows:
        if row is not None and number >= 0 and (item := measured[number]) is not None:
            reagents = _other_molecules(row.flask, item.reactants.split("."))
            facts.setdefault(number, _Merged()).add(_Merged(reagents, row.patent, 1 << row.file))
    merged: dict[int, _Merged] = {}
    for number in sorted(facts):
        if (item := measured[number]) is not None:
            merged.setdefault(first_of[item.product, item.reactants], _Merged()).add(facts.pop(number))
    entries = sorted(
        ((item, merged[number]) for number in merged if (item := measured[number]) is not None),
        key=lambda entry: (entry[0].wide, entry[0].close, entry[0].product[:32]),
    )
    lines = [f"{item.product}\t{item.reactants}\t{fact.reagents}\t{fact.patent}" for item, fact in entries]
    report.with_reagents = sum(bool(fact.reagents) for _, fact in entries)
    report.with_patent = sum(bool(fact.patent) for _, fact in entries)
    groups, starts = np.unique(np.array([item.wide for item, _ in entries], np.uint64), return_index=True)
    report.reactions = len(entries)
    report.changes = len(groups), len({(item.wide, item.close) for item, _ in entries})
    text, blocks = index_file.pack_lines(lines)
    return {
        "wide": groups,
        "starts": np.append(starts, len(entries)),
        "close": np.array([item.close for item, _ in entries]),
        "prints": np.frombuffer(b"".join(item.prints for item, _ in entries), np.uint8).reshape(-1, bits // 8),
        "products": np.array([index_file.product_hash(item.product) for item, _ in entries]),
        "flags": np.array([fact.flags for _, fact in entries]),
        "text": text,
        "blocks": blocks,
    }


def _other_molecules(flask: str, givers: Sequence[str]) -> str:
    """Return the canonical SMILES of the other molecules of a mixture, joined and sorted; ions are separate."""
    parts = (_canonical(part) for part in flask.split(".") if part)
    return ".".join(sorted(part for part in parts if part not in givers))


@lru_cache(maxsize=20_000)  # reagents recur
def _canonical(part: str) -> str:
    return chem.canonical(part) or part
