"""Sample token by token, with temperature and top-p."""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

from chemspec.decode.protocol import START, Decoder, finished
from chemspec.draft.rejection import distribution
from chemspec.tokenizer import EOS
from chemspec.types import FinishedSequence, Prefix


def sample(*, count: int, max_len: int, rng: Random, temperature: float = 1.0, top_p: float = 1.0) -> Decoder:
    """Draw `count` answers; return the different ones among them, most probable (under the model itself) first.

    `scores` must hold the whole vocabulary. Log-probs are the model's own, whatever the temperature.

    Args:
        count: draws.
        max_len: most tokens of an answer, eos included.
        rng: decides.
        temperature: divides the log-probs before a draw; above 0.
        top_p: only the likeliest tokens that have this probability together are drawn; above 0, at most 1.
    """
    draws: list[tuple[Prefix, list[float]]] = [(START, []) for _ in range(count)]
    while True:
        open_ = [index for index, (prefix, _) in enumerate(draws) if _unfinished(prefix, max_len)]
        if not open_:
            break
        asked = tuple(dict.fromkeys(draws[index][0] for index in open_))
        known = dict(zip(asked, (yield asked), strict=True))
        chances: dict[Prefix, NDArray[np.float64]] = {}
        for index in open_:
            prefix, log_probs = draws[index]
            if prefix not in chances:
                chances[prefix] = np.cumsum(distribution(known[prefix], temperature=temperature, top_p=top_p))
            reached = chances[prefix]
            place = min(int(np.searchsorted(reached, rng.random() * reached[-1], side="right")), len(reached) - 1)
            token = int(known[prefix].ids[place])
            draws[index] = ((*prefix, token), [*log_probs, float(known[prefix].log_probs[place])])
    answers: dict[Prefix, FinishedSequence] = {prefix: finished(prefix, log_probs) for prefix, log_probs in draws}
    return sorted(answers.values(), key=lambda answer: (-answer.log_prob, answer.tokens))


def _unfinished(prefix: Prefix, max_len: int) -> bool:
    return prefix[-1] != EOS and len(prefix) - 1 < max_len
