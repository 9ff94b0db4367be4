"""The commands `predict`, `models` and `app`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from chemspec import tasks as questions
from chemspec.asset_files import app_script
from chemspec.cli import options as opt
from chemspec.cli import saved, show
from chemspec.cli.base import command
from chemspec.cli.decoding import AllDecoding, ignored_draft_options
from chemspec.io import tables
from chemspec.metrics import Savings
from chemspec.settings import DecodeSettings, Task
from chemspec.system import extras, gpu, home
from chemspec.system.host_check import AllowedHosts
from chemspec.system.threads import usable_cores
from chemspec.system.untrusted import read_untrusted_json

if TYPE_CHECKING:  # the engine takes seconds to import; --help should not
    from chemspec.engine.engine import Engine
    from chemspec.review import Reviewer

SHARD_ROWS = 10_000
MAX_WORKERS = 8  # RDKit takes a millisecond per query, a GPU a fifth of that
PANEL = "Answers"


@dataclass(frozen=True, kw_only=True)
class OutputFiles:
    """Destinations of the predictions: files if given, else standard output, as text or JSON.

    Attributes:
        trace: file for full results with traces, one JSON document per line.
        receipts: add to every row of a .jsonl what `chemspec verify` needs to decode it again.
        review: review the answers: strategies, problems, forward check, reagents, patent precedents and stock; also
            with --json and in a .csv or .jsonl.
        write_every: queries between two writes to --out; 0: a few batches.
    """

    out: Annotated[Path | None, opt.option("Result file: .csv, .jsonl or .parquet; resumable.", "--out", "-o")] = None
    trace: Path | None = None
    receipts: bool = False
    review: bool = False
    stock: opt.StockOption = None
    write_every: int = 0
    as_json: opt.JsonOption = False

    def __post_init__(self) -> None:
        if self.write_every < 0:
            raise ValueError(f"--write-every {self.write_every}; give at least 1, or 0 for a few batches")
        if self.stock and not self.review:
            raise ValueError("--stock goes with --review")
        if self.receipts and (self.out is None or self.out.suffix.lower() != ".jsonl"):
            raise ValueError("--receipts go into a .jsonl file; give one with --out")


@dataclass(frozen=True, kw_only=True)
class RayCluster:
    """Engines on a Ray cluster.

    Attributes:
        ray: predict on a Ray cluster: local, auto or HOST:PORT; --out is then a folder (extra ray).
        engines: with --ray: maximum number of engines; 0: all cores / --threads, or all GPUs.
        shard_rows: with --ray: rows per output file and per work item.
    """

    ray: str = ""
    engines: int = 0
    shard_rows: int = SHARD_ROWS

    def __post_init__(self) -> None:
        if not self.ray and (self.engines or self.shard_rows != SHARD_ROWS):
            raise ValueError("--engines and --shard-rows go with --ray")


@dataclass(frozen=True, kw_only=True)
class QuerySource:
    """Queries, and the model that predicts them."""

    smiles: Annotated[
        list[str] | None, typer.Argument(help="SMILES, one file (.csv .smi .parquet ...), or - for stdin.")
    ] = None
    task: opt.TaskOption = ""
    model: opt.ModelOption = ""
    column: opt.ColumnOption = ""

    def __post_init__(self) -> None:
        if not self.task and not self.model:
            raise ValueError(f"choose a task: --task {questions.task_questions()}, or choose a model with --model")


@command("predict", PANEL)
def predict(
    *,
    source: QuerySource,
    decoding: AllDecoding,
    runtime: opt.ImportedRuntime,
    within: Annotated[
        float | None,
        opt.option(
            "Time per query, such as 50ms: the greedy answer, then the widest exact beam up to -n that fits. "
            "Each list states its width.",
            parser=opt.parse_duration,
            metavar="TIME",
        ),
    ] = None,
    files: OutputFiles,
    workers: Annotated[int, opt.option("Processes for RDKit work; -1: several for a file on a GPU, else 0.")] = -1,
    cluster: RayCluster,
) -> None:
    """Predict products, reactants or reagents of SMILES."""
    settings = decoding.settings()
    if within is not None and (files.out or files.trace or cluster.ray or files.review):
        raise ValueError("--within is for answers on the screen; leave out --out, --trace, --review and --ray")
    if decoding.batch_is_auto and cluster.ray:
        raise ValueError("--batch-size auto is for one engine; with --ray give a number")
    for text in ignored_draft_options(settings):
        show.print_note(f"note: {text}")
    if cluster.ray:
        if files.trace is not None or files.receipts or files.review or workers > 0 or files.write_every:
            raise ValueError("--trace, --receipts, --review, --workers and --write-every do not go with --ray")
        _predict_on_ray(source, settings, runtime, files, cluster)
    opt.check_parent_folders(files.out, files.trace)
    from chemspec.io import writers
    from chemspec.review.review import review_document

    queries, many = _read_queries(source)
    if files.trace is not None:
        files.trace.touch()  # fails before the work rather than after it
    engine = runtime.load(source.task, source.model, workers=_worker_count(workers, runtime.device, many))
    if decoding.batch_is_auto and many:
        settings = replace(settings, batch_size=engine.fastest_batch(settings))
        show.print_note(f"batches of {settings.batch_size} are fastest here")
    document: dict[str, Any] = {"model": engine.name, "settings": asdict(settings)}
    reviewer = _load_reviewer(engine, files.stock, runtime) if files.review else None
    if files.out is not None:
        counts = _write_predictions(engine, queries, settings, files.out, files, reviewer)
        document |= {"out": str(files.out), "counts": counts}
        succeeded = set(counts) <= {"ok"}
    else:
        if within is not None:  # the first prediction of a process is slow
            engine.predict("CCO", replace(settings, max_len=8), within=60.0)
        with show.progress_bar("predicting", quiet=not many) as report:
            results = engine.predict(queries, settings, progress=lambda done: report(done, len(queries)), within=within)
        if files.trace is not None:
            writers.write_traces(results, files.trace)
        reviews = reviewer.review(results) if reviewer else []
        if not files.as_json:
            show.print_results(results)
            for review in reviews:
                show.print_review(review)
        document["results"] = [writers.result_document(result) for result in results]
        for result, review in zip(document["results"], reviews, strict=False):
            result["review"] = review_document(review)
        succeeded = all(result.status == "ok" for result in results)
    if files.as_json:
        show.print_json(document)
    raise typer.Exit(0 if succeeded else 1)


def _write_predictions(
    engine: Engine,
    queries: Sequence[str],
    settings: DecodeSettings,
    out: Path,
    files: OutputFiles,
    reviewer: Reviewer | None,
) -> dict[str, int]:
    """Write predictions to a file, print a summary, and return the number of queries by status."""
    from chemspec.io import writers
    from chemspec.review.review import ANSWER_COLUMNS

    answered: list[Savings] = []
    with show.progress_bar("predicting") as report:
        counts = writers.predict_file(
            engine,
            queries,
            out,
            settings,
            trace=files.trace,
            receipts=files.receipts,
            review=writers.RowReview(ANSWER_COLUMNS, reviewer.rows) if reviewer else None,
            every=files.write_every,
            progress=report,
            written=lambda results: answered.append(saved.sum_savings(results)),
        )
    summary = [", ".join(f"{count} {status}" for status, count in sorted(counts.items()))]
    if answered:
        summary.append(saved.describe_savings(sum(answered[1:], answered[0]), queries="the queries"))
    show.print_note(f"{out}: {'; '.join(summary)}")
    return counts


def _load_reviewer(engine: Engine, stock: Sequence[str] | None, runtime: opt.Runtime) -> Reviewer:
    """Load what a review of a model's predictions needs: forward model, model of reagents, precedents and stock."""
    from chemspec.plan.stock import BUILT_IN, load_stock
    from chemspec.precedents import installed
    from chemspec.review import Reviewer, load_engines

    companions: tuple[Task, ...] = ("forward", "reagents") if engine.task == "retro" else ()
    engines = load_engines(companions, device=runtime.device, dtype=runtime.dtype, threads=runtime.threads)
    return Reviewer(engine.task, engines, load_stock(stock or BUILT_IN), installed())


def _predict_on_ray(
    source: QuerySource, settings: DecodeSettings, runtime: opt.ImportedRuntime, files: OutputFiles, cluster: RayCluster
) -> NoReturn:
    """Predict a file, or a folder of files, on a Ray cluster."""
    out, given = files.out, source.smiles
    if out is None or out.suffix in (".csv", ".jsonl", ".parquet"):
        raise ValueError("--ray writes a folder of Parquet files; give one with --out")
    if not given or len(given) != 1 or not Path(given[0]).exists():
        raise ValueError("--ray reads one file, or a folder of files; give its path")
    extras.require_packages("ray", "pyarrow", what="--ray")
    from chemspec.cluster import job

    with show.progress_bar("predicting") as report:
        done = job.predict_file(
            Path(given[0]),
            out,
            settings,
            source.model or source.task,
            address=cluster.ray,
            task=opt.parse_task(source.task) if source.task else None,
            column=source.column,
            most=cluster.engines,
            shard_rows=cluster.shard_rows,
            progress=report,
            note=show.print_note,
            **vars(runtime),
        )
    counts = ", ".join(f"{count} {status}" for status, count in sorted(done.counts.items()))
    show.print_note(
        f"{out}: {counts}; {done.shards} shards, {done.resumed} of them already done; {done.deaths} engines died"
    )
    if files.as_json:
        show.print_json({"settings": asdict(settings), "out": str(out), **asdict(done)})
    raise typer.Exit(0 if set(done.counts) <= {"ok"} else 1)


def _worker_count(requested: int, device: str, many: bool) -> int:
    """Return the number of RDKit worker processes: by default as many as keep a GPU busy, if there are spare cores."""
    if requested >= 0:
        return requested
    on_gpu = device.startswith("cuda") or (device == "auto" and gpu.gpu_available())
    spare = usable_cores() - 1
    return min(MAX_WORKERS, spare) if many and on_gpu and spare > 1 else 0


def _read_queries(source: QuerySource) -> tuple[list[str], bool]:
    """Return the queries, and whether they are many enough for a progress bar."""
    from chemspec.io import readers

    given = source.smiles
    if not given or given == ["-"]:
        if not given and sys.stdin.isatty():
            raise ValueError('nothing to predict; give a SMILES, a file or "-" for standard input')
        where, queries = "standard input", readers.read_stdin_lines(sys.stdin)
    elif len(given) == 1 and readers.looks_like_file(given[0]):
        task = opt.resolve_task(source.task, source.model)
        where, queries = given[0], readers.read_queries(Path(given[0]), source.column, task, show.print_note)
    else:
        for text in filter(readers.looks_like_file, given):
            raise ValueError(f"{text} is a file; give one file, or SMILES, but not both")
        return given, len(given) > 8
    if not queries:
        raise ValueError(f"nothing to predict: there is no query in {where}")
    return queries, True


@command("models", PANEL)
def list_models(as_json: opt.JsonOption = False) -> None:
    """List the installed models; `edits`: source of the edit table used for drafting (own or the task's default)."""
    from chemspec.draft.calibration import source_of_edits
    from chemspec.engine.registry import installed_models, models_dir

    rows = []
    for folder in installed_models():
        try:
            task = read_untrusted_json(folder / "config.json")["task"]
        except (OSError, ValueError, KeyError, TypeError):
            task = "unusable"  # one bad folder must not hide the others
        size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) / 1e6
        row = {"name": folder.name, "task": task, "mb": round(size, 1), "edits": source_of_edits(folder, str(task))}
        rows.append({**row, "folder": str(folder)})
    if as_json:
        show.print_json({"models": rows})
    elif rows:
        names = {"name": "{name}", "task": "{task}", "MB": "{mb}", "edits": "{edits}", "folder": "{folder}"}
        show.print_table(tables.terminal(names, rows))
    else:
        show.print_note(f"no models in {models_dir()}")


@command("app", PANEL)
def launch_app(
    port: Annotated[int, opt.option("Port to listen on.")] = 8501,
    host: Annotated[
        str, opt.option("Address to listen on; 0.0.0.0 accepts other machines (see the docs on login).")
    ] = "127.0.0.1",
    allowed_host: opt.AllowedHostOption = None,
    shadow: opt.ShadowOption = 0.0,
    headless: Annotated[bool, opt.option("Do not open a browser.", "--headless")] = False,
    watch: Annotated[bool, opt.option("Rerun pages when a source file changes, for developers.", "--watch")] = False,
) -> None:
    """Open the app in a browser."""
    extras.require_packages("streamlit", "altair", "pandas", "pyarrow", what="the app")
    AllowedHosts.of(host, allowed_host or [])  # reports invalid names before the server starts
    if shadow:
        os.environ["CHEMSPEC_SHADOW"] = str(shadow)  # for the process of the app
    options = ["--server.address", host, "--server.port", str(port), "--server.headless", str(headless).lower()]
    options += ["--browser.gatherUsageStats", "false"]  # independent of the settings file
    options += ["--server.fileWatcherType", "auto" if watch else "none"]
    options += [word for name in allowed_host or [] for word in ("--allowed-host", name)]
    if warning := home.permission_warning():
        show.print_note(f"warning: {warning}")
    words = [sys.executable, "-m", "chemspec.ui.launch", *options]
    os.chdir(app_script().parent)  # where the settings of Streamlit are
    if os.name == "nt":  # there exec would detach from the console
        raise typer.Exit(subprocess.call(words))
    os.execv(sys.executable, words)  # replaces this process, so that killing it ends the server
