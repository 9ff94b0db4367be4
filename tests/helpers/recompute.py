"""A decoder without a cache: at every step all prefixes are computed in full, one query at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from chemspec.data.arrays import pad
from chemspec.decode.protocol import Decoder
from chemspec.decode.registry import build_decoder
from chemspec.draft.base import NoDrafts
from chemspec.model.runners.torch_runner import best_tokens, source_batch
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings
from chemspec.types import FinishedSequence, Prefix, Scores


@torch.inference_mode()
def recompute(model: Transformer, source: Sequence[int], settings: DecodeSettings) -> list[FinishedSequence]:
    """Decode one query the way most published code does: the encoder once, then at every step all prefixes in full.

    Returns:
        The answers, best first.

    Raises:
        ValueError: for a decoder other than greedy and beam.
    """
    if settings.decoder not in ("greedy", "beam"):
        raise ValueError(f"nothing to compare decoder {settings.decoder!r} with")
    memory, real = model.encode(source_batch(model, [source]))

    def score(prefixes: Sequence[Prefix]) -> list[Scores]:
        rows = len(prefixes)
        tokens = pad(prefixes)
        logits = model.decode(tokens, memory.expand(rows, -1, -1), real.expand(rows, -1, -1, -1))
        lengths = torch.tensor([len(prefix) - 1 for prefix in prefixes])
        ids, log_probs = best_tokens(logits[torch.arange(rows), lengths], max(2, settings.n + 1))
        return [Scores(*row) for row in zip(ids, log_probs, strict=True)]

    return decode_single(build_decoder(tuple(source), settings, NoDrafts()), score)


def decode_single(decoder: Decoder, score: Callable[[Sequence[Prefix]], Sequence[Scores]]) -> list[FinishedSequence]:
    """Run one decoder on a scoring function, without drafts, batching or KV cache."""
    try:
        request = next(decoder)
        while True:
            request = decoder.send(score(request))
    except StopIteration as stop:
        answers: list[FinishedSequence] = stop.value
        return answers
