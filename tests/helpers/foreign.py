"""Small networks, and checkpoints of them as OpenNMT-py, translation-transformer and Chemformer write them."""

from __future__ import annotations

from functools import partial
from typing import Any

from chemspec.importers.foreign import rounded_sinusoids
from chemspec.model.transformer import Transformer
from helpers import formats
from helpers.small import TOKENS
from helpers.tiny import tiny_model

WIDTH = 32
SHAPE: dict[str, Any] = {"d_model": WIDTH, "heads": 4, "feedforward": 48, "max_positions": 1024, "final_norms": True}
MARKS = ("<RX_1>", "<RX_2>")
ONMT = ("<unk>", "<blank>", "<s>", "</s>", *TOKENS, *MARKS)
TT = ("<PAD>", "<BOS>", "<EOS>", "?", *TOKENS)
CHEMFORMER: tuple[str, ...] = ("<PAD>", "?", "^", "&", "<MASK>", "<SEP>", "LogD_change_(-0.1, 0.1]", *MARKS, *TOKENS)


def network(size: int, **options: Any) -> Transformer:
    """Return a random network in single precision whose positions are those of single precision."""
    model = tiny_model(3, size, sharpness=1.5, **{**SHAPE, **options}).float()
    model.positions = rounded_sinusoids(WIDTH)
    return model


onmt = partial(formats.onmt, source=ONMT, target=ONMT)
translation_transformer = partial(formats.translation_transformer, tokens=TT)
chemformer = partial(formats.chemformer, tokens=CHEMFORMER)
