"""Naive reference decoders for tests of decoders and drafters; they share no code with `chemspec.decode`.

They have no KV cache, no batching, no top-k and no pruning: every prefix is recomputed from its first token, and the
whole vocabulary is ranked at every step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from chemspec.model.transformer import Transformer
from chemspec.tokenizer import BOS, EOS
from chemspec.types import FinishedSequence, Prefix


class ScoreTable(Protocol):
    """A model without a network."""

    def log_probs(self, source: Prefix, prefix: Prefix, /) -> Sequence[float]:
        """Return the log-probs (V,) of each token after `prefix`."""


Target = Transformer | ScoreTable
ReadPrefixes = Callable[[Sequence[Prefix]], Tensor]


def naive_log_probs(model: Target, source: Sequence[int], prefix: Sequence[int]) -> Tensor:
    """Return the log-probs (V,) of each token after `prefix`, by a full forward pass in the model's precision."""
    return naive_reader(model, source)([tuple(prefix)])[0]


def naive_reader(model: Target, source: Sequence[int]) -> ReadPrefixes:
    """Return a function from prefixes of equal length to the log-probs (prefixes, V) of their next tokens.

    Every call recomputes each prefix from its first token without a KV cache; only the encoder runs once.
    """
    if not isinstance(model, Transformer):
        find = partial(model.log_probs, tuple(source))
        return lambda prefixes: torch.tensor([find(prefix) for prefix in prefixes], dtype=torch.float64)
    read = model.config.encoder_ids(source)
    device = model.embedding.weight.device
    with torch.inference_mode():
        memory, real = model.encode(torch.tensor([read], device=device))

    @torch.inference_mode()
    def log_probs(prefixes: Sequence[Prefix]) -> Tensor:
        # One memory serves all rows; a GPU's fused attention wants one each.
        rows = len(prefixes) if memory.is_cuda else 1
        logits = model.decode(
            torch.tensor(prefixes, device=device), memory.expand(rows, *memory.shape[1:]), real.expand(rows, -1, -1, -1)
        )
        return model.log_softmax(logits[:, -1]).cpu()

    return log_probs


def naive_greedy(model: Target, source: Sequence[int], max_len: int) -> FinishedSequence:
    """Decode greedily until eos or `max_len` tokens; ties are broken by id."""
    read = naive_reader(model, source)
    tokens: list[int] = []
    log_probs: list[float] = []
    while len(tokens) < max_len and (not tokens or tokens[-1] != EOS):
        every = read([(BOS, *tokens)])[0].tolist()
        best = every.index(max(every))
        tokens.append(best)
        log_probs.append(every[best])
    return _finish_sequence(tokens, log_probs)


def naive_beam(
    model: Target,
    source: Sequence[int],
    width: int,
    max_len: int,
    length_penalty: float = 0.0,
    lean: Callable[[tuple[int, ...]], float] = lambda _: 0.0,
) -> list[FinishedSequence]:
    """Straightforward beam search; see `chemspec.decode.beam` for the rules.

    To simulate rounding errors, `lean` returns nats that are added to the total of a sequence (tokens after bos) when
    ranking; the returned log-probs do not include them.
    """
    read = naive_reader(model, source)

    def total(text: _Text) -> float:
        return sum(text[1]) + lean(text[0])

    def rank(text: _Text) -> tuple[float, tuple[int, ...]]:
        return -total(text) / len(text[1]) ** length_penalty, text[0]

    def can_overtake(text: _Text, last: _Text) -> bool:
        hope, bar = total(text), -rank(last)[0]  # log-probs only fall: at best the sum stays
        lengths = range(len(text[1]) + 1, max_len + 1)
        return any(hope / length**length_penalty >= bar for length in lengths)

    live: list[_Text] = [((), ())]
    finished: list[_Text] = []
    for _ in range(max_len):
        grown: list[_Text] = []
        every = read([(BOS, *tokens) for tokens, _ in live]).tolist()
        for (tokens, log_probs), gains in zip(live, every, strict=True):
            grown += [((*tokens, token), (*log_probs, gain)) for token, gain in enumerate(gains) if gain > -math.inf]
        grown.sort(key=lambda text: (-total(text), text[0]))
        finished += [text for text in grown[:width] if text[0][-1] == EOS]
        finished.sort(key=rank)
        live = [text for text in grown if text[0][-1] != EOS][:width]
        if len(finished) >= width and not any(can_overtake(text, finished[width - 1]) for text in live):
            break
    return [_finish_sequence(*text) for text in [*finished, *live][:width]]


_Text = tuple[tuple[int, ...], tuple[float, ...]]  # tokens after bos, and a log-prob for each


def _finish_sequence(tokens: Iterable[int], log_probs: Iterable[float]) -> FinishedSequence:
    tokens = tuple(tokens)
    return FinishedSequence(tokens, tuple(log_probs), "eos" if tokens[-1:] == (EOS,) else "length")
