"""Check training data, fit and install drafters: `dev leaks`, `distil`, `mean`, `install-drafter`, `calibrate`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import dev
from chemspec.settings import DecodeSettings

command = partial(dev.command, rich_help_panel="Data and drafters")


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


@command(name="reagent-baseline")
def reagent_baseline(
    heldout: Annotated[Path, typer.Argument(help="Held-out reactions: what `chemspec data --recipe reagents` wrote.")],
    source: opt.SourceOption = None,
    recipe: Annotated[str, opt.option("Recipe whose training rows are counted.")] = "reagents",
    every: Annotated[int, opt.option("Count every so many-th row.")] = 10,
    limit: Annotated[int, opt.option("Ask about so many reactions; 0: all.")] = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Score the most frequent reagents of a reaction's change, which a model has to be better than."""
    from chemspec.evaluation import reagents
    from chemspec.train.recipe import model_recipe

    chosen = model_recipe(recipe)
    training = opt.data_folder(source) / chosen.train_files[0]
    with show.progress("counting") as report:
        told = reagents.baseline(training, heldout, chosen.data, every=every, limit=limit, progress=report)
    named = {f"the exact set, first {k}": value for k, value in told["top"].items()}
    show.shares({**named, **{f"each reagent, first {k}": value for k, value in told["recall"].items()}})
    if as_json:
        show.document(told)


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
    alike = [index.likeness(target) for one in asked if index and (target := chem.main_product(one.query))]
    made = f"chemspec dev familiarity --recipe {chosen.name}{' --products' if products else ''}"
    found = looking.of_training(queries, engine.tokenizer.alphabet, alike, digest=engine.digest, made=made)
    found.save(engine.folder)
    show.line(f"{len(found.rare)} rare tokens; long: over {found.longest}; unlike: under {found.unlike:.2f}")


@command()
def distil(
    task: opt.TaskOption,
    model: opt.ModelOption = "",
    data_dir: Annotated[Path | None, opt.option("What `chemspec data` wrote; default data/<task>.", "--data")] = None,
    out: Annotated[Path | None, opt.option("Folder to write; default data/<task>-distilled.")] = None,
    pairs: Annotated[int, opt.option("So many training queries; 0: all.")] = 40_000,
    batch_size: opt.BatchOption = 64,
    max_len: opt.LengthOption = opt.DEFAULT.max_len,
    seed: Annotated[int, opt.option("Of the random choice.")] = 0,
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
def mean(
    models: Annotated[list[Path], typer.Argument(help="Model folders, each trained on from the one before.")],
    out: Annotated[Path, opt.option("Folder for the mean of their weights.")],
) -> None:
    """Average the weights of models trained on from each other: often better than the last alone, and as quick."""
    from chemspec.train.average import average_models as write

    show.line(str(write(models, out)))


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
    calibration = engine.knowledge()
    if calibration.edit_table is None:
        raise ValueError(f"model {engine.name} has no table of edits; make one with `chemspec dev calibrate`")
    made = f"{calibration.made}; chemspec dev share-edits --model {model} --deepest {deepest}"
    out.parent.mkdir(parents=True, exist_ok=True)
    save_shared_table(out, calibration.edit_table, engine.tokenizer.alphabet, deepest=deepest, made=made)
    show.note(f"{out}: {out.stat().st_size / 1e6:.2f} MB")


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
    seed: Annotated[int, opt.option("Of the random choice of both.")] = 0,
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

        made = f"chemspec dev calibrate --unlabelled {unlabelled.name} --heads {heads}"
        texts = readers.read_queries(unlabelled, column, engine.task, show.note)
        knowledge, report = learning.calibrate_from_answers(engine, texts, heads=heads, command=made, tell=show.note)
    else:
        folder = data_dir or Path("data") / engine.task
        made = (
            f"chemspec dev calibrate --task {engine.task} --pairs {pairs} --queries {queries} --heads {heads} "
            f"--seed {seed}"
        )
        knowledge, report = learning.calibrate(
            engine, folder, pairs=pairs, queries=queries, heads=heads, seed=seed, command=made, tell=show.note
        )
    knowledge.save(engine.folder)
    show.note(f"{engine.folder / 'drafting.json'}: {report.nodes} contexts, heads {report.heads}")
    if as_json:
        show.document(asdict(report))
