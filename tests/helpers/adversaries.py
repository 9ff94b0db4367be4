"""Drafters that do their worst and the best that one can, and every text that sampling can draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from chemspec.testing import Target, naive_log_probs, naive_reader
from chemspec.tokenizer import BOS, EOS, SPECIALS
from chemspec.types import Draft, Prefix


@dataclass(frozen=True)
class RandomDrafts:
    """Up to `count` drafts of up to `length` tokens: pieces of the source, or anything at all."""

    seed: int = 0
    vocab_size: int = 10
    count: int = 4
    length: int = 6

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts; see `Drafter`."""
        random = Random(f"{self.seed} {tuple(source)} {prefix}")
        drafts = []
        for _ in range(random.randint(0, self.count)):
            length = random.randint(1, self.length)
            if random.random() < 0.5:
                start = random.randrange(len(source))
                if random.random() < 0.5:
                    start = min(len(prefix) - 1, len(source) - 1)  # the aligned place: a Table with `copying` likes it
                piece = tuple(source[start : start + length])
                drafts.append(Draft(piece, "random", (start, start + len(piece))))
            else:
                drafts.append(Draft(tuple(random.randrange(EOS, self.vocab_size) for _ in range(length)), "random"))
        return drafts


@dataclass(frozen=True)
class EmptyDrafts:
    """Drafts without a token: a breach of contract that must do no harm."""

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts; see `Drafter`."""
        return [Draft((), "empty"), Draft((), "empty", (0, 0))]


@dataclass(frozen=True)
class EosInside:
    """Drafts that go on after eos, that are eos alone, and that repeat it."""

    vocab_size: int = 10

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts; see `Drafter`."""
        word = len(SPECIALS) + len(prefix) % (self.vocab_size - len(SPECIALS))
        inside = (*source[:1], EOS, *source[:2], EOS)
        return [Draft((EOS,), "eos"), Draft((EOS, word, EOS), "eos"), Draft(inside, "eos"), Draft((word, EOS), "eos")]


@dataclass(frozen=True)
class TooLong:
    """Drafts that run far beyond the length limit: the source, repeated, from the aligned place."""

    excess: int = 30

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts; see `Drafter`."""
        length = max(max_new_tokens, 0) + self.excess
        start = (len(prefix) - 1) % len(source)
        turns = -(-(start + length) // len(source))
        return [Draft(tuple((list(source) * turns)[start : start + length]), "too_long")]


reader = lru_cache(64)(naive_reader)  # so that the encoder runs once for all drafts of a query


@dataclass(frozen=True)
class AlwaysWrong:
    """At every place the least probable token."""

    model: Target
    length: int = 4

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts; see `Drafter`."""
        tokens: list[int] = []
        while len(tokens) < min(self.length, max_new_tokens):
            every = reader(self.model, tuple(source))([(*prefix, *tokens)])[0].tolist()
            tokens.append(min(range(len(SPECIALS), len(every)), key=lambda token: every[token]))
        return [Draft(tuple(tokens), "wrong")] if tokens else []


@dataclass(frozen=True)
class Oracle:
    """The true greedy continuation, eos included; as good as a single draft can be."""

    model: Target
    _known: dict[tuple[Prefix, Prefix], int] = field(default_factory=dict, repr=False, compare=False)

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts; see `Drafter`."""
        tokens: list[int] = []
        while len(tokens) < max_new_tokens and tokens[-1:] != [EOS]:
            tokens.append(self._next(tuple(source), (*prefix, *tokens)))
        return [Draft(tuple(tokens), "oracle")] if tokens else []

    def _next(self, source: Prefix, prefix: Prefix) -> int:
        if (source, prefix) not in self._known:
            every = reader(self.model, source)([prefix])[0].tolist()
            self._known[source, prefix] = every.index(max(every))
        return self._known[source, prefix]


def enumerate_samples(
    model: Target, source: Sequence[int], *, max_len: int, temperature: float = 1.0, top_p: float = 1.0
) -> dict[tuple[int, ...], float]:
    """Every text that sampling can draw, with its probability; for few tokens and short texts."""
    chances: dict[tuple[int, ...], float] = {}
    open_: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    while open_:
        tokens, chance = open_.pop()
        if len(tokens) == max_len or tokens[-1:] == (EOS,):
            chances[tokens] = chance
            continue
        every = naive_log_probs(model, source, [BOS, *tokens]).tolist()
        weights = [math.exp(log_prob / temperature) for log_prob in every]
        order = sorted(range(len(every)), key=lambda token: (-weights[token], token))
        nucleus: list[int] = []
        for token in order:
            if sum(weights[kept] for kept in nucleus) < top_p * sum(weights) and weights[token] > 0:
                nucleus.append(token)
        total = sum(weights[token] for token in nucleus)
        open_ += [((*tokens, token), chance * weights[token] / total) for token in nucleus]
    return chances
