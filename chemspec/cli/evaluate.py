"""The command `evaluate`: accuracy of a model on a test set."""

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


@command(name="evaluate")
def evaluate_model(
    task: opt.TaskOption,
    model: opt.ModelOption = "",
    source: opt.SourceOption = None,
    file: Annotated[
        Path | None, opt.help_option("CSV with test reactions; default: the task's standard test set.")
    ] = None,
    limit: Annotated[int, opt.help_option("Number of reactions, sampled at random; 0: all.")] = 0,
    seed: Annotated[int, opt.help_option("Random seed for sampling reactions.")] = 0,
    out: Annotated[Path | None, opt.help_option("File for the predictions (.jsonl); resumable.")] = None,
    n: opt.NOption = 10,
    decoder: opt.DecoderOption = "auto",
    drafter: opt.DrafterOption = opt.DEFAULT.drafter,
    exact: opt.ExactOption = True,
    batch_size: opt.BatchOption = 32,
    max_len: opt.LengthOption = opt.DEFAULT.max_len,
    augment: opt.AugmentOption = opt.DEFAULT.augment,
    distinct: opt.DistinctOption = opt.DEFAULT.distinct,
    standard: Annotated[
        bool, opt.help_option("Also decode without drafts, and count the predictions that differ.", "--standard")
    ] = False,
    keep_numbers: opt.KeepOption = False,
    dtype: opt.DtypeOption = "auto",
    device: opt.DeviceOption = "auto",
    threads: opt.ThreadsOption = 0,
    runtime: opt.RuntimeOption = "auto",
    template: opt.TemplateOption = "",
    as_json: opt.JsonOption = False,
) -> None:
    """Measure top-k accuracy on a test set: USPTO-50K for retro, USPTO-MIT mixed for forward, or --file."""
    settings = opt.build_decode_settings(
        decoder, n, exact, drafter=drafter, max_len=max_len, batch_size=batch_size, augment=augment, distinct=distinct
    )
    from chemspec.data import holdout
    from chemspec.evaluation import accuracy

    tests = file or opt.find_test_file(source, task, "give a file of held-out reactions with --file")
    reactions = accuracy.questions(tests, opt.parse_task(task), limit=limit, seed=seed)
    engine = opt.load_engine(
        task, model, device=device, dtype=dtype, threads=threads, runtime=runtime, template=template
    )
    special = {"distinct": distinct, "augmented": augment > 1, "int8": engine.dtype == "int8"}
    names = [name for name, applies in special.items() if applies][:1] or ["accuracy", "failures"]
    if tests.name == holdout.FILE and tasks.TASKS.lookup(task).test:  # then these are the task's test set
        if keep_numbers and any(special.values()):
            raise ValueError("a model card has held-out accuracy of plain answers in fp32 only; leave out --keep")
        names = ["heldout"]
    what = f"{engine.name}-{engine.digest[:6]}-{tests.name.split('.')[0]}-{limit}-{seed}"
    label = f"{settings.decoder}{settings.n}-{drafter}-{max_len}-{engine.dtype}"
    label += f"-augment{augment}" * (augment > 1) + "-distinct" * distinct
    target = out or Path("runs") / f"evaluate-{what}-{label}.jsonl"
    slow = target.with_name(f"{target.stem}-standard.jsonl") if standard else None
    with show.progress_bar("evaluating") as report:
        measured = accuracy.evaluate(engine, reactions, target, settings, standard=slow, progress=report)
    head = {"model": engine.name, "digest": engine.digest, "file": tests.name}
    measured = {**head, "settings": asdict(settings), "predictions": str(target), **measured}
    if keep_numbers:
        names += ["classes"] if measured["top1_by_class"] and "accuracy" in names else []
        opt.store_measurements(engine.folder, names, engine.digest, measured)
    show.print_note(f"predictions: {target}")
    if as_json:
        show.print_json(measured)
    else:
        show.print_accuracy(measured)
