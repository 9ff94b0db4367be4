"""Tiny random models."""

from __future__ import annotations

from typing import Any

import torch

from chemspec.model.transformer import Transformer
from chemspec.settings import ModelConfig
from chemspec.tokenizer import BOS, EOS, PAD


def tiny_model(seed: int, vocab_size: int = 12, *, sharpness: float = 3.0, **options: Any) -> Transformer:
    """Return a random encoder-decoder in float64 with peaked distributions: outputs end, and beams differ.

    Biases and norms are random too, so that none can be missing unnoticed. Of the four special tokens of the vocabulary
    pad and bos are improbable. At a sharpness, the spread of the logits, of 3 the best token has a probability of about
    0.7. The options are fields of `ModelConfig`; by default the width is 16, with two encoder and two decoder layers.
    """
    shape = {"d_model": 16, "heads": 2, "feedforward": 24, "encoder_layers": 2, "decoder_layers": 2}
    defaults = {**shape, "max_positions": 64, "tied_output": False}
    config = ModelConfig(vocab_size=vocab_size, **{**defaults, **options})
    model = Transformer(config).double().eval().requires_grad_(False)
    if not config.shared_positions:
        model.target_positions.mul_(-1)
    random = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=random, dtype=torch.float64)
        if weight.ndim == 2:
            gain = 2.0 if "layers" in name else 1.0  # so that position and source matter
            weight.copy_(noise * gain * weight.shape[1] ** -0.5)
        elif "norm" in name and name.endswith("weight"):
            weight.copy_(1 + 0.2 * noise)
        else:
            weight.copy_(0.2 * noise)
    # Centred and scaled; otherwise one token would be the best in every context.
    size = (64, 12)
    source, target = (torch.randint(EOS, vocab_size, size, generator=random) for _ in range(2))
    logits = model(source, target).flatten(0, 1)
    norm, factor = model.decoder.norm, sharpness / float(logits.std(dim=0).mean())
    for part in tuple(norm.parameters()) or (model.output.weight,):  # an identity has none
        part.mul_(factor)
    if config.output_bias:
        model.output.bias.copy_(-factor * (logits - model.output.bias).mean(dim=0))
        model.output.bias[[PAD, BOS]] -= 10.0
        model.output.bias[EOS] += 0.5 * sharpness
    return model
