"""Measure drafters and sizes of models: `dev spec-verification`, `alpha` and `full-size`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import dev
from chemspec.plugins import DRAFTERS
from chemspec.tokenizer import SPECIALS

command = partial(dev.command, rich_help_panel="How fast do answers come?")


@command()
def spec_verification(
    task: opt.TaskOption,
    model: opt.ModelOption = "",
    source: opt.SourceOption = None,
    limit: Annotated[int, opt.option("A random sample of so many test reactions; 0: all.")] = 1000,
    drafters: Annotated[str, opt.option("Drafters, with commas.")] = "copy",
    betas: Annotated[str, opt.option("Best tokens that may be drafted; 1 is exact.")] = "3",
    taus: Annotated[str, opt.option("Most log-prob that a drafted token may lack.")] = "1",
    batch_size: opt.BatchOption = 1,
    threads: opt.ThreadsOption = 0,
    device: opt.DeviceOption = "auto",
    as_json: opt.JsonOption = False,
) -> None:
    """Compare Spec-Verification (Xia et al.) with exact verification: tokens per pass, agreement and accuracy."""
    from chemspec.bench import counts

    asked = opt.questions(source, task, limit=limit)
    engine = opt.load(task, model, threads=threads, device=device)
    with show.progress("answering") as report:
        rows = counts.spec_verification(
            engine,
            asked,
            opt.words(drafters),
            betas=opt.numbers("betas", betas),
            taus=opt.reals("taus", taus),
            batch_size=batch_size,
            progress=report,
        )
    if as_json:
        show.document({"task": task, "rows": rows})
    else:
        print(counts.rule_table(rows))


@command()
def alpha(
    task: opt.TaskOption,
    model: opt.ModelOption = "",
    source: opt.SourceOption = None,
    queries: Annotated[int, opt.option("Validation queries, drawn at random; 0: all.")] = 60,
    seed: Annotated[int, opt.option("Of the random choice.")] = 0,
    length: Annotated[int, opt.option("Tokens drafted at once.")] = 8,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Count the share of its small drafters' tokens that a model accepts; their adaptive draft length starts there."""
    from chemspec.bench import counts
    from chemspec.draft.learned.small import write_alpha
    from chemspec.engine.registry import usable
    from chemspec.model.drafter_checkpoints import drafter_folder

    asked = opt.questions(source, task, "val", limit=queries, seed=seed)
    engine = opt.load(task, model, threads=threads)
    made = f"chemspec dev alpha --task {engine.task} --queries {queries} --seed {seed} --length {length}"
    names = [name for name in usable(engine.folder) if name in ("ar", "hierarchy")]
    if not names:
        raise ValueError(f"{engine.folder} has no small model to count; train one first")
    rates = {}
    for name in names:
        rates[name] = counts.alpha(engine, [item.query for item in asked], name, length=length)
        judged = DRAFTERS[name].companions[-1]  # the small model whose drafts the target judges
        show.note(str(write_alpha(drafter_folder(engine.folder, judged), rates[name], counted=made)))
    if as_json:
        show.document(rates)
    else:
        show.line(", ".join(f"{name} {rate:.3f}" for name, rate in rates.items()))


@command()
def full_size(
    names: Annotated[list[str] | None, typer.Argument(help="Architectures; default: all.")] = None,
    limit: Annotated[int, opt.option("Queries of each.")] = 12,
    length: Annotated[int, opt.option("Tokens of an answer.")] = 46,
    threads: opt.ThreadsOption = 1,
    as_json: opt.JsonOption = False,
) -> None:
    """Load and decode random checkpoints of published architectures, beside their programs: memory, times, passes."""
    from chemspec.bench import full_size as measuring
    from chemspec.bench import speed
    from chemspec.engine.engine import Engine

    chosen = names or list(measuring.ARCHITECTURES)
    if unknown := [name for name in chosen if name not in measuring.ARCHITECTURES]:
        raise ValueError(f"no architecture {unknown[0]!r}; there are {', '.join(measuring.ARCHITECTURES)}")
    smiles = Engine.load("forward", threads=threads).tokenizer.tokens[len(SPECIALS) :]
    rows = []
    with show.progress("architectures") as report:
        for number, name in enumerate(chosen):
            rows.append(measuring.run(name, smiles, queries=limit, length=length, threads=threads))
            report(number + 1, len(chosen))
    if not as_json:
        show.line(measuring.table(rows))
    show.document({"command": opt.command_line(), "machine": speed.machine(threads), "rows": rows})
