"""One training by a recipe; what the command line calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from chemspec.settings import preset
from chemspec.tokenizer import Tokenizer
from chemspec.train.module import train
from chemspec.train.recipes import Recipe
from chemspec.train.validate import exact_match


def run_recipe(
    recipe: Recipe,
    data: Path,
    out: Path,
    *,
    steps: int = 0,
    minutes: float = -1.0,
    threads: int = -1,
    seed: int = -1,
    lr: float = 0.0,
    resume: bool = True,
    start: Path | None = None,
    average: int = 1,
    quiet: bool = False,
) -> Path:
    """Train on prepared data; returns the model folder.

    Args:
        data: what `prepare` wrote for this recipe.
        out: the run folder.
        steps, minutes, threads, seed, lr: instead of the recipe's, unless 0 steps or learning rate, or less than 0 of
            the others.
        resume: go on from the run folder's last checkpoint, if there is one.
        start: a model folder whose weights to begin with.
        average: average so many of the last checkpoints; 1 leaves it to the recipe.

    Raises:
        FileNotFoundError: if the data has not been prepared.
    """
    for name in ("train.npz", "vocab.json"):
        if not (data / name).is_file():
            raise FileNotFoundError(f"{data / name} is missing; prepare it with `chemspec data --recipe {recipe.name}`")
    last = out / "checkpoints" / "last.ckpt"
    again = resume and last.exists()
    if recipe.starts_from and start is None and not again:
        raise ValueError(f"{recipe.name} goes on with the model of {recipe.starts_from}; give its folder with --start")
    settings = recipe.train
    if steps > 0:
        settings = replace(settings, steps=steps)
    if minutes >= 0:
        settings = replace(settings, minutes=minutes)
    if threads >= 0:
        settings = replace(settings, threads=threads)
    if seed >= 0:
        settings = replace(settings, seed=seed)
    if lr > 0:
        settings = replace(settings, lr=lr)
    return train(
        data,
        out,
        task=recipe.task,
        config=preset(recipe.preset, vocab_size=len(Tokenizer.load(data / "vocab.json"))),
        settings=settings,
        resume=last if again else None,
        start=None if again else start,
        exact=exact_match,
        quiet=quiet,
        average_last=average if average > 1 else recipe.average_last,
    )
