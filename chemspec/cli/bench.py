"""The command `bench` and its subcommands `papers`, `drafters` and `draft-length`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chemspec.bench.settings import BenchSettings
from chemspec.cli import options as opt
from chemspec.cli.base import app, command, refuse_group_options
from chemspec.io import tables
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import Task
from chemspec.system import gpu
from chemspec.tasks import check_task
from chemspec.terminal import console
from chemspec.terminal.documented_options import FieldsOf

if TYPE_CHECKING:  # the engine takes seconds to import; --help should not
    from chemspec.engine.engine import Engine

ROWS = ("model", "source", "limit", "widths", "batches", "drafters", "threads", "device", "runtime")

bench = typer.Typer(invoke_without_command=True)
app.add_typer(bench, name="bench", rich_help_panel="Models")


@bench.callback()
@opt.expand_options
def benchmark_speed(
    context: typer.Context,
    task: str = "both",
    dtype: tuple[str, ...] = ("auto",),
    *,
    rows: Annotated[dict[str, Any], FieldsOf(BenchSettings, ROWS)],
) -> dict[str, Any] | None:
    """Time decoding with and without drafts.

    All drafters and precisions decode the same queries in turn, query by query; without options 30 built-in queries
    per shipped model. A speed-up is the median over queries, with its 95 % interval.

    Options:
        task -t: task: forward, retro or reagents; both: forward, retro; with --model, that model's.
        model -m: model to time: folder, checkpoint or installed name; default: the task's.
        source: folder with the reaction CSVs; default: built-in queries.
        limit: number of queries per row.
        dtype: precisions (fp32, int8, bf16, fp16), separated by commas; auto: fp32 and int8 on a CPU.
    """
    if context.invoked_subcommand:
        refuse_group_options(context)
        return None
    from chemspec.bench import speed, speed_table
    from chemspec.engine.registry import task_of_model

    if rows["model"] and task == "both":
        task = task_of_model(rows["model"]) or opt.load_engine("", rows["model"]).task
    tasks: tuple[Task, ...] = ("forward", "retro") if task == "both" else (check_task(task),)
    rows["drafters"] = tuple(map(DRAFTERS.load, rows["drafters"]))
    on_cpu = rows["device"] in ("auto", "cpu") and rows["runtime"] in ("auto", "native") and not gpu.gpu_available()
    dtypes = ("fp32", "int8") if dtype == ("auto",) and on_cpu else dtype  # int8 where the compiled kernel can run
    settings = BenchSettings(tasks=tasks, dtypes=dtypes, **rows)
    with console.progress_bar("measuring") as report:
        measured = speed.run_benchmark(settings, progress=report)
    console.print_table(speed_table.build_table(measured))
    console.print_sentence(speed_table.summary_sentence(measured))
    return measured


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Model, queries and drafters of a comparison without times.

    Attributes:
        task -t: task: forward, retro or reagents; default: the model's, without a model retro.
        model -m: model: folder, checkpoint or installed name; default: the task's.
        source: folder with the reaction CSVs; default: built-in queries.
        limit: number of queries.
        drafters: drafters, separated by commas; default: all that the model can use.
    """

    task: str = ""
    model: str = ""
    source: opt.Source = None
    limit: int = 50
    drafters: tuple[str, ...] = ()
    batch_size: int = 1
    threads: int = 0
    device: str = "auto"

    def load(self) -> tuple[Engine, list[str], tuple[str, ...], tuple[str, ...]]:
        """Return the model, its queries, the drafters that it can use, and those that were chosen."""
        from chemspec.bench import speed
        from chemspec.engine.registry import usable_drafters

        if self.limit < 1:
            raise ValueError(f"limit is {self.limit}; it must be at least 1")
        chosen = tuple(map(DRAFTERS.load, self.drafters))
        task = self.task or ("" if self.model else "retro")
        engine = opt.load_engine(task, self.model, threads=self.threads, device=self.device)
        queries = [item.query for item in speed.read_queries(engine, self.source, self.limit)]
        console.print_note(f"model {engine.name}, {len(queries)} {'test' if self.source else 'built-in'} queries")
        return engine, queries, usable_drafters(engine.folder), chosen


@command("drafters", "Commands", bench)
def compare_drafters(*, comparison: Comparison, widths: tuple[int, ...] = (1,)) -> dict[str, Any]:
    """Compare drafters by passes, tokens, nodes and size of weights; no times.

    Options:
        widths: beam widths, separated by commas; 1: greedy.
    """
    from chemspec.bench import counts

    engine, queries, usable, chosen = comparison.load()
    names, size = chosen or ("none", *(name for name in usable if name != "none")), comparison.batch_size
    with console.progress_bar("counting") as report:
        rows = counts.count_by_drafter(engine, queries, names, widths=widths, batch_size=size, progress=report)
    console.print_table(tables.terminal(counts.DRAFTER_COLUMNS, map(counts.display_row, rows)))
    console.print_sentence(counts.LEGEND, "dim")
    return {"rows": rows}


@command("draft-length", "Commands", bench)
def compare_draft_lengths(
    *, comparison: Comparison, decoder: str = "greedy", n: int = 1, lengths: tuple[int, ...] = (0, 2, 3, 4, 6, 8, 12)
) -> dict[str, Any]:
    """Compare draft lengths by passes, calls of the draft model and tokens per pass.

    Options:
        drafters: drafters, separated by commas; default: those of copy, mixed, ar and hierarchy that can be used.
        lengths: draft lengths of drafters with a network, with commas; 0: adaptive (small models) or the longest.
    """
    from chemspec.bench import counts

    size, drafter = comparison.batch_size, opt.DEFAULT.drafter
    settings = opt.build_decode_settings(decoder, n, exact=False, drafter=drafter, batch_size=size)
    engine, queries, usable, chosen = comparison.load()
    if DECODERS.lookup(settings.decoder).drafts == "sampled":
        usable = tuple(name for name in usable if DRAFTERS.lookup(name).build_sampled)
    if not (names := chosen or tuple(name for name in ("copy", "mixed", "ar", "hierarchy") if name in usable)):
        raise ValueError(f"{settings.decoder} needs a small model, which {engine.name} lacks: chemspec train --list")
    with console.progress_bar("counting") as report:
        rows = counts.count_by_draft_length(engine, queries, settings, names=names, lengths=lengths, progress=report)
    console.print_table(tables.terminal(counts.LENGTH_COLUMNS, rows))
    return {"rows": rows}


@command("papers", "Commands", bench)
def measure_papers(
    source: opt.Source = None,
    limit: int = 60,
    seconds: float = 8.0,
    out: Path = Path("runs/papers"),
    *,
    runtime: opt.Runtime,
) -> dict[str, Any]:
    """Reproduce the tables of the three papers next to their published figures; about ten minutes on two cores.

    See assets/docs/papers.md for the tables, and those that are not reproduced.

    Options:
        source: folder with the reaction CSVs; default: built-in queries.
        limit: number of queries per row.
        seconds: time limit per row in seconds.
        out: output folder for the numbers, as JSON and CSV.
    """
    from chemspec.bench import papers, papers_tables

    suite = papers.PapersSettings(source=source, limit=limit, seconds=seconds, **runtime.loading)
    with console.progress_bar("measuring") as report:
        measured = {"command": opt.command_line(), **papers.measure_tables(suite, progress=report)}
    for file in papers_tables.write_report(measured, out):
        console.print_note(str(file))
    for table in papers_tables.terminal_tables(measured):
        console.print_table(table)
        console.print_line("")
    for text in (*papers_tables.LEGEND, *measured["notes"]):
        console.print_sentence(text, "dim")
    return measured
