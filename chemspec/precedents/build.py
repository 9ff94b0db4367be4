"""Build an index from reaction CSVs: in several processes, with the same bytes for any number of them.

A reaction is its product and the reactants that contribute atoms. Rows that repeat it, or without atom maps contain it,
add a patent, reagents and the name of their file. Slow steps (atom maps, fingerprints) run once per reaction.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

import chemspec.chem as chem
from chemspec.data.shards import read_rows
from chemspec.precedents import index_file
from chemspec.precedents.change import change_of, change_of_mapped
from chemspec.system.threads import worker_pool

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

    Rows of `reagents_from` only add data to the reactions of `files`. Guessing missing atom maps takes five times as
    long. The fingerprints have `bits`, a multiple of 64. With one worker no other processes are started. `progress` is
    called with the number of reactions done and in total. ValueError for an unreadable file, missing columns, too many
    files, or no usable reaction.
    """
    if bits <= 0 or bits % 64:
        raise ValueError(f"{bits} bits; give a multiple of 64, such as {BITS}")
    everything = [*files, *reagents_from]
    if not files or len(everything) > MAX_FILES:
        raise ValueError(f"{len(everything)} files; give 1 to {MAX_FILES}")
    report = Report()
    reactions = _read_reactions(everything, len(files), report)
    chunks = [[rows[0] for rows in reactions[first : first + CHUNK]] for first in range(0, len(reactions), CHUNK)]
    measure = partial(measure_reactions, guess=guess, bits=bits)
    measured: list[Measured | None] = []
    with worker_pool(workers) if workers > 1 else nullcontext() as pool:
        for done in pool.map(measure, chunks) if pool else map(measure, chunks):
            measured += done
            progress(len(measured), len(reactions))
    report.left_out = measured.count(None)
    arrays = _merge_rows(zip(measured, reactions, strict=True), bits, report)
    names = [file.name.removesuffix(".gz").removesuffix(".csv") for file in everything]
    index_file.write_index(out, arrays, {"files": names, "reactions": report.reactions})
    report.size = out.stat().st_size
    return report


def _read_reactions(files: Sequence[Path], new: int, report: Report) -> list[list[Row]]:
    """Return the rows of each distinct reaction of the first `new` files; other files only add rows to these."""
    reactions: list[list[Row]] = []
    numbers: dict[tuple[str, ...], int] = {}
    of_product: defaultdict[str, list[int]] = defaultdict(list)  # reactions that a mixture may contain
    for number, file in enumerate(files):
        for fields in read_rows(file):
            report.rows += 1
            if (row := read_row(fields, number)) is None:
                continue
            key = (row.product, *sorted(row.reactants.split(".")))
            earlier = numbers.get(key)
            if earlier is None and not (row.mapped and row.flask == row.reactants):
                flask, likely = set(row.flask.split(".")), of_product.get(row.product, ())
                earlier = next((n for n in likely if flask.issuperset(reactions[n][0].reactants.split("."))), None)
            if earlier is not None:
                report.repeated += 1
                reactions[earlier].append(row)
            elif number < new:
                numbers[key] = len(reactions)
                if row.mapped or row.reactants == row.flask:
                    of_product[row.product].append(len(reactions))
                reactions.append([row])
    if not reactions:
        raise ValueError(
            f"no row of {', '.join(map(str, files))} has a product and reactants: see assets/docs/models.md"
        )
    return reactions


def read_row(fields: Mapping[str, str], file: int) -> Row | None:
    """Return a row with any of the supported columns; None without product or reactants."""
    product, reactants, flask, mapped = (
        next((fields[name] for name in names if fields.get(name)), "") for names in (PRODUCT, REACTANTS, FLASK, MAPPED)
    )
    if not product or not reactants:
        return None
    match = PATENT.match(fields.get("patent_id") or fields.get("id") or "")
    patent = " ".join(filter(None, match.groups())) if match else ""
    return Row(product, reactants, flask, mapped, patent, file)


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


def _merge_rows(reactions: Iterable[tuple[Measured | None, list[Row]]], bits: int, report: Report) -> index_file.Arrays:
    # Rows may describe the same reaction once it is known which reactants contribute atoms.
    merged: dict[tuple[str, str], tuple[Measured, list[Row]]] = {}
    for measured, rows in reactions:
        if measured is not None:
            merged.setdefault((measured.product, measured.reactants), (measured, []))[1].extend(rows)
    if not merged:
        raise ValueError("no usable reaction: atom maps missing, unusable, or nothing changes")
    entries = sorted(merged.values(), key=lambda entry: (entry[0].wide, entry[0].close, entry[0].product[:32]))
    lines, flags = [], []
    for measured, rows in entries:
        givers = measured.reactants.split(".")
        reagents = max((_other_molecules(row.flask, givers) for row in rows), key=len)
        patent = next((row.patent for row in rows if row.patent), "")
        flags.append(sum(1 << file for file in {row.file for row in rows}))
        report.with_reagents += bool(reagents)
        report.with_patent += bool(patent)
        lines.append(f"{measured.product}\t{measured.reactants}\t{reagents}\t{patent}")
    groups, starts = np.unique(np.array([measured.wide for measured, _ in entries], np.uint64), return_index=True)
    report.reactions = len(entries)
    report.changes = len(groups), len({(measured.wide, measured.close) for measured, _ in entries})
    text, blocks = index_file.pack_lines(lines)
    return {
        "wide": groups,
        "starts": np.append(starts, len(entries)),
        "close": np.array([measured.close for measured, _ in entries]),
        "prints": np.frombuffer(b"".join(measured.prints for measured, _ in entries), np.uint8).reshape(-1, bits // 8),
        "products": np.array([index_file.product_hash(measured.product) for measured, _ in entries]),
        "flags": np.array(flags),
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
