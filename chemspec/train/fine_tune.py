"""Fine-tune an installed model on own reactions: data, training, what it learned and forgot, a new version.

Everything is written to a work folder first, from which a stopped run goes on; the new version is installed at the end.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from chemspec.asset_files import bench_answers
from chemspec.data import holdout
from chemspec.data.prepare import prepare_recipe
from chemspec.data.settings import DataSettings, PreparationSettings
from chemspec.engine.confidence import Confidence
from chemspec.engine.engine import Engine
from chemspec.engine.registry import model_folder, own_models_dir, own_versions
from chemspec.evaluation import accuracy
from chemspec.evaluation.accuracy import KnownReaction
from chemspec.evaluation.calibration import NUMBERS, RAW, TEMPERATURE, collect_outcomes, fit_calibration
from chemspec.evaluation.measurements import store_measurements
from chemspec.model import checkpoint
from chemspec.model.manifest import write_manifest
from chemspec.precedents import installed
from chemspec.precedents.own import OwnReaction, load_reactions, write_reactions
from chemspec.settings import PRESETS, DecodeSettings, ModelConfig, Task, TrainSettings, preset_config
from chemspec.system.files import make_private_folder, write_text_atomic
from chemspec.system.threads import usable_cores
from chemspec.train.fine_tuned import (
    LISTED,
    LOG,
    MIN_CALIBRATED,
    MIN_REACTIONS,
    REPORT,
    STAGE,
    STAGES,
    describe_calibration,
    report_rows,
)
from chemspec.train.recipe import Recipe
from chemspec.train.settings import FineTuneSettings
from chemspec.types import Tell, ignore

HELD_OUT, MAX_HELD_OUT = 0.2, 200  # share of the products that are held out, and their number at most
VARIANTS = 4  # SMILES of each reaction
EPOCHS = 2  # times that each SMILES is seen
STEPS = 40, 2000  # least and most
TOKENS = 4000  # of a batch
OWN_FILE, PUBLIC_FILE = "own.csv", "public.csv"
SEED = 21
COMMAND = "chemspec train fine-tune"


def fine_tune(reactions: Sequence[OwnReaction], settings: FineTuneSettings, work: Path, *, tell: Tell = ignore) -> Path:
    """Fine-tune a model on reactions and install it as a new version; returns its folder.

    A fifth of the products is held out. In the work folder `STAGE` says how far it is, and in the end `REPORT` what was
    measured. ValueError for too few reactions, or a model that cannot be fine-tuned.
    """
    from chemspec.train.run import train_padded

    if len(reactions) < MIN_REACTIONS:
        raise ValueError(f"there are {len(reactions)} usable reactions; at least {MIN_REACTIONS} are needed")
    start = model_folder(settings.start or settings.task)
    task, config = checkpoint.read_config(start)
    if task != settings.task:
        raise ValueError(f"the model {start.name} is for {task}, not {settings.task}")
    recipe = _recipe(settings, config)
    make_private_folder(work)

    def begin(stage: str) -> None:
        written = {"stage": stage, "steps": recipe.train.steps}
        write_text_atomic(work / STAGE, json.dumps(written), private=True)
        tell(STAGES[stage])

    begin("reading")
    recipe = replace(recipe, train_files=_split(reactions, settings.task, work))
    counted = prepare_recipe(recipe, PreparationSettings(source=work, out=work, vocab=start / "vocab.json", workers=1))
    recipe = replace(recipe, train=_train_settings(settings, counted["train"]))
    begin("before")
    before = _measure(start, settings.task, work, "before")
    begin("training")
    made = train_padded(recipe, work, work / LOG.parent, start=start, exact=None)
    begin("after")
    after = _measure(made, settings.task, work, "after")
    fast = None
    with suppress(ValueError):  # there may be no compiled kernel
        fast = _measure(made, settings.task, work, "after", dtype="int8")
    calibration = _calibrate(settings.task, work)
    report = {
        "name": settings.name, "task": settings.task, "start": start.name, "date": date.today().isoformat(),
        "reactions": len(load_reactions(work / OWN_FILE)), "pairs": counted["train"]["pairs"],
        "steps": recipe.train.steps, "before": before, "after": after,
        "calibrated": calibration["queries"] if calibration else 0,
    }  # fmt: skip
    folder = _install(made, start, report, fast, calibration)
    write_text_atomic(work / REPORT, json.dumps({**report, "version": folder.name}, indent=1), private=True)
    shutil.rmtree(work / LOG.parent / "checkpoints")
    begin("done")
    return folder


def _split(reactions: Sequence[OwnReaction], task: Task, work: Path) -> tuple[str, ...]:
    """Write the training and the held-out part, which share no product, and public reactions to be trained on, too.

    Returns the files to train on. Without public ones far more test reactions are forgotten.
    """
    products = sorted({reaction.product for reaction in reactions})
    count = min(MAX_HELD_OUT, max(1, round(HELD_OUT * len(products))))
    held = {*random.Random(SEED).sample(products, count)}
    once = {reaction.product: reaction for reaction in reversed(reactions) if reaction.product in held}
    write_reactions(work / OWN_FILE, [reaction for reaction in reactions if reaction.product not in held])
    write_reactions(work / holdout.FILE, [once[product] for product in sorted(once)])
    index = installed()
    queries = bench_answers(task)
    apart = held | ({*queries} if task == "retro" else {*queries.values()})
    recorded = index.sample(VARIANTS * (len(reactions) - len(held)), SEED) if index else []
    rehearsed = [
        OwnReaction(row, product, reactants, ".".join(filter(None, (reactants, reagents))), "public")
        for row, (product, reactants, reagents) in enumerate(recorded, 1)
        if product not in apart
    ]
    write_reactions(work / PUBLIC_FILE, rehearsed)
    return (OWN_FILE, PUBLIC_FILE) if rehearsed else (OWN_FILE,)


def _recipe(settings: FineTuneSettings, config: ModelConfig) -> Recipe:
    size = config.vocab_size
    preset = next((name for name in PRESETS if preset_config(name, vocab_size=size) == config), "")
    if not preset:
        raise ValueError("only models of chemspec's own sizes can be fine-tuned (`chemspec train --list`)")
    variants = {OWN_FILE: VARIANTS, PUBLIC_FILE: 1}
    data = DataSettings(task=settings.task, variants=1, variants_of=variants, guess_maps=True, seed=SEED)
    return Recipe(
        name=settings.name,
        task=settings.task,
        preset=preset,
        train_files=(OWN_FILE, PUBLIC_FILE),
        validation_files=(holdout.FILE,),
        data=data,
        validation_data=data,
        train=TrainSettings(),
        starts_from=settings.start or settings.task,
    )


def _train_settings(settings: FineTuneSettings, counted: Mapping[str, Any]) -> TrainSettings:
    tokens = counted["source_tokens"] + counted["target_tokens"]
    steps = settings.steps or min(STEPS[1], max(STEPS[0], round(EPOCHS * tokens / TOKENS)))
    return TrainSettings(
        tokens=TOKENS, lr=settings.lr, warmup=max(1, steps // 10), steps=steps, dropout=0.1, seed=SEED,
        validate_every=max(1, steps // 10), keep=1, threads=usable_cores(),
    )  # fmt: skip


def _measure(model: Path, task: Task, work: Path, name: str, dtype: str = "fp32") -> dict[str, dict[str, Any]]:
    """Return the accuracy of a model on the held-out own reactions and on the shipped public test reactions."""
    held = accuracy.read_known_reactions(work / holdout.FILE, task)
    public = [
        KnownReaction(query, accuracy.normalise_answer(answer, task) or answer)
        for query, answer in bench_answers(task).items()
    ]
    measured = {}
    with Engine.load(model, dtype=dtype) as engine:
        for part, reactions in (("own", held), ("public", public)):
            out = work / f"{name}-{part}-{dtype}.jsonl"
            results = accuracy.predict_to_file(engine, reactions, out, DecodeSettings(n=LISTED))
            scores = accuracy.score_predictions(reactions, results)
            measured[part] = {"reactions": scores["reactions"], "top": scores["top"]}
    return measured


def _calibrate(task: Task, work: Path) -> dict[str, Any] | None:
    """Return the calibration by the answers to the held-out own reactions; None for fewer than `MIN_CALIBRATED`.

    The slope is 1, which leaves probabilities as they are, unless cross-validation finds the fitted one better.
    """
    held = accuracy.read_known_reactions(work / holdout.FILE, task)
    answered = collect_outcomes(held, accuracy.read_predictions(work / "after-own-fp32.jsonl", held))
    if sum(map(bool, answered)) < MIN_CALIBRATED:
        return None
    fitted = fit_calibration(answered)
    methods = fitted["table"]["sequence"]
    better = methods[TEMPERATURE]["all: loss"] < methods[RAW]["all: loss"]
    return {**fitted, "slope": fitted["slope"] if better else 1.0, "numbers": NUMBERS}


def _install(
    made: Path,
    start: Path,
    report: Mapping[str, Any],
    fast: Mapping[str, Any] | None,
    calibration: Mapping[str, Any] | None,
) -> Path:
    """Copy a model to the next free version of its name, with its card, measurements and calibration.

    `fast` is what was measured in int8.
    """
    task, name = report["task"], report["name"]
    home = own_models_dir()
    if home is None:
        raise ValueError("there is no folder for own models; set CHEMSPEC_HOME")
    make_private_folder(home)
    versions = own_versions(name)
    number = int(versions[-1].name.rpartition("-")[2]) + 1 if versions else 1
    folder, new = home / f"{name}-{number}", home / f".{name}-{number}"
    shutil.rmtree(new, ignore_errors=True)
    make_private_folder(new)
    for file in (*made.iterdir(), *start.glob("drafting.*")):  # drafts change no prediction
        shutil.copyfile(file, new / file.name)
    digest = checkpoint.digest_of_folder(new)
    store = partial(store_measurements, new, digest=digest, command=COMMAND)
    public = {"file": f"bench_{task}.smi", "report": dict(report)}
    store(["accuracy"], {**report["after"]["public"], **public})
    if fast:
        store(["int8"], {**fast["public"], **public})
    if calibration:
        store(["reliability"], calibration)
        numbers = {"queries": float(calibration["queries"])}
        Confidence(digest, calibration["slope"], 0.0, COMMAND, numbers).save(new)
    write_text_atomic(new / "card.md", _card(folder.name, report))
    write_manifest(new)
    new.rename(folder)
    return folder


def _card(name: str, report: Mapping[str, Any]) -> str:
    rows = "".join(f"| {' | '.join(row)} |\n" for row in report_rows(report))
    return (
        f"# {name}\n\nFine-tuned on {report['date']} from `{report['start']}` with {report['reactions']} own reactions "
        f"({report['pairs']} SMILES of them, {report['steps']} steps).\n\n"
        f"| | before | after | change |\n|---|---|---|---|\n{rows}\n"
        f"The held-out reactions share no product with the training part. {describe_calibration(report)}\n"
    )
