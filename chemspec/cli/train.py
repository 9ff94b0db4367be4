"""The commands `data` and `train`, with subcommands for models (`average`, ...) and drafters (`distil`, ...)."""

from pathlib import Path
from textwrap import fill, indent
from typing import Any

import typer

from chemspec.cli import options as opt
from chemspec.cli.base import app, command, refuse_group_options
from chemspec.data.settings import PreparationSettings
from chemspec.evaluation.settings import CalibrationSettings
from chemspec.system import extras
from chemspec.terminal import console
from chemspec.train.settings import DistilSettings, DrafterFitSettings, FineTuneSettings, RunSettings

train = typer.Typer(invoke_without_command=True)
app.add_typer(train, name="train", rich_help_panel="Models")


@command("data", "Models")
def prepare_data(recipe: str, *, settings: PreparationSettings) -> dict[str, Any]:
    """Convert reaction CSVs to aligned, augmented token arrays; resumable."""
    from chemspec.data.prepare import prepare_recipe
    from chemspec.train.recipe import model_recipe

    with console.progress_bar("reactions") as report:
        return prepare_recipe(model_recipe(recipe), settings, tell=console.print_note, progress=report)


@train.callback()
@opt.expand_options
def train_by_recipe(context: typer.Context, recipe: str = "", *, run: RunSettings, listed: bool = False) -> None:
    """Train a model or a drafter by a recipe; needs the extra `train`, but not RDKit.

    A drafter is trained on the output of `chemspec train distil`: heads and networks of masks by default on
    data/<task>-distilled, small models (`ar`, `medium`) on what --data names. All files are written to the run folder;
    `chemspec train install-drafter` copies a drafter into its target's folder.

    Options:
        recipe: recipe: a name (see --list), FILE.toml or FILE.toml:NAME.
        listed --list: list the recipes and exit.
    """
    if context.invoked_subcommand:
        refuse_group_options(context)
        return
    from chemspec.train.recipe import Recipe, builtin_recipes, find_recipe, recipe_heading

    if not recipe and not listed and run != RunSettings():
        raise ValueError("choose a recipe with --recipe; --list shows them")
    if not recipe or listed:
        for each in builtin_recipes().values():
            console.print_line(recipe_heading(each), "bold")
            console.print_line(indent(fill(each.expectation, 78, break_on_hyphens=False), "  "))
        return
    chosen = find_recipe(recipe)
    extras.require_packages("torch", what="training")
    from chemspec.train.run import train_by_recipe

    with console.progress_bar("steps") as report:
        made = train_by_recipe(chosen, run, tell=console.print_note, progress=report)
    console.print_line(f"{'model' if isinstance(chosen, Recipe) else 'drafter'} folder: {made}")
    if not isinstance(chosen, Recipe):
        target = run.start or chosen.target or chosen.task
        console.print_note(f"to use it: chemspec train install-drafter {made} --model {target}")


@command("average", "Models", train)
def average_weights(models: list[Path], out: Path) -> None:
    """Average the weights of consecutive training stages: often more accurate than the last, at the same speed.

    Options:
        models MODELS: model folders, each trained from the previous one.
        out: output folder for the averaged model.
    """
    from chemspec.train.average import average_models

    console.print_line(str(average_models(models, out)))


@command("calibration", "Models", train)
def measure_calibration(
    task: str = "", model: str = "", *, settings: CalibrationSettings, keep_numbers: bool = False, threads: int = 0
) -> dict[str, Any]:
    """Calibrate a model's probabilities on validation data, and store the calibration."""
    from chemspec.evaluation.calibration import calibrate_model

    engine = opt.load_engine(task, model, threads=threads)
    keep = opt.command_line() if keep_numbers else ""
    with console.progress_bar("predicting") as report:
        document = calibrate_model(engine, settings, keep=keep, progress=report)
    console.print_note(f"{engine.folder}: confidence.json" + " and evaluation.json" * keep_numbers + " written")
    methods = document["table"]["sequence"].items()
    console.print_rows(
        [{"used": used, **{name: f"{value:.3f}" for name, value in row.items()}} for used, row in methods]
    )
    return document


@command("fine-tune", "Models", train)
def fine_tune_model(
    table: Path, column: str = "", out: Path | None = None, use: bool = False, *, settings: FineTuneSettings
) -> dict[str, Any]:
    """Fine-tune a model on a table of own reactions, in minutes of a CPU: what it learned, and what it forgot.

    A fifth of the products is held out. The new version, NAME-1, NAME-2, ..., is a model like others: `-m NAME-1`.

    Options:
        table TABLE: reactions, one per row, as reactants>>product, or in a column for each side; also by names.
        out -o: work folder, from which a stopped run goes on; default: runs/NAME.
        use: let the new version predict where no model is named (`chemspec models --use` goes back).
    """
    extras.require_packages("torch", what="training")
    from chemspec.cli.own_table import read_table
    from chemspec.engine.registry import choose_model
    from chemspec.train.fine_tune import fine_tune
    from chemspec.train.fine_tuned import describe_report, read_report

    read = read_table(table, column)
    folder = fine_tune(read.reactions, settings, out or Path("runs") / settings.name, tell=console.print_note)
    report = read_report(folder) or {}
    console.print_line(f"{folder.name}: {describe_report(report)}")
    console.print_note(
        f"to use it: chemspec predict -m {folder.name} ..., or everywhere: chemspec models --use {folder.name}"
    )
    if use:
        choose_model(settings.task, folder.name)
    return {"model": folder.name, "folder": str(folder), **report}


@command("distil", "Drafters", train)
def distil_model(
    task: str = "", model: str = "", *, settings: DistilSettings, threads: int = 0, device: str = "auto"
) -> dict[str, Any]:
    """Decode training queries greedily with the target model, as training data of drafters; resumable."""
    from chemspec.train.distil import write_distilled_pairs

    engine = opt.load_engine(task, model, threads=threads, device=device)
    with console.progress_bar("answering") as report:
        file, count = write_distilled_pairs(engine, settings, progress=report)
    console.print_note(f"{file}: {count} pairs")
    return {"pairs": count}


@command("calibrate", "Drafters", train)
def calibrate_drafters(
    task: str = "", model: str = "", *, settings: DrafterFitSettings, threads: int = 0
) -> dict[str, Any]:
    """Fit a model's drafters to its training data; fewer passes, same predictions."""
    from chemspec.train.fit_drafters import fit_drafters

    engine = opt.load_engine(task, model, threads=threads)
    report = fit_drafters(engine, settings, tell=console.print_note)
    console.print_note(f"{engine.folder / 'drafting.json'}: {report['nodes']} contexts")
    return report


@command("install-drafter", "Drafters", train)
def install_drafter(drafter: Path, model: str, kind: str = "", yes: bool = False) -> None:
    """Copy a trained drafter into a model's folder; prompts before replacing one.

    Options:
        drafter DRAFTER: folder of a trained drafter, or the run folder of its training.
        model -m: target model of the drafter: an installed name, or a folder.
        kind: kind of drafter that a small model becomes: ar or medium.
        yes -y: replace a drafter of this kind without asking.
    """
    from chemspec.engine import drafter_resources
    from chemspec.engine.registry import model_folder
    from chemspec.model.checkpoint import drafter_folder

    folder, kind = drafter_resources.trained_drafter(drafter, kind)
    target = model_folder(model)
    if drafter_folder(target, kind).exists() and not yes:
        typer.confirm(f"{target} has a drafter {kind!r}. Replace it?", abort=True)
    console.print_line(f"installed: {drafter_resources.install_drafter(folder, kind, target)}")
