"""A job: a file of any size, engines on a cluster, a folder of answers; the same call goes on after any death."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from chemspec.cluster import engines as on_ray
from chemspec.cluster.dispatch import DEATHS_OF_A_ROW, Lost, Piece, dispatch
from chemspec.cluster.shards import ShardFolder, cut, stream
from chemspec.engine.registry import task_of_model
from chemspec.io import writers
from chemspec.io.readers import FileError
from chemspec.settings import DecodeSettings, Task
from chemspec.types import DecodeResult

SHARD = 10_000  # rows: half a minute of a core, some megabytes of memory on its way
TELL = 5.0  # seconds between two reports in the folder


@dataclass(frozen=True)
class JobReport:
    """What a job has done.

    Attributes:
        model: its name.
        counts: rows by status, over the whole folder.
        shards: how many there are.
        resumed: how many of them were there already.
        deaths: of engines.
        seconds: from the first engine to the end.
    """

    model: str
    counts: dict[str, int]
    shards: int
    resumed: int
    deaths: int
    seconds: float


def predict_file(
    source: Path,
    out: Path,
    settings: DecodeSettings,
    model: str | Path,
    *,
    address: str = on_ray.LOCAL,
    task: Task | None = None,
    column: str = "",
    shard_rows: int = SHARD,
    progress: Callable[[int, int | None], None] = lambda *_: None,
    note: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> JobReport:
    """Answer the queries of a file or of a folder of files, each exactly once, by engines on a Ray cluster.

    The input is never in memory as a whole. This process alone reads it and writes the answers, so the other machines
    need no common disk, only the model. Whatever dies, the same call goes on: shards that are there are kept.

    Args:
        source: what `io.readers` reads, or a folder of such files.
        out: folder; `rows/**/*.parquet` get a column `row`, the place in the input, and those of `chemspec predict`.
        settings: how to decode.
        model: as for `Engine.load`; a path must be there on every machine.
        address: of the cluster: "local" for this machine, "auto" or HOST:PORT; where Ray is initialised already, that
            one is used.
        task: "forward" or "retro", if the model shall be refused where it answers the other question.
        column: of the input; empty: one with a name that is usual for the task, or for the model's.
        shard_rows: of a shard, which is what an engine answers at a time, and what is done again after its death.
        progress: is told how many rows of how many are done; how many there are is unknown before the end.
        note: is told of deaths, and which column is read where others might have been meant.
        options: `device`, `threads` (of an engine), `most` (engines), see `engines.RayEngines`, and those of
            `Engine.load`.

    Raises:
        FileError: if the input cannot be read, or the folder belongs to other rows, another model or other settings.
        ClusterError: if there is no cluster, or its engines die again and again.
        ValueError: for settings that the model refuses.
    """
    if not 1 <= shard_rows <= 10**6:
        raise FileError(f"a shard of {shard_rows} rows; give 1 to 1,000,000")
    if source.is_dir() and out.resolve().is_relative_to(source.resolve()):
        raise FileError(f"{out} lies in {source}, all of which is read; choose a folder elsewhere")
    queries = stream(source, column, task or task_of_model(model), note)
    if (first := next(queries, None)) is None:
        raise FileError(f"nothing to predict: there is no query in {source}")
    pieces = cut(chain([first], queries), shard_rows)
    cores = options.get("most", 0) * (options.get("threads") or 1)
    path = Path(model)
    name = str(path.resolve() if path.exists() else model)
    with on_ray.cluster(address, cores) as ray:
        engines = on_ray.RayEngines(ray, name, settings, task=task, **options)
        engines.start()
        facts = engines.facts
        if task and facts["task"] != task:
            raise ValueError(f"model {facts['name']!r} is a {facts['task']} model, not one for {task}; choose another")
        manifest = {
            "format": 1,
            "shard_rows": shard_rows,
            **writers.settings_stamp(facts["digest"], facts["dtype"], settings),
        }
        try:
            with ShardFolder(out, manifest) as folder:
                return _Job(folder, progress, note).run(pieces, engines, facts["name"])
        except FileError:
            raise
        except OSError as error:
            message = f"{out} cannot be written: {error.strerror or error}"
            raise FileError(f"{message}; the shards in it stay valid, so the command can go on later") from error


class _Job:
    """The state of a run: what is done, and what was lost."""

    def __init__(
        self, folder: ShardFolder, progress: Callable[[int, int | None], None], note: Callable[[str], None]
    ) -> None:
        self._folder, self._progress, self._note = folder, progress, note
        self._sizes: dict[int, int] = {}  # rows of the shards under way
        self._counts: Counter[str] = Counter()
        self._shards = self._resumed = self._deaths = 0
        self._began = time.monotonic()
        self._told = float("-inf")

    def run(self, pieces: Iterator[Piece], engines: on_ray.RayEngines, model: str) -> JobReport:
        dispatch(self._missing(pieces), engines, self._answered, self._given_up, self._lost)
        self._folder.finish(self._shards)
        self._tell(complete=True)
        seconds = time.monotonic() - self._began
        self._progress(self._counts.total(), self._counts.total())
        return JobReport(model, dict(self._counts), self._shards, self._resumed, self._deaths, seconds)

    def _missing(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """The shards that are not there yet; those that are get counted."""
        for piece in pieces:
            self._shards += 1
            if (counts := self._folder.counts(piece)) is None:
                self._sizes[piece.shard] = len(piece.queries)
                yield piece
            else:
                self._resumed += 1
                self._add(counts)

    def _answered(self, piece: Piece, rows: Any) -> None:
        counts = self._folder.add(piece, rows, self._sizes[piece.shard])
        if counts is not None:
            del self._sizes[piece.shard]
            self._add(counts)

    def _given_up(self, piece: Piece) -> Any:
        (query,) = piece.queries
        self._note(f"row {piece.first} is given up: {DEATHS_OF_A_ROW} engines died over {query[:100]!r}")
        message = f"{DEATHS_OF_A_ROW} engines died over this row"
        return on_ray.table(piece.first, [DecodeResult(query, "failed", message)])

    def _lost(self, event: Lost) -> None:
        self._deaths += 1
        self._note(f"an engine has died ({event.why}); what it was answering is answered by another one")

    def _add(self, counts: Counter[str]) -> None:
        self._counts.update(counts)
        self._progress(self._counts.total(), None)
        if time.monotonic() - self._told > TELL:
            self._tell()

    def _tell(self, complete: bool = False) -> None:
        self._told = time.monotonic()
        self._folder.tell(
            complete=complete,
            rows=self._counts.total(),
            counts=dict(self._counts),
            shards=self._shards - len(self._sizes),
            deaths=self._deaths,
            seconds=round(self._told - self._began, 1),
        )


__all__ = ["JobReport", "predict_file"]
