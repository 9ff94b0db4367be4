"""Compare exact decoding with a decoder without cache or drafts: `python tests/programs/lossless.py --help`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script
from programs import comparison as compare

from chemspec.cli import options as opt
from chemspec.engine.registry import task_of_model
from chemspec.io import readers
from chemspec.tasks import check_task
from chemspec.terminal import console


def main(
    file: Annotated[Path | None, typer.Argument(help="File of queries; default: the built-in ones.")] = None,
    task: str = "",
    model: str = "",
    column: Annotated[str, option("Column of the file with the SMILES.")] = "",
    limit: Annotated[int, option("A random sample of so many queries; 0: all.")] = 200,
    seed: Annotated[int, option("Random seed of the sample.")] = 0,
    skip: Annotated[
        int, typer.Option(min=0, help="Leave out so many of the sample, which an earlier run compared.")
    ] = 0,
    decoder: Annotated[str, option("auto, greedy or beam; auto: greedy for one answer.")] = "auto",
    n: int = 1,
    drafter: Annotated[
        list[str] | None, option("Drafter to compare; may be given several times; default auto.")
    ] = None,
    batch_size: int = opt.DEFAULT.batch_size,
    max_len: int = opt.DEFAULT.max_len,
    against: Annotated[str, option("naive (torch, without a cache) or numpy (independent, fast).")] = "naive",
    out: Annotated[Path | None, option("File of what was compared; run again to resume.")] = None,
    minutes: Annotated[float, option("Minutes after which no query is begun; 0: no limit.")] = 0.0,
    device: str = "auto",
    dtype: Annotated[str, option("fp32 or int8.")] = "fp32",
    threads: int = 0,
    runtime: str = "auto",
    markdown: Annotated[Path | None, option("Append the rows to this document.", "--markdown")] = None,
) -> None:
    """Compare exact decoding with a naive decoder without cache or drafts, in fp32 or int8.

    Exit code 1 if any answer differs that is no tie in the arithmetic. Ctrl-C ends it early and reports what was
    compared; with --out the same command goes on.
    """
    opt.check_parent_folders(markdown)
    # As many drafts as the budget allows: the planner would leave most out of beams, and nothing would be compared.
    settings = opt.build_decode_settings(decoder, n, True, max_len=max_len, batch_size=batch_size, drafting="fixed")
    task_of_queries = check_task(task) if task else task_of_model(model)
    given = None if file is None else readers.read_queries(file, column, task_of_queries, console.print_note)
    engine = opt.load_engine(task, model, device=device, dtype=dtype, threads=threads, runtime=runtime)
    queries = compare.queries_for(engine, given, limit=limit, seed=seed, skip=skip)
    names, interrupted = drafter or [opt.DEFAULT.drafter], False
    stamp = compare.stamp_of(engine, queries, settings, drafters=names, against=against)
    journal = None if out is None else compare.Journal(out, stamp)
    counts = journal.counts if journal else []
    keep = journal.add if journal else counts.append
    rest = queries[journal.done :] if journal else queries
    with console.progress_bar("comparing") as report:
        run = compare.check(engine, rest, settings, names, against=against, minutes=minutes, progress=report)
        try:
            for chunk in run:  # one by one: what is done stays done
                keep(compare.count(chunk))
        except KeyboardInterrupt:
            interrupted = True
    compared = {
        "task": engine.task,
        "model": engine.name,
        "digest": engine.digest,
        "dtype": engine.dtype,
        "runtime": engine.runtime,
        "wanted": len(queries),
        "interrupted": interrupted,
        "against": against,
        **compare.summary(counts, settings),
    }
    if markdown is not None and counts:
        head = not markdown.exists()
        with markdown.open("a", encoding="utf-8") as text:
            text.write(compare.markdown(compared, head=head) + "\n")
    console.print_table(compare.table(compared))
    console.print_json(compared)
    raise typer.Exit(130 if interrupted else 0 if compared["fine"] else 1)


app = script(main)
if __name__ == "__main__":
    app()
