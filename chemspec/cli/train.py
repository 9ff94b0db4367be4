"""The commands `data` and `train`; the subcommands of `train` are in `train_models` and `train_drafters`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app, command, refuse_group_options
from chemspec.system import extras

train = typer.Typer(invoke_without_command=True)
app.add_typer(train, name="train", rich_help_panel="Models")


@command("data", "Models")
def prepare_data(
    recipe: Annotated[str, opt.option("Recipe: a name (see `chemspec train --list`) or a .toml file.")],
    source: opt.SourceOption = None,
    out: Annotated[Path | None, opt.option("Folder for the token arrays; default data/<recipe>.")] = None,
    workers: opt.ProcessesOption = 2,
    limit: opt.RowLimitOption = 0,
    vocab: Annotated[
        Path | None,
        opt.option(
            "Use this vocab.json (of the model to continue from) instead of building one; some recipes extend it."
        ),
    ] = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Convert reaction CSVs to aligned, augmented token arrays; resumable."""
    from chemspec.data import holdout
    from chemspec.data.prepare import prepare
    from chemspec.train.recipe import model_recipe

    chosen = model_recipe(recipe)
    folder = out or Path("data") / chosen.name
    jobs = {"train": (chosen.train_files, chosen.data, vocab)}
    if chosen.validation_data:
        vocab = folder / "vocab.json"  # built from the training data, which comes first
        jobs["val"] = (chosen.validation_files, chosen.validation_data, vocab)
    reports = {}
    for name, (names, settings, vocab) in jobs.items():
        with show.progress_bar(f"{name} pairs") as report:
            reports[name] = prepare(
                [(folder if file == holdout.FILE else opt.require_data_folder(source)) / file for file in names],
                folder,
                replace(settings, limit=min(filter(None, (limit, settings.limit)), default=0)),
                apart=[opt.require_data_folder(source) / file for file in settings.apart_from],
                vocab=vocab,
                name=name,
                workers=workers,
                progress=report,
            )
    for name, summary in reports.items():
        tokens = summary["source_tokens"] + summary["target_tokens"]
        show.print_note(f"{folder / name}.npz: {summary['pairs']} pairs, {tokens} tokens")
    if as_json:
        show.print_json(reports)


@train.callback()
def train_by_recipe(
    context: typer.Context,
    recipe: Annotated[str, opt.option("Recipe: a name (see --list), FILE.toml or FILE.toml:NAME.")] = "",
    data_dir: Annotated[Path | None, opt.option("Folder of `chemspec data`; default data/<recipe>.", "--data")] = None,
    out: Annotated[Path | None, opt.option("Run folder; default runs/<recipe>.")] = None,
    steps: Annotated[int, opt.option("Number of training steps (default: the recipe's).")] = 0,
    minutes: Annotated[float, opt.option("Time limit in minutes (default: the recipe's).")] = -1.0,
    threads: opt.ThreadsOption = -1,
    seed: Annotated[int, opt.option("Random seed for the order of the data (default: the recipe's).")] = -1,
    lr: Annotated[float, opt.option("Peak learning rate (default: the recipe's).")] = 0.0,
    resume: Annotated[
        bool, opt.option("Resume from the run folder's last checkpoint, if there is one.", "--resume/--no-resume")
    ] = True,
    start: Annotated[
        Path | None,
        opt.option(
            "Model folder whose weights initialise the training; for a drafter: its target model, default the task's."
        ),
    ] = None,
    average: Annotated[int, opt.option("Number of last checkpoints whose weights are averaged.")] = 1,
    listed: Annotated[bool, opt.option("List the recipes and exit.", "--list")] = False,
) -> None:
    """Train a model or a drafter by a recipe; needs the extra `train`, but not RDKit.

    A drafter is trained on the output of `chemspec train distil` (default data/<task>-distilled). All files are
    written to the run folder; `chemspec train install-drafter` copies a drafter into its target's folder.
    """
    if context.invoked_subcommand:
        refuse_group_options(context)
        return
    from chemspec.train.recipe import DrafterRecipe, builtin_recipes, find_recipe

    if listed or not recipe:
        for builtin in builtin_recipes().values():
            show.print_line(f"{builtin.name}: {builtin.expectation}")
        return
    given = {"steps": steps or -1, "minutes": minutes, "threads": threads, "seed": seed, "lr": lr or -1}
    chosen = find_recipe(recipe).with_settings(**{name: value for name, value in given.items() if value >= 0})
    folder = out or Path("runs") / chosen.name
    extras.require_packages("lightning", what="training")
    from chemspec.train.drafters import train_drafter
    from chemspec.train.run import run_recipe

    if isinstance(chosen, DrafterRecipe):
        from chemspec.engine.registry import model_folder

        answers = data_dir or Path("data") / f"{chosen.task}-distilled"
        target = start or model_folder(chosen.target or chosen.task)
        made = train_drafter(chosen, answers, target, folder, resume=resume)
        show.print_line(f"drafter folder: {made}")
        named = chosen.target or chosen.task if start is None else start
        show.print_note(f"to use it: chemspec train install-drafter {made} --model {named}")
        return
    pairs = data_dir or Path("data") / chosen.name
    made = run_recipe(chosen, pairs, folder, resume=resume, start=start, average=average)
    show.print_line(f"model folder: {made}")
