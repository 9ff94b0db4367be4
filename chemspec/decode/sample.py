"""Sampling with temperature and top-p."""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

from chemspec.decode.protocol import START, Decoder, finish_sequence
from chemspec.draft.rejection import sampling_distribution
from chemspec.tokenizer import EOS
from chemspec.types import FinishedSequence, Prefix


def sample_sequences(*, count: int, max_len: int, rng: Random, temperature: float = 1.0, top_p: float = 1.0) -> Decoder:
    """Sample `count` sequences; returns the distinct ones, most probable under the model first.

    `scores` must hold the whole vocabulary. The returned log-probs are those at temperature 1.

    Args:
        count: number of samples.
        max_len: maximum output length in tokens, eos included.
        rng: source of randomness.
        temperature: divides the log-probs before sampling; above 0.
        top_p: nucleus size: only the most probable tokens with this total probability are sampled; above 0, at most 1.
    """
    draws: list[tuple[Prefix, list[float]]] = [(START, []) for _ in range(count)]
    while True:
        open_ = [index for index, (prefix, _) in enumerate(draws) if _is_unfinished(prefix, max_len)]
        if not open_:
            break
        requested = tuple(dict.fromkeys(draws[index][0] for index in open_))
        scored = dict(zip(requested, (yield requested), strict=True))
        chances: dict[Prefix, NDArray[np.float64]] = {}
        for index in open_:
            prefix, log_probs = draws[index]
            if prefix not in chances:
                chances[prefix] = np.cumsum(sampling_distribution(scored[prefix], temperature=temperature, top_p=top_p))
            cumulative = chances[prefix]
            index_drawn = min(
                int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")), len(cumulative) - 1
            )
            token = int(scored[prefix].ids[index_drawn])
            draws[index] = ((*prefix, token), [*log_probs, float(scored[prefix].log_probs[index_drawn])])
    answers: dict[Prefix, FinishedSequence] = {
        prefix: finish_sequence(prefix, log_probs) for prefix, log_probs in draws
    }
    return sorted(answers.values(), key=lambda answer: (-answer.log_prob, answer.tokens))


def _is_unfinished(prefix: Prefix, max_len: int) -> bool:
    return prefix[-1] != EOS and len(prefix) - 1 < max_len
