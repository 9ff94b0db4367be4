"""Settings of training, distillation and the fit of drafters; a separate module, because the code needs PyTorch."""

from dataclasses import dataclass
from pathlib import Path

from chemspec.settings import DecodeSettings, check_range


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
