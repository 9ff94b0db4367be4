"""Predict a file of any size with engines on a cluster; resumable after any failure."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from chemspec.cluster import engines as on_ray
from chemspec.cluster.dispatch import DEATHS_OF_A_ROW, Piece, dispatch_pieces
from chemspec.cluster.shards import ShardFolder, cut_into_shards, fit_shards, stored_shard_rows, stream_source
from chemspec.engine.registry import task_of_model
from chemspec.io import writers
from chemspec.io.readers import FileError
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Tell


@dataclass
class JobReport:
    """Summary of a job."""

    model: str  # name of the model
    counts: dict[str, int] = field(default_factory=dict)  # rows by status, over the whole folder
    shards: int = 0  # number of shards
    resumed: int = 0  # number of shards that existed before
    deaths: int = 0  # number of engines that died
    seconds: float = 0.0  # time from the first engine to the end

    @property
    def summary(self) -> str:
        """The numbers of shards and deaths, as a line of text."""
        return f"{self.shards} shards, {self.resumed} of them already done; {self.deaths} engines died"


def predict_file(
    source: Path,
    out: Path,
    settings: DecodeSettings,
    model: str | Path,
    *,
    address: str = on_ray.LOCAL,
    progress: Callable[[int, int | None], None] = lambda *_: None,
    note: Tell = lambda _: None,
    **options: Any,
) -> JobReport:
    """Predict the queries of a file or a folder of files, each exactly once, with engines on a Ray cluster.

    The source is a file that `io.readers` reads, or a folder of such files; it is streamed. Only this process reads it
    and writes predictions, so the other machines need no shared disk, only the model (as for `Engine.load`; a path must
    exist on every machine). After a failure the same call resumes. In the folder `out`, `rows/**/*.parquet` have a
    column `row`, the index in the input, and those of `chemspec predict`.

    The address is "local" for this machine, "auto" or HOST:PORT; if Ray is initialised, its cluster is used. `progress`
    is called with the number of rows done and in total, which for millions of rows is unknown before the end, `note`
    with messages on deaths and ambiguous columns. Options are `column` of the input (empty: one with a usual name for
    the task); `shard_rows`, which an engine processes at a time and repeats after a death (by default those of the
    folder, else 1,000, or fewer where else some engine would have nothing to do); `device`, `threads` (per engine) and
    `most` (engines) of `engines.RayEngines`; and those of `Engine.load`, of which `task` refuses a model of another
    task.

    FileError if the input is unreadable, or the folder belongs to other rows, another model or other settings;
    ClusterError if there is no cluster, or its engines die repeatedly; ValueError for settings that the model refuses.
    """
    column, shard_rows, task = options.pop("column", ""), options.pop("shard_rows", None), options.get("task")
    if shard_rows is not None and not 1 <= shard_rows <= 10**6:
        raise FileError(f"a shard of {shard_rows} rows; give 1 to 1,000,000")
    if source.is_dir() and out.resolve().is_relative_to(source.resolve()):
        raise FileError(f"{out} is inside {source}, all of which is read; choose another folder")
    queries = stream_source(source, column, task or task_of_model(model), note)
    if (first := next(queries, None)) is None:
        raise FileError(f"nothing to predict: there is no query in {source}")
    queries = chain([first], queries)
    cores = options.get("most", 0) * (options.get("threads") or 1)
    name = str(Path(model).resolve() if Path(model).exists() else model)
    with on_ray.connect_cluster(address, cores) as ray:
        engines = on_ray.RayEngines(ray, name, settings, **options)
        facts = engines.start()
        stamp = writers.settings_stamp(facts["digest"], facts["dtype"], settings)
        fitting, total, queries = fit_shards(queries, engines.size())
        shard_rows = shard_rows or stored_shard_rows(out) or fitting
        try:
            with ShardFolder(out, {"format": 1, "shard_rows": shard_rows, **stamp}) as folder:
                pieces = cut_into_shards(queries, shard_rows)
                return _predict_shards(pieces, engines, folder, JobReport(facts["name"]), total, progress, note)
        except FileError:
            raise
        except OSError as error:
            message = f"{out} cannot be written: {error.strerror or error}"
            raise FileError(f"{message}; its shards are valid, so the command can be resumed") from error


def _predict_shards(
    pieces: Iterator[Piece],
    engines: on_ray.RayEngines,
    folder: ShardFolder,
    report: JobReport,
    total: int | None,
    progress: Callable[[int, int | None], None],
    note: Tell,
) -> JobReport:
    """Predict the shards that are missing in a folder, and complete the report."""
    counts: Counter[str] = Counter()
    sizes: dict[int, int] = {}  # rows of the shards that are missing
    began = time.monotonic()

    def missing_shards() -> Iterator[Piece]:
        for piece in pieces:
            report.shards += 1
            if written := folder.counts(piece):
                report.resumed += 1
                count_rows(written)
            else:
                sizes[piece.shard] = len(piece.queries)
                yield piece

    def count_rows(written: Counter[str]) -> None:
        counts.update(written)
        progress(counts.total(), total)

    def count_death(why: str) -> None:
        report.deaths += 1
        note(f"an engine has died ({why}); its rows are assigned to another one")

    for piece, rows in dispatch_pieces(missing_shards(), engines, count_death):
        if rows is None:
            (query,) = piece.queries
            message = f"{DEATHS_OF_A_ROW} engines died on this row"
            note(f"row {piece.first} has failed: {DEATHS_OF_A_ROW} engines died on {query[:100]!r}")
            rows = on_ray.results_to_table(piece.first, [DecodeResult(query, "failed", message)])
        if written := folder.add(piece, rows, sizes[piece.shard]):
            count_rows(written)
    folder.finish(report.shards)
    progress(counts.total(), counts.total())
    report.counts, report.seconds = dict(counts), time.monotonic() - began
    return report
