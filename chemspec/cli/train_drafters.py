"""Subcommands of `train` for drafters: `distil`, `calibrate`, `acceptance`, `install-drafter`, `share-edits`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command
from chemspec.cli.train import train
from chemspec.settings import DecodeSettings

PANEL = "Drafters"


@command("distil", PANEL, train)
def distil_model(
    task: opt.TaskOption,
    model: opt.ModelOption = "",
    data_dir: opt.PreparedDataOption = None,
    out: Annotated[Path | None, opt.option("Output folder; default data/<task>-distilled.")] = None,
    pairs: Annotated[int, opt.option("Number of training queries; 0: all.")] = 40_000,
    batch_size: opt.BatchOption = 64,
    max_len: opt.LengthOption = opt.DEFAULT.max_len,
    seed: opt.SampleSeedOption = 0,
    threads: opt.ThreadsOption = 0,
    device: opt.DeviceOption = "auto",
    as_json: opt.JsonOption = False,
) -> None:
    """Decode training queries greedily with the target model, as training data of drafters; resumable."""
    from chemspec.train import distil

    folder = data_dir or Path("data") / opt.parse_task(task)
    target = out or Path("data") / f"{task}-distilled"
    engine = opt.load_engine(task, model, threads=threads, device=device)
    settings = DecodeSettings(decoder="greedy", n=1, batch_size=batch_size, max_len=max_len)
    with show.progress_bar("answering") as report:
        count = distil.write_distilled_pairs(
            engine, folder, target, pairs=pairs, settings=settings, seed=seed, progress=report
        )
    show.print_note(f"{target / 'train.npz'}: {count} pairs")
    if as_json:
        show.print_json({"pairs": count})


@command("calibrate", PANEL, train)
def calibrate_drafters(
    task: opt.TaskOption = "",
    model: opt.ModelOption = "",
    data_dir: opt.PreparedDataOption = None,
    unlabelled: Annotated[
        Path | None, opt.option("File of queries to use instead of training data; the model's own answers are fitted.")
    ] = None,
    column: Annotated[str, opt.option("Column of the --unlabelled file with the SMILES.")] = "",
    pairs: Annotated[int, opt.option("Number of training pairs for the edit table.")] = 100_000,
    queries: Annotated[int, opt.option("Number of validation queries for acceptance rates.")] = 500,
    heads: Annotated[int, typer.Option(help="Ignored; for command lines of version 0.2.", hidden=True)] = 0,  # noqa: ARG001
    seed: Annotated[int, opt.option("Random seed for choosing pairs and queries.")] = 0,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Fit a model's drafters to its training data or its own answers; fewer passes, same predictions."""
    from chemspec.train import fit_drafters

    if not task and not model:
        raise ValueError("give --model or --task")
    engine = opt.load_engine(task, model, threads=threads)
    if not engine.folder.is_dir():
        raise ValueError(f"{engine.folder} is not a folder to write to; `chemspec import` the model first")
    if unlabelled is not None:
        from chemspec.io import readers

        made = f"chemspec train calibrate --unlabelled {unlabelled.name}"
        texts = readers.read_queries(unlabelled, column, engine.task, show.print_note)
        knowledge, report = fit_drafters.calibrate_from_answers(engine, texts, command=made, tell=show.print_note)
    else:
        folder = data_dir or Path("data") / engine.task
        made = f"chemspec train calibrate --task {engine.task} --pairs {pairs} --queries {queries} --seed {seed}"
        knowledge, report = fit_drafters.calibrate(
            engine, folder, pairs=pairs, queries=queries, seed=seed, command=made, tell=show.print_note
        )
    knowledge.save(engine.folder)
    show.print_note(f"{engine.folder / 'drafting.json'}: {report.nodes} contexts")
    if as_json:
        show.print_json(asdict(report))


@command("acceptance", PANEL, train)
def measure_acceptance(
    task: opt.TaskOption,
    model: opt.ModelOption = "",
    source: opt.SourceOption = None,
    queries: opt.SampleSizeOption = 60,
    seed: opt.SampleSeedOption = 0,
    length: Annotated[int, opt.option("Number of tokens per draft.")] = 8,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Measure the acceptance rate of a model's small drafters, the start value of their adaptive draft length."""
    from chemspec.draft.learned.small import write_alpha
    from chemspec.engine.registry import usable_drafters
    from chemspec.model.drafter_checkpoints import drafter_folder
    from chemspec.plugins import DRAFTERS
    from chemspec.train.fit_drafters import acceptance_rate

    reactions = opt.read_test_reactions(source, task, "val", limit=queries, seed=seed)
    engine = opt.load_engine(task, model, threads=threads)
    made = f"chemspec train acceptance --task {engine.task} --queries {queries} --seed {seed} --length {length}"
    names = [name for name in usable_drafters(engine.folder) if name in ("ar", "hierarchy")]
    if not names:
        raise ValueError(f"{engine.folder} has no small draft model; train one first")
    rates = {}
    for name in names:
        rates[name] = acceptance_rate(engine, [item.query for item in reactions], name, length=length)
        judged = DRAFTERS[name].companions[-1]  # the small model whose drafts the target verifies
        show.print_note(str(write_alpha(drafter_folder(engine.folder, judged), rates[name], counted=made)))
    if as_json:
        show.print_json(rates)
    else:
        show.print_line(", ".join(f"{name} {rate:.3f}" for name, rate in rates.items()))


@command("install-drafter", PANEL, train)
def install_drafter(
    drafter: Annotated[Path, typer.Argument(help="Folder of a trained drafter, or the run folder of its training.")],
    model: Annotated[str, opt.option("Target model of the drafter: an installed name, or a folder.", "--model", "-m")],
    kind: Annotated[str, opt.option("Kind of drafter that a small model becomes: ar or medium.")] = "",
    yes: Annotated[bool, opt.option("Replace a drafter of this kind without asking.", "--yes", "-y")] = False,
) -> None:
    """Copy a trained drafter into a model's folder; prompts before replacing one."""
    from chemspec.engine import companions
    from chemspec.engine.registry import model_folder

    folder, kind = companions.trained_drafter(drafter, kind)
    target = model_folder(model)
    if (target / companions.FOLDER / kind).exists() and not yes:
        typer.confirm(f"{target} has a drafter {kind!r}. Replace it?", abort=True)
    show.print_line(f"installed: {companions.install_drafter(folder, kind, target)}")


@command("share-edits", PANEL, train)
def share_edits(
    model: Annotated[str, opt.option("Model whose edit table is shared.", "--model", "-m")],
    out: Annotated[Path, opt.option("Output file; a task's default table is assets/drafting/<task>.safetensors.")],
    deepest: Annotated[int, opt.option("Maximum number of entries of a context; longer ones are left out.")] = 7,
) -> None:
    """Export a model's edit table for models with other vocabularies, matched by the text of tokens."""
    from chemspec.draft.tree.table_file import save_shared_table

    engine = opt.load_engine("", model, threads=1)
    calibration = engine.resources.calibration()
    if calibration.edit_table is None:
        raise ValueError(f"model {engine.name} has no edit table; create one with `chemspec train calibrate`")
    made = f"{calibration.made}; chemspec train share-edits --model {model} --deepest {deepest}"
    out.parent.mkdir(parents=True, exist_ok=True)
    save_shared_table(out, calibration.edit_table, engine.tokenizer.smiles_tokens, deepest=deepest, made=made)
    show.print_note(f"{out}: {out.stat().st_size / 1e6:.2f} MB")
