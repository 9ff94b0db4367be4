"""Reaction CSVs to token arrays: many processes, the same result every time, resumable."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from chemspec.data.arrays import Pairs, Ragged
from chemspec.data.reactions import Pair, Row, variants
from chemspec.settings import Task
from chemspec.tokenizer import UNK, TokenError, Tokenizer, split

SHARD = 5_000  # rows of a shard: some twenty seconds of work, so little is lost by an interruption


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """What makes a data set; written beside it, so that a different request does not reuse old shards.

    Attributes:
        variants: ways in which each reaction is written (the first has the canonical source).
        flat_share: share of the variants without stereochemistry.
        leave_out: columns; a row with "1" in one of them is not used (test products, say).
        max_tokens: longer sources or targets are left out.
        min_count: rarer tokens are no part of the vocabulary, and rows with them are left out.
        limit: use only so many rows of the file; 0 means all.
    """

    task: Task
    variants: int = 4
    flat_share: float = 0.0
    leave_out: tuple[str, ...] = ()
    max_tokens: int = 200
    min_count: int = 5
    seed: int = 0
    limit: int = 0

    def __post_init__(self) -> None:
        if self.variants < 1:
            raise ValueError(f"variants is {self.variants}; at least 1 is needed")
        if not 0 <= self.flat_share <= 1:
            raise ValueError(f"flat_share is {self.flat_share}; it is a share between 0 and 1")


def prepare(
    files: Sequence[Path],
    out: Path,
    settings: DataSettings,
    *,
    vocab: Path | None = None,
    name: str = "train",
    workers: int = 2,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Write `<name>.npz`, `vocab.json` (unless one is given) and `<name>.json` (settings, hashes, counts) into `out`.

    Shards already in `out/<name>-shards` from an interrupted run with the same settings are kept.

    Args:
        files: CSVs, gzipped or not, with the columns that `reactions.py` names.
        vocab: use this vocabulary instead of building one from the data.
        progress: called with rows done and rows in all.

    Returns:
        What `<name>.json` holds.
    """
    if not files:
        raise ValueError("no data file given")
    out.mkdir(parents=True, exist_ok=True)
    shards = out / f"{name}-shards"
    _claim(shards, files, settings)
    counted = [(file, min(_count_rows(file), settings.limit or 10**12)) for file in files]
    jobs = [(file, start, min(SHARD, rows - start)) for file, rows in counted for start in range(0, rows, SHARD)]
    targets = [shards / f"{file.name}-{start:08d}.tsv" for file, start, _ in jobs]
    total = done = sum(length for *_, length in jobs)
    done -= sum(length for (*_, length), target in zip(jobs, targets, strict=True) if not target.exists())
    with ProcessPoolExecutor(workers) as pool:
        running = {
            pool.submit(_write_shard, *job, target, settings): job[2]
            for job, target in zip(jobs, targets, strict=True)
            if not target.exists()
        }
        progress(done, total)
        for future in as_completed(running):
            future.result()
            done += running[future]
            progress(done, total)
    return _assemble(targets, out, name, settings, files, vocab)


def _claim(shards: Path, files: Sequence[Path], settings: DataSettings) -> None:
    """Keep the shards only if they were made from the same files with the same settings."""
    wanted = json.dumps({"settings": asdict(settings), "files": [[file.name, file.stat().st_size] for file in files]})
    stamp = shards / "made-from.json"
    if stamp.exists() and stamp.read_text(encoding="utf-8") != wanted:
        for old in shards.glob("*.tsv"):
            old.unlink()
    shards.mkdir(parents=True, exist_ok=True)
    stamp.write_text(wanted, encoding="utf-8")


def read_rows(path: Path) -> Iterator[Row]:
    """Rows of a CSV, gzipped or plain, as mappings from column name to text."""
    opened = gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")
    with opened as raw:
        yield from csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))  # type: ignore[arg-type]


def _count_rows(path: Path) -> int:
    return sum(1 for _ in read_rows(path))


def _write_shard(file: Path, start: int, length: int, target: Path, settings: DataSettings) -> None:
    lines = []
    for number, row in enumerate(islice(read_rows(file), start, start + length), start):
        if any(row.get(column) == "1" for column in settings.leave_out):
            continue
        # One generator a row: the result depends neither on shards nor on workers.
        rng = Random(f"{settings.seed}/{file.name}/{number}")
        pairs = variants(row, settings.task, count=settings.variants, flat_share=settings.flat_share, rng=rng)
        lines += [f"{source}\t{answer}\n" for source, answer in pairs if _short(source, answer, settings.max_tokens)]
    partial = target.with_suffix(".partial")
    partial.write_text("".join(lines), encoding="utf-8")
    partial.replace(target)


def _short(source: str, answer: str, limit: int) -> bool:
    try:
        return 0 < len(split(source)) <= limit and 0 < len(split(answer)) <= limit
    except TokenError:
        return False


def _assemble(
    shards: Sequence[Path],
    out: Path,
    name: str,
    settings: DataSettings,
    files: Sequence[Path],
    vocab: Path | None,
) -> dict[str, Any]:
    def pairs() -> Iterator[Pair]:
        for shard in shards:
            with shard.open(encoding="utf-8") as lines:
                for line in lines:
                    source, answer = line.rstrip("\n").split("\t")
                    yield source, answer

    if vocab is None:
        tokenizer = Tokenizer.build((text for pair in pairs() for text in pair), min_count=settings.min_count)
        tokenizer.save(out / "vocab.json")
    else:
        tokenizer = Tokenizer.load(vocab)
    sources, answers, rare = [], [], 0
    for source, answer in pairs():
        ids, answer_ids = tokenizer.encode_or_unk(source), tokenizer.encode_or_unk(answer)
        if UNK in ids or UNK in answer_ids:
            rare += 1
        else:
            sources.append(ids)
            answers.append(answer_ids)
    if not sources:
        raise ValueError(f"no usable reaction in {', '.join(str(file) for file in files)}")
    packed = Pairs(Ragged.pack(sources), Ragged.pack(answers))
    packed.save(out / f"{name}.npz")
    report = {
        "settings": asdict(settings),
        "files": {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files},
        "pairs": len(packed),
        "pairs_with_rare_tokens": rare,
        "source_tokens": len(packed.sources.flat),
        "target_tokens": len(packed.targets.flat),
        "vocabulary": len(tokenizer),
    }
    (out / f"{name}.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    return report
