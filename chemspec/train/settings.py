"""Settings of training, fine-tuning, distillation and drafters; a separate module, because the code needs PyTorch."""

import re
from dataclasses import dataclass
from pathlib import Path

from chemspec.settings import DecodeSettings, Task, check_range

FINE_TUNED: tuple[Task, ...] = ("retro", "forward")  # tasks whose models can be fine-tuned on own reactions


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Data and folder of a training run, and what differs from its recipe.

    Attributes:
        steps: number of training steps (default: the recipe's).
        tokens: tokens of a batch (default: the recipe's).
        minutes: time limit in minutes (default: the recipe's).
        threads: CPU threads; 0: all cores; -1: the recipe's.
        seed: random seed for the order of the data (default: the recipe's).
        data_dir --data: folder of `chemspec data` (default data/<recipe>), for drafters of `chemspec train distil`.
        out: run folder; default runs/<recipe>.
        resume --resume/--no-resume: resume from the run folder's last checkpoint, if there is one.
        start: model folder whose weights initialise the training; for a drafter: its target model, default the task's.
    """

    steps: int = 0
    tokens: int = 0
    minutes: float = -1.0
    threads: int = -1
    seed: int = -1
    data_dir: Path | None = None
    out: Path | None = None
    resume: bool = True
    start: Path | None = None


@dataclass(frozen=True, kw_only=True)
class DistilSettings:
    """Training queries for the target of a drafter, and how it decodes them.

    Attributes:
        data_dir --data: folder written by `chemspec data`; default data/<task>.
        out: output folder; default data/<task>-distilled.
        pairs: number of training queries; 0: all.
    """

    data_dir: Path | None = None
    out: Path | None = None
    pairs: int = 40_000
    seed: int = 0
    batch_size: int = 64
    max_len: int = DecodeSettings.max_len

    def __post_init__(self) -> None:
        check_range("pairs", self.pairs, 0)


@dataclass(frozen=True, kw_only=True)
class DrafterFitSettings:
    """Data that a model's drafters are fitted to.

    Attributes:
        data_dir --data: folder written by `chemspec data`; default data/<task>.
        pairs: number of training pairs for the edit table.
        queries: number of validation queries for acceptance rates.
    """

    data_dir: Path | None = None
    pairs: int = 100_000
    queries: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        check_range("pairs", self.pairs, 1)
        check_range("queries", self.queries, 1)


@dataclass(frozen=True, kw_only=True)
class FineTuneSettings:
    """What is fine-tuned, and how it is called.

    Attributes:
        name: name of the new model, whose versions are NAME-1, NAME-2, ...
        task: retro or forward.
        start: model to begin with, an installed name or a folder; default: the task's.
        steps: number of training steps; 0: each SMILES of a reaction is seen twice.
        lr: peak learning rate.
    """

    name: str
    task: Task = "retro"
    start: str = ""
    steps: int = 0
    lr: float = 2e-4

    def __post_init__(self) -> None:
        if self.task not in FINE_TUNED:
            raise ValueError(f"models of {self.task} are not fine-tuned; choose {' or '.join(FINE_TUNED)}")
        if not re.fullmatch(r"[A-Za-z0-9][\w-]{0,39}", self.name):
            raise ValueError(f"{self.name!r} is no name for a model: take up to 40 letters, digits and hyphens")
        check_range("steps", self.steps, 0)
