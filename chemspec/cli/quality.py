"""Are the answers right? `reliability`, `evaluate`, `relaxed`, `lossless`, `roundtrip`, `card`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from chemspec.cli import show
from chemspec.cli.base import app
from chemspec.cli.options import (
    DATA,
    DEFAULT,
    AugmentOption,
    BatchOption,
    DecoderOption,
    DeviceOption,
    DrafterOption,
    DtypeOption,
    ExactOption,
    JsonOption,
    KeepOption,
    LengthOption,
    ModelOption,
    NOption,
    RuntimeOption,
    SourceOption,
    TaskOption,
    TemplateOption,
    ThreadsOption,
    as_task,
    decode_settings,
    load,
    numbers,
    option,
    questions,
    words,
)
from chemspec.settings import DecodeSettings

command = partial(app.command, rich_help_panel="Are the answers right?")


@command()
def reliability(
    task: TaskOption,
    model: ModelOption = "",
    source: SourceOption = DATA,
    queries: Annotated[int, option("Validation queries, drawn at random; 0: all.")] = 1000,
    seed: Annotated[int, option("Of the random choice.")] = 0,
    n: NOption = 10,
    out: Annotated[Path | None, option("Predictions (.jsonl), resumable.")] = None,
    store: Annotated[bool, option("Write confidence.json into the model folder.")] = True,
    kept: KeepOption = False,
    threads: ThreadsOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Measure on validation data how often answers of a probability are right, and keep what turns one into the
    other."""
    from chemspec.evaluation import calibration as judging

    asked = questions(source, task, "val", limit=queries, seed=seed)
    engine = load(task, model, threads=threads)
    made = f"chemspec reliability --task {engine.task} --queries {queries} --seed {seed} -n {n}"
    what = f"{engine.name}-{engine.digest[:6]}-{queries}-{seed}-beam{n}"
    target = out or Path("runs") / f"reliability-{what}.jsonl"
    with show.progress("asking") as report:
        found, told = judging.measure(
            engine, asked, target, DecodeSettings(n=n, batch_size=32), made=made, progress=report
        )
    if store:
        found.save(engine.folder)
        show.note(f"{engine.folder / 'confidence.json'} written")
    document = {"model": engine.name, "digest": engine.digest, "made": made, **asdict(told)}
    if kept:
        _keep(engine.folder, ["reliability"], engine.digest, {**document, "numbers": judging.NUMBERS})
    if as_json:
        print(json.dumps(document))
    else:
        show.reliability(told.rows(), judging.NUMBERS)


@command()
def evaluate(
    task: TaskOption,
    model: ModelOption = "",
    source: SourceOption = DATA,
    file: Annotated[Path | None, option("Test file; default: the task's standard test set.")] = None,
    limit: Annotated[int, option("A random sample of so many reactions; 0: all.")] = 0,
    seed: Annotated[int, option("Of the random sample.")] = 0,
    out: Annotated[Path | None, option("Predictions (.jsonl), resumable.")] = None,
    n: NOption = 10,
    decoder: DecoderOption = "auto",
    drafter: DrafterOption = DEFAULT.drafter,
    exact: ExactOption = True,
    batch_size: BatchOption = 32,
    max_len: LengthOption = DEFAULT.max_len,
    augment: AugmentOption = DEFAULT.augment,
    standard: Annotated[
        bool, option("Answer the standard way too, and count answers that differ.", "--standard")
    ] = False,
    kept: KeepOption = False,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    runtime: RuntimeOption = "auto",
    template: TemplateOption = "",
    as_json: JsonOption = False,
) -> None:
    """Top-k exact match on the standard test sets (USPTO-50K for retro, USPTO-MIT mixed for forward)."""
    settings = decode_settings(
        decoder, n, exact, drafter=drafter, max_len=max_len, batch_size=batch_size, augment=augment
    )
    from chemspec.evaluation import accuracy as measure

    tests = file or source / f"{as_task(task)}_test.csv.gz"
    asked = measure.questions(tests, as_task(task), limit=limit, seed=seed)
    engine = load(task, model, device=device, dtype=dtype, threads=threads, runtime=runtime, template=template)
    what = f"{engine.name}-{engine.digest[:6]}-{tests.name.split('.')[0]}-{limit}-{seed}"
    how = f"{settings.decoder}{settings.n}-{drafter}-{max_len}-{engine.dtype}"
    how += f"-augment{augment}" if augment > 1 else ""
    target = out or Path("runs") / f"evaluate-{what}-{how}.jsonl"
    slow = target.with_name(f"{target.stem}-standard.jsonl") if standard else None
    with show.progress("evaluating") as report:
        found = measure.evaluate(engine, asked, target, settings, standard=slow, progress=report)
    head = {"model": engine.name, "digest": engine.digest, "file": tests.name}
    found = {**head, "settings": asdict(settings), "predictions": str(target), **found}
    if kept:
        names = ["augmented"] if augment > 1 else ["accuracy", "failures"]
        names += ["classes"] if found["top1_by_class"] and augment == 1 else []
        _keep(engine.folder, names, engine.digest, found)
    show.note(f"predictions: {target}")
    if as_json:
        print(json.dumps(found))
    else:
        show.accuracy(found)


@command()
def relaxed(
    task: TaskOption,
    model: ModelOption = "",
    source: SourceOption = DATA,
    limit: Annotated[int, option("A random sample of so many test reactions; 0: all.")] = 1000,
    drafters: Annotated[str, option("Drafters, with commas.")] = "copy",
    betas: Annotated[str, option("Best tokens that may be drafted; 1 is exact.")] = "3",
    taus: Annotated[str, option("Most log-prob that a drafted token may lack.")] = "1",
    batch_size: BatchOption = 1,
    threads: ThreadsOption = 0,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Spec-Verification (Xia et al.) against exact verification: tokens per pass, agreement and accuracy."""
    from chemspec.bench import spec_verification as verification

    asked = questions(source, task, limit=limit)
    engine = load(task, model, threads=threads, device=device)
    with show.progress("answering") as report:
        rows = verification.grid(
            engine,
            asked,
            words(drafters),
            betas=numbers("betas", betas),
            taus=numbers("taus", taus),
            batch_size=batch_size,
            progress=report,
        )
    print(json.dumps({"task": task, "rows": rows}) if as_json else verification.markdown(rows))


@command()
def lossless(
    file: Annotated[Path | None, typer.Argument(help="File of queries; default: the built-in ones.")] = None,
    task: TaskOption = "",
    model: ModelOption = "",
    column: Annotated[str, option("Column of the file with the SMILES.")] = "",
    limit: Annotated[int, option("A random sample of so many queries; 0: all.")] = 200,
    seed: Annotated[int, option("Of the random sample.")] = 0,
    skip: Annotated[
        int, typer.Option(min=0, help="Leave out so many of the sample, which an earlier run compared.")
    ] = 0,
    decoder: Annotated[str, option("auto, greedy or beam; auto: greedy for one answer.")] = "auto",
    n: NOption = 1,
    drafter: Annotated[
        list[str] | None, option("Drafter to compare; may be given several times; default auto.")
    ] = None,
    batch_size: BatchOption = DEFAULT.batch_size,
    max_len: LengthOption = DEFAULT.max_len,
    minutes: Annotated[float, option("Begin no more queries after this time; 0: no limit.")] = 0.0,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    runtime: RuntimeOption = "auto",
    markdown: Annotated[Path | None, option("Append the rows to this document.", "--markdown")] = None,
) -> None:
    """Compare exact decoding with a naive decoder without cache or drafts, in fp32; exit code 1 if any answer differs
    that is no tie in the arithmetic. Ctrl-C ends it early and reports what was compared."""
    settings = decode_settings(decoder, n, True, max_len=max_len, batch_size=batch_size)
    from chemspec.evaluation import lossless as compare
    from chemspec.io import readers

    given = None if file is None else readers.read_queries(file, column)
    engine = load(task, model, device=device, dtype="fp32", threads=threads, runtime=runtime)
    queries = compare.queries_for(engine, given, limit=limit, seed=seed, skip=skip)
    chunks, interrupted = [], False
    with show.progress("comparing") as report:
        names = drafter or [DEFAULT.drafter]
        run = compare.check(engine, queries, settings, names, minutes=minutes, progress=report)
        try:
            for chunk in run:
                chunks += [chunk]  # one by one: what is done stays done
        except KeyboardInterrupt:
            interrupted = True
    found = {
        "task": engine.task,
        "model": engine.name,
        "digest": engine.digest,
        "runtime": engine.runtime,
        "wanted": len(queries),
        "interrupted": interrupted,
        **compare.summary(chunks, settings),
    }
    if markdown is not None and chunks:
        head = not markdown.exists()
        with markdown.open("a", encoding="utf-8") as text:
            text.write(compare.markdown(found, head=head) + "\n")
    show.table(compare.table(found))
    print(json.dumps(found))
    raise typer.Exit(130 if interrupted else 0 if found["fine"] else 1)


def _keep(folder: Path, names: list[str], digest: str, found: dict[str, Any]) -> None:
    from datetime import date

    from chemspec.bench import model_card

    command = " ".join(["chemspec", *sys.argv[1:]])
    for name in names:
        model_card.keep(folder, name, found, digest=digest, command=command, today=date.today())
    show.note(f"{folder / model_card.FILE}: {', '.join(names)}; `chemspec card` puts them on the card")


@command()
def roundtrip(
    predictions: Annotated[Path, typer.Argument(help="What `evaluate --task retro` wrote (.jsonl).")],
    model: ModelOption = "retro",
    forward: Annotated[str, option("Forward model to ask.")] = "forward",
    source: SourceOption = DATA,
    file: Annotated[Path | None, option("As given to evaluate.")] = None,
    limit: Annotated[int, option("As given to evaluate.")] = 0,
    seed: Annotated[int, option("As given to evaluate.")] = 0,
    most: Annotated[int, option("Answers checked of each query.")] = 10,
    out: Annotated[Path | None, option("The forward model's answers (.jsonl), resumable.")] = None,
    kept: KeepOption = False,
    threads: ThreadsOption = 0,
    as_json: JsonOption = False,
) -> None:
    """How many proposed reactant sets does the forward model turn into the target again? (fixed settings, see the
    docs)"""
    from chemspec.engine.registry import model_folder
    from chemspec.evaluation import accuracy as measuring
    from chemspec.evaluation import roundtrip as back
    from chemspec.model.checkpoint import digest_of

    asked = measuring.questions(file or source / "retro_test.csv.gz", "retro", limit=limit, seed=seed)
    results = measuring.read_answers(predictions, asked)
    engine = load("forward", forward, threads=threads)
    target = out or Path("runs") / f"roundtrip-{engine.digest[:6]}-{predictions.stem}.jsonl"
    with show.progress("asking") as report:
        found = back.round_trip(engine, asked, results, target, most=most, progress=report)
    if kept:
        folder = model_folder(model)
        _keep(folder, ["roundtrip"], digest_of(folder), found)
    if as_json:
        print(json.dumps(found))
    else:
        show.shares(back.rows(found))


@command(name="card")
def card_(task: TaskOption, model: ModelOption = "") -> None:
    """Write the tables of a model's card anew, from what `evaluate`, `roundtrip` and `reliability` kept with --keep."""
    from chemspec.bench import model_card
    from chemspec.engine.registry import model_folder
    from chemspec.model.checkpoint import digest_of

    folder = model_folder(model or as_task(task))
    for problem in model_card.fill(folder, digest_of(folder)):
        show.note(problem)
    show.line(str(folder / "card.md"))
