"""Settings of a benchmark of speed."""

from dataclasses import dataclass
from pathlib import Path

from chemspec.settings import Task


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """Rows of a benchmark of speed: models, queries, decoding and precisions.

    Attributes:
        tasks: tasks whose models are timed.
        model -m: model to time in place of the tasks' own: folder, checkpoint or installed name.
        source: folder with the reaction CSVs; default: built-in queries.
        limit: number of queries per row.
        widths: beam widths for retro, separated by commas; 1: greedy, as the other tasks always are.
        batches: batch sizes, separated by commas.
        drafters: drafters to time, separated by commas; decoding without drafts is always timed.
        dtypes: precisions (fp32, int8, bf16, fp16).
    """

    tasks: tuple[Task, ...] = ("forward", "retro")
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
        if min((*self.widths, *self.batches, self.limit)) < 1:
            raise ValueError("widths, batches and limit must be at least 1")
