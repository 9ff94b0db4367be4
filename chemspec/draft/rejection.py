"""Speculative sampling's acceptance-rejection rule (Leviathan et al. 2023; Tulsian et al., Algorithm 1, lines 10-18).

A token x sampled from a small model's distribution q is accepted with probability min(1, p(x) / q(x)); otherwise
another is sampled from norm(max(0, p - q)). Either way the token is distributed as p, the target's distribution,
whatever q is: q(t) min(1, p(t) / q(t)) + (1 - sum min(p, q)) norm(max(0, p - q))(t) = p(t).

`verify_block` decides on a whole draft at once (Sun et al., Block Verification Accelerates Speculative Decoding, ICLR
2025, Algorithm 2): as exact, and on average it accepts at least as many tokens.

Distributions are arrays (V,) by token id, after temperature and top-p, which apply to p and q alike.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chemspec.types import Scores

Probs = NDArray[np.float64]


def sampling_distribution(scores: Scores, *, temperature: float, top_p: float) -> Probs:
    """Return the probabilities from which the next token is sampled, in the order of `scores.ids`.

    The temperature divides the log-probs; of the most probable tokens those with the total probability top_p are kept.
    """
    logits = np.asarray(scores.log_probs, dtype=np.float64) / temperature
    weights: Probs = np.exp(logits - logits[0])
    weights /= weights.sum()
    if top_p < 1:
        before = np.cumsum(weights) - weights
        weights[before >= top_p] = 0  # the first token always stays
        weights /= weights.sum()
    return weights


class Nucleus(NamedTuple):
    """Temperature and top-p, which turn a model's scores into the sampling distribution."""

    temperature: float = 1.0
    top_p: float = 1.0

    def __call__(self, scores: Scores) -> Probs:
        """Return probabilities (V,) by token id; `scores` must hold the whole vocabulary."""
        probs = np.zeros(max(scores.ids) + 1)  # larger than the number of ids if some are never generated
        probs[np.asarray(scores.ids)] = sampling_distribution(scores, temperature=self.temperature, top_p=self.top_p)
        return probs


class DraftedToken(NamedTuple):
    """A drafted token and the distribution (V,) it was sampled from."""

    token: int
    probs: Probs


class Seeded:
    """Source of randomness with a seed, and with two operations only, so that tests can enumerate every outcome."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)

    def pick_token(self, probs: Probs) -> int:
        """Return a token sampled from `probs` (V,), which sum to 1."""
        reached = np.cumsum(probs)
        # The sum may be less than 1 by rounding; the rest goes to the last possible token.
        last = int(np.flatnonzero(probs)[-1])
        return min(int(np.searchsorted(reached, self._random.random(), side="right")), last)

    def flip_coin(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random.random() < probability


def accept_probability(token: int, p: Probs, q: Probs) -> float:
    """Return the probability with which a token sampled from `q` is accepted: min(1, p / q)."""
    return 1.0 if p[token] >= q[token] else float(p[token] / q[token])


def residual_distribution(p: Probs, q: Probs) -> Probs:
    """Return the distribution that replaces a rejected token: norm(max(0, p - q))."""
    more = np.maximum(0.0, p - q)
    total = more.sum()
    return more / total if total > 0 else p  # p = q up to rounding, which caused the rejection


class SampledToken(NamedTuple):
    """The next token, whether it is the drafted one, and the distribution it was sampled from if not."""

    token: int
    drafted: bool
    probs: Probs


def verify_block(drafted: Sequence[DraftedToken], targets: Sequence[Probs], rng: Seeded) -> tuple[int, Probs | None]:
    """Return how many drafted tokens are accepted, and the distribution of the next token if not all of them are.

    `targets` are the target's distributions before each drafted token. The joint probability of a block is limited to
    that of the target's tokens so far; from the end, the longest block that its coin accepts is taken.
    """
    weights = [1.0]  # probability that the first i tokens are kept: min(1, weight so far x p / q)
    for (token, q), p in zip(drafted, targets, strict=True):
        weights.append(min(1.0, weights[-1] * float(p[token] / q[token])))
    if rng.flip_coin(weights[-1]):
        return len(drafted), None
    for count in range(len(drafted) - 1, -1, -1):
        more = np.maximum(0.0, weights[count] * targets[count] - drafted[count].probs)
        total = float(more.sum())
        rest = total + 1.0 - weights[count]
        if count == 0 or rng.flip_coin(min(1.0, total / rest) if rest > 0 else 0.0):
            return count, more / total if total > 0 else targets[count]
    raise AssertionError("no tokens are always accepted")


def accept_or_resample(drafted: DraftedToken | None, p: Probs, rng: Seeded) -> SampledToken:
    """Return the next token, distributed as `p`: the drafted one if accepted, else resampled."""
    if drafted is None:
        return SampledToken(rng.pick_token(p), False, p)
    if rng.flip_coin(accept_probability(drafted.token, p, drafted.probs)):
        return SampledToken(drafted.token, True, p)
    rest = residual_distribution(p, drafted.probs)
    return SampledToken(rng.pick_token(rest), False, rest)
