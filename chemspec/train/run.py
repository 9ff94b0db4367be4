"""Train a model by a recipe."""

from __future__ import annotations

from pathlib import Path

from chemspec.settings import preset_config
from chemspec.tokenizer import Tokenizer
from chemspec.train.module import latest_checkpoint, train
from chemspec.train.recipe import Recipe
from chemspec.train.validate import exact_match


def run_recipe(
    recipe: Recipe,
    data: Path,
    out: Path,
    *,
    resume: bool = True,
    start: Path | None = None,
    average: int = 1,
    quiet: bool = False,
) -> Path:
    """Train on data that `prepare` wrote for this recipe, in the run folder `out`, and return the model folder.

    `resume` continues from the last checkpoint, if any; `start` is a model folder with initial weights; `average` is
    the number of last checkpoints to average, 1 for the recipe's. Raises FileNotFoundError if the data has not been
    prepared, and ValueError without `start` for a recipe that continues training a model.
    """
    for name in ("train.npz", "vocab.json"):
        if not (data / name).is_file():
            raise FileNotFoundError(f"{data / name} is missing; prepare it with `chemspec data --recipe {recipe.name}`")
    checkpoint_to_resume = latest_checkpoint(out) if resume else None
    if recipe.starts_from and start is None and not checkpoint_to_resume:
        initial = recipe.starts_from
        raise ValueError(f"{recipe.name} continues training the model of {initial}; give its folder with --start")
    return train(
        data,
        out,
        task=recipe.task,
        config=preset_config(recipe.preset, vocab_size=len(Tokenizer.load(data / "vocab.json"))),
        settings=recipe.train,
        resume=checkpoint_to_resume,
        start=None if checkpoint_to_resume else start,
        exact=exact_match,
        quiet=quiet,
        average_last=average if average > 1 else recipe.average_last,
    )
