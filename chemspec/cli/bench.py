"""Measure speed: `bench` times decoding; `bench papers`, `bench drafters` and `bench draft-length` go with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chemspec import tasks
from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app, refuse_options_before
from chemspec.system import gpu

if TYPE_CHECKING:  # the engine takes seconds to import; --help should not
    from chemspec.engine.engine import Engine

bench = typer.Typer(invoke_without_command=True)
app.add_typer(bench, name="bench", rich_help_panel="Measure")


@bench.callback()
def bench_(
    context: typer.Context,
    task: Annotated[str, opt.option(f"{tasks.task_names('or')}; both: forward and retro.", "--task", "-t")] = "both",
    source: Annotated[Path | None, opt.option("Folder with the reaction CSVs; default: the built-in queries.")] = None,
    limit: Annotated[int, opt.option("Queries per row.")] = 30,
    widths: Annotated[str, opt.option("Beam widths for retro; 1 is greedy.")] = "1,5",
    batches: Annotated[str, opt.option("Batch sizes.")] = "1",
    drafters: Annotated[str, opt.option("Drafters, with commas, timed besides none.")] = opt.DEFAULT.drafter,
    preset: Annotated[str, opt.option("Time this architecture with random weights instead of the models.")] = "",
    threads: opt.ThreadsOption = 0,
    device: opt.DeviceOption = "auto",
    dtype: Annotated[
        str, opt.option("Of fp32, int8, bf16, fp16; several, by commas, side by side; auto: fp32 and int8 on a CPU.")
    ] = "auto",
    runtime: opt.RuntimeOption = "auto",
    as_json: opt.JsonOption = False,
) -> None:
    """Time decoding with and without drafts.

    Drafters and precisions decode the same queries and take turns, query by query. Without options the shipped models
    answer 30 built-in queries each. A gain is the median over queries, with its 95 % interval.
    """
    if context.invoked_subcommand:
        refuse_options_before(context)
        return
    from chemspec.bench import speed, speed_table

    plan = speed.BenchSettings(
        tasks=("forward", "retro") if task == "both" else (opt.as_task(task),),
        source=source,
        limit=limit,
        widths=opt.numbers("widths", widths),
        batches=opt.numbers("batches", batches),
        drafters=opt.words(drafters),
        preset=preset,
        threads=threads,
        device=device,
        dtypes=_precisions(dtype, device, runtime, preset),
        runtime=runtime,
    )
    with show.progress("measuring") as report:
        measured = speed.run(plan, progress=report)
    if as_json:
        show.document(measured)
        return
    show.table(speed_table.table(measured))
    show.sentence(speed_table.sentence(measured))


def _precisions(dtype: str, device: str, runtime: str, preset: str) -> tuple[str, ...]:
    """Return the precisions to time; "auto" is both that the compiled kernel knows, where it may run."""
    both = dtype == "auto" and device in ("auto", "cpu") and runtime in ("auto", "native") and not preset
    return ("fp32", "int8") if both and not gpu.available() else opt.words(dtype)


# The model of a task that has learned drafters, where the task's own has none.
DRAFTED = {"retro": "retro-50k"}
TaskOption = Annotated[str, opt.option("forward or retro.", "--task", "-t")]
ModelOption = Annotated[
    str,
    opt.option("Folder, checkpoint or installed name; default: the task's that has learned drafters.", "--model", "-m"),
]
QueriesOption = Annotated[
    Path | None,
    typer.Option(
        "--source", envvar="CHEMSPEC_DATA", help="Folder with the reaction tables; default: built-in queries."
    ),
]


def _prepare(
    task: str, model: str, source: Path | None, limit: int, **loading: Any
) -> tuple[Engine, list[str], tuple[str, ...]]:
    """Return the model, queries for it, and the drafters that it can use."""
    from chemspec.bench import speed
    from chemspec.engine.registry import models_dir, usable_drafters

    drafted = DRAFTED.get(task, "")
    if not model and drafted and (models_dir() / drafted).is_dir():
        model = drafted
    engine = opt.load(task, model, **loading)
    queries = [item.query for item in speed.asked(engine, source, limit)]
    show.note(f"model {engine.name}, {len(queries)} {'test' if source else 'built-in'} queries")
    return engine, queries, usable_drafters(engine.folder)


@bench.command(name="drafters")
def drafters_(
    task: TaskOption = "retro",
    model: ModelOption = "",
    source: QueriesOption = None,
    limit: Annotated[int, opt.option("Queries.")] = 50,
    drafters: Annotated[str, opt.option("Drafters, with commas; default: all that the model can use.")] = "",
    widths: Annotated[str, opt.option("Beam widths; 1 is greedy.")] = "1",
    batch_size: opt.BatchOption = 1,
    threads: opt.ThreadsOption = 0,
    device: opt.DeviceOption = "auto",
    as_json: opt.JsonOption = False,
) -> None:
    """Count what each drafter saves: passes, tokens, nodes, weights; no times."""
    from chemspec.bench import counts
    from chemspec.io import tables

    every = opt.numbers("widths", widths)
    engine, queries, usable = _prepare(task, model, source, limit, threads=threads, device=device)
    names = opt.words(drafters) or ("none", *(name for name in usable if name != "none"))
    with show.progress("counting") as report:
        rows = counts.drafters(engine, queries, names, widths=every, batch_size=batch_size, progress=report)
    if as_json:
        show.document({"rows": rows})
    else:
        show.table(tables.terminal(counts.DRAFTER_COLUMNS, map(counts.shown, rows)))


@bench.command()
def draft_length(
    task: TaskOption = "retro",
    model: ModelOption = "",
    source: QueriesOption = None,
    limit: Annotated[int, opt.option("Queries.")] = 50,
    decoder: opt.DecoderOption = "greedy",
    n: opt.NOption = 1,
    drafters: Annotated[str, opt.option("Drafters, with commas; those without a model are counted once.")] = "",
    lengths: Annotated[str, opt.option("Tokens that a small model drafts; 0 adapts to their fate.")] = "0,2,3,4,6,8,12",
    batch_size: opt.BatchOption = 1,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Count passes, runs of small models and tokens a pass by draft length; default drafters: copy, mixed and those."""
    from chemspec.bench import counts
    from chemspec.io import tables

    every, settings = (
        opt.numbers("lengths", lengths),
        opt.decode_settings(decoder, n, exact=False, batch_size=batch_size),
    )
    engine, queries, usable = _prepare(task, model, source, limit, threads=threads)
    names = opt.words(drafters) or ("copy", "mixed", *(name for name in ("ar", "hierarchy") if name in usable))
    with show.progress("counting") as report:
        rows = counts.draft_lengths(engine, queries, settings, names=names, lengths=every, progress=report)
    if as_json:
        show.document({"rows": rows})
    else:
        show.table(tables.terminal(counts.LENGTH_COLUMNS, rows))


@bench.command()
def papers(
    source: QueriesOption = None,
    limit: Annotated[int, opt.option("Queries of a row.")] = 60,
    seconds: Annotated[float, opt.option("Most seconds of a row.")] = 8.0,
    out: Annotated[Path, opt.option("Folder for the numbers, as JSON and CSV.")] = Path("runs/papers"),
    threads: opt.ThreadsOption = 0,
    device: opt.DeviceOption = "auto",
    dtype: opt.DtypeOption = "auto",
    runtime: opt.RuntimeOption = "auto",
    as_json: opt.JsonOption = False,
) -> None:
    """Measure the tables of the three papers, with their figures beside ours; some ten minutes on two cores.

    Which table is where, and which is not here and why: assets/docs/papers.md.
    """
    from chemspec.bench import papers as measuring
    from chemspec.bench import papers_tables

    suite = measuring.PapersSettings(
        source=source, limit=limit, seconds=seconds, threads=threads, device=device, dtype=dtype, runtime=runtime
    )
    with show.progress("measuring") as report:
        measured = {"command": opt.command_line(), **measuring.run(suite, progress=report)}
    for file in papers_tables.write(measured, out):
        show.note(str(file))
    if as_json:
        show.document(measured)
        return
    for table in papers_tables.terminal(measured):
        show.table(table)
        show.line("")
    for text in (*papers_tables.LEGEND, *measured["notes"]):
        show.sentence(text, "dim")
