"""The command `bench` and its subcommands `papers`, `drafters` and `draft-length`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chemspec import tasks
from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app, command, expand_option_groups, refuse_group_options
from chemspec.system import gpu

if TYPE_CHECKING:  # the engine takes seconds to import; --help should not
    from chemspec.engine.engine import Engine

bench = typer.Typer(invoke_without_command=True)
app.add_typer(bench, name="bench", rich_help_panel="Models")


@dataclass(frozen=True, kw_only=True)
class Runtimes(opt.Runtime):
    """Where and how the models run, in each precision."""

    dtype: Annotated[
        str, opt.option("Precisions (fp32, int8, bf16, fp16), separated by commas; auto: fp32 and int8 on a CPU.")
    ] = "auto"

    def precisions(self, preset: str) -> tuple[str, ...]:
        """Return the precisions to time; "auto" is fp32 and int8 where the compiled kernel can run."""
        on_cpu = self.device in ("auto", "cpu") and self.runtime in ("auto", "native")
        both = self.dtype == "auto" and on_cpu and not preset and not gpu.gpu_available()
        return ("fp32", "int8") if both else opt.split_words(self.dtype)


@bench.callback()
@expand_option_groups
def benchmark_speed(
    context: typer.Context,
    task: Annotated[str, opt.option(f"Task: {tasks.task_names('or')}; both: forward, retro.", "--task", "-t")] = "both",
    source: Annotated[Path | None, opt.option("Folder with the reaction CSVs; default: built-in queries.")] = None,
    limit: Annotated[int, opt.option("Number of queries per row.")] = 30,
    widths: Annotated[str, opt.option("Beam widths for retro, separated by commas; 1: greedy.")] = "1,5",
    batches: Annotated[str, opt.option("Batch sizes, separated by commas.")] = "1",
    drafters: Annotated[
        str, opt.option("Drafters to time, separated by commas; decoding without drafts is always timed.")
    ] = opt.DEFAULT.drafter,
    preset: Annotated[str, opt.option("Time this architecture with random weights instead of the models.")] = "",
    *,
    runtime: Runtimes,
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
        threads=runtime.threads,
        device=runtime.device,
        dtypes=runtime.precisions(preset),
        runtime=runtime.runtime,
    )
    with show.progress_bar("measuring") as report:
        measured = speed.run_benchmark(plan, progress=report)
    if as_json:
        show.print_json(measured)
        return
    show.print_table(speed_table.build_table(measured))
    show.print_sentence(speed_table.summary_sentence(measured))


# Model with learned drafters for a task whose default model has none.
DRAFTED = {"retro": "retro-50k"}
QueriesOption = Annotated[
    Path | None,
    opt.option("Folder with the reaction CSVs; default: built-in queries.", "--source", envvar="CHEMSPEC_DATA"),
]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Model, queries and drafters of a comparison without times."""

    task: Annotated[str, opt.option("Task: forward or retro.", "--task", "-t")] = "retro"
    model: Annotated[
        str,
        opt.option(
            "Model: folder, checkpoint or installed name; default: the task's with learned drafters.", "--model", "-m"
        ),
    ] = ""
    source: QueriesOption = None
    limit: Annotated[int, opt.option("Number of queries.")] = 50
    drafters: Annotated[str, opt.option("Drafters, separated by commas; default: all that the model can use.")] = ""
    batch_size: opt.BatchOption = 1
    threads: opt.ThreadsOption = 0
    device: opt.DeviceOption = "auto"

    def load(self) -> tuple[Engine, list[str], tuple[str, ...], tuple[str, ...]]:
        """Return the model, its queries, the drafters that it can use, and those that were chosen."""
        from chemspec.bench import speed
        from chemspec.engine.registry import models_dir, usable_drafters

        chosen, model, drafted = opt.load_drafters(self.drafters), self.model, DRAFTED.get(self.task, "")
        if not model and drafted and (models_dir() / drafted).is_dir():
            model = drafted
        engine = opt.load_engine(self.task, model, threads=self.threads, device=self.device)
        queries = [item.query for item in speed.read_queries(engine, self.source, self.limit)]
        show.print_note(f"model {engine.name}, {len(queries)} {'test' if self.source else 'built-in'} queries")
        return engine, queries, usable_drafters(engine.folder), chosen


@command("drafters", "Commands", bench)
def compare_drafters(
    *,
    comparison: Comparison,
    widths: Annotated[str, opt.option("Beam widths, separated by commas; 1: greedy.")] = "1",
    as_json: opt.JsonOption = False,
) -> None:
    """Compare drafters by passes, tokens, nodes and size of weights; no times."""
    from chemspec.bench import counts

    every = opt.parse_integers("widths", widths)
    engine, queries, usable, chosen = comparison.load()
    names, size = chosen or ("none", *(name for name in usable if name != "none")), comparison.batch_size
    with show.progress_bar("counting") as report:
        rows = counts.count_by_drafter(engine, queries, names, widths=every, batch_size=size, progress=report)
    _print_counts(rows, counts.DRAFTER_COLUMNS, map(counts.display_row, rows), as_json)


@command("draft-length", "Commands", bench)
def compare_draft_lengths(
    *,
    comparison: Comparison,
    decoder: opt.DecoderOption = "greedy",
    n: opt.NOption = 1,
    lengths: Annotated[str, opt.option("Draft lengths of small models, with commas; 0: adaptive.")] = "0,2,3,4,6,8,12",
    as_json: opt.JsonOption = False,
) -> None:
    """Compare draft lengths by passes, calls of the draft model and tokens per pass.

    The default drafters are copy, mixed and those with a small model.
    """
    from chemspec.bench import counts

    every = opt.parse_integers("lengths", lengths)
    settings = opt.build_decode_settings(decoder, n, exact=False, batch_size=comparison.batch_size)
    engine, queries, usable, chosen = comparison.load()
    names = chosen or ("copy", "mixed", *(name for name in ("ar", "hierarchy") if name in usable))
    with show.progress_bar("counting") as report:
        rows = counts.count_by_draft_length(engine, queries, settings, names=names, lengths=every, progress=report)
    _print_counts(rows, counts.LENGTH_COLUMNS, rows, as_json)


def _print_counts(
    rows: list[dict[str, Any]], columns: Mapping[str, str], displayed: Iterable[Mapping[str, Any]], as_json: bool
) -> None:
    from chemspec.io import tables

    if as_json:
        show.print_json({"rows": rows})
    else:
        show.print_table(tables.terminal(columns, displayed))


@command("papers", "Commands", bench)
def measure_papers(
    source: QueriesOption = None,
    limit: Annotated[int, opt.option("Number of queries per row.")] = 60,
    seconds: Annotated[float, opt.option("Time limit per row in seconds.")] = 8.0,
    out: Annotated[Path, opt.option("Output folder for the numbers, as JSON and CSV.")] = Path("runs/papers"),
    *,
    runtime: opt.Runtime,
    as_json: opt.JsonOption = False,
) -> None:
    """Reproduce the tables of the three papers next to their published figures; about ten minutes on two cores.

    See assets/docs/papers.md for the tables, and those that are not reproduced.
    """
    from chemspec.bench import papers, papers_tables

    suite = papers.PapersSettings(source=source, limit=limit, seconds=seconds, **vars(runtime))
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
