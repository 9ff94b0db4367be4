"""Answers: `predict`, the list of `models`, and the `app`."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from chemspec import tasks as questions
from chemspec.asset_files import app_script
from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app
from chemspec.settings import RULES, DecodeSettings, Task
from chemspec.system import extras, gpu
from chemspec.system.host_check import AllowedHosts
from chemspec.system.threads import usable_cores
from chemspec.system.untrusted import read_json

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
    exact: opt.ExactOption = True,
    out: Annotated[Path | None, opt.option("Result file: .csv, .jsonl or .parquet; resumable.", "--out", "-o")] = None,
    column: Annotated[str, opt.option('Column of the input file with the SMILES; "a>>b" joins two.')] = "",
    trace: Annotated[Path | None, opt.option("Write full results with traces here, one JSON a line.")] = None,
    batch_size: opt.BatchOrAutoOption = opt.DEFAULT.batch_size,
    max_len: opt.LengthOption = opt.DEFAULT.max_len,
    dtype: opt.DtypeOption = "auto",
    device: opt.DeviceOption = "auto",
    threads: opt.ThreadsOption = 0,
    runtime: opt.RuntimeOption = "auto",
    template: opt.TemplateOption = "",
    length_penalty: Annotated[
        float, opt.option("Rank beam answers by log-prob / length ** this.")
    ] = opt.DEFAULT.length_penalty,
    rules: Annotated[
        str, opt.option(f"Search beams by the bookkeeping of another program: {', '.join(RULES[1:])}.")
    ] = opt.DEFAULT.rules,
    temperature: opt.SampleFloat = opt.DEFAULT.temperature,
    top_p: opt.SampleFloat = opt.DEFAULT.top_p,
    seed: opt.SampleInt = opt.DEFAULT.seed,
    node_budget: Annotated[int, opt.option("Most drafted nodes a query may add to a pass.")] = opt.DEFAULT.node_budget,
    beta: Annotated[
        int, opt.option("Greedy may take a drafted token among the best so many; above 1 it is relaxed.")
    ] = opt.DEFAULT.beta,
    tau: Annotated[
        float, opt.option("With --beta: most log-prob that such a token may lack to the best one.")
    ] = opt.DEFAULT.tau,
    augment: opt.AugmentOption = opt.DEFAULT.augment,
    distinct: opt.DistinctOption = opt.DEFAULT.distinct,
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
    """Predict products (forward), reactant sets (retro) or reagents for SMILES, a file of them, or standard input."""
    settings = opt.decode_settings(
        decoder,
        n,
        exact,
        drafter=drafter,
        max_len=max_len,
        batch_size=opt.DEFAULT.batch_size if batch_size == opt.AUTO else batch_size,
        node_budget=node_budget,
        length_penalty=length_penalty,
        rules=rules,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        augment=augment,
        distinct=distinct or bool(guide),
        guide=guide,
        beta=beta,
        tau=tau,
    )
    if not task and not model:
        raise ValueError(f"say which question: --task {questions.questions()}, or choose a model with --model")
    if batch_size == opt.AUTO and (ray or device == ALL):
        raise ValueError("--batch-size auto is for one engine; with --ray and --device cuda:all give a number")
    if write_every < 0:
        raise ValueError(f"--write-every {write_every}; give at least 1, or 0 for a few batches")
    if ray:
        how = {"device": device, "dtype": dtype, "threads": threads, "runtime": runtime, "template": template}
        if trace is not None or workers > 0 or write_every:
            raise ValueError("--trace, --workers and --write-every do not go with --ray")
        _on_cluster(
            ray, smiles, column, out, settings, task, model, as_json, most=engines, shard_rows=shard_rows, **how
        )
    if engines or shard_rows != SHARD_ROWS:
        raise ValueError("--engines and --shard-rows go with --ray")
    opt.check_folders(out, trace)
    from chemspec.io import writers

    queries, many = _queries(smiles, column, opt.task_of(task, model))
    if trace is not None:
        trace.touch()  # fails now rather than when all the work is done
    engine = opt.load(
        task,
        model,
        device=device,
        dtype=dtype,
        threads=threads,
        runtime=runtime,
        template=template,
        workers=_workers(workers, device, many),
    )
    if batch_size == opt.AUTO and many:
        settings = replace(settings, batch_size=engine.fastest_batch(settings))
        show.note(f"batches of {settings.batch_size} are fastest here")
    document: dict[str, Any] = {"model": engine.name, "settings": asdict(settings)}
    if out is not None:
        with show.progress("predicting") as report:
            counts = writers.predict_file(
                engine, queries, out, settings, trace=trace, every=write_every, progress=report
            )
        told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        show.note(f"{out}: {told}")
        document |= {"out": str(out), "counts": counts}
        fine = set(counts) <= {"ok"}
    else:
        with show.progress("predicting", quiet=not many) as report:
            results = engine.predict(queries, settings, progress=lambda done: report(done, len(queries)))
        if trace is not None:
            writers.write_traces(results, trace)
        for result in () if as_json else results:
            show.result(result)
        document["results"] = [writers.brief(result) for result in results]
        fine = all(result.status == "ok" for result in results)
    if as_json:
        show.document(document)
    raise typer.Exit(0 if fine else 1)


def _on_cluster(
    address: str,
    given: list[str] | None,
    column: str,
    out: Path | None,
    settings: DecodeSettings,
    task: str,
    model: str,
    as_json: bool,
    **how: Any,
) -> NoReturn:
    """Predict a file or a folder of files on a Ray cluster."""
    if out is None or out.suffix in (".csv", ".jsonl", ".parquet"):
        raise ValueError("--ray writes a folder of Parquet files; give one with --out")
    if not given or len(given) != 1 or not Path(given[0]).exists():
        raise ValueError("--ray reads one file, or a folder of files; give its path")
    extras.require("ray", "pyarrow", what="--ray")
    from chemspec.cluster import job

    wanted = opt.as_task(task) if task else None
    with show.progress("predicting") as report:
        done = job.predict_file(
            Path(given[0]),
            out,
            settings,
            model or task,
            address=address,
            task=wanted,
            column=column,
            progress=report,
            note=show.note,
            **how,
        )
    told = ", ".join(f"{count} {status}" for status, count in sorted(done.counts.items()))
    show.note(f"{out}: {told}; {done.shards} shards, {done.resumed} of them there before; {done.deaths} engines died")
    if as_json:
        show.document({"settings": asdict(settings), "out": str(out), **asdict(done)})
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
        where, queries = "standard input", readers.lines_of(sys.stdin)
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
    from chemspec.engine.registry import installed, models_dir

    rows = []
    for folder in installed():
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
    words = [sys.executable, "-m", "chemspec.ui.launch", *options]
    os.chdir(app_script().parent)  # where the settings of Streamlit are
    if os.name == "nt":  # where exec is a second process that nobody waits for
        raise typer.Exit(subprocess.call(words))
    os.execv(sys.executable, words)  # in place of this process: who kills it ends the server
