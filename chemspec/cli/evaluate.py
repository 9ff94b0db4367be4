"""Measure answers and speed: `evaluate` and `bench`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from chemspec import tasks
from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app
from chemspec.system import gpu

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


def _head_to_head(
    model: str,
    against: str,
    how: dict[str, Any],
    *,
    source: Path | None,
    limit: int,
    widths: tuple[int, ...],
    drafter: str,
    rules: str,
    max_len: int,
    threads: int,
    as_json: bool,
) -> None:
    """Race a checkpoint's own program; see `bench.peers.compare`."""
    from chemspec.bench import peers, speed
    from chemspec.engine.engine import Engine

    engine = Engine.load(model, threads=threads, **how)
    queries = [one.query for one in speed.asked(engine, source, limit)]
    vocab = how["vocab"] or None
    with show.progress("racing") as report:
        rows = peers.compare(
            engine,
            against,
            queries,
            widths=widths,
            drafter=drafter,
            rules=rules,
            max_len=max_len,
            threads=threads,
            vocab=vocab,
            progress=report,
        )
    if as_json:
        show.document({"command": opt.command_line(), "machine": speed.machine(threads), "rows": rows})
    else:
        show.line(peers.table(rows))


@command(name="bench")
def bench_(
    task: Annotated[str, opt.option(f"{tasks.in_words('or')}; both: forward and retro.", "--task", "-t")] = "both",
    source: Annotated[Path | None, opt.option("Folder with the reaction CSVs; default: the built-in queries.")] = None,
    limit: Annotated[int, opt.option("Queries per row.")] = 30,
    widths: Annotated[str, opt.option("Beam widths for retro; 1 is greedy.")] = "1,5",
    batches: Annotated[str, opt.option("Batch sizes.")] = "1",
    engines: Annotated[
        str,
        opt.option(
            "Of chemspec, oracle (chemspec told the answer), onnx (ONNX Runtime computes its passes), naive (a decoder "
            "without a cache), ctranslate2 (on one core), ctranslate2-all (on all cores)."
        ),
    ] = "chemspec",
    drafters: Annotated[str, opt.option("Drafters of chemspec's rows, besides none.")] = opt.DEFAULT.drafter,
    preset: Annotated[str, opt.option("Time this architecture with random weights instead of the models.")] = "",
    model: Annotated[str, opt.option("With --against: a checkpoint of another program.", "--model", "-m")] = "",
    against: Annotated[
        str, opt.option("Race that program's own decoder: onmt, translation-transformer, chemformer or transformers.")
    ] = "",
    vocab: Annotated[Path | None, opt.option("With --against: the file of its vocabulary.")] = None,
    rules: Annotated[bool, opt.option("With --against: search our beams by its rules.", "--rules")] = False,
    template: opt.TemplateOption = "",
    max_len: opt.LengthOption = opt.DEFAULT.max_len,
    threads: opt.ThreadsOption = 0,
    device: opt.DeviceOption = "auto",
    dtype: Annotated[
        str, opt.option("Of fp32, int8, bf16, fp16; several, by commas, side by side; auto: fp32 and int8 on a CPU.")
    ] = "auto",
    runtime: opt.RuntimeOption = "auto",
    markdown: Annotated[
        Path | None, opt.option("Append the table to this document, with command and machine.", "--markdown")
    ] = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Time decoding with and without drafts, and other programs.

    All decode the same queries with the same weights on this machine, and take turns query by query. Without options
    the shipped models answer 30 built-in queries each. A gain is the median over queries, with its 95 % interval.
    """
    opt.check_folders(markdown)
    if model or against:
        if not (model and against):
            raise ValueError("--model and --against go together: a checkpoint, and the program that wrote it")
        how = {"task": None if task == "both" else opt.as_task(task), "template": template, "vocab": vocab or ""}
        _head_to_head(
            model,
            against,
            {**how, "device": device, "dtype": dtype, "runtime": runtime},
            source=source,
            limit=limit,
            widths=opt.numbers("widths", widths),
            drafter=opt.words(drafters)[0],
            rules=against if rules else opt.DEFAULT.rules,
            max_len=max_len,
            threads=threads or 1,
            as_json=as_json,
        )
        return
    from chemspec.bench import speed, speed_table

    plan = speed.BenchSettings(
        tasks=("forward", "retro") if task == "both" else (opt.as_task(task),),
        source=source,
        limit=limit,
        widths=opt.numbers("widths", widths),
        batches=opt.numbers("batches", batches),
        engines=opt.words(engines),
        drafters=opt.words(drafters),
        preset=preset,
        threads=threads,
        device=device,
        dtypes=_precisions(dtype, device, runtime, preset),
        runtime=runtime,
        roof=as_json or markdown is not None,
    )
    with show.progress("measuring") as report:
        measured = speed.run(plan, progress=report)
    if markdown is not None:
        with markdown.open("a", encoding="utf-8") as file:
            file.write("\n" + speed_table.markdown(measured, opt.command_line()))
    if as_json:
        show.document(measured)
        return
    show.table(speed_table.table(measured))
    show.sentence(speed_table.sentence(measured))


def _precisions(dtype: str, device: str, runtime: str, preset: str) -> tuple[str, ...]:
    """Return the precisions to time; "auto" is both that the compiled kernel knows, where it may run."""
    both = dtype == "auto" and device in ("auto", "cpu") and runtime in ("auto", "native") and not preset
    return ("fp32", "int8") if both and not gpu.available() else opt.words(dtype)
