"""Commands around the training of a model: `train average`, `leaks`, `calibration`, `familiarity`."""

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
from chemspec.tasks import TASKS

command = partial(train.command, rich_help_panel="Models")


@command()
def average(
    models: Annotated[list[Path], typer.Argument(help="Model folders, each trained on from the one before.")],
    out: Annotated[Path, opt.option("Folder for the mean of their weights.")],
) -> None:
    """Average the weights of models trained on from each other: often better than the last alone, and as quick."""
    from chemspec.train.average import average_models as write

    show.line(str(write(models, out)))


@command()
def leaks(
    recipe: Annotated[str, opt.option("Recipe whose training data to check: a name or a .toml file.")],
    source: opt.SourceOption = None,
    data_dir: Annotated[
        Path | None,
        opt.option("Check the arrays that `chemspec data` wrote here, which is what training really reads.", "--data"),
    ] = None,
    every: Annotated[int, opt.option("Only every so many-th training row.")] = 1,
    as_json: opt.JsonOption = False,
) -> None:
    """Look for test reactions and products in a recipe's training data, by canonical SMILES; exit code 1 if any."""
    from chemspec.data import leaks as search
    from chemspec.train.recipe import model_recipe

    chosen = model_recipe(recipe)
    folder = opt.data_folder(source)
    tests = opt.test_file(source, chosen.task, "")
    with show.progress("training reactions") as report:
        told = partial(report, total=0)
        if data_dir is not None:
            compared = search.check_arrays(data_dir, tests, chosen.task, progress=told)
        else:
            files = [folder / file for file in chosen.train_files]
            compared = search.check_rows(files, tests, chosen.data, every=every, progress=told)
    text = f"{compared.reactions} test reactions and {compared.products} with a test product"
    show.line(f"{text} among {compared.checked} training reactions, against {compared.tests} test reactions")
    if as_json:
        show.document(asdict(compared))
    raise typer.Exit(1 if compared.reactions or compared.products else 0)


@command()
def calibration(
    task: opt.TaskOption,
    model: opt.ModelOption = "",
    source: opt.SourceOption = None,
    queries: Annotated[int, opt.option("Validation queries, drawn at random; 0: all.")] = 1000,
    seed: Annotated[int, opt.option("Random seed of the choice.")] = 0,
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
    made = f"chemspec train calibration --task {engine.task} --queries {queries} --seed {seed} -n {n}"
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
def familiarity(
    recipe: Annotated[str, opt.option("Recipe whose training rows to look at: a name or a .toml file.")],
    model: opt.ModelOption = "",
    source: opt.SourceOption = None,
    products: Annotated[
        bool, opt.option("The index of precedents that ships has their products, too.", "--products")
    ] = False,
) -> None:
    """Look at what a model was trained on: rare tokens, length, likeness; a query unlike it is told so in its notes."""
    from chemspec import chem
    from chemspec.data.reactions import canonical_pair
    from chemspec.data.shards import is_used, read_rows
    from chemspec.engine.familiarity import nearest_products
    from chemspec.evaluation import familiarity as looking
    from chemspec.train.recipe import model_recipe

    chosen = model_recipe(recipe)
    engine = opt.load(chosen.task, model, threads=1)
    rows = (row for file in chosen.train_files for row in read_rows(opt.data_folder(source) / file))
    queries = (canonical_pair(row, chosen.task)[0] for row in rows if is_used(row, chosen.data))
    index = nearest_products() if products else None
    asked = opt.questions(source, chosen.task, "val") if index else []
    alike = [index.nearest_similarity(target) for one in asked if index and (target := chem.main_product(one.query))]
    made = f"chemspec train familiarity --recipe {chosen.name}{' --products' if products else ''}"
    found = looking.of_training(queries, engine.tokenizer.smiles_tokens, alike, digest=engine.digest, made=made)
    found.save(engine.folder)
    show.line(f"{len(found.rare)} rare tokens; long: over {found.longest}; unlike: under {found.unlike:.2f}")
