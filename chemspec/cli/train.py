"""The commands `data` and `train`; the subcommands of `train` are in `train_tools`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app, command, refuse_group_options
from chemspec.system import extras

if TYPE_CHECKING:  # slow imports
    pass

train = typer.Typer(invoke_without_command=True)
app.add_typer(train, name="train", rich_help_panel="Models")


@command("data", "Models")
def prepare_data(
    recipe: str,
    source: opt.Source = None,
    out: Path | None = None,
    workers: int = 2,
    limit: int = 0,
    vocab: Path | None = None,
) -> dict[str, Any]:
    """Convert reaction CSVs to aligned, augmented token arrays; resumable.

    Options:
        out: folder for the token arrays; default data/<recipe>.
        vocab: use this vocab.json (of the model to continue from) instead of building one; some recipes extend it.
    """
    from chemspec.data.prepare import prepare_recipe
    from chemspec.train.recipe import model_recipe

    chosen = model_recipe(recipe)
    folder = out or Path("data") / chosen.name
    given = opt.require_data_folder(source)
    with show.progress_bar("reactions") as report:
        reports = prepare_recipe(chosen, given, folder, vocab=vocab, limit=limit, workers=workers, progress=report)
    for name, summary in reports.items():
        tokens = summary["source_tokens"] + summary["target_tokens"]
        show.print_note(f"{folder / name}.npz: {summary['pairs']} pairs, {tokens} tokens")
    return reports


@train.callback()
@opt.expand_options
def train_by_recipe(
    context: typer.Context,
    recipe: str = "",
    steps: int = 0,
    minutes: float = -1.0,
    threads: int = -1,
    seed: int = -1,
    data_dir: Path | None = None,
    out: Path | None = None,
    resume: bool = True,
    start: Path | None = None,
    listed: bool = False,
) -> None:
    """Train a model or a drafter by a recipe; needs the extra `train`, but not RDKit.

    A drafter is trained on the output of `chemspec train distil`: heads and networks of masks by default on
    data/<task>-distilled, small models (`ar`, `medium`) on what --data names. All files are
    written to the run folder; `chemspec train install-drafter` copies a drafter into its target's folder.

    Options:
        recipe: recipe: a name (see --list), FILE.toml or FILE.toml:NAME.
        steps: number of training steps (default: the recipe's).
        minutes: time limit in minutes (default: the recipe's).
        threads: CPU threads; 0: all cores; -1: the recipe's.
        seed: random seed for the order of the data (default: the recipe's).
        data_dir --data: folder of `chemspec data` (default data/<recipe>), for drafters of `chemspec train distil`.
        out: run folder; default runs/<recipe>.
        resume --resume/--no-resume: resume from the run folder's last checkpoint, if there is one.
        start: model folder whose weights initialise the training; for a drafter: its target model, default the task's.
        listed --list: list the recipes and exit.
    """
    if context.invoked_subcommand:
        refuse_group_options(context)
        return
    from chemspec.train.recipe import Recipe, find_recipe

    if listed or not recipe:
        _print_recipes()
        return
    changes = {"steps": steps or -1, "minutes": minutes, "threads": threads, "seed": seed}
    chosen = find_recipe(recipe).with_settings(**{name: value for name, value in changes.items() if value >= 0})
    folder = out or Path("runs") / chosen.name
    extras.require_packages("lightning", what="training")
    from chemspec.engine.registry import model_folder
    from chemspec.train.drafters import train_drafter
    from chemspec.train.run import run_recipe

    if isinstance(chosen, Recipe):
        made = run_recipe(chosen, data_dir or Path("data") / chosen.name, folder, resume=resume, start=start)
        show.print_line(f"model folder: {made}")
        return
    target = chosen.target or chosen.task
    answers = data_dir or Path("data") / f"{chosen.task}-distilled"
    made = train_drafter(chosen, answers, start or model_folder(target), folder, resume=resume)
    show.print_line(f"drafter folder: {made}")
    show.print_note(f"to use it: chemspec train install-drafter {made} --model {start or target}")


def _print_recipes() -> None:
    """Print the built-in recipes, those of models first: a heading and what to expect of each."""
    from chemspec.train.recipe import DrafterRecipe, builtin_recipes

    for recipe in builtin_recipes().values():
        trains = f"drafter {recipe.kind}" if isinstance(recipe, DrafterRecipe) else f"model, {recipe.preset}"
        limits = f"{recipe.train.steps} steps" + f", {recipe.train.minutes:g} minutes" * bool(recipe.train.minutes)
        tried = "tried" if recipe.tried else "not tried"
        show.print_line(f"{recipe.name}: {recipe.task} {trains}; {limits}; {tried}", "bold")
        show.print_sentence(recipe.expectation, "")
