"""Subcommands of `train` for models: `average`, `leaks`, `calibration`, `familiarity`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command
from chemspec.cli.train import train
from chemspec.settings import DecodeSettings
from chemspec.tasks import TASKS

PANEL = "Models"


@command("average", PANEL, train)
def average_weights(
    models: Annotated[list[Path], typer.Argument(help="Model folders, each trained from the previous one.")],
    out: Annotated[Path, opt.option("Output folder for the averaged model.")],
) -> None:
    """Average the weights of consecutive training stages: often more accurate than the last, at the same speed."""
    from chemspec.train.average import average_models

    show.print_line(str(average_models(models, out)))


@command("leaks", PANEL, train)
def find_leaks(
    recipe: Annotated[str, opt.option("Recipe whose training data is checked: a name or a .toml file.")],
    source: opt.SourceOption = None,
    data_dir: Annotated[
        Path | None,
        opt.option("Check the arrays written by `chemspec data` to this folder instead of the CSVs.", "--data"),
    ] = None,
    every: Annotated[int, opt.option("Check only every n-th training row.")] = 1,
    as_json: opt.JsonOption = False,
) -> None:
    """Find test reactions and products in a recipe's training data, by canonical SMILES; exit code 1 if any."""
    from chemspec.data import leaks
    from chemspec.train.recipe import model_recipe

    chosen = model_recipe(recipe)
    folder = opt.require_data_folder(source)
    tests = opt.find_test_file(source, chosen.task, "")
    with show.progress_bar("training reactions") as report:
        count_rows = partial(report, total=0)
        if data_dir is not None:
            compared = leaks.check_arrays(data_dir, tests, chosen.task, progress=count_rows)
        else:
            files = [folder / file for file in chosen.train_files]
            compared = leaks.check_rows(files, tests, chosen.data, every=every, progress=count_rows)
    text = f"{compared.reactions} test reactions and {compared.products} with a test product"
    show.print_line(f"{text} among {compared.checked} training reactions, against {compared.tests} test reactions")
    if as_json:
        show.print_json(asdict(compared))
    raise typer.Exit(1 if compared.reactions or compared.products else 0)


@command("calibration", PANEL, train)
def measure_calibration(
    task: opt.TaskOption,
    model: opt.ModelOption = "",
    source: opt.SourceOption = None,
    queries: opt.SampleSizeOption = 1000,
    seed: opt.SampleSeedOption = 0,
    heldout: Annotated[
        Path | None,
        opt.option(
            "File of held-out reactions (heldout.csv): as many of these in addition, or alone without --source."
        ),
    ] = None,
    n: opt.NOption = 10,
    out: opt.PredictionsOption = None,
    store: Annotated[bool, opt.option("Write confidence.json into the model folder.")] = True,
    keep_numbers: opt.KeepOption = False,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Calibrate a model's probabilities on validation data, and store the calibration."""
    from chemspec.evaluation import accuracy, calibration

    standard = bool(source and TASKS[opt.parse_task(task)].test) or not heldout
    remedy = "give held-out reactions with --heldout"
    reactions = opt.read_test_reactions(source, task, "val", remedy, limit=queries, seed=seed) if standard else []
    if heldout:
        reactions += accuracy.read_known_reactions(heldout, opt.parse_task(task), limit=queries, seed=seed)
    engine = opt.load_engine(task, model, threads=threads)
    made = f"chemspec train calibration --task {engine.task} --queries {queries} --seed {seed} -n {n}"
    made += f" --heldout {heldout.name}" if heldout else ""
    what = f"{engine.name}-{engine.digest[:6]}-{queries}-{seed}-beam{n}" + ("-heldout" if heldout else "")
    target = out or Path("runs") / f"calibration-{what}.jsonl"
    with show.progress_bar("predicting") as report:
        confidence, result = calibration.measure_calibration(
            engine, reactions, target, DecodeSettings(n=n, batch_size=32), made=made, progress=report
        )
    if store:
        confidence.save(engine.folder)
        show.print_note(f"{engine.folder / 'confidence.json'} written")
    document = {"model": engine.name, "digest": engine.digest, "made": made, **asdict(result)}
    if keep_numbers:
        opt.store_measurements(
            engine.folder, ["reliability"], engine.digest, {**document, "numbers": calibration.NUMBERS}
        )
    if as_json:
        show.print_json(document)
    else:
        rows = calibration.format_table_rows(result.table, calibration.NUMBERS)
        names = ("probability", "used", *calibration.NUMBERS)
        show.print_rows([dict(zip(names, row, strict=True)) for row in rows])


@command("familiarity", PANEL, train)
def measure_familiarity(
    recipe: Annotated[str, opt.option("Recipe whose training rows are analysed: a name or a .toml file.")],
    model: opt.ModelOption = "",
    source: opt.SourceOption = None,
    products: Annotated[
        bool,
        opt.option(
            "Compare products with the shipped index of precedents, which contains the training products.", "--products"
        ),
    ] = False,
) -> None:
    """Compute training-set statistics (rare tokens, length, similarity) for warnings on out-of-distribution queries."""
    from chemspec import chem
    from chemspec.data.reactions import canonical_pair
    from chemspec.data.shards import is_used, read_rows
    from chemspec.engine.familiarity import nearest_products
    from chemspec.evaluation import familiarity
    from chemspec.train.recipe import model_recipe

    chosen = model_recipe(recipe)
    engine = opt.load_engine(chosen.task, model, threads=1)
    rows = (row for file in chosen.train_files for row in read_rows(opt.require_data_folder(source) / file))
    queries = (canonical_pair(row, chosen.task)[0] for row in rows if is_used(row, chosen.data))
    index = nearest_products() if products else None
    reactions = opt.read_test_reactions(source, chosen.task, "val") if index else []
    alike = [
        index.nearest_similarity(target)
        for reaction in reactions
        if index and (target := chem.main_product(reaction.query))
    ]
    made = f"chemspec train familiarity --recipe {chosen.name}{' --products' if products else ''}"
    statistics = familiarity.training_statistics(
        queries, engine.tokenizer.smiles_tokens, alike, digest=engine.digest, made=made
    )
    statistics.save(engine.folder)
    show.print_line(
        f"{len(statistics.rare)} rare tokens; long: over {statistics.longest}; unlike: under {statistics.unlike:.2f}"
    )
