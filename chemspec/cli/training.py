"""From reaction tables to models: `data`, `leaks`, `train`, `distil`, `calibrate`, `alpha`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from chemspec.cli import show
from chemspec.cli.base import app
from chemspec.cli.options import (
    DATA,
    DEFAULT,
    BatchOption,
    DeviceOption,
    JsonOption,
    LengthOption,
    ModelOption,
    SourceOption,
    TaskOption,
    ThreadsOption,
    as_task,
    load,
    option,
    questions,
)
from chemspec.settings import DecodeSettings

command = partial(app.command, rich_help_panel="Models")


@command()
def data(
    recipe: Annotated[
        str, option("Recipe whose data to prepare: a name (see `chemspec train --list`) or a .toml file.")
    ],
    source: SourceOption = DATA,
    out: Annotated[Path | None, option("Folder for the token arrays; default data/<recipe>.")] = None,
    workers: Annotated[int, option("Processes.")] = 2,
    limit: Annotated[int, option("Use only so many rows of each file (for a trial).")] = 0,
    vocab: Annotated[
        Path | None, option("Use this vocab.json (that of the model to go on with) instead of making one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Turn reaction CSVs into aligned, augmented token arrays; resumable."""
    from chemspec.data.prepare import prepare
    from chemspec.train.recipe import model_recipe

    chosen = model_recipe(recipe)
    folder = out or Path("data") / chosen.name
    jobs = {"train": (chosen.train_files, chosen.data, vocab)}
    if chosen.validation_data:
        vocab = folder / "vocab.json"  # that of the training data, which comes first
        jobs["val"] = (chosen.validation_files, chosen.validation_data, vocab)
    reports = {}
    for name, (names, settings, vocab) in jobs.items():
        with show.progress(f"{name} pairs") as report:
            reports[name] = prepare(
                [source / file for file in names],
                folder,
                replace(settings, limit=limit or settings.limit),
                vocab=vocab,
                name=name,
                workers=workers,
                progress=report,
            )
    for name, told in reports.items():
        tokens = told["source_tokens"] + told["target_tokens"]
        show.note(f"{folder / name}.npz: {told['pairs']} pairs, {tokens} tokens")
    if as_json:
        print(json.dumps(reports))


@contextmanager
def _training() -> Iterator[None]:
    """Around the imports of what trains: says which packages are missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "lightning":
            raise
        raise ValueError("training needs more packages: pip install 'chemspec[train]'") from error


@command()
def leaks(
    recipe: Annotated[str, option("Recipe whose training data to check: a name or a .toml file.")],
    source: SourceOption = DATA,
    data_dir: Annotated[
        Path | None, option("Check the arrays that `chemspec data` wrote here instead.", "--data")
    ] = None,
    every: Annotated[int, option("Only every so many-th training row.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Is any test reaction or test product among a recipe's training data? Compared by canonical SMILES; 1 if so."""
    from chemspec.data import leaks as search
    from chemspec.train.recipe import model_recipe

    chosen = model_recipe(recipe)
    tests = source / f"{chosen.task}_test.csv.gz"
    with show.progress("training reactions") as report:
        told = partial(report, total=0)
        if data_dir is not None:
            found = search.check_arrays(data_dir, tests, chosen.task, progress=told)
        else:
            files = [source / file for file in chosen.train_files]
            found = search.check_rows(
                files, tests, chosen.task, leave_out=chosen.data.leave_out, every=every, progress=told
            )
    text = f"{found.reactions} test reactions and {found.products} with a test product among {found.checked} training reactions"
    show.line(f"{text}, against {found.tests} test reactions")
    if as_json:
        print(json.dumps(asdict(found)))
    raise typer.Exit(1 if found.reactions or found.products else 0)


@command()
def train(
    recipe: Annotated[str, option("Name of a recipe (see --list), or a .toml file of your own.")] = "",
    data_dir: Annotated[Path | None, option("What `chemspec data` wrote; default data/<recipe>.", "--data")] = None,
    out: Annotated[Path | None, option("Run folder; default runs/<recipe>.")] = None,
    steps: Annotated[int, option("Instead of the recipe's number of steps.")] = 0,
    minutes: Annotated[float, option("Instead of the recipe's time limit.")] = -1.0,
    threads: ThreadsOption = -1,
    seed: Annotated[int, option("Instead of the recipe's; another order of the data.")] = -1,
    lr: Annotated[float, option("Instead of the recipe's peak learning rate.")] = 0.0,
    resume: Annotated[
        bool, option("Go on from the run folder's last checkpoint, if there is one.", "--resume/--no-resume")
    ] = True,
    start: Annotated[
        Path | None,
        option("Begin with the weights of this model folder; of a drafter: its target, default the task's."),
    ] = None,
    average: Annotated[int, option("Average so many of the last checkpoints.")] = 1,
    listed: Annotated[bool, option("List the recipes and stop.", "--list")] = False,
) -> None:
    """Train a model or a drafter by a recipe; needs the extra `train`, but no RDKit.

    A drafter learns from what `chemspec distil` wrote (default data/<task>-distilled) and goes into its target's
    folder.
    """
    from chemspec.train.recipe import DrafterRecipe, find_recipe, shipped

    if listed or not recipe:
        for known in shipped().values():
            show.line(f"{known.name}: {known.expectation}")
        return
    given = {"steps": steps or -1, "minutes": minutes, "threads": threads, "seed": seed, "lr": lr or -1}
    chosen = find_recipe(recipe).with_settings(**{name: value for name, value in given.items() if value >= 0})
    folder = out or Path("runs") / chosen.name
    with _training():
        from chemspec.train.drafters import train_drafter
        from chemspec.train.run import run_recipe
    if isinstance(chosen, DrafterRecipe):
        from chemspec.engine.registry import model_folder

        answers = data_dir or Path("data") / f"{chosen.task}-distilled"
        made = train_drafter(chosen, answers, start or model_folder(chosen.task), folder, resume=resume)
        show.line(f"drafter folder: {made}")
        return
    pairs = data_dir or Path("data") / chosen.name
    made = run_recipe(chosen, pairs, folder, resume=resume, start=start, average=average)
    show.line(f"model folder: {made}")


@command()
def distil(
    task: TaskOption,
    model: ModelOption = "",
    data_dir: Annotated[Path | None, option("What `chemspec data` wrote; default data/<task>.", "--data")] = None,
    out: Annotated[Path | None, option("Folder to write; default data/<task>-distilled.")] = None,
    pairs: Annotated[int, option("So many training queries; 0: all.")] = 40_000,
    batch_size: BatchOption = 64,
    max_len: LengthOption = DEFAULT.max_len,
    seed: Annotated[int, option("Of the random choice.")] = 0,
    threads: ThreadsOption = 0,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Answer training queries with the target, greedily: what learned drafters are trained on; resumable."""
    from chemspec.train import distil as teaching

    folder = data_dir or Path("data") / as_task(task)
    target = out or Path("data") / f"{task}-distilled"
    engine = load(task, model, threads=threads, device=device)
    how = DecodeSettings(decoder="greedy", n=1, batch_size=batch_size, max_len=max_len)
    with show.progress("answering") as report:
        count = teaching.distil(engine, folder, target, pairs=pairs, settings=how, seed=seed, progress=report)
    show.note(f"{target / 'train.npz'}: {count} pairs")
    if as_json:
        print(json.dumps({"pairs": count}))


@command()
def calibrate(
    task: TaskOption,
    model: ModelOption = "",
    data_dir: Annotated[Path | None, option("What `chemspec data` wrote; default data/<task>.", "--data")] = None,
    pairs: Annotated[int, option("Training pairs to learn phrases from.")] = 100_000,
    queries: Annotated[int, option("Validation queries to measure and fit on.")] = 500,
    heads: Annotated[int, option("Most attention heads to follow.")] = 3,
    seed: Annotated[int, option("Of the random choice of both.")] = 0,
    threads: ThreadsOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Teach a model's drafters from its training and validation data; answers stay the same, passes get fewer."""
    from chemspec.train import fit_drafters as learning

    folder = data_dir or Path("data") / as_task(task)
    engine = load(task, model, threads=threads)
    made = f"chemspec calibrate --task {engine.task} --pairs {pairs} --queries {queries} --heads {heads} --seed {seed}"
    knowledge, report = learning.calibrate(
        engine, folder, pairs=pairs, queries=queries, heads=heads, seed=seed, made=made, tell=show.note
    )
    knowledge.save(engine.folder)
    show.note(f"{engine.folder / 'drafting.json'}: {report.nodes} contexts, heads {report.heads}")
    if as_json:
        print(json.dumps(asdict(report)))


@command()
def alpha(
    task: TaskOption,
    model: ModelOption = "",
    source: SourceOption = DATA,
    queries: Annotated[int, option("Validation queries, drawn at random; 0: all.")] = 60,
    seed: Annotated[int, option("Of the random choice.")] = 0,
    length: Annotated[int, option("Tokens drafted at once.")] = 8,
    threads: ThreadsOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Count how much of a model's small drafters (ar, medium) it accepts; their adaptive draft length starts from
    there."""
    from chemspec.bench import draft_length
    from chemspec.engine.registry import usable

    asked = questions(source, task, "val", limit=queries, seed=seed)
    engine = load(task, model, threads=threads)
    made = f"chemspec alpha --task {engine.task} --queries {queries} --seed {seed} --length {length}"
    names = [name for name in usable(engine.folder) if name in ("ar", "hierarchy")]
    if not names:
        raise ValueError(f"{engine.folder} has no small model to count; train one first")
    found = {}
    for name in names:
        found[name] = draft_length.alpha(engine, [item.query for item in asked], name, length=length)
        show.note(str(draft_length.keep_alpha(engine.folder, name, found[name], counted=made)))
    if as_json:
        print(json.dumps(found))
    else:
        show.line(", ".join(f"{name} {rate:.3f}" for name, rate in found.items()))
