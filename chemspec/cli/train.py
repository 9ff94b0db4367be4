"""Make models: `data` and `train`; the subcommands of `train` are in the modules beside this one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app, refuse_options_before
from chemspec.system import extras

train = typer.Typer(invoke_without_command=True)
app.add_typer(train, name="train", rich_help_panel="Train")


@app.command(rich_help_panel="Train")
def data(
    recipe: Annotated[
        str, opt.option("Recipe whose data to prepare: a name (see `chemspec train --list`) or a .toml file.")
    ],
    source: opt.SourceOption = None,
    out: Annotated[Path | None, opt.option("Folder for the token arrays; default data/<recipe>.")] = None,
    workers: Annotated[int, opt.option("Processes.")] = 2,
    limit: Annotated[int, opt.option("Use only so many rows of each file (for a trial).")] = 0,
    vocab: Annotated[
        Path | None,
        opt.option(
            "Use this vocab.json (that of the model to go on with) instead of making one; some recipes extend it."
        ),
    ] = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Turn reaction CSVs into aligned, augmented token arrays; resumable."""
    from chemspec.data import holdout
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
                [(folder if file == holdout.FILE else opt.data_folder(source)) / file for file in names],
                folder,
                replace(settings, limit=min(filter(None, (limit, settings.limit)), default=0)),
                apart=[opt.data_folder(source) / file for file in settings.apart_from],
                vocab=vocab,
                name=name,
                workers=workers,
                progress=report,
            )
    for name, told in reports.items():
        tokens = told["source_tokens"] + told["target_tokens"]
        show.note(f"{folder / name}.npz: {told['pairs']} pairs, {tokens} tokens")
    if as_json:
        show.document(reports)


@train.callback()
def train_(
    context: typer.Context,
    recipe: Annotated[str, opt.option("Name of a recipe (see --list), or a .toml file of your own.")] = "",
    data_dir: Annotated[Path | None, opt.option("What `chemspec data` wrote; default data/<recipe>.", "--data")] = None,
    out: Annotated[Path | None, opt.option("Run folder; default runs/<recipe>.")] = None,
    steps: Annotated[int, opt.option("Instead of the recipe's number of steps.")] = 0,
    minutes: Annotated[float, opt.option("Instead of the recipe's time limit.")] = -1.0,
    threads: opt.ThreadsOption = -1,
    seed: Annotated[int, opt.option("Instead of the recipe's; another order of the data.")] = -1,
    lr: Annotated[float, opt.option("Instead of the recipe's peak learning rate.")] = 0.0,
    resume: Annotated[
        bool, opt.option("Go on from the run folder's last checkpoint, if there is one.", "--resume/--no-resume")
    ] = True,
    start: Annotated[
        Path | None,
        opt.option("Begin with the weights of this model folder; of a drafter: its target, default the task's."),
    ] = None,
    average: Annotated[int, opt.option("Average so many of the last checkpoints.")] = 1,
    listed: Annotated[bool, opt.option("List the recipes and stop.", "--list")] = False,
) -> None:
    """Train a model or a drafter by a recipe; needs the extra `train`, but no RDKit.

    A drafter learns from what `chemspec train distil` wrote (default data/<task>-distilled). All that training writes
    goes into the run folder; `chemspec train install-drafter` copies a drafter into its target's folder.
    """
    if context.invoked_subcommand:
        refuse_options_before(context)
        return
    from chemspec.train.recipe import DrafterRecipe, builtin_recipes, find_recipe

    if listed or not recipe:
        for known in builtin_recipes().values():
            show.line(f"{known.name}: {known.expectation}")
        return
    given = {"steps": steps or -1, "minutes": minutes, "threads": threads, "seed": seed, "lr": lr or -1}
    chosen = find_recipe(recipe).with_settings(**{name: value for name, value in given.items() if value >= 0})
    folder = out or Path("runs") / chosen.name
    extras.require("lightning", what="training")
    from chemspec.train.drafters import train_drafter
    from chemspec.train.run import run_recipe

    if isinstance(chosen, DrafterRecipe):
        from chemspec.engine.registry import model_folder

        answers = data_dir or Path("data") / f"{chosen.task}-distilled"
        target = start or model_folder(chosen.target or chosen.task)
        made = train_drafter(chosen, answers, target, folder, resume=resume)
        show.line(f"drafter folder: {made}")
        named = chosen.target or chosen.task if start is None else start
        show.note(f"to draft with it: chemspec train install-drafter {made} --model {named}")
        return
    pairs = data_dir or Path("data") / chosen.name
    made = run_recipe(chosen, pairs, folder, resume=resume, start=start, average=average)
    show.line(f"model folder: {made}")
