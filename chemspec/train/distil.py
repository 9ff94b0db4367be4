"""Sequence-level distillation (Kim and Rush 2016): greedy outputs of a target for the training queries of drafters.

A drafter has to predict the target's outputs rather than the chemistry, so it is trained on greedy outputs (Xia et al.
2023, section 4.1). Inputs and outputs are token arrays, so RDKit is not needed.
"""

import json
import shutil
from pathlib import Path

import numpy as np

from chemspec.data.arrays import Pairs, RaggedArray, check_vocabulary
from chemspec.engine.engine import Engine
from chemspec.settings import DecodeSettings
from chemspec.system.locks import lock_folder
from chemspec.train.settings import DistilSettings
from chemspec.types import Progress, ignore

PART = 1000  # queries decoded between two writes


def write_distilled_pairs(engine: Engine, settings: DistilSettings, *, progress: Progress = ignore) -> tuple[Path, int]:
    """Write `train.npz` (and `vocab.json`) with the target's greedy outputs, except unfinished ones.

    Every thousand outputs are saved in `parts`, so that an interrupted command can be resumed. Returns the file and the
    number of its pairs. Raises ValueError for data of another vocabulary, or a folder with outputs of another model,
    data or seed, or that another process writes to. `progress` is called with the number of queries done and in total.
    """
    data = settings.data_dir or Path("data") / engine.task
    out = settings.out or Path("data") / f"{engine.task}-distilled"
    greedy = DecodeSettings(decoder="greedy", n=1, batch_size=settings.batch_size, max_len=settings.max_len)
    check_vocabulary(data, engine.name, engine.tokenizer.tokens, engine.tokenizer.merges)
    train = Pairs.load(data / "train.npz")
    # A prefix of a permutation of all, so that a later run with more pairs extends this one.
    chosen = np.random.default_rng(settings.seed).permutation(len(train))[: settings.pairs or len(train)]
    out.mkdir(parents=True, exist_ok=True)
    with lock_folder(out):
        _claim_folder(out, {"digest": engine.digest, "data": str(data.resolve()), "seed": settings.seed})
        files = []
        for start in range(0, len(chosen), PART):
            part = chosen[start : start + PART]
            file = out / "parts" / f"{start}-{len(part)}.npz"
            files.append(file)
            if not file.exists():
                sources = [tuple(train.sources[index].tolist()) for index in part]
                written = engine.generate_ids(sources, greedy)
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
        return out / "train.npz", len(whole)


def _claim_folder(out: Path, stamp: dict[str, object]) -> None:
    """Mark a folder as belonging to this model, data and seed; raises ValueError if it belongs to others."""
    file = out / "distilled.json"
    if file.is_file() and json.loads(file.read_text(encoding="utf-8")) != stamp:
        raise ValueError(f"{out} has outputs of another model, data or seed; choose another folder")
    (out / "parts").mkdir(exist_ok=True)
    file.write_text(json.dumps(stamp), encoding="utf-8")
