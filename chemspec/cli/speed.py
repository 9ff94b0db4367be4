"""How fast do they come? `tally` and `gammas` count, `bench` takes the time."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from chemspec.cli import show
from chemspec.cli.base import app
from chemspec.cli.options import (
    DATA,
    DEFAULT,
    BatchOption,
    DecoderOption,
    DeviceOption,
    DtypeOption,
    JsonOption,
    ModelOption,
    NOption,
    RuntimeOption,
    SourceOption,
    TaskOption,
    ThreadsOption,
    as_task,
    decode_settings,
    load,
    numbers,
    option,
    questions,
    words,
)

command = partial(app.command, rich_help_panel="How fast do they come?")


@command()
def tally(
    task: TaskOption,
    model: ModelOption = "",
    source: SourceOption = DATA,
    limit: Annotated[int, option("A random sample of so many test reactions.")] = 200,
    drafters: Annotated[str, option("Drafters, with commas.")] = "none,copy,mixed,auto",
    widths: Annotated[str, option("Beam widths; 1 is greedy.")] = "1",
    batch_size: BatchOption = 1,
    threads: ThreadsOption = 0,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Count what each drafter saves on test queries: passes, tokens, nodes, memory; no times."""
    from chemspec.bench import drafters as counting

    asked = questions(source, task, limit=limit)
    engine = load(task, model, threads=threads, device=device)
    with show.progress("counting") as report:
        rows = counting.tally(
            engine,
            [item.query for item in asked],
            words(drafters),
            widths=numbers("widths", widths),
            batch_size=batch_size,
            progress=report,
        )
    if as_json:
        print(json.dumps({"rows": rows}))
    else:
        print(counting.markdown(rows, counting.target_megabytes(engine)))


@command()
def gammas(
    task: TaskOption,
    model: ModelOption = "",
    source: SourceOption = DATA,
    limit: Annotated[int, option("A random sample of so many test reactions.")] = 200,
    decoder: DecoderOption = "greedy",
    n: NOption = 1,
    drafters: Annotated[str, option("Drafters to count.")] = "copy,mixed,ar,hierarchy",
    lengths: Annotated[str, option("Tokens that a small model drafts; 0 adapts to their fate.")] = "0,2,3,4,6,8,12",
    batch_size: BatchOption = 1,
    threads: ThreadsOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Count passes, runs of small models and tokens a pass by draft length, on test reactions."""
    from chemspec.bench import draft_length as counting

    engine = load(task, model, threads=threads)
    asked = questions(source, engine.task, limit=limit)
    settings = decode_settings(decoder, n, exact=False, batch_size=batch_size)
    with show.progress("counting") as report:
        rows = counting.count(
            engine,
            [item.query for item in asked],
            settings,
            drafters=words(drafters),
            lengths=numbers("lengths", lengths),
            progress=report,
        )
    if as_json:
        print(json.dumps({"rows": rows}))
        return
    show.line(" | ".join(rows[0]))
    for row in rows:
        show.line(" | ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row.values()))


@command(name="bench")
def bench_(
    task: Annotated[str, option("forward, retro or both.", "--task", "-t")] = "both",
    source: Annotated[Path | None, option("Folder with the reaction CSVs; default: the built-in queries.")] = None,
    limit: Annotated[int, option("Queries per row.")] = 200,
    widths: Annotated[str, option("Beam widths for retro; 1 is greedy.")] = "5,10,25",
    batches: Annotated[str, option("Batch sizes.")] = "1,32",
    engines: Annotated[
        str,
        option(
            "Of chemspec, oracle (chemspec told the answer), naive, ctranslate2 (on one core), ctranslate2-all (on all cores)."
        ),
    ] = "chemspec,naive,ctranslate2,ctranslate2-all",
    drafters: Annotated[str, option("Drafters of chemspec's rows, besides none.")] = DEFAULT.drafter,
    preset: Annotated[str, option("Time this architecture with random weights instead of the models.")] = "",
    threads: ThreadsOption = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    runtime: RuntimeOption = "auto",
    markdown: Annotated[
        Path | None, option("Append the table to this document, with command and machine.", "--markdown")
    ] = None,
    suite: Annotated[str, option("papers: the papers' tables and figures; heeds limit, source and --out only.")] = "",
    out: Annotated[Path, option("For --suite: folder of benchmarks.md, whose section is rewritten.")] = Path(
        "assets/docs"
    ),
    seconds: Annotated[float, option("For --suite: most seconds of a row.")] = 20.0,
    as_json: JsonOption = False,
) -> None:
    """Time decoding against the naive decoder and CTranslate2 on the same weights, queries and machine."""
    if suite:
        _suite(
            suite,
            out,
            source=source,
            limit=limit,
            seconds=seconds,
            threads=threads,
            device=device,
            dtype=dtype,
            runtime=runtime,
        )
        return
    from chemspec.bench import speed

    plan = speed.Plan(
        tasks=("forward", "retro") if task == "both" else (as_task(task),),
        source=source,
        limit=limit,
        widths=numbers("widths", widths),
        batches=numbers("batches", batches),
        engines=words(engines),
        drafters=words(drafters),
        preset=preset,
        threads=threads,
        device=device,
        dtype=dtype,
        runtime=runtime,
    )
    with show.progress("measuring") as report:
        found = speed.run(plan, progress=report)
    if markdown is not None:
        with markdown.open("a", encoding="utf-8") as file:
            file.write("\n" + speed.markdown(found, "chemspec " + " ".join(sys.argv[1:])))
    if not as_json:
        show.table(speed.table(found))
    print(json.dumps(found))


def _suite(name: str, out: Path, **options: Any) -> None:
    """The benchmark `--suite`; the last line is its report as JSON."""
    if name != "papers":
        raise ValueError(f"no suite {name!r}; there is papers")
    from chemspec.bench import papers
    from chemspec.system.energy import Meter

    with show.progress("measuring") as report:
        found = papers.run(papers.Suite(**options), progress=report, meter=Meter.find())
    for file in papers.write(found, "chemspec " + " ".join(sys.argv[1:]), out):
        show.note(str(file))
    print(json.dumps(found))
