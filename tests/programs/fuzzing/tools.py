"""What a way in is, and what its cases are run with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from chemspec.settings import Task

QUERIES = (
    "CCO",
    "CC(=O)Nc1ccccc1",
    "O=C(O)c1ccc(Br)cc1",
    "c1ccc2[nH]ccc2c1",
    "C[C@@H](N)C(=O)O",
    "CCO.CN>>CCN",
    "[Na+].[OH-]",
)


@dataclass(frozen=True)
class Way:
    """A way in.

    Attributes:
        make: a case, drawn from a generator of random numbers.
        run: reads a case; `Tools` are what stays between cases.
        documented: the errors that it may end with.
        share: of a campaign's cases, beside the others' shares.
        seconds: of processor time that a case may take.
        most_kb: by which a case may raise the peak of memory.
    """

    name: str
    make: Callable[[Random], bytes]
    run: Callable[[bytes, Tools], None]
    documented: tuple[type[Exception], ...] = ()
    share: int = 1
    seconds: float = 5.0
    most_kb: int = 1_000_000


class Tools:
    """What cases are run with: a small model, a folder, and small files of every kind that are as they should be."""

    def __init__(self, home: Path) -> None:
        """Make everything in an empty folder, which is the app's folder for jobs too."""
        from chemspec.engine.engine import Engine

        os.environ["CHEMSPEC_HOME"] = str(home / "home")
        self.home = home
        self.model = small_model(home / "models" / "retro")
        self.engine = Engine.load(self.model, device="cpu", threads=1)
        self.work = home / "work"
        self.work.mkdir()


def small_model(folder: Path, task: Task = "retro") -> Path:
    """Write a small model with a drafter of each kind that has weights."""
    from helpers.tiny import tiny_model

    from chemspec.draft.calibration import DrafterCalibration
    from chemspec.draft.tree.edit_ngrams import COPY_ONLY
    from chemspec.model import checkpoint
    from chemspec.model.heads import Heads, HeadsConfig
    from chemspec.model.transformer import Transformer
    from chemspec.settings import ModelConfig
    from chemspec.tokenizer import Tokenizer

    tokenizer = Tokenizer.build([*QUERIES[:-2], "C.N", QUERIES[-1]])
    sizes = {
        "d_model": 16,
        "heads": 2,
        "feedforward": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "max_positions": 64,
    }
    checkpoint.save(folder, tiny_model(0, len(tokenizer), **sizes).float(), tokenizer, task=task, half=False)
    heads = Heads(HeadsConfig(vocab_size=len(tokenizer), d_model=16, style="medusa", heads=2))
    checkpoint.save_drafter(folder / "drafters/medusa", heads, tokenizer, kind="medusa", length=3)
    filler = Transformer(ModelConfig(vocab_size=len(tokenizer) + 1, **sizes))  # type: ignore[arg-type]
    checkpoint.save_drafter(folder / "drafters/spec_drafter", filler, tokenizer, kind="spec_drafter", length=4)
    digest = checkpoint.digest_of_folder(folder)
    known = {"digest": digest, "slope": 1.0, "offset": 0.0, "made": "", "measured": {}}
    (folder / "confidence.json").write_text(json.dumps(known), encoding="utf-8")
    DrafterCalibration(edit_table=COPY_ONLY).save(folder)
    return folder
