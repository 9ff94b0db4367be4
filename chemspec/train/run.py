"""Train a model by a recipe, validated by exact match on token level, which needs no RDKit."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from chemspec.data.arrays import Pairs, check_data, split_validation
from chemspec.decode.beam import greedy_search
from chemspec.decode.generate import open_decoding
from chemspec.decode.protocol import LoopOptions
from chemspec.engine.registry import model_folder
from chemspec.model import checkpoint
from chemspec.model.manifest import write_manifest
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.transformer import Transformer
from chemspec.settings import ModelConfig, preset_config
from chemspec.tokenizer import EOS, Tokenizer
from chemspec.train.average import average_checkpoints
from chemspec.train.checkpoints import latest_checkpoint, newest_checkpoints
from chemspec.train.drafters import train_drafter
from chemspec.train.initial_weights import copy_initial_weights
from chemspec.train.packed_run import PackedRun
from chemspec.train.padded import Training, digest_of_data, train_module
from chemspec.train.recipe import DrafterRecipe, Recipe
from chemspec.train.settings import RunSettings
from chemspec.types import Progress, Tell, ignore

BATCH = 32  # pairs decoded together in a validation


def train_by_recipe(
    recipe: Recipe | DrafterRecipe, settings: RunSettings, *, tell: Tell = ignore, progress: Progress = ignore
) -> Path:
    """Train a model or a drafter, see `train_padded`, `train_packed` and `train_drafter`; returns its folder."""
    given = {name: getattr(settings, name) for name in ("steps", "tokens", "minutes", "threads", "seed")}
    changes = {name: value for name, value in given.items() if value != getattr(RunSettings, name)}
    recipe = replace(recipe, train=replace(recipe.train, **changes))
    out = settings.out or Path("runs") / recipe.name
    if isinstance(recipe, Recipe):
        data = settings.data_dir or Path("data") / recipe.name
        if recipe.trainer == "packed":
            start = settings.start
            return train_packed(recipe, data, out, resume=settings.resume, start=start, tell=tell, progress=progress)
        return train_padded(
            recipe, data, out, resume=settings.resume, start=settings.start, tell=tell, progress=progress
        )
    answers = settings.data_dir or Path("data") / f"{recipe.task}-distilled"
    target = settings.start or model_folder(recipe.target or recipe.task)
    return train_drafter(recipe, answers, target, out, resume=settings.resume, tell=tell, progress=progress)


def exact_match(model: Transformer, pairs: Pairs) -> float:
    """Return the share of pairs whose greedy decode equals the target token for token.

    The model is decoded on its device in evaluation mode, which is reset afterwards.
    """
    if not len(pairs):
        raise ValueError("no pairs to decode")
    sources, targets = pairs.sources, pairs.targets
    order = sorted(range(len(pairs)), key=lambda index: (len(targets[index]), len(sources[index])))
    was_training = model.training
    model.eval()
    try:
        backend = TorchBackend(model)
        right = 0
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            expected = [(*targets[index].tolist(), EOS) for index in chosen]
            # At most as long as the targets.
            decoders = [greedy_search(max_len=len(target)) for target in expected]
            encoded = [sources[index].tolist() for index in chosen]
            options = LoopOptions(max_len=max(map(len, expected)))
            decoding = open_decoding(backend, encoded, decoders, options, top_k=1)
            answers = [finished[0] for finished in decoding.run_to_end()]
            right += sum(answer.tokens == target for answer, target in zip(answers, expected, strict=True))
    finally:
        model.train(was_training)
    return right / len(pairs)


def train_padded(
    recipe: Recipe,
    data: Path,
    out: Path,
    *,
    resume: bool = True,
    start: Path | None = None,
    exact: Callable[[Transformer, Pairs], float] | None = exact_match,
    tell: Tell = ignore,
    progress: Progress = ignore,
) -> Path:
    """Train on data that `prepare` wrote for this recipe, in the run folder `out`, and return the model folder.

    Writes `checkpoints/`, `log.csv` and finally `out/model`. `resume` continues from the last checkpoint, if any;
    `start` is a model folder with initial weights; `exact` returns the exact match on pairs, measured at every
    validation. Ctrl-C finishes the step, writes `checkpoints/last.ckpt` and raises KeyboardInterrupt.

    Raises FileNotFoundError if the data has not been prepared, FileExistsError if `out` contains a run that is not to
    be resumed, and ValueError for data, a start or a checkpoint that do not match the recipe, or without `start` for a
    recipe that continues training a model.
    """
    prepare = "`chemspec data` and the same --recipe, for a drafter with `chemspec train distil`"
    check_data(data, f"prepare it with {prepare}, and give the folder with --data")
    checkpoint_to_resume = latest_checkpoint(out) if resume else None
    if recipe.starts_from and start is None and not checkpoint_to_resume:
        raise ValueError(
            f"{recipe.name} continues training the model of {recipe.starts_from}; give its folder with --start"
        )
    settings, tokenizer = recipe.train, Tokenizer.load(data / "vocab.json")
    config = preset_config(recipe.preset, vocab_size=len(tokenizer))
    pairs, held = split_validation(data, settings.holdout)
    for part in (pairs, held):
        _check_pairs(part, data, config)
    torch.manual_seed(settings.seed)
    model = Transformer(config, dropout=settings.dropout)
    if start is not None and not checkpoint_to_resume:
        copy_initial_weights(model, start, tokenizer)
    module = Training(model, settings)
    if exact is not None:
        module.exact = partial(exact, model, held.part(0, settings.validate_pairs))
    about = {"task": recipe.task, "data": digest_of_data(pairs, tokenizer)}
    specials = config.source_specials
    data_parts = pairs, held
    train_module(
        module, out, data_parts, about, specials=specials, resume=checkpoint_to_resume, tell=tell, progress=progress
    )
    model.load_state_dict(average_checkpoints(newest_checkpoints(out / "checkpoints", recipe.average_last)))
    checkpoint.save(out / "model", model, tokenizer, task=recipe.task)
    write_manifest(out / "model")
    return out / "model"


def train_packed(
    recipe: Recipe,
    data: Path,
    out: Path,
    *,
    resume: bool = True,
    start: Path | None = None,
    tell: Tell = ignore,
    progress: Progress = ignore,
) -> Path:
    """Train on packed batches from the model `start`, and return the model folder; raises as `train_padded`."""
    check_data(data, "prepare it with `chemspec data` and the same --recipe, and give the folder with --data")
    if start is None:
        raise ValueError(f"{recipe.name} continues training the model of {recipe.starts_from}; give it with --start")
    layers = preset_config(recipe.preset, vocab_size=4).encoder_layers
    packed = PackedRun(start, [data], out, recipe.train, encoder_layers=layers, tell=tell, progress=progress)
    return packed.train(resume=resume)


def _check_pairs(pairs: Pairs, data: Path, config: ModelConfig) -> None:
    """Raise ValueError if the pairs do not fit the model."""
    sides = pairs.sources, pairs.targets
    highest = max(int(side.flat.max(initial=0)) for side in sides)
    if highest >= config.vocab_size:
        raise ValueError(f"{data} has token {highest}, but vocab.json has only {config.vocab_size} tokens")
    longest = 2 + max(int(side.lengths.max(initial=0)) for side in sides)
    if longest > config.max_positions:
        raise ValueError(f"{data} has a sequence of {longest} tokens, more than max_positions")
