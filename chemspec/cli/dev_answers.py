"""Check models: `dev calibration`, `roundtrip`, `card`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import dev
from chemspec.settings import DecodeSettings
from chemspec.tasks import TASKS

command = partial(dev.command, rich_help_panel="Are the answers right?")


@command()
def calibration(
    task: opt.TaskOption,
    model: opt.ModelOption = "",
    source: opt.SourceOption = None,
    queries: Annotated[int, opt.option("Validation queries, drawn at random; 0: all.")] = 1000,
    seed: Annotated[int, opt.option("Of the random choice.")] = 0,
    heldout: Annotated[
        Path | None,
        opt.option("Held-out reactions (heldout.csv): as many of these besides, or alone without --source."),
    ] = None,
    n: opt.NOption = 10,
    out: Annotated[Path | None, opt.option("Predictions (.jsonl), resumable.")] = None,
    store: Annotated[bool, opt.option("Write confidence.json into the model folder.")] = True,
    kept: opt.KeepOption = False,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Measure how often answers of a probability are right, on validation data, and store what corrects it."""
    from chemspec.evaluation import accuracy as measuring
    from chemspec.evaluation import calibration as judging

    standard = bool(source and TASKS[opt.as_task(task)].test) or not heldout
    remedy = "give held-out reactions with --heldout"
    asked = opt.questions(source, task, "val", remedy, limit=queries, seed=seed) if standard else []
    if heldout:
        asked += measuring.questions(heldout, opt.as_task(task), limit=queries, seed=seed)
    engine = opt.load(task, model, threads=threads)
    made = f"chemspec dev calibration --task {engine.task} --queries {queries} --seed {seed} -n {n}"
    made += f" --heldout {heldout.name}" if heldout else ""
    what = f"{engine.name}-{engine.digest[:6]}-{queries}-{seed}-beam{n}" + ("-heldout" if heldout else "")
    target = out or Path("runs") / f"calibration-{what}.jsonl"
    with show.progress("asking") as report:
        confidence, told = judging.measure(
            engine, asked, target, DecodeSettings(n=n, batch_size=32), made=made, progress=report
        )
    if store:
        confidence.save(engine.folder)
        show.note(f"{engine.folder / 'confidence.json'} written")
    document = {"model": engine.name, "digest": engine.digest, "made": made, **asdict(told)}
    if kept:
        opt.keep(engine.folder, ["reliability"], engine.digest, {**document, "numbers": judging.NUMBERS})
    if as_json:
        show.document(document)
    else:
        show.reliability(judging.table_rows(told.table, judging.NUMBERS), judging.NUMBERS)


@command()
def roundtrip(
    predictions: Annotated[Path, typer.Argument(help="What `evaluate --task retro` wrote (.jsonl).")],
    model: opt.ModelOption = "retro",
    forward: Annotated[str, opt.option("Forward model to ask.")] = "forward",
    reagents: Annotated[str, opt.option("Model of reagents, to ask the forward model with those too.")] = "",
    source: opt.SourceOption = None,
    file: Annotated[Path | None, opt.option("As given to evaluate.")] = None,
    limit: Annotated[int, opt.option("As given to evaluate.")] = 0,
    seed: Annotated[int, opt.option("As given to evaluate.")] = 0,
    most: Annotated[int, opt.option("Answers checked of each query.")] = 10,
    out: Annotated[Path | None, opt.option("The forward model's answers (.jsonl), resumable.")] = None,
    kept: opt.KeepOption = False,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Count proposed reactant sets that the forward model turns into the target again (fixed settings, see docs)."""
    from chemspec.engine.registry import model_folder
    from chemspec.evaluation import accuracy as measuring
    from chemspec.evaluation import roundtrip as back
    from chemspec.model.checkpoint import digest_of

    asked = measuring.questions(file or opt.data_folder(source) / "retro_test.csv.gz", "retro", limit=limit, seed=seed)
    results = measuring.read_answers(predictions, asked)
    engine = opt.load("forward", forward, threads=threads)
    adds = opt.load("reagents", reagents, threads=threads) if reagents else None
    target = out or Path("runs") / f"roundtrip-{engine.digest[:6]}-{predictions.stem}-{most}.jsonl"
    with show.progress("asking") as report:
        measured = back.round_trip(engine, asked, results, target, reagents=adds, most=most, progress=report)
    if kept:
        folder = model_folder(model)
        opt.keep(folder, ["roundtrip"], digest_of(folder), measured)
    if as_json:
        show.document(measured)
    else:
        show.shares(back.rows(measured))


@command()
def card(task: opt.TaskOption, model: opt.ModelOption = "") -> None:
    """Write the tables of a model's card anew, from what other commands kept with --keep."""
    from chemspec.bench import model_card
    from chemspec.engine.registry import model_folder
    from chemspec.model.checkpoint import digest_of

    folder = model_folder(model or opt.as_task(task))
    for problem in model_card.fill(folder, digest_of(folder)):
        show.note(problem)
    show.line(str(folder / "card.md"))
