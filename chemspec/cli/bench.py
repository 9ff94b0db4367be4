"""The command `bench` and its subcommands `papers`, `drafters` and `draft-length`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chemspec import tasks
from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app, refuse_group_options
from chemspec.system import gpu

if TYPE_CHECKING:  # the engine takes seconds to import; --help should not
    from chemspec.engine.engine import Engine

bench = typer.Typer(invoke_without_command=True)
app.add_typer(bench, name="bench", rich_help_panel="Measure")


@bench.callback()
def benchmark_speed(
    context: typer.Context,
    task: Annotated[
        str, opt.help_option(f"Task: {tasks.task_names('or')}; both: forward and retro.", "--task", "-t")
    ] = "both",
    source: Annotated[Path | None, opt.help_option("Folder with the reaction CSVs; default: built-in queries.")] = None,
    limit: Annotated[int, opt.help_option("Number of queries per row.")] = 30,
    widths: Annotated[str, opt.help_option("Beam widths for retro, separated by commas; 1: greedy.")] = "1,5",
    batches: Annotated[str, opt.help_option("Batch sizes, separated by commas.")] = "1",
    drafters: Annotated[
        str, opt.help_option("Drafters to time, separated by commas; decoding without drafts is always timed.")
    ] = opt.DEFAULT.drafter,
    preset: Annotated[str, opt.help_option("Time this architecture with random weights instead of the models.")] = "",
    threads: opt.ThreadsOption = 0,
    device: opt.DeviceOption = "auto",
    dtype: Annotated[
        str, opt.help_option("Precisions (fp32, int8, bf16, fp16), separated by commas; auto: fp32 and int8 on a CPU.")
    ] = "auto",
    runtime: opt.RuntimeOption = "auto",
    as_json: opt.JsonOption = False,
) -> None:
    """Time decoding with and without drafts.

    All drafters and precisions decode the same queries in turn, query by query; without options 30 built-in queries
    per shipped model. A speed-up is the median over queries, with its 95 % interval.
    """
    if context.invoked_subcommand:
        refuse_group_options(context)
        return
    from chemspec.bench import speed, speed_table

    plan = speed.BenchSettings(
        tasks=("forward", "retro") if task == "both" else (opt.parse_task(task),),
        source=source,
        limit=limit,
        widths=opt.parse_integers("widths", widths),
        batches=opt.parse_integers("batches", batches),
        drafters=opt.load_drafters(drafters),
        preset=preset,
        threads=threads,
        device=device,
        dtypes=_choose_precisions(dtype, device, runtime, preset),
        runtime=runtime,
    )
    with show.progress_bar("measuring") as report:
        measured = speed.run_benchmark(plan, progress=report)
    if as_json:
        show.print_json(measured)
        return
    show.print_table(speed_table.build_table(measured))
    show.print_sentence(speed_table.summary_sentence(measured))


def _choose_precisions(dtype: str, device: str, runtime: str, preset: str) -> tuple[str, ...]:
    """Return the precisions to time; "auto" is fp32 and int8 where the compiled kernel can run."""
    both = dtype == "auto" and device in ("auto", "cpu") and runtime in ("auto", "native") and not preset
    return ("fp32", "int8") if both and not gpu.gpu_available() else opt.split_words(dtype)


# Model with learned drafters for a task whose default model has none.
DRAFTED = {"retro": "retro-50k"}
TaskOption = Annotated[str, opt.help_option("Task: forward or retro.", "--task", "-t")]
ModelOption = Annotated[
    str,
    opt.help_option(
        "Model: folder, checkpoint or installed name; default: the task's with learned drafters.", "--model", "-m"
    ),
]
QueriesOption = Annotated[
    Path | None,
    typer.Option("--source", envvar="CHEMSPEC_DATA", help="Folder with the reaction CSVs; default: built-in queries."),
]


def _load_model_and_queries(
    task: str, model: str, source: Path | None, limit: int, **loading: Any
) -> tuple[Engine, list[str], tuple[str, ...]]:
    """Return the model, its queries, and the drafters that it can use."""
    from chemspec.bench import speed
    from chemspec.engine.registry import models_dir, usable_drafters

    drafted = DRAFTED.get(task, "")
    if not model and drafted and (models_dir() / drafted).is_dir():
        model = drafted
    engine = opt.load_engine(task, model, **loading)
    queries = [item.query for item in speed.read_queries(engine, source, limit)]
    show.print_note(f"model {engine.name}, {len(queries)} {'test' if source else 'built-in'} queries")
    return engine, queries, usable_drafters(engine.folder)


@bench.command(name="drafters")
def compare_drafters(
    task: TaskOption = "retro",
    model: ModelOption = "",
    source: QueriesOption = None,
    limit: Annotated[int, opt.help_option("Number of queries.")] = 50,
    drafters: Annotated[
        str, opt.help_option("Drafters to compare, separated by commas; default: all that the model can use.")
    ] = "",
    widths: Annotated[str, opt.help_option("Beam widths, separated by commas; 1: greedy.")] = "1",
    batch_size: opt.BatchOption = 1,
    threads: opt.ThreadsOption = 0,
    device: opt.DeviceOption = "auto",
    as_json: opt.JsonOption = False,
) -> None:
    """Compare drafters by passes, tokens, nodes and size of weights; no times."""
    from chemspec.bench import counts
    from chemspec.io import tables

    every = opt.parse_integers("widths", widths)
    engine, queries, usable = _load_model_and_queries(task, model, source, limit, threads=threads, device=device)
    names = opt.load_drafters(drafters) or ("none", *(name for name in usable if name != "none"))
    with show.progress_bar("counting") as report:
        rows = counts.count_by_drafter(engine, queries, names, widths=every, batch_size=batch_size, progress=report)
    if as_json:
        show.print_json({"rows": rows})
    else:
        show.print_table(tables.terminal(counts.DRAFTER_COLUMNS, map(counts.display_row, rows)))


@bench.command(name="draft-length")
def compare_draft_lengths(
    task: TaskOption = "retro",
    model: ModelOption = "",
    source: QueriesOption = None,
    limit: Annotated[int, opt.help_option("Number of queries.")] = 50,
    decoder: opt.DecoderOption = "greedy",
    n: opt.NOption = 1,
    drafters: Annotated[
        str,
        opt.help_option("Drafters to compare, separated by commas; default: copy, mixed and those with a small model."),
    ] = "",
    lengths: Annotated[
        str, opt.help_option("Draft lengths of small models, separated by commas; 0: adaptive.")
    ] = "0,2,3,4,6,8,12",
    batch_size: opt.BatchOption = 1,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Compare draft lengths by passes, calls of the draft model and tokens per pass."""
    from chemspec.bench import counts
    from chemspec.io import tables

    every, settings = (
        opt.parse_integers("lengths", lengths),
        opt.build_decode_settings(decoder, n, exact=False, batch_size=batch_size),
    )
    engine, queries, usable = _load_model_and_queries(task, model, source, limit, threads=threads)
    names = opt.load_drafters(drafters) or ("copy", "mixed", *(name for name in ("ar", "hierarchy") if name in usable))
    with show.progress_bar("counting") as report:
        rows = counts.count_by_draft_length(engine, queries, settings, names=names, lengths=every, progress=report)
    if as_json:
        show.print_json({"rows": rows})
    else:
        show.print_table(tables.terminal(counts.LENGTH_COLUMNS, rows))


@bench.command(name="papers")
def measure_papers(
    source: QueriesOption = None,
    limit: Annotated[int, opt.help_option("Number of queries per row.")] = 60,
    seconds: Annotated[float, opt.help_option("Time limit per row in seconds.")] = 8.0,
    out: Annotated[Path, opt.help_option("Output folder for the numbers, as JSON and CSV.")] = Path("runs/papers"),
    threads: opt.ThreadsOption = 0,
    device: opt.DeviceOption = "auto",
    dtype: opt.DtypeOption = "auto",
    runtime: opt.RuntimeOption = "auto",
    as_json: opt.JsonOption = False,
) -> None:
    """Reproduce the tables of the three papers next to their published figures; about ten minutes on two cores.

    See assets/docs/papers.md for the tables, and those that are not reproduced.
    """
    from chemspec.bench import papers, papers_tables

    suite = papers.PapersSettings(
        source=source, limit=limit, seconds=seconds, threads=threads, device=device, dtype=dtype, runtime=runtime
    )
    with show.progress_bar("measuring") as report:
        measured = {"command": opt.command_line(), **papers.measure_tables(suite, progress=report)}
    for file in papers_tables.write_report(measured, out):
        show.print_note(str(file))
    if as_json:
        show.print_json(measured)
        return
    for table in papers_tables.terminal_tables(measured):
        show.print_table(table)
        show.print_line("")
    for text in (*papers_tables.LEGEND, *measured["notes"]):
        show.print_sentence(text, "dim")
