"""Settings of benchmarks; a separate module, because the code needs PyTorch."""

from dataclasses import dataclass
from pathlib import Path

from chemspec.settings import ReactionFolder, check_positive, check_range


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """Rows of a benchmark of speed: models, queries, decoding and precisions.

    Attributes:
        tasks --task -t: task: forward, retro or reagents; both: forward, retro; with --model, that model's.
        model -m: model to time: folder, checkpoint or installed name; default: the task's.
        source: folder with the reaction CSVs; default: built-in queries.
        limit: number of queries per row.
        widths: beam widths for retro, separated by commas; 1: greedy, as the other tasks always are.
        batches: batch sizes, separated by commas.
        drafters: drafters to time, separated by commas; decoding without drafts is always timed.
        dtypes --dtype: precisions (fp32, int8, bf16, fp16), separated by commas; auto: fp32 and int8 on a CPU.
    """

    tasks: tuple[str, ...] = ("both",)
    model: str = ""
    source: Path | None = None
    limit: int = 30
    widths: tuple[int, ...] = (1, 5)
    batches: tuple[int, ...] = (1,)
    drafters: tuple[str, ...] = ("auto",)
    threads: int = 0
    device: str = "auto"
    dtypes: tuple[str, ...] = ("auto",)
    runtime: str = "auto"

    def __post_init__(self) -> None:
        if not (self.tasks and self.dtypes and self.widths and self.batches):
            raise ValueError("give at least one task, precision, beam width and batch size")
        for size in (*self.widths, *self.batches):
            check_range("a width or batch", size, 1)
        check_range("limit", self.limit, 1)


@dataclass(frozen=True, kw_only=True)
class ComparisonSettings:
    """Model, queries and drafters of a comparison without times.

    Attributes:
        task -t: task: forward, retro or reagents; default: the model's, without a model retro.
        model -m: model: folder, checkpoint or installed name; default: the task's.
        source: folder with the reaction CSVs; default: built-in queries.
        limit: number of queries.
        drafters: drafters, separated by commas; default: all that the model can use.
    """

    task: str = ""
    model: str = ""
    source: ReactionFolder = None
    limit: int = 50
    drafters: tuple[str, ...] = ()
    batch_size: int = 1
    threads: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_range("limit", self.limit, 1)


@dataclass(frozen=True, kw_only=True)
class PapersSettings:
    """How much of the papers' tables to measure, and where.

    Attributes:
        source: folder with the reaction CSVs; default: built-in queries.
        limit: number of queries per row.
        seconds: time limit per row in seconds, for each repetition.
        repeats: number of times that every query is decoded; from 2 on, mean and deviation of the attempts are told.
    """

    source: ReactionFolder = None
    limit: int = 60
    seconds: float = 8.0
    repeats: int = 1
    threads: int = 0
    device: str = "auto"
    dtype: str = "auto"
    runtime: str = "auto"

    def __post_init__(self) -> None:
        check_range("limit", self.limit, 1)
        check_range("repeats", self.repeats, 1)
        check_positive("seconds", self.seconds)
