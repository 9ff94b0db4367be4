"""Initialise a model with the weights of another one, which may be smaller: it begins with the same function."""

import warnings
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from chemspec.model import checkpoint
from chemspec.model.transformer import Transformer
from chemspec.settings import ModelConfig
from chemspec.tokenizer import SPECIALS, Tokenizer

VOCABULARY_ROWS = {"embedding.weight", "target_embedding.weight", "output.weight", "output.bias"}
BRANCH_OUTPUTS = ("out_proj.weight", "out_proj.bias", "linear2.weight", "linear2.bias")


def copy_initial_weights(model: Transformer, start: Path, tokenizer: Tokenizer) -> None:
    """Copy the weights of the model in `start`.

    Of a deeper model the first layers are copied, as for the "medium" drafter, with a warning. A wider feed-forward
    layer (not a gated one) and further layers at the end (of a pre-norm model) leave the function unchanged at first,
    because what they add has zero output weights. Further tokens at the end of the vocabulary get weights near the
    mean, merged ones from those of their parts. Raises ValueError for another vocabulary or architecture.
    """
    loaded = checkpoint.load(start)
    _check_architecture(start, loaded.model.config, model.config)
    first = replace(tokenizer, tokens=tokenizer.tokens[: len(loaded.tokenizer)], merges=loaded.tokenizer.merges)
    if first != loaded.tokenizer:
        raise ValueError(f"{start} has another vocabulary than the data; prepare the data with it")
    old = loaded.model.state_dict()
    state = {name: _extend(name, old.get(name), initial) for name, initial in model.state_dict().items()}
    for token in range(len(loaded.tokenizer), len(tokenizer)):
        parts = list(tokenizer.token_parts(token))
        for name in VOCABULARY_ROWS & state.keys() if parts != [token] else ():
            rows = state[name][parts]
            # Means of independent vectors are shorter than these; a token begins as probable as its first part.
            state[name][token] = rows.mean(dim=0) * len(parts) ** 0.25 if rows.ndim > 1 else rows[0]
    model.load_state_dict(state)


def _check_architecture(start: Path, old: ModelConfig, new: ModelConfig) -> None:
    resized = replace(
        old,
        encoder_layers=new.encoder_layers,
        decoder_layers=new.decoder_layers,
        feedforward=old.feedforward if old.gated else max(old.feedforward, new.feedforward),
        vocab_size=new.vocab_size,
    )
    is_deepened = new.encoder_layers > old.encoder_layers or new.decoder_layers > old.decoder_layers
    if resized != new or (is_deepened and not new.norm_first):  # a post-norm layer normalises what it passes on
        raise ValueError(f"{start} has another architecture: {old}")
    if old.encoder_layers > new.encoder_layers or old.decoder_layers > new.decoder_layers:
        layers = (f"{size.encoder_layers} encoder and {size.decoder_layers} decoder layers" for size in (old, new))
        remedy = "only the first are copied; a recipe with a deeper preset copies all"
        warnings.warn(f"{start} has {' and the preset '.join(layers)}: {remedy}", stacklevel=2)


def _extend(name: str, old: Tensor | None, initial: Tensor) -> Tensor:
    """Return the weights of a model to begin with, from those of a smaller one and a random initialisation."""
    if old is None:  # a layer that the other model lacks
        return torch.zeros_like(initial) if name.endswith(BRANCH_OUTPUTS) else initial
    if old.shape == initial.shape:
        return old
    if name.endswith("linear2.weight"):
        return torch.cat((old, torch.zeros_like(initial[:, old.shape[1] :])), dim=1)
    if "linear1" in name:
        return torch.cat((old, initial[len(old) :]))
    return _extend_vocabulary(old, len(initial))


def _extend_vocabulary(old: Tensor, rows: int) -> Tensor:
    """Extend a matrix or vector to `rows` rows: new ones near the mean, with the lowest bias."""
    if rows <= len(old):
        return old
    trained = old[len(SPECIALS) :]
    new = trained.min().expand(rows - len(old))
    if old.ndim > 1:  # half the standard deviation, so that new tokens differ from each other
        # Independent of the run's seed, so that weights of runs can be averaged.
        generator = torch.Generator().manual_seed(0)
        spread = torch.randn(rows - len(old), old.shape[1], generator=generator) * trained.std(dim=0) / 2
        new = trained.mean(dim=0) + spread
    return torch.cat((old, new))
