"""Train a model by a recipe."""

from __future__ import annotations

from pathlib import Path

from chemspec.settings import preset
from chemspec.tokenizer import Tokenizer
from chemspec.train.module import latest, train
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
    """Train on prepared data and return the model folder.

    Args:
        recipe: see `recipe.Recipe`.
        data: what `prepare` wrote for this recipe.
        out: the run folder.
        resume: go on from the run folder's last checkpoint, if there is one.
        start: a model folder whose weights to begin with.
        average: average so many of the last checkpoints; 1 leaves it to the recipe.
        quiet: no progress line.

    Raises:
        FileNotFoundError: if the data has not been prepared.
        ValueError: without `start` for a recipe that goes on with another's model.
    """
    for name in ("train.npz", "vocab.json"):
        if not (data / name).is_file():
            raise FileNotFoundError(f"{data / name} is missing; prepare it with `chemspec data --recipe {recipe.name}`")
    again = latest(out) if resume else None
    if recipe.starts_from and start is None and not again:
        raise ValueError(f"{recipe.name} goes on with the model of {recipe.starts_from}; give its folder with --start")
    return train(
        data,
        out,
        task=recipe.task,
        config=preset(recipe.preset, vocab_size=len(Tokenizer.load(data / "vocab.json"))),
        settings=recipe.train,
        resume=again,
        start=None if again else start,
        exact=exact_match,
        quiet=quiet,
        average_last=average if average > 1 else recipe.average_last,
    )
