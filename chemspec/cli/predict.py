"""The commands `predict`, `models` and `app`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from chemspec import tasks as questions
from chemspec.asset_files import app_script
from chemspec.cli import options as opt
from chemspec.cli import saved, show
from chemspec.cli.base import app
from chemspec.metrics import Savings
from chemspec.settings import DecodeSettings, Task
from chemspec.system import extras, gpu, home
from chemspec.system.host_check import AllowedHosts
from chemspec.system.threads import usable_cores
from chemspec.system.untrusted import read_untrusted_json

if TYPE_CHECKING:  # the engine takes seconds to import; --help should not
    from chemspec.engine.engine import Engine
    from chemspec.review import Reviewer

ALL = "cuda:all"
SHARD_ROWS = 10_000
MAX_WORKERS = 8  # RDKit takes a millisecond per query, a GPU a fifth of that
command = partial(app.command, rich_help_panel="Answers")


@command()
def predict(
    smiles: Annotated[
        list[str] | None, typer.Argument(help="SMILES, one file (.csv .smi .parquet ...), or - for stdin.")
    ] = None,
    task: opt.TaskOption = "",
    model: opt.ModelOption = "",
    n: opt.NOption = opt.DEFAULT.n,
    decoder: opt.DecoderOption = "auto",
    drafter: opt.DrafterOption = opt.DEFAULT.drafter,
    draft_length: opt.DraftLengthOption = opt.DEFAULT.draft_length,
    draft_count: opt.DraftCountOption = opt.DEFAULT.draft_count,
    dilation: opt.DilationOption = opt.DEFAULT.dilation,
    exact: opt.ExactOption = True,
    out: opt.OutOption = None,
    column: opt.ColumnOption = "",
    trace: opt.TraceOption = None,
    receipts: opt.ReceiptsOption = False,
    review: opt.ReviewOption = False,
    stock: opt.StockOption = None,
    batch_size: opt.BatchOrAutoOption = opt.DEFAULT.batch_size,
    max_len: opt.LengthOption = opt.DEFAULT.max_len,
    dtype: opt.DtypeOption = "auto",
    device: opt.DeviceOption = "auto",
    threads: opt.ThreadsOption = 0,
    runtime: opt.RuntimeOption = "auto",
    template: opt.TemplateOption = "",
    length_penalty: opt.LengthPenaltyOption = opt.DEFAULT.length_penalty,
    rules: opt.RulesOption = opt.DEFAULT.rules,
    temperature: opt.TemperatureOption = opt.DEFAULT.temperature,
    top_p: opt.TopPOption = opt.DEFAULT.top_p,
    seed: opt.SeedOption = opt.DEFAULT.seed,
    node_budget: opt.BudgetOption = opt.DEFAULT.node_budget,
    drafting: opt.DraftingOption = opt.DEFAULT.drafting,
    beta: opt.BetaOption = opt.DEFAULT.beta,
    tau: opt.TauOption = opt.DEFAULT.tau,
    augment: opt.AugmentOption = opt.DEFAULT.augment,
    distinct: opt.DistinctUnlessOption = None,
    guide: opt.GuideOption = opt.DEFAULT.guide,
    within: opt.WithinOption = None,
    write_every: Annotated[int, opt.help_option("Queries between two writes to --out; 0: a few batches.")] = 0,
    workers: Annotated[int, opt.help_option("Processes for RDKit work; -1: several for a file on a GPU, else 0.")] = -1,
    ray: Annotated[
        str, opt.help_option("Predict on a Ray cluster: local, auto or HOST:PORT; --out is then a folder (extra ray).")
    ] = "",
    engines: Annotated[
        int, opt.help_option("With --ray: maximum number of engines; 0: all cores / --threads, or all GPUs.")
    ] = 0,
    shard_rows: Annotated[int, opt.help_option("With --ray: rows per output file and per work item.")] = SHARD_ROWS,
    as_json: opt.JsonOption = False,
) -> None:
    """Predict products, reactants or reagents of SMILES."""
    settings = opt.build_decode_settings(
        decoder,
        n,
        exact,
        drafter=drafter,
        draft_length=draft_length,
        draft_count=draft_count,
        dilation=dilation,
        max_len=max_len,
        batch_size=opt.DEFAULT.batch_size if batch_size == opt.AUTO else batch_size,
        node_budget=node_budget,
        drafting=drafting,
        length_penalty=length_penalty,
        rules=rules,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        augment=augment,
        distinct=_list_distinct(
            distinct, decoder, n, plain=rules != opt.DEFAULT.rules or length_penalty != 0, guide=guide
        ),
        guide=guide,
        beta=beta,
        tau=tau,
    )
    loading = {"device": device, "dtype": dtype, "threads": threads, "runtime": runtime, "template": template}
    question = PredictionRequest(smiles, column, task, model, settings, loading, within)
    if within is not None and (out or trace or ray or review):
        raise ValueError("--within is for answers on the screen; leave out --out, --trace, --review and --ray")
    files = OutputFiles(out, trace, receipts, write_every, as_json, review, tuple(stock or ()))
    if not task and not model:
        raise ValueError(f"choose a task: --task {questions.task_questions()}, or choose a model with --model")
    if batch_size == opt.AUTO and (ray or device == ALL):
        raise ValueError("--batch-size auto is for one engine; with --ray and --device cuda:all give a number")
    if write_every < 0:
        raise ValueError(f"--write-every {write_every}; give at least 1, or 0 for a few batches")
    for text in opt.ignored_draft_options(settings):
        show.print_note(f"note: {text}")
    if stock and not review:
        raise ValueError("--stock goes with --review")
    if receipts and (out is None or out.suffix.lower() != ".jsonl"):
        raise ValueError("--receipts go into a .jsonl file; give one with --out")
    if ray:
        if trace is not None or receipts or review or workers > 0 or write_every:
            raise ValueError("--trace, --receipts, --review, --workers and --write-every do not go with --ray")
        _predict_on_ray(ray, question, files, most=engines, shard_rows=shard_rows)
    if engines or shard_rows != SHARD_ROWS:
        raise ValueError("--engines and --shard-rows go with --ray")
    _predict_locally(question, files, workers=workers, fastest_batch=batch_size == opt.AUTO)


@dataclass(frozen=True)
class PredictionRequest:
    """Queries, model and settings of a run.

    Attributes:
        given: SMILES, the path of a file, or "-"; None is standard input.
        column: column of the file with the SMILES.
        task, model: names; one of them may be empty.
        settings: decoding settings.
        loading: options of `Engine.load`.
        within: seconds for each query; None for no deadline.
    """

    given: list[str] | None
    column: str
    task: str
    model: str
    settings: DecodeSettings
    loading: dict[str, Any]
    within: float | None = None


@dataclass(frozen=True)
class OutputFiles:
    """Destinations of the predictions: files if given, else standard output, as text or JSON.

    With `review` they are reviewed, with building blocks from `stock` (default: the built-in lists).
    """

    out: Path | None
    trace: Path | None
    receipts: bool
    write_every: int
    as_json: bool
    review: bool
    stock: tuple[str, ...]


def _list_distinct(requested: bool | None, decoder: str, n: int, *, plain: bool, guide: str) -> bool:
    """Return whether to list distinct molecules only; the default is yes for a beam by chemspec's own rules.

    Args:
        requested: --distinct or --no-distinct; None if neither was given.
        decoder: a name, or "auto".
        n: number of predictions.
        plain: whether the beam has a ranking that merging answers would undo.
        guide: implies --distinct.
    """
    if requested is not None:
        return requested
    beam = decoder == "beam" or (decoder == "auto" and n > 1)
    return bool(guide) or (beam and not plain)


def _predict_locally(request: PredictionRequest, files: OutputFiles, *, workers: int, fastest_batch: bool) -> NoReturn:
    """Predict with an engine in this process."""
    opt.check_parent_folders(files.out, files.trace)
    from chemspec.io import writers
    from chemspec.review.review import review_document

    queries, many = _read_queries(request.given, request.column, opt.resolve_task(request.task, request.model))
    if files.trace is not None:
        files.trace.touch()  # fails before the work rather than after it
    workers = _worker_count(workers, request.loading["device"], many)
    engine, settings = (
        opt.load_engine(request.task, request.model, **request.loading, workers=workers),
        request.settings,
    )
    if fastest_batch and many:
        settings = replace(settings, batch_size=engine.fastest_batch(settings))
        show.print_note(f"batches of {settings.batch_size} are fastest here")
    document: dict[str, Any] = {"model": engine.name, "settings": asdict(settings)}
    reviewer = _load_reviewer(engine, files.stock, request.loading) if files.review else None
    if files.out is not None:
        counts = _write_predictions(engine, queries, settings, files.out, files, reviewer)
        document |= {"out": str(files.out), "counts": counts}
        succeeded = set(counts) <= {"ok"}
    else:
        if request.within is not None:  # the first prediction of a process is slow
            engine.predict("CCO", replace(settings, max_len=8), within=60.0)
        with show.progress_bar("predicting", quiet=not many) as report:
            results = engine.predict(
                queries, settings, progress=lambda done: report(done, len(queries)), within=request.within
            )
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


def _load_reviewer(engine: Engine, stock: Sequence[str], loading: Mapping[str, Any]) -> Reviewer:
    """Load what a review of a model's predictions needs: forward model, model of reagents, precedents and stock."""
    from chemspec.plan.stock import BUILT_IN, load_stock
    from chemspec.precedents import installed
    from chemspec.review import Reviewer, load_engines

    companions: tuple[Task, ...] = ("forward", "reagents") if engine.task == "retro" else ()
    options = {name: loading[name] for name in ("device", "dtype", "threads")}
    return Reviewer(engine.task, load_engines(companions, **options), load_stock(stock or BUILT_IN), installed())


def _predict_on_ray(
    address: str, request: PredictionRequest, files: OutputFiles, *, most: int, shard_rows: int
) -> NoReturn:
    """Predict a file, or a folder of files, on a Ray cluster."""
    out, given = files.out, request.given
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
            request.settings,
            request.model or request.task,
            address=address,
            task=opt.parse_task(request.task) if request.task else None,
            column=request.column,
            most=most,
            shard_rows=shard_rows,
            progress=report,
            note=show.print_note,
            **request.loading,
        )
    counts = ", ".join(f"{count} {status}" for status, count in sorted(done.counts.items()))
    show.print_note(
        f"{out}: {counts}; {done.shards} shards, {done.resumed} of them already done; {done.deaths} engines died"
    )
    if files.as_json:
        show.print_json({"settings": asdict(request.settings), "out": str(out), **asdict(done)})
    raise typer.Exit(0 if set(done.counts) <= {"ok"} else 1)


def _worker_count(requested: int, device: str, many: bool) -> int:
    """Return the number of RDKit worker processes: by default as many as keep a GPU busy, if there are spare cores."""
    if requested > 0 and device == ALL:
        raise ValueError("with --device cuda:all each GPU has its own process for molecules; leave out --workers")
    if requested >= 0:
        return requested
    on_gpu = device.startswith("cuda") or (device == "auto" and gpu.gpu_available())
    spare = usable_cores() - 1
    return min(MAX_WORKERS, spare) if many and on_gpu and device != ALL and spare > 1 else 0


def _read_queries(given: list[str] | None, column: str, task: Task | None) -> tuple[list[str], bool]:
    """Return the queries, and whether they are many enough for a progress bar."""
    from chemspec.io import readers

    if not given or given == ["-"]:
        if not given and sys.stdin.isatty():
            raise ValueError('nothing to predict; give a SMILES, a file or "-" for standard input')
        where, queries = "standard input", readers.read_stdin_lines(sys.stdin)
    elif len(given) == 1 and readers.looks_like_file(given[0]):
        where, queries = given[0], readers.read_queries(Path(given[0]), column, task, show.print_note)
    else:
        for text in filter(readers.looks_like_file, given):
            raise ValueError(f"{text} is a file; give one file, or SMILES, but not both")
        return given, len(given) > 8
    if not queries:
        raise ValueError(f"nothing to predict: there is no query in {where}")
    return queries, True


@command(name="models")
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
        show.print_models(rows)
    else:
        show.print_note(f"no models in {models_dir()}")


@command(name="app")
def launch_app(
    port: Annotated[int, opt.help_option("Port to listen on.")] = 8501,
    host: Annotated[
        str, opt.help_option("Address to listen on; 0.0.0.0 accepts other machines (see the docs on login).")
    ] = "127.0.0.1",
    allowed_host: opt.AllowedHostOption = None,
    shadow: Annotated[
        float,
        opt.help_option(
            "Fraction of the questions that the idle app decodes again without drafts, to measure the speed-up and "
            "compare the answers, such as 0.05; different answers are stored in CHEMSPEC_HOME; 0: none."
        ),
    ] = 0.0,
    headless: Annotated[bool, opt.help_option("Do not open a browser.", "--headless")] = False,
    watch: Annotated[
        bool, opt.help_option("Rerun pages when a source file changes, for developers.", "--watch")
    ] = False,
) -> None:
    """Open the app in a browser."""
    extras.require_packages("streamlit", "altair", "pandas", "pyarrow", what="the app")
    AllowedHosts.of(host, allowed_host or [])  # reports invalid names before the server starts
    if shadow and not 0 < shadow <= 1:
        raise ValueError(f"--shadow {shadow:g}; give a fraction above 0 and at most 1, such as 0.05")
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
