"""Check answers and models: `dev lossless`, `calibration`, `roundtrip`, `card`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import dev
from chemspec.settings import DecodeSettings
from chemspec.tasks import TASKS

command = partial(dev.command, rich_help_panel="Are the answers right?")


@command()
def lossless(
    file: Annotated[Path | None, typer.Argument(help="File of queries; default: the built-in ones.")] = None,
    task: opt.TaskOption = "",
    model: opt.ModelOption = "",
    column: Annotated[str, opt.option("Column of the file with the SMILES.")] = "",
    limit: Annotated[int, opt.option("A random sample of so many queries; 0: all.")] = 200,
    seed: Annotated[int, opt.option("Of the random sample.")] = 0,
    skip: Annotated[
        int, typer.Option(min=0, help="Leave out so many of the sample, which an earlier run compared.")
    ] = 0,
    decoder: Annotated[str, opt.option("auto, greedy or beam; auto: greedy for one answer.")] = "auto",
    n: opt.NOption = 1,
    drafter: Annotated[
        list[str] | None, opt.option("Drafter to compare; may be given several times; default auto.")
    ] = None,
    batch_size: opt.BatchOption = opt.DEFAULT.batch_size,
    max_len: opt.LengthOption = opt.DEFAULT.max_len,
    against: Annotated[str, opt.option("naive (torch, nothing kept) or numpy (independent, fast).")] = "naive",
    out: Annotated[Path | None, opt.option("Keep what was compared here; run again to go on.")] = None,
    minutes: Annotated[float, opt.option("Begin no more queries after this time; 0: no limit.")] = 0.0,
    device: opt.DeviceOption = "auto",
    dtype: Annotated[str, opt.option("fp32 or int8.")] = "fp32",
    threads: opt.ThreadsOption = 0,
    runtime: opt.RuntimeOption = "auto",
    markdown: Annotated[Path | None, opt.option("Append the rows to this document.", "--markdown")] = None,
) -> None:
    """Compare exact decoding with a naive decoder without cache or drafts, in fp32 or int8.

    Exit code 1 if any answer differs that is no tie in the arithmetic. Ctrl-C ends it early and reports what was
    compared; with --out the same command goes on.
    """
    opt.check_folders(markdown)
    settings = opt.decode_settings(decoder, n, True, max_len=max_len, batch_size=batch_size)
    from chemspec.evaluation import lossless as compare
    from chemspec.io import readers

    given = None if file is None else readers.read_queries(file, column, opt.task_of(task, model), show.note)
    engine = opt.load(task, model, device=device, dtype=dtype, threads=threads, runtime=runtime)
    queries = compare.queries_for(engine, given, limit=limit, seed=seed, skip=skip)
    names, interrupted = drafter or [opt.DEFAULT.drafter], False
    stamp = compare.stamp_of(engine, queries, settings, drafters=names, against=against)
    journal = None if out is None else compare.Journal(out, stamp)
    counts = journal.counts if journal else []
    keep = journal.add if journal else counts.append
    rest = queries[journal.done :] if journal else queries
    with show.progress("comparing") as report:
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
    show.table(compare.table(compared))
    show.document(compared)
    raise typer.Exit(130 if interrupted else 0 if compared["fine"] else 1)


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
    from chemspec.model.checkpoint import digest_of_folder

    asked = measuring.questions(file or opt.data_folder(source) / "retro_test.csv.gz", "retro", limit=limit, seed=seed)
    results = measuring.read_answers(predictions, asked)
    engine = opt.load("forward", forward, threads=threads)
    adds = opt.load("reagents", reagents, threads=threads) if reagents else None
    target = out or Path("runs") / f"roundtrip-{engine.digest[:6]}-{predictions.stem}-{most}.jsonl"
    with show.progress("asking") as report:
        measured = back.round_trip(engine, asked, results, target, reagents=adds, most=most, progress=report)
    if kept:
        folder = model_folder(model)
        opt.keep(folder, ["roundtrip"], digest_of_folder(folder), measured)
    if as_json:
        show.document(measured)
    else:
        show.shares(back.rows(measured))


@dev.command(rich_help_panel="Can it be trusted?")
def fuzz(
    cases: Annotated[int, opt.option("How many; a night is 100,000.")] = 2000,
    seed: Annotated[int, opt.option("The same seed gives the same cases.")] = 0,
    way: Annotated[list[str] | None, opt.option("Way in, may be given several times; default all.")] = None,
    out: Annotated[Path, opt.option("Folder for cases that are defects.")] = Path("runs/fuzz"),
    case: Annotated[Path | None, opt.option("Try one kept case again (with --way), and nothing else.")] = None,
) -> None:
    """Throw what nobody would write at every way in: queries, files, model folders, HTTP, links, what is kept.

    A case may take 5 s of processor time and 1 GB, and may end with a documented error. Anything else is a defect: it
    is told and kept, and the exit code is 1. A campaign that is ended goes on with the same command. Needs hypothesis
    (extra test).
    """
    from chemspec.fuzz import campaign

    if case is not None:
        defect = campaign.again((way or [""])[0], case.read_bytes())
        report: dict[str, Any] = {"defects": [defect] if defect else []}
    else:
        with show.progress("fuzzing") as told:
            report = campaign.campaign(cases, seed=seed, only=way or (), out=out, progress=told)
    for defect in report["defects"][:20]:
        show.note(f"{defect['way']}: {defect['what']} ({defect['where']}) {defect.get('file', '')}")
    show.document(report)
    raise typer.Exit(1 if report["defects"] else 0)


@command()
def card(task: opt.TaskOption, model: opt.ModelOption = "") -> None:
    """Write the tables of a model's card anew, from what other commands kept with --keep."""
    from chemspec.bench import model_card
    from chemspec.engine.registry import model_folder
    from chemspec.model.checkpoint import digest_of_folder

    folder = model_folder(model or opt.as_task(task))
    for problem in model_card.fill(folder, digest_of_folder(folder)):
        show.note(problem)
    show.line(str(folder / "card.md"))
