"""Commands around the training of a drafter: `train distil`, `calibrate`, `acceptance`, `install-drafter`, ..."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.train import train
from chemspec.settings import DecodeSettings

command = partial(train.command, rich_help_panel="Drafters")


@command()
def distil(
    task: opt.TaskOption,
    model: opt.ModelOption = "",
    data_dir: Annotated[Path | None, opt.option("What `chemspec data` wrote; default data/<task>.", "--data")] = None,
    out: Annotated[Path | None, opt.option("Folder to write; default data/<task>-distilled.")] = None,
    pairs: Annotated[int, opt.option("So many training queries; 0: all.")] = 40_000,
    batch_size: opt.BatchOption = 64,
    max_len: opt.LengthOption = opt.DEFAULT.max_len,
    seed: Annotated[int, opt.option("Random seed of the choice.")] = 0,
    threads: opt.ThreadsOption = 0,
    device: opt.DeviceOption = "auto",
    as_json: opt.JsonOption = False,
) -> None:
    """Answer training queries with the target, greedily: what learned drafters are trained on; resumable."""
    from chemspec.train import distil as teaching

    folder = data_dir or Path("data") / opt.as_task(task)
    target = out or Path("data") / f"{task}-distilled"
    engine = opt.load(task, model, threads=threads, device=device)
    how = DecodeSettings(decoder="greedy", n=1, batch_size=batch_size, max_len=max_len)
    with show.progress("answering") as report:
        count = teaching.write_distilled_pairs(
            engine, folder, target, pairs=pairs, settings=how, seed=seed, progress=report
        )
    show.note(f"{target / 'train.npz'}: {count} pairs")
    if as_json:
        show.document({"pairs": count})


@command()
def calibrate(
    task: opt.TaskOption = "",
    model: opt.ModelOption = "",
    data_dir: Annotated[Path | None, opt.option("What `chemspec data` wrote; default data/<task>.", "--data")] = None,
    unlabelled: Annotated[
        Path | None, opt.option("Instead of data: a file of queries; the model's own answers to them teach.")
    ] = None,
    column: Annotated[str, opt.option("Column of that file with the SMILES.")] = "",
    pairs: Annotated[int, opt.option("Training pairs to learn phrases from.")] = 100_000,
    queries: Annotated[int, opt.option("Validation queries to measure and fit on.")] = 500,
    heads: Annotated[int, opt.option("Most attention heads to follow.")] = 3,
    seed: Annotated[int, opt.option("Random seed of both choices.")] = 0,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Fit a model's drafters to its training data or to its own answers; answers stay the same, passes get fewer."""
    from chemspec.train import fit_drafters as learning

    if not task and not model:
        raise ValueError("say which model: --model or --task")
    engine = opt.load(task, model, threads=threads)
    if not engine.folder.is_dir():
        raise ValueError(f"{engine.folder} is no folder to put it into; `chemspec import` it first")
    if unlabelled is not None:
        from chemspec.io import readers

        made = f"chemspec train calibrate --unlabelled {unlabelled.name} --heads {heads}"
        texts = readers.read_queries(unlabelled, column, engine.task, show.note)
        knowledge, report = learning.calibrate_from_answers(engine, texts, heads=heads, command=made, tell=show.note)
    else:
        folder = data_dir or Path("data") / engine.task
        made = (
            f"chemspec train calibrate --task {engine.task} --pairs {pairs} --queries {queries} --heads {heads} "
            f"--seed {seed}"
        )
        knowledge, report = learning.calibrate(
            engine, folder, pairs=pairs, queries=queries, heads=heads, seed=seed, command=made, tell=show.note
        )
    knowledge.save(engine.folder)
    show.note(f"{engine.folder / 'drafting.json'}: {report.nodes} contexts, heads {report.heads}")
    if as_json:
        show.document(asdict(report))


@command()
def acceptance(
    task: opt.TaskOption,
    model: opt.ModelOption = "",
    source: opt.SourceOption = None,
    queries: Annotated[int, opt.option("Validation queries, drawn at random; 0: all.")] = 60,
    seed: Annotated[int, opt.option("Random seed of the choice.")] = 0,
    length: Annotated[int, opt.option("Tokens drafted at once.")] = 8,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Measure the acceptance rate of a model's small drafters, from which their adaptive draft length starts."""
    from chemspec.draft.learned.small import write_alpha
    from chemspec.engine.registry import usable_drafters
    from chemspec.model.drafter_checkpoints import drafter_folder
    from chemspec.plugins import DRAFTERS
    from chemspec.train.acceptance import acceptance_rate

    asked = opt.questions(source, task, "val", limit=queries, seed=seed)
    engine = opt.load(task, model, threads=threads)
    made = f"chemspec train acceptance --task {engine.task} --queries {queries} --seed {seed} --length {length}"
    names = [name for name in usable_drafters(engine.folder) if name in ("ar", "hierarchy")]
    if not names:
        raise ValueError(f"{engine.folder} has no small model to count; train one first")
    rates = {}
    for name in names:
        rates[name] = acceptance_rate(engine, [item.query for item in asked], name, length=length)
        judged = DRAFTERS[name].companions[-1]  # the small model whose drafts the target judges
        show.note(str(write_alpha(drafter_folder(engine.folder, judged), rates[name], counted=made)))
    if as_json:
        show.document(rates)
    else:
        show.line(", ".join(f"{name} {rate:.3f}" for name, rate in rates.items()))


@command(name="install-drafter")
def install_drafter(
    drafter: Annotated[Path, typer.Argument(help="Folder of a trained drafter, or the run folder of its training.")],
    model: Annotated[
        str, opt.option("Model that it is to draft for: an installed one's name, or a folder.", "--model", "-m")
    ],
    kind: Annotated[str, opt.option("Use a small model as this kind of drafter: ar or medium.")] = "",
    yes: Annotated[bool, opt.option("Replace a drafter of this kind without asking.", "--yes", "-y")] = False,
) -> None:
    """Copy a trained drafter into a model's folder; asks before it replaces one."""
    from chemspec.engine import companions
    from chemspec.engine.registry import model_folder

    folder, kind = companions.trained_drafter(drafter, kind)
    target = model_folder(model)
    if (target / companions.FOLDER / kind).exists() and not yes:
        typer.confirm(f"{target} has a drafter {kind!r}. Replace it?", abort=True)
    show.line(f"installed: {companions.install_drafter(folder, kind, target)}")


@command(name="share-edits")
def share_edits(
    model: Annotated[str, opt.option("Model whose table of edits to share.", "--model", "-m")],
    out: Annotated[Path, opt.option("File to write; the default of a task is assets/drafting/<task>.safetensors.")],
    deepest: Annotated[int, opt.option("Leave out contexts of more entries.")] = 7,
) -> None:
    """Write a model's table of edits for models of other vocabularies, which read it by the texts of tokens."""
    from chemspec.draft.tree.table_file import save_shared_table

    engine = opt.load("", model, threads=1)
    calibration = engine.calibration()
    if calibration.edit_table is None:
        raise ValueError(f"model {engine.name} has no table of edits; make one with `chemspec train calibrate`")
    made = f"{calibration.made}; chemspec train share-edits --model {model} --deepest {deepest}"
    out.parent.mkdir(parents=True, exist_ok=True)
    save_shared_table(out, calibration.edit_table, engine.tokenizer.smiles_tokens, deepest=deepest, made=made)
    show.note(f"{out}: {out.stat().st_size / 1e6:.2f} MB")
