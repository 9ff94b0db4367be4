"""Reaction CSVs to token arrays: many processes, the same result every time, resumable."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from chemspec.data import holdout
from chemspec.data.arrays import Pairs, RaggedArray
from chemspec.data.settings import DataSettings
from chemspec.data.shards import check_columns, read_rows, write_shard
from chemspec.system.workers import leave_with_parent
from chemspec.tasks import Pair
from chemspec.tokenizer import UNK, Tokenizer

SHARD = 5_000  # rows of a shard: some twenty seconds of work, so little is lost by an interruption

Job = tuple[Path, int, int, Path]  # file, first row, rows, shard


def prepare(
    files: Sequence[Path],
    out: Path,
    settings: DataSettings,
    *,
    apart: Sequence[Path] = (),
    vocab: Path | None = None,
    name: str = "train",
    workers: int = 2,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, Any]:
    """Write `<name>.npz`, `vocab.json`, `<name>.json` (settings, hashes, counts) and what is held out into `out`.

    Shards already in `out/<name>-shards` from an interrupted run with the same settings are kept.

    Args:
        files: CSVs, gzipped or not, with the columns that `reactions.py` names.
        out: folder to write.
        settings: what to make of the rows.
        apart: where the files of `settings.apart_from` are.
        vocab: use this vocabulary instead of building one from the data, or extend it (`settings.extend_vocabulary`).
        name: of the arrays: "train" or "val".
        workers: processes; with 1, everything happens in this one.
        progress: called with rows done and rows in all.

    Returns:
        What `<name>.json` holds.

    Raises:
        ValueError: for a missing column, an unreadable file, two files of one name, or no usable reaction.
    """
    if not files:
        raise ValueError("no data file given")
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        # Names go into the shards and into the random numbers.
        raise ValueError(f"two of the files have the same name: {', '.join(sorted(names))}")
    for file in files:
        check_columns(file, settings)
    if sorted(file.name for file in apart) != sorted(settings.apart_from):
        raise ValueError(f"the files to keep apart from are {', '.join(settings.apart_from) or 'none'}")
    given = None if vocab is None else Tokenizer.load(vocab)
    if settings.extend_vocabulary and given is None:
        raise ValueError("these data go on with a model and extend its vocabulary; give its vocab.json with --vocab")
    out.mkdir(parents=True, exist_ok=True)
    shards = out / f"{name}-shards"
    hashes = {file.name: _digest(file) for file in (*files, *apart)}
    _claim(shards, hashes, settings)
    jobs = [
        (file, start, min(SHARD, rows - start), shards / f"{file.name}-{start:08d}.tsv")
        for file in files
        for rows in (sum(1 for _ in islice(read_rows(file), settings.limit or None)),)
        for start in range(0, rows, SHARD)
    ]
    held = holdout.draw(files, settings)
    if held:
        holdout.write(held, out / holdout.FILE)
    others = frozenset[str]().union(*(holdout.keys(read_rows(file), settings.task) for file in apart))
    _run(jobs, settings, holdout.keys(held, settings.task) | others, workers, progress)
    tokenizer = given
    if given is None or settings.extend_vocabulary:
        texts = (text for *_, shard in jobs for pair in _pairs(shard) for text in pair)
        tokenizer = Tokenizer.build(texts, min_count=settings.min_count, first=given.tokens if given else ())
    assert tokenizer is not None
    packed, rare = _encode(jobs, tokenizer, settings)
    if not len(packed):
        raise ValueError(_nothing(files, settings, rare, sum(rows for _, _, rows, _ in jobs)))
    _keep_vocabulary(tokenizer, out, name)
    packed.save(out / f"{name}.npz")
    report = {
        "settings": asdict(settings),
        "files": hashes,
        "pairs": len(packed),
        "pairs_with_rare_tokens": rare,
        "held_out": len(held),
        "source_tokens": len(packed.sources.flat),
        "target_tokens": len(packed.targets.flat),
        "vocabulary": len(tokenizer),
    }
    (out / f"{name}.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    return report


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _claim(shards: Path, hashes: dict[str, str], settings: DataSettings) -> None:
    """Keep the shards only if they were made from the same files with the same settings."""
    wanted = json.dumps({"settings": asdict(settings), "files": hashes, "rows": SHARD})
    stamp = shards / "made-from.json"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        for old in shards.glob("*.tsv"):
            old.unlink()
    for left in shards.glob("*.partial"):
        left.unlink()
    shards.mkdir(parents=True, exist_ok=True)
    stamp.write_text(wanted, encoding="utf-8")


def _run(
    jobs: Sequence[Job],
    settings: DataSettings,
    apart: frozenset[str],
    workers: int,
    progress: Callable[[int, int], None],
) -> None:
    """Write the shards that are not there yet."""
    todo = [job for job in jobs if not job[3].exists()]
    total = sum(rows for _, _, rows, _ in jobs)
    done = total - sum(rows for _, _, rows, _ in todo)
    progress(done, total)
    if workers <= 1 or len(todo) <= 1:
        for job in todo:
            write_shard(*job, settings, apart)
            done += job[2]
            progress(done, total)
        return
    # Fresh processes, because forking one in which torch has started threads can hang.
    with ProcessPoolExecutor(
        min(workers, len(todo)), mp_context=multiprocessing.get_context("spawn"), initializer=leave_with_parent
    ) as pool:
        running = {pool.submit(write_shard, *job, settings, apart): job[2] for job in todo}
        try:
            for future in as_completed(running):
                future.result()
                done += running[future]
                progress(done, total)
        except BaseException:  # the first fault ends it, not the last shard; Ctrl-C too
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _pairs(shard: Path) -> Iterator[Pair]:
    with shard.open(encoding="utf-8") as lines:
        for line in lines:
            source, answer = line.rstrip("\n").split("\t")
            yield source, answer


def _keep_vocabulary(tokenizer: Tokenizer, out: Path, name: str) -> None:
    """Write `vocab.json`, unless other arrays in the folder were made with another one."""
    path = out / "vocab.json"
    if path.exists() and Tokenizer.load(path) == tokenizer:
        return
    others = [file.name for file in sorted(out.glob("*.npz")) if file.stem != name]
    if path.exists() and others:
        raise ValueError(
            f"{path} is the vocabulary of {', '.join(others)} and differs from that of {name}; "
            "use an empty folder, or pass this one as vocab"
        )
    tokenizer.save(path)


def _encode(jobs: Sequence[Job], tokenizer: Tokenizer, settings: DataSettings) -> tuple[Pairs, int]:
    """Return the pairs as token ids, and the number of those left out for their rare tokens."""
    rare = 0
    parts: dict[str, list[Pairs]] = {}
    for file, _, _, shard in jobs:
        sources, answers = [], []
        for source, answer in _pairs(shard):
            ids, answer_ids = tokenizer.encode_or_unk(source), tokenizer.encode_or_unk(answer)
            if UNK in ids or UNK in answer_ids:
                rare += 1
            else:
                sources.append(ids)
                answers.append(answer_ids)
        parts.setdefault(file.name, []).append(Pairs(RaggedArray.pack(sources), RaggedArray.pack(answers)))
    return Pairs.join(_thinned({name: Pairs.join(own) for name, own in parts.items()}, settings)), rare


def _thinned(files: Mapping[str, Pairs], settings: DataSettings) -> list[Pairs]:
    """Leave out pairs of the files that have more than their share of the tokens."""
    sizes = {name: len(pairs.sources.flat) + len(pairs.targets.flat) for name, pairs in files.items()}
    shares = {name: share for name, share in settings.share_of.items() if name in files}
    whole = sum(size for name, size in sizes.items() if name not in shares) / (1 - sum(shares.values()))
    kept = []
    for name, pairs in files.items():
        if name in shares and sizes[name] > shares[name] * whole:
            order = np.random.default_rng(settings.seed).permutation(len(pairs))
            pairs = pairs.pick(np.sort(order[: int(len(pairs) * shares[name] * whole / sizes[name])]))
        kept.append(pairs)
    return kept


def _nothing(files: Sequence[Path], settings: DataSettings, rare: int, rows: int) -> str:
    where = f"no usable reaction in the {rows} rows of {', '.join(str(file) for file in files)}"
    if rare:
        return (
            f"{where}: each of the {rare} pairs has a token that is not in the vocabulary; "
            f"lower min_count ({settings.min_count}) or give another vocabulary"
        )
    causes = ["atom maps missing or unusable", f"more than {settings.max_tokens} tokens"]
    causes += [f"left out by {column}" for column in (*settings.leave_out, *settings.only)]
    causes += ["a product that is held out"] if settings.hold_out or settings.apart_from else []
    return f"{where}: {', or '.join(causes)}"
