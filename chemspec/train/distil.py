"""Sequence-level distillation (Kim and Rush 2016): greedy outputs of a target for the training queries of drafters.

A drafter has to predict the target's outputs rather than the chemistry, so it is trained on greedy outputs (Xia et al.
2023, section 4.1). Inputs and outputs are token arrays, so RDKit is not needed.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from chemspec.data.arrays import Pairs, RaggedArray
from chemspec.engine.engine import Engine
from chemspec.settings import DecodeSettings, check_range

PART = 1000  # queries decoded between two writes


def write_distilled_pairs(
    engine: Engine,
    data: Path,
    out: Path,
    *,
    pairs: int,
    settings: DecodeSettings,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> int:
    """Write `out/train.npz` (and `vocab.json`) with the target's greedy outputs, except unfinished ones.

    Every thousand outputs are saved in `out/parts`, so that an interrupted command can be resumed. Returns the number
    of pairs. Raises ValueError for data of another vocabulary, or a folder with outputs of another model, data or seed.

    `data` is a folder written by `chemspec data`; `pairs` the number of random training queries, 0 for all; `progress`
    is called with the number of queries done and in total. `settings` have the greedy decoder.
    """
    check_range("pairs", pairs, 0)
    train = Pairs.load(data / "train.npz")
    if max(int(side.flat.max(initial=0)) for side in (train.sources, train.targets)) >= len(engine.tokenizer):
        raise ValueError(f"{data} has a larger vocabulary than model {engine.name}")
    # A prefix of a permutation of all, so that a later run with more pairs extends this one.
    chosen = np.random.default_rng(seed).permutation(len(train))[: pairs or len(train)]
    _claim_folder(out, {"digest": engine.digest, "data": str(data.resolve()), "seed": seed})
    files = []
    for start in range(0, len(chosen), PART):
        part = chosen[start : start + PART]
        file = out / "parts" / f"{start}-{len(part)}.npz"
        files.append(file)
        if not file.exists():
            sources = [tuple(train.sources[index].tolist()) for index in part]
            written = engine.generate_ids(sources, settings)
            ended = [
                (source, answers[0].tokens[:-1])
                for source, answers in zip(sources, written, strict=True)
                if answers and answers[0].ended == "eos" and len(answers[0].tokens) > 1
            ]
            Pairs(*(RaggedArray.pack(side) for side in (list(zip(*ended, strict=True)) or ((), ())))).save(file)
        progress(start + len(part), len(chosen))
    whole = Pairs.join([Pairs.load(file) for file in files])
    whole.save(out / "train.npz")
    shutil.copyfile(engine.folder / "vocab.json", out / "vocab.json")
    return len(whole)


def _claim_folder(out: Path, stamp: dict[str, object]) -> None:
    """Mark a folder as belonging to this model, data and seed; raises ValueError if it belongs to others."""
    file = out / "distilled.json"
    if file.is_file() and json.loads(file.read_text(encoding="utf-8")) != stamp:
        raise ValueError(f"{out} has outputs of another model, data or seed; choose another folder")
    (out / "parts").mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(stamp), encoding="utf-8")
