"""Answers: `predict`, the list of `models`, and the `app`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
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
from chemspec.system.untrusted import read_json

if TYPE_CHECKING:  # the engine takes seconds to import; --help should not
    from chemspec.engine.engine import Engine

ALL = "cuda:all"
SHARD_ROWS = 10_000
MOST_WORKERS = 8  # RDKit takes a millisecond a query, a GPU a fifth of that
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
    batch_size: opt.BatchOrAutoOption = opt.DEFAULT.batch_size,
    max_len: opt.LengthOption = opt.DEFAULT.max_len,
    dtype: opt.DtypeOption = "auto",
    device: opt.DeviceOption = "auto",
    threads: opt.ThreadsOption = 0,
    runtime: opt.RuntimeOption = "auto",
    template: opt.TemplateOption = "",
    length_penalty: opt.LengthPenaltyOption = opt.DEFAULT.length_penalty,
    rules: opt.RulesOption = opt.DEFAULT.rules,
    temperature: opt.SampleFloat = opt.DEFAULT.temperature,
    top_p: opt.SampleFloat = opt.DEFAULT.top_p,
    seed: opt.SampleInt = opt.DEFAULT.seed,
    node_budget: opt.BudgetOption = opt.DEFAULT.node_budget,
    drafting: opt.DraftingOption = opt.DEFAULT.drafting,
    beta: opt.BetaOption = opt.DEFAULT.beta,
    tau: opt.TauOption = opt.DEFAULT.tau,
    augment: opt.AugmentOption = opt.DEFAULT.augment,
    distinct: opt.DistinctUnlessOption = None,
    guide: opt.GuideOption = opt.DEFAULT.guide,
    write_every: Annotated[int, opt.option("Write to --out after so many queries; 0: after a few batches.")] = 0,
    workers: Annotated[
        int, opt.option("Processes that read and write molecules beside the decoding; -1: of a file on a GPU, else 0.")
    ] = -1,
    ray: Annotated[
        str, opt.option("Engines on a Ray cluster: local, auto or HOST:PORT; --out is a folder (extra ray).")
    ] = "",
    engines: Annotated[int, opt.option("With --ray: most engines; 0: all cores / --threads, or all GPUs.")] = 0,
    shard_rows: Annotated[
        int, opt.option("With --ray: rows of a file of answers, and of what an engine takes.")
    ] = SHARD_ROWS,
    as_json: opt.JsonOption = False,
) -> None:
    """Predict products, reactants or reagents of SMILES."""
    settings = opt.decode_settings(
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
        distinct=_different(distinct, decoder, n, plain=rules != opt.DEFAULT.rules or length_penalty != 0, guide=guide),
        guide=guide,
        beta=beta,
        tau=tau,
    )
    how = {"device": device, "dtype": dtype, "threads": threads, "runtime": runtime, "template": template}
    question = Question(smiles, column, task, model, settings, how)
    files = Files(out, trace, write_every, as_json)
    if not task and not model:
        raise ValueError(f"say which question: --task {questions.task_questions()}, or choose a model with --model")
    if batch_size == opt.AUTO and (ray or device == ALL):
        raise ValueError("--batch-size auto is for one engine; with --ray and --device cuda:all give a number")
    if write_every < 0:
        raise ValueError(f"--write-every {write_every}; give at least 1, or 0 for a few batches")
    for text in opt.without_effect(settings):
        show.note(f"note: {text}")
    if ray:
        if trace is not None or workers > 0 or write_every:
            raise ValueError("--trace, --workers and --write-every do not go with --ray")
        _on_cluster(ray, question, files, most=engines, shard_rows=shard_rows)
    if engines or shard_rows != SHARD_ROWS:
        raise ValueError("--engines and --shard-rows go with --ray")
    _on_this_machine(question, files, workers=workers, fastest_batch=batch_size == opt.AUTO)


@dataclass(frozen=True)
class Question:
    """What is asked of which model, and how.

    Attributes:
        given: SMILES, the path of a file, or "-"; None is standard input.
        column: of the file.
        task, model: names; one of them may be empty.
        settings: of decoding.
        loading: options of `Engine.load`.
    """

    given: list[str] | None
    column: str
    task: str
    model: str
    settings: DecodeSettings
    loading: dict[str, Any]


@dataclass(frozen=True)
class Files:
    """Where answers go: to files if there are any, else to standard output, as text or as JSON."""

    out: Path | None
    trace: Path | None
    write_every: int
    as_json: bool


def _different(asked: bool | None, decoder: str, n: int, *, plain: bool, guide: str) -> bool:
    """Return whether only different molecules are listed; unless said otherwise, of a beam by the rules of chemspec.

    Args:
        asked: --distinct or --no-distinct; None is neither.
        decoder: a name, or "auto".
        n: answers.
        plain: whether the beam is ranked in a way that merging its answers would undo.
        guide: implies --distinct.
    """
    if asked is not None:
        return asked
    beam = decoder == "beam" or (decoder == "auto" and n > 1)
    return bool(guide) or (beam and not plain)


def _on_this_machine(asked: Question, files: Files, *, workers: int, fastest_batch: bool) -> NoReturn:
    """Predict with an engine of this process."""
    opt.check_folders(files.out, files.trace)
    from chemspec.io import writers

    queries, many = _queries(asked.given, asked.column, opt.task_of(asked.task, asked.model))
    if files.trace is not None:
        files.trace.touch()  # fails now rather than when all the work is done
    workers = _workers(workers, asked.loading["device"], many)
    engine, settings = opt.load(asked.task, asked.model, **asked.loading, workers=workers), asked.settings
    if fastest_batch and many:
        settings = replace(settings, batch_size=engine.fastest_batch(settings))
        show.note(f"batches of {settings.batch_size} are fastest here")
    document: dict[str, Any] = {"model": engine.name, "settings": asdict(settings)}
    if files.out is not None:
        counts = _to_file(engine, queries, settings, files.out, files)
        document |= {"out": str(files.out), "counts": counts}
        fine = set(counts) <= {"ok"}
    else:
        with show.progress("predicting", quiet=not many) as report:
            results = engine.predict(queries, settings, progress=lambda done: report(done, len(queries)))
        if files.trace is not None:
            writers.write_traces(results, files.trace)
        if not files.as_json:
            show.results(results)
        document["results"] = [writers.result_document(result) for result in results]
        fine = all(result.status == "ok" for result in results)
    if files.as_json:
        show.document(document)
    raise typer.Exit(0 if fine else 1)


def _to_file(
    engine: Engine, queries: Sequence[str], settings: DecodeSettings, out: Path, files: Files
) -> dict[str, int]:
    """Write answers to a file, say what became of the queries and what drafts saved, and return how many ended how."""
    from chemspec.io import writers

    answered: list[Savings] = []
    with show.progress("predicting") as report:
        counts = writers.predict_file(
            engine,
            queries,
            out,
            settings,
            trace=files.trace,
            every=files.write_every,
            progress=report,
            written=lambda results: answered.append(saved.total(results)),
        )
    told = [", ".join(f"{count} {status}" for status, count in sorted(counts.items()))]
    if answered:
        told.append(saved.counts(sum(answered[1:], answered[0]), queries="the queries"))
    show.note(f"{out}: {'; '.join(told)}")
    return counts


def _on_cluster(address: str, asked: Question, files: Files, *, most: int, shard_rows: int) -> NoReturn:
    """Predict a file or a folder of files on a Ray cluster."""
    out, given = files.out, asked.given
    if out is None or out.suffix in (".csv", ".jsonl", ".parquet"):
        raise ValueError("--ray writes a folder of Parquet files; give one with --out")
    if not given or len(given) != 1 or not Path(given[0]).exists():
        raise ValueError("--ray reads one file, or a folder of files; give its path")
    extras.require("ray", "pyarrow", what="--ray")
    from chemspec.cluster import job

    with show.progress("predicting") as report:
        done = job.predict_file(
            Path(given[0]),
            out,
            asked.settings,
            asked.model or asked.task,
            address=address,
            task=opt.as_task(asked.task) if asked.task else None,
            column=asked.column,
            most=most,
            shard_rows=shard_rows,
            progress=report,
            note=show.note,
            **asked.loading,
        )
    told = ", ".join(f"{count} {status}" for status, count in sorted(done.counts.items()))
    show.note(f"{out}: {told}; {done.shards} shards, {done.resumed} of them there before; {done.deaths} engines died")
    if files.as_json:
        show.document({"settings": asdict(asked.settings), "out": str(out), **asdict(done)})
    raise typer.Exit(0 if set(done.counts) <= {"ok"} else 1)


def _workers(asked: int, device: str, many: bool) -> int:
    """Processes beside this one: by default so many as a GPU's queries need, where there are cores for them."""
    if asked > 0 and device == ALL:
        raise ValueError("with --device cuda:all each GPU's process reads its own molecules; leave --workers out")
    if asked >= 0:
        return asked
    on_gpu = device.startswith("cuda") or (device == "auto" and gpu.available())
    spare = usable_cores() - 1
    return min(MOST_WORKERS, spare) if many and on_gpu and device != ALL and spare > 1 else 0


def _queries(given: list[str] | None, column: str, task: Task | None) -> tuple[list[str], bool]:
    """The query texts of a task, and whether they are many (then a progress bar is shown)."""
    from chemspec.io import readers

    if not given or given == ["-"]:
        if not given and sys.stdin.isatty():
            raise ValueError('nothing to predict; give a SMILES, a file or "-" for standard input')
        where, queries = "standard input", readers.read_stdin_lines(sys.stdin)
    elif len(given) == 1 and readers.looks_like_file(given[0]):
        where, queries = given[0], readers.read_queries(Path(given[0]), column, task, show.note)
    else:
        for text in filter(readers.looks_like_file, given):
            raise ValueError(f"{text} is a file; give one file, or SMILES, but not both")
        return given, len(given) > 8
    if not queries:
        raise ValueError(f"nothing to predict: there is no query in {where}")
    return queries, True


@command()
def models(as_json: opt.JsonOption = False) -> None:
    """List the installed models; `edits` says whose table of edits each drafts with, its own or its task's default."""
    from chemspec.draft.calibration import source_of_edits
    from chemspec.engine.registry import installed_models, models_dir

    rows = []
    for folder in installed_models():
        try:
            task = read_json(folder / "config.json")["task"]
        except (OSError, ValueError, KeyError, TypeError):
            task = "unusable"  # one bad folder must not hide the others
        size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) / 1e6
        row = {"name": folder.name, "task": task, "mb": round(size, 1), "edits": source_of_edits(folder, str(task))}
        rows.append({**row, "folder": str(folder)})
    if as_json:
        show.document({"models": rows})
    elif rows:
        show.models(rows)
    else:
        show.note(f"no models in {models_dir()}")


@command(name="app")
def app_(
    port: Annotated[int, opt.option("Port on this machine.")] = 8501,
    host: Annotated[
        str, opt.option("Address to listen on; 0.0.0.0 lets every machine in; see docs on a login.")
    ] = "127.0.0.1",
    allowed_host: opt.AllowedHostOption = None,
    headless: Annotated[bool, opt.option("Do not open a browser.", "--headless")] = False,
    watch: Annotated[
        bool, opt.option("Draw pages again when a source file changes, for developers.", "--watch")
    ] = False,
) -> None:
    """Open the app in a browser."""
    extras.require("streamlit", "altair", "pandas", "pyarrow", what="the app")
    AllowedHosts.of(host, allowed_host or [])  # says here what is wrong with them
    options = ["--server.address", host, "--server.port", str(port), "--server.headless", str(headless).lower()]
    options += ["--browser.gatherUsageStats", "false"]  # wherever the settings file is
    options += ["--server.fileWatcherType", "auto" if watch else "none"]
    options += [word for name in allowed_host or [] for word in ("--allowed-host", name)]
    if warning := home.warn_if_open():
        show.note(f"warning: {warning}")
    words = [sys.executable, "-m", "chemspec.ui.launch", *options]
    os.chdir(app_script().parent)  # where the settings of Streamlit are
    if os.name == "nt":  # where exec is a second process that nobody waits for
        raise typer.Exit(subprocess.call(words))
    os.execv(sys.executable, words)  # in place of this process: who kills it ends the server
