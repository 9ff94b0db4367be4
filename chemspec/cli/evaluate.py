"""Measure answers: `evaluate`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

from chemspec import tasks
from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app

command = partial(app.command, rich_help_panel="Measure")


@command()
def evaluate(
    task: opt.TaskOption,
    model: opt.ModelOption = "",
    source: opt.SourceOption = None,
    file: Annotated[Path | None, opt.option("Test file; default: the task's standard test set.")] = None,
    limit: Annotated[int, opt.option("A random sample of so many reactions; 0: all.")] = 0,
    seed: Annotated[int, opt.option("Of the random sample.")] = 0,
    out: Annotated[Path | None, opt.option("Predictions (.jsonl), resumable.")] = None,
    n: opt.NOption = 10,
    decoder: opt.DecoderOption = "auto",
    drafter: opt.DrafterOption = opt.DEFAULT.drafter,
    exact: opt.ExactOption = True,
    batch_size: opt.BatchOption = 32,
    max_len: opt.LengthOption = opt.DEFAULT.max_len,
    augment: opt.AugmentOption = opt.DEFAULT.augment,
    distinct: opt.DistinctOption = opt.DEFAULT.distinct,
    standard: Annotated[
        bool, opt.option("Answer the standard way too, and count answers that differ.", "--standard")
    ] = False,
    kept: opt.KeepOption = False,
    dtype: opt.DtypeOption = "auto",
    device: opt.DeviceOption = "auto",
    threads: opt.ThreadsOption = 0,
    runtime: opt.RuntimeOption = "auto",
    template: opt.TemplateOption = "",
    as_json: opt.JsonOption = False,
) -> None:
    """Measure top-k exact match on a test set: USPTO-50K for retro, USPTO-MIT mixed for forward, or a file of yours."""
    settings = opt.decode_settings(
        decoder, n, exact, drafter=drafter, max_len=max_len, batch_size=batch_size, augment=augment, distinct=distinct
    )
    from chemspec.data import holdout
    from chemspec.evaluation import accuracy as measure

    tests = file or opt.test_file(source, task, "give a file of held-out reactions with --file")
    asked = measure.questions(tests, opt.as_task(task), limit=limit, seed=seed)
    engine = opt.load(task, model, device=device, dtype=dtype, threads=threads, runtime=runtime, template=template)
    special = {"distinct": distinct, "augmented": augment > 1, "int8": engine.dtype == "int8"}
    names = [name for name, applies in special.items() if applies][:1] or ["accuracy", "failures"]
    if tests.name == holdout.FILE and tasks.TASKS.lookup(task).test:  # without a standard test set these are it
        if kept and any(special.values()):
            raise ValueError("held-out reactions stand in a card with plain answers in fp32 only; leave out --keep")
        names = ["heldout"]
    what = f"{engine.name}-{engine.digest[:6]}-{tests.name.split('.')[0]}-{limit}-{seed}"
    how = f"{settings.decoder}{settings.n}-{drafter}-{max_len}-{engine.dtype}"
    how += f"-augment{augment}" * (augment > 1) + "-distinct" * distinct
    target = out or Path("runs") / f"evaluate-{what}-{how}.jsonl"
    slow = target.with_name(f"{target.stem}-standard.jsonl") if standard else None
    with show.progress("evaluating") as report:
        measured = measure.evaluate(engine, asked, target, settings, standard=slow, progress=report)
    head = {"model": engine.name, "digest": engine.digest, "file": tests.name}
    measured = {**head, "settings": asdict(settings), "predictions": str(target), **measured}
    if kept:
        names += ["classes"] if measured["top1_by_class"] and "accuracy" in names else []
        opt.keep(engine.folder, names, engine.digest, measured)
    show.note(f"predictions: {target}")
    if as_json:
        show.document(measured)
    else:
        show.accuracy(measured)
