"""Convert reaction CSVs to token arrays: parallel, deterministic, resumable."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from chemspec.data import holdout
from chemspec.data.arrays import Pairs, RaggedArray
from chemspec.data.settings import DataSettings, PreparationSettings, require_data_folder
from chemspec.data.shards import Job, check_columns, claim_shards, read_rows, write_shard
from chemspec.system.locks import lock_folder
from chemspec.system.threads import worker_pool
from chemspec.tasks import Pair
from chemspec.tokenizer import UNK, Tokenizer, learn_merges
from chemspec.train.recipe import Recipe
from chemspec.types import Progress, Tell, ignore

MERGE_SAMPLE = 5_000  # pairs from which merges are learned
SHARD = 5_000  # rows per shard, some twenty seconds of work: the most that an interruption costs


def prepare(
    files: Sequence[Path],
    out: Path,
    settings: DataSettings,
    *,
    apart: Sequence[Path] = (),
    vocab: Path | None = None,
    name: str = "train",
    workers: int = 2,
    progress: Progress = ignore,
) -> dict[str, Any]:
    """Write `<name>.npz`, `vocab.json`, `<name>.json` (settings, hashes, counts) and held-out reactions to `out`.

    Shards in `out/<name>-shards` from an interrupted run with the same settings are reused. Returns the content of
    `<name>.json`. Raises ValueError for a missing column, an unreadable file, files of the same name, no usable
    reaction, or a folder that another process writes to.

    `files` are CSVs, gzipped or not, with the columns of the task; `apart` are the paths of `settings.apart_from`. A
    vocabulary `vocab` is used instead of one built from the data, or extended (`settings.extend_vocabulary`). The
    arrays' name is "train" or "val". With 1 of `workers`, no other process is started; `progress` is called with the
    number of rows done and in total.
    """
    given_vocabulary = _check_inputs(files, settings, apart, vocab)
    out.mkdir(parents=True, exist_ok=True)
    with lock_folder(out):
        shards = out / f"{name}-shards"
        hashes = {file.name: _file_digest(file) for file in (*files, *apart)}
        claim_shards(shards, {"settings": asdict(settings), "files": hashes, "rows": SHARD})
        counts = {file: sum(1 for _ in islice(read_rows(file), settings.limit or None)) for file in files}
        jobs = [
            (file, start, min(SHARD, rows - start), shards / f"{file.name}-{start:08d}.tsv")
            for file, rows in counts.items()
            for start in range(0, rows, SHARD)
        ]
        held = holdout.draw_held_out(files, settings)
        if held:
            holdout.write_held_out(held, out / holdout.FILE)
        kept_apart = chain(held, *map(read_rows, apart))
        _write_shards(jobs, settings, holdout.product_keys(kept_apart, settings.task), workers, progress)
        tokenizer = _choose_vocabulary(jobs, given_vocabulary, settings)
        packed, rare = _encode_pairs(jobs, tokenizer, settings)
        _write_vocabulary(tokenizer, out, name)
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


def prepare_recipe(
    recipe: Recipe, options: PreparationSettings, *, tell: Tell = ignore, progress: Progress = ignore
) -> dict[str, dict[str, Any]]:
    """Prepare the training and validation data of a recipe; returns the report of each, see `prepare`."""
    source = require_data_folder(options.source)
    out, vocab = options.out or Path("data") / recipe.name, options.vocab
    parts = {"train": (recipe.train_files, recipe.data), "val": (recipe.validation_files, recipe.validation_data)}
    reports = {}
    for name, (files, settings) in parts.items():
        if settings is None:
            continue
        report = prepare(
            [(out if file == holdout.FILE else source) / file for file in files],
            out,
            replace(settings, limit=min(filter(None, (options.limit, settings.limit)), default=0)),
            apart=[source / file for file in settings.apart_from],
            vocab=vocab,
            name=name,
            workers=options.workers,
            progress=progress,
        )
        tokens = report["source_tokens"] + report["target_tokens"]
        tell(f"{out / name}.npz: {report['pairs']} pairs, {tokens} tokens")
        reports[name] = report
        vocab = out / "vocab.json"  # the vocabulary of the training data, which come first
    return reports


def _check_inputs(
    files: Sequence[Path], settings: DataSettings, apart: Sequence[Path], vocab: Path | None
) -> Tokenizer | None:
    """Check the arguments of `prepare` and return the given vocabulary, if there is one."""
    if not files:
        raise ValueError("no data file given")
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        # Names are part of shard names and random seeds.
        raise ValueError(f"two of the files have the same name: {', '.join(sorted(names))}")
    for file in files:
        check_columns(file, settings)
    if sorted(file.name for file in apart) != sorted(settings.apart_from):
        raise ValueError(f"the files to keep apart from are {', '.join(settings.apart_from) or 'none'}")
    if settings.extend_vocabulary and vocab is None:
        raise ValueError("these data extend the vocabulary of an existing model; give its vocab.json with --vocab")
    return None if vocab is None else Tokenizer.load(vocab)


def _file_digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _write_shards(
    jobs: Sequence[Job], settings: DataSettings, apart: frozenset[str], workers: int, progress: Progress
) -> None:
    todo = [job for job in jobs if not job[3].exists()]
    total = sum(rows for _, _, rows, _ in jobs)
    done = total - sum(rows for _, _, rows, _ in todo)
    progress(done, total)
    write = partial(write_shard, settings=settings, apart=apart)
    workers = min(workers, len(todo))
    with worker_pool(workers) if workers > 1 else nullcontext() as pool:
        for rows in pool.map(write, todo) if pool else map(write, todo):
            done += rows
            progress(done, total)


def _read_pairs(shard: Path) -> Iterator[Pair]:
    with shard.open(encoding="utf-8") as lines:
        for line in lines:
            source, answer = line.rstrip("\n").split("\t")
            yield source, answer


def _choose_vocabulary(jobs: Sequence[Job], given: Tokenizer | None, settings: DataSettings) -> Tokenizer:
    """Return the given vocabulary, extended by the tokens of the data if the settings say so, with their merges."""
    tokenizer = given
    if tokenizer is None or settings.extend_vocabulary:
        texts = (text for *_, shard in jobs for pair in _read_pairs(shard) for text in pair)
        tokenizer = Tokenizer.build(texts, min_count=settings.min_count, first=given.tokens if given else ())
        tokenizer = replace(tokenizer, merges=given.merges if given else ())
    if settings.merges and not tokenizer.merges:
        tokenizer = tokenizer.with_merges(learn_merges(_sample_texts(jobs, tokenizer), settings.merges))
    return tokenizer


def _sample_texts(jobs: Sequence[Job], tokenizer: Tokenizer) -> Iterator[str]:
    """Yield the texts of some pairs of every shard, without those with rare tokens."""
    share = -(-MERGE_SAMPLE // len(jobs))
    for *_, shard in jobs:
        for text in chain.from_iterable(islice(_read_pairs(shard), share)):
            if UNK not in tokenizer.encode_or_unk(text):
                yield text


def _write_vocabulary(tokenizer: Tokenizer, out: Path, name: str) -> None:
    """Write `vocab.json`; raises if other arrays in the folder use a different one."""
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


def _encode_pairs(jobs: Sequence[Job], tokenizer: Tokenizer, settings: DataSettings) -> tuple[Pairs, int]:
    """Return the pairs as token ids, and the number of those left out because of rare tokens; ValueError for none."""
    rare = 0
    parts: dict[str, list[Pairs]] = {}
    for file, start, _, shard in jobs:
        sources, answers = [], []
        rng = Random(f"{settings.seed}/{file.name}/{start}")
        for source, answer in _read_pairs(shard):
            random = rng if tokenizer.merges and rng.random() < settings.merge_dropout else None
            ids, answer_ids = tokenizer.encode_or_unk(source, random), tokenizer.encode_or_unk(answer)
            if UNK in ids or UNK in answer_ids:
                rare += 1
            else:
                sources.append(ids)
                answers.append(answer_ids)
        parts.setdefault(file.name, []).append(Pairs(RaggedArray.pack(sources), RaggedArray.pack(answers)))
    files = {name: Pairs.join(file_parts) for name, file_parts in parts.items()}
    packed = Pairs.join(_limit_shares(files, settings))
    if not len(packed):
        rows = sum(job[2] for job in jobs)
        columns = ", ".join((*settings.leave_out, *settings.only)) or "none"
        raise ValueError(
            f"no usable reaction in the {rows} rows of {', '.join(files)}: {rare} pairs have a token outside the "
            f"vocabulary (min_count is {settings.min_count}); the other rows have no usable atom maps, over "
            f"{settings.max_tokens} tokens or a held-out product, or are left out by a column ({columns})"
        )
    return packed, rare


def _limit_shares(files: Mapping[str, Pairs], settings: DataSettings) -> list[Pairs]:
    """Drop random pairs of files that exceed their share of the tokens."""
    sizes = {name: len(pairs.sources.flat) + len(pairs.targets.flat) for name, pairs in files.items()}
    shares = {name: share for name, share in settings.share_of.items() if name in files}
    whole = sum(size for name, size in sizes.items() if name not in shares) / (1 - sum(shares.values()))
    result = []
    for name, pairs in files.items():
        if name in shares and sizes[name] > shares[name] * whole:
            order = np.random.default_rng(settings.seed).permutation(len(pairs))
            pairs = pairs.pick(np.sort(order[: int(len(pairs) * shares[name] * whole / sizes[name])]))
        result.append(pairs)
    return result
