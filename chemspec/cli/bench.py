"""The command `bench` and its subcommands `papers`, `drafters` and `draft-length`."""

from pathlib import Path
from typing import Any

import typer

from chemspec.bench.settings import BenchSettings, ComparisonSettings, PapersSettings
from chemspec.cli import options as opt
from chemspec.cli.base import app, command, refuse_group_options
from chemspec.io import tables
from chemspec.terminal import console

bench = typer.Typer(invoke_without_command=True)
app.add_typer(bench, name="bench", rich_help_panel="Models")


@bench.callback()
@opt.expand_options
def benchmark_speed(context: typer.Context, *, settings: BenchSettings) -> dict[str, Any] | None:
    """Time decoding with and without drafts.

    All drafters and precisions decode the same queries in turn, query by query; without options 30 built-in queries
    per shipped model. A speed-up is the median over queries, with its 95 % interval.
    """
    if context.invoked_subcommand:
        refuse_group_options(context)
        return None
    from chemspec.bench import speed

    with console.progress_bar("measuring") as report:
        measured = speed.run_benchmark(settings, progress=report)
    console.print_table(speed.build_table(measured))
    console.print_sentence(speed.summary_sentence(measured))
    return measured


@command("drafters", "Commands", bench)
def compare_drafters(*, comparison: ComparisonSettings, widths: tuple[int, ...] = (1,)) -> dict[str, Any]:
    """Compare drafters by passes, tokens, nodes and size of weights; no times.

    Options:
        widths: beam widths, separated by commas; 1: greedy.
    """
    from chemspec.bench import counts, sweep

    with console.progress_bar("counting") as report:
        rows = counts.compare_drafters(comparison, widths, tell=console.print_note, progress=report)
    console.print_table(tables.terminal(sweep.COLUMNS["drafters"], map(counts.display_row, rows)))
    console.print_sentence(counts.LEGEND, "dim")
    return {"rows": rows}


@command("draft-length", "Commands", bench)
def compare_draft_lengths(
    *,
    comparison: ComparisonSettings,
    decoder: str = "auto",
    n: int = 1,
    lengths: tuple[int, ...] = (0, 2, 3, 4, 6, 8, 12),
    counts: tuple[int, ...] = (0,),
) -> dict[str, Any]:
    """Compare draft lengths by passes, calls of the draft model and tokens per pass.

    Options:
        drafters: drafters, separated by commas; default: those of copy, mixed, ar and hierarchy that can be used.
        lengths: draft lengths of drafters with a network, with commas; 0: adaptive (small models) or the longest.
        counts: numbers of drafts, with commas; 0: the drafter decides; with others the lengths are of all drafters.
    """
    from chemspec.bench import counts as sizes
    from chemspec.bench import sweep

    settings = opt.build_decode_settings(decoder, n, exact=False, batch_size=comparison.batch_size)
    with console.progress_bar("counting") as report:
        rows = sizes.compare_draft_lengths(
            comparison, settings, lengths, counts, tell=console.print_note, progress=report
        )
    console.print_table(tables.terminal(sweep.COLUMNS["draft-length"], rows))
    return {"rows": rows}


@command("papers", "Commands", bench)
def measure_papers(*, suite: PapersSettings, out: Path = Path("runs/papers")) -> dict[str, Any]:
    """Reproduce the tables of the three papers next to their published figures; about ten minutes on two cores.

    See assets/docs/papers.md for the tables, and those that are not reproduced.

    Options:
        out: output folder for the numbers, as JSON and CSV.
    """
    from chemspec.bench import papers

    with console.progress_bar("measuring") as report:
        measured = papers.measure_tables(suite, progress=report)
    document = {"command": opt.command_line(), **measured}
    for file in papers.write_report(document, out):
        console.print_note(str(file))
    for table in papers.terminal_tables(document):
        console.print_table(table)
        console.print_line("")
    for text in (*papers.FIGURES["legend"], *document["notes"]):
        console.print_sentence(text, "dim")
    return document
