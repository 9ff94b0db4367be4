"""The commands `data` and `train`, with subcommands for models (`average`, ...) and drafters (`distil`, ...)."""

from dataclasses import asdict, replace
from pathlib import Path
from textwrap import fill, indent
from typing import Any

import typer

from chemspec.cli import options as opt
from chemspec.cli.base import app, command, refuse_group_options
from chemspec.settings import DecodeSettings
from chemspec.system import extras
from chemspec.tasks import TASKS, check_task
from chemspec.terminal import console

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
    with console.progress_bar("reactions") as report:
        reports = prepare_recipe(chosen, given, folder, vocab=vocab, limit=limit, workers=workers, progress=report)
    for name, summary in reports.items():
        tokens = summary["source_tokens"] + summary["target_tokens"]
        console.print_note(f"{folder / name}.npz: {summary['pairs']} pairs, {tokens} tokens")
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
    data/<task>-distilled, small models (`ar`, `medium`) on what --data names. All files are written to the run folder;
    `chemspec train install-drafter` copies a drafter into its target's folder.

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

    if not (recipe or listed) and (data_dir or out or start or steps):
        raise ValueError("choose a recipe with --recipe; --list shows them")
    if listed or not recipe:
        _print_recipes()
        return
    changes = {"steps": steps or -1, "minutes": minutes, "threads": threads, "seed": seed}
    chosen = find_recipe(recipe).with_settings(**{name: value for name, value in changes.items() if value != -1})
    folder = out or Path("runs") / chosen.name
    extras.require_packages("lightning", what="training")
    from chemspec.engine.registry import model_folder
    from chemspec.train.drafters import train_drafter
    from chemspec.train.run import run_recipe

    if isinstance(chosen, Recipe):
        made = run_recipe(chosen, data_dir or Path("data") / chosen.name, folder, resume=resume, start=start)
        console.print_line(f"model folder: {made}")
        return
    target = chosen.target or chosen.task
    answers = data_dir or Path("data") / f"{chosen.task}-distilled"
    made = train_drafter(chosen, answers, start or model_folder(target), folder, resume=resume)
    console.print_line(f"drafter folder: {made}")
    console.print_note(f"to use it: chemspec train install-drafter {made} --model {start or target}")


def _print_recipes() -> None:
    """Print the built-in recipes, those of models first: a heading and what to expect of each."""
    from chemspec.train.recipe import DrafterRecipe, builtin_recipes

    for recipe in builtin_recipes().values():
        trains = f"drafter {recipe.kind}" if isinstance(recipe, DrafterRecipe) else f"model, {recipe.preset}"
        limits = f"{recipe.train.steps:,} steps" + f" or {recipe.train.minutes:g} minutes" * bool(recipe.train.minutes)
        tried = "tried" if recipe.tried else "not tried"
        console.print_line(f"{recipe.name}: {recipe.task}, {trains}; at most {limits}; {tried}", "bold")
        console.print_line(indent(fill(recipe.expectation, 78, break_on_hyphens=False), "  "))


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
    task: str,
    model: str = "",
    source: opt.Source = None,
    queries: int = 1000,
    seed: int = 0,
    heldout: Path | None = None,
    n: int = 10,
    out: Path | None = None,
    keep_numbers: bool = False,
    threads: int = 0,
) -> dict[str, Any]:
    """Calibrate a model's probabilities on validation data, and store the calibration.

    Options:
        queries: number of validation queries, sampled at random; 0: all.
        heldout: file of held-out reactions (heldout.csv): as many of these in addition, or alone without --source.
        out: file for the predictions (.jsonl); resumable.
    """
    from chemspec.evaluation import accuracy, calibration

    reactions: list[Any] = []
    if not heldout or (source and TASKS[check_task(task)].test):
        remedy = "give held-out reactions with --heldout"
        reactions += opt.read_test_reactions(source, task, "val", remedy, limit=queries, seed=seed)
    if heldout:
        reactions += accuracy.read_known_reactions(heldout, check_task(task), limit=queries, seed=seed)
    engine = opt.load_engine(task, model, threads=threads)
    made = f"chemspec train calibration --task {engine.task} --queries {queries} --seed {seed} -n {n}"
    made += f" --heldout {heldout.name}" if heldout else ""
    what = f"{engine.name}-{engine.digest[:6]}-{queries}-{seed}-beam{n}" + ("-heldout" if heldout else "")
    target = out or Path("runs") / f"calibration-{what}.jsonl"
    with console.progress_bar("predicting") as report:
        confidence, result = calibration.measure_calibration(
            engine, reactions, target, DecodeSettings(n=n, batch_size=32), made=made, progress=report
        )
    confidence.save(engine.folder)
    console.print_note(f"{engine.folder / 'confidence.json'} written")
    document = {"model": engine.name, "digest": engine.digest, "made": made, **asdict(result)}
    if keep_numbers:
        measured = {**document, "numbers": calibration.NUMBERS}
        opt.store_measurements(engine.folder, ["reliability"], engine.digest, measured)
    methods = result.table["sequence"].items()
    console.print_rows(
        [{"used": used, **{name: f"{value:.3f}" for name, value in row.items()}} for used, row in methods]
    )
    return document


@command("distil", "Drafters", train)
def distil_model(
    task: str,
    model: str = "",
    data_dir: Path | None = None,
    out: Path | None = None,
    pairs: int = 40_000,
    seed: int = 0,
    batch_size: int = 64,
    max_len: int = opt.DEFAULT.max_len,
    threads: int = 0,
    device: str = "auto",
) -> dict[str, Any]:
    """Decode training queries greedily with the target model, as training data of drafters; resumable.

    Options:
        out: output folder; default data/<task>-distilled.
        pairs: number of training queries; 0: all.
    """
    from chemspec.train import distil

    folder = data_dir or Path("data") / check_task(task)
    target = out or Path("data") / f"{task}-distilled"
    engine = opt.load_engine(task, model, threads=threads, device=device)
    settings = DecodeSettings(decoder="greedy", n=1, batch_size=batch_size, max_len=max_len)
    with console.progress_bar("answering") as report:
        count = distil.write_distilled_pairs(
            engine, folder, target, pairs=pairs, settings=settings, seed=seed, progress=report
        )
    console.print_note(f"{target / 'train.npz'}: {count} pairs")
    return {"pairs": count}


@command("calibrate", "Drafters", train)
def calibrate_drafters(
    task: str = "",
    model: str = "",
    data_dir: Path | None = None,
    unlabelled: Path | None = None,
    column: str = "",
    pairs: int = 100_000,
    queries: int = 500,
    seed: int = 0,
    threads: int = 0,
) -> dict[str, Any]:
    """Fit a model's drafters to its training data or its own answers; fewer passes, same predictions.

    Options:
        unlabelled: file of queries to use instead of training data; the model's own answers are fitted.
        column: column of the --unlabelled file with the SMILES.
        pairs: number of training pairs for the edit table.
        queries: number of validation queries for acceptance rates.
    """
    from chemspec.io import readers
    from chemspec.train import fit_drafters

    if not task and not model:
        raise ValueError("give --model or --task")
    engine = opt.load_engine(task, model, threads=threads)
    if not engine.folder.is_dir():
        raise ValueError(f"{engine.folder} is not a folder to write to; `chemspec import` the model first")
    if unlabelled is not None:
        texts = readers.read_queries(unlabelled, column, engine.task, console.print_note)
        calibration, report = fit_drafters.calibrate_from_answers(engine, texts, tell=console.print_note)
        data = f"--unlabelled {unlabelled.name}"
    else:
        folder, options = data_dir or Path("data") / engine.task, {"pairs": pairs, "queries": queries, "seed": seed}
        calibration, report = fit_drafters.calibrate(engine, folder, **options, tell=console.print_note)
        data = f"--task {engine.task} --pairs {pairs} --queries {queries} --seed {seed}"
    replace(calibration, made=f"chemspec train calibrate {data}").save(engine.folder)
    console.print_note(f"{engine.folder / 'drafting.json'}: {report.nodes} contexts")
    return asdict(report)


@command("install-drafter", "Drafters", train)
def install_drafter(drafter: Path, model: str, kind: str = "", yes: bool = False) -> None:
    """Copy a trained drafter into a model's folder; prompts before replacing one.

    Options:
        drafter DRAFTER: folder of a trained drafter, or the run folder of its training.
        model -m: target model of the drafter: an installed name, or a folder.
        kind: kind of drafter that a small model becomes: ar or medium.
        yes -y: replace a drafter of this kind without asking.
    """
    from chemspec.engine import drafter_install
    from chemspec.engine.registry import model_folder
    from chemspec.model.checkpoint import drafter_folder

    folder, kind = drafter_install.trained_drafter(drafter, kind)
    target = model_folder(model)
    if drafter_folder(target, kind).exists() and not yes:
        typer.confirm(f"{target} has a drafter {kind!r}. Replace it?", abort=True)
    console.print_line(f"installed: {drafter_install.install_drafter(folder, kind, target)}")
