"""Answer training queries with a target: the data of drafters (sequence-level distillation, Kim and Rush 2016).

A drafter is to foretell the target, not the chemistry, so it learns from the target's own greedy answers (Xia et al.
2023, section 4.1). Token arrays go in and come out; nothing is read as SMILES, hence RDKit has no part in it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from chemspec.data.arrays import Pairs, RaggedArray
from chemspec.engine.engine import Engine
from chemspec.settings import DecodeSettings

PART = 1000  # queries answered between two writes


def distil(
    engine: Engine,
    data: Path,
    out: Path,
    *,
    pairs: int,
    settings: DecodeSettings,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> int:
    """Write `out/train.npz` (and `vocab.json`) with the target's greedy answers; answers that do not end are left out.

    Every thousand answers are kept in `out/parts`, so that the same command goes on where it was interrupted.

    Args:
        engine: the target.
        data: folder made by `chemspec data`, with the target's vocabulary.
        out: folder to write.
        pairs: so many of its training queries, chosen at random; 0 takes all.
        settings: how to decode: greedily.
        seed: of the random choice.
        progress: called with queries done and queries in all.

    Returns:
        The number of pairs written.

    Raises:
        ValueError: for data of another vocabulary, or a folder that holds answers of another model or choice.
    """
    train = Pairs.load(data / "train.npz")
    if max(int(side.flat.max(initial=0)) for side in (train.sources, train.targets)) >= len(engine.tokenizer):
        raise ValueError(f"{data} has more kinds of tokens than model {engine.name}")
    # In a random order of all, so that more pairs can be had later by a higher number.
    chosen = np.random.default_rng(seed).permutation(len(train))[: pairs or len(train)]
    _claim(out, {"digest": engine.digest, "data": str(data.resolve()), "seed": seed})
    done = 0
    files = []
    for start in range(0, len(chosen), PART):
        part = chosen[start : start + PART]
        file = out / "parts" / f"{start}-{len(part)}.npz"
        files.append(file)
        if not file.exists():
            sources = [tuple(train.sources[index].tolist()) for index in part]
            written = engine.write(sources, settings)
            ended = [
                (source, answers[0].tokens[:-1])
                for source, answers in zip(sources, written, strict=True)
                if answers and answers[0].ended == "eos" and len(answers[0].tokens) > 1
            ]
            Pairs(*(RaggedArray.pack(side) for side in (list(zip(*ended, strict=True)) or ((), ())))).save(file)
        done += len(part)
        progress(done, len(chosen))
    whole = Pairs.join([Pairs.load(file) for file in files])
    whole.save(out / "train.npz")
    shutil.copyfile(engine.folder / "vocab.json", out / "vocab.json")
    return len(whole)


def _claim(out: Path, stamp: dict[str, object]) -> None:
    """Mark a folder as holding these answers and no others; raises ValueError where it holds others."""
    file = out / "distilled.json"
    if file.is_file() and json.loads(file.read_text(encoding="utf-8")) != stamp:
        raise ValueError(f"{out} holds answers of another model, data or seed; choose another folder")
    (out / "parts").mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(stamp), encoding="utf-8")
