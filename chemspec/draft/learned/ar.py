"""Drafts written by a small autoregressive model (Tulsian et al., Algorithm 1), helped by a smaller one (Algorithm 3).

For greedy and beam the drafts are the small model's own greedy text: under the exact rules whatever it writes costs
passes, never answers. A medium model writes the same text with or without the help of a small one: there, too, drafts
are only confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import filterfalse, starmap
from math import exp
from typing import Self

from chemspec.draft.base import Speculation
from chemspec.draft.learned.gamma import AdaptiveGamma, Gamma
from chemspec.draft.learned.small import DraftGenerator, DraftModelSession, SourcePrefix
from chemspec.model.session import Source
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import Draft, Prefix, Scores

Cost = Callable[[float], float]  # seconds of a pass by its nodes
WIDER = 8  # nodes over which the cost of one more in a pass is averaged


@dataclass
class _Text:
    """A text under way: its prefix so far, how many tokens it may still get, those written and the chance of each."""

    source: Source
    prefix: Prefix
    left: int
    tokens: list[int] = field(default_factory=list)
    chances: list[float] = field(default_factory=list)
    chance: float = 1.0  # of all of them


class GreedyDraftGenerator(DraftGenerator):
    """Greedy text of a small model; it ends where the model's chance of all of it falls below `floor`."""

    def __init__(
        self, model: DraftModelSession, *, helper: Self | None = None, stride: int = 4, floor: float = 0.0
    ) -> None:
        super().__init__(model, helper=helper, stride=stride)
        self.floor = floor
        self._rounds, self._written = 1, 1 if helper is None else 3

    def extend_drafts(self, texts: Sequence[tuple[Source, Prefix, int]]) -> None:
        """Write on after every prefix, up to so many tokens each; `text` then returns them."""
        open_ = list(filterfalse(self._extend_from_scores, starmap(_Text, texts)))
        while open_:
            to_score: list[SourcePrefix] = [(text.source, text.prefix) for text in open_]
            if self.helper is not None:
                drafts = [(text.source, text.prefix, min(self.stride, text.left - 1)) for text in open_]
                self.helper.extend_drafts(drafts)
                for source, prefix, length in drafts:
                    for token in self.helper.generated_tokens(source, prefix, length)[0]:
                        prefix = (*prefix, token)
                        if token != EOS and self.model.can_read(source, prefix):
                            to_score.append((source, prefix))
            self.model.score_prefixes(to_score)
            before = sum(text.left for text in open_)
            self._rounds += len(open_)
            moved = list(filterfalse(self._extend_from_scores, open_))
            self._written += before - sum(text.left for text in open_)
            open_ = moved

    def generated_tokens(self, source: Source, prefix: Prefix, length: int) -> tuple[list[int], list[float]]:
        """Return what has been written after a prefix, at most `length` tokens, and the model's chance of each."""
        text = _Text(source, prefix, length)
        self._extend_from_scores(text)
        return text.tokens, text.chances

    def seconds_per_token(self, prefixes: int) -> float:
        """Return the seconds for one more token after each of so many prefixes."""
        own_pass = self.model.model.cost()
        if self.helper is None:
            return own_pass(prefixes)
        round_ = self.stride * self.helper.seconds_per_token(prefixes) + own_pass(prefixes * (self.stride + 1))
        return round_ * self._rounds / self._written

    def _extend_from_scores(self, text: _Text) -> bool:
        """Extend a text by what is known; returns whether it is at its end."""
        while text.left > 0 and self.model.can_read(text.source, text.prefix):
            scores = self.model.cached_scores(text.source, text.prefix)
            if scores is None:
                return False
            token, chance = _best_token(scores)
            text.chance *= chance
            if token in (PAD, BOS) or text.chance < self.floor:
                break
            text.tokens.append(token)
            text.chances.append(chance)
            text.prefix, text.left = (*text.prefix, token), text.left - 1
            if token == EOS:
                break
        return True


def _best_token(scores: Scores) -> tuple[int, float]:
    """Return the likeliest token and its chance."""
    return int(scores.ids[0]), exp(float(scores.log_probs[0]))


class Autoregressive:
    """Draft what a small model writes after each prefix, as many tokens as `gamma` says.

    One object serves one run of the loop.
    """

    def __init__(self, writer: GreedyDraftGenerator, gamma: Gamma, *, name: str, cost: Cost) -> None:
        self.writer, self.gamma, self.name, self._cost = writer, gamma, name, cost
        self._length = 0

    @property
    def calls(self) -> int:
        """Runs of the models so far."""
        return self.writer.calls

    def plan_pass(self, requested: int, queries: int, *, waiting: int) -> Speculation:
        """Choose what pays in the next pass; see `AdaptiveDrafter`."""
        if isinstance(self.gamma, AdaptiveGamma):
            self.gamma.ratio = draft_cost_ratio(self.writer.seconds_per_token(requested), self._cost, requested)
        self._length = self.gamma.next_length()
        return Speculation.LOOKAHEAD if self._length else Speculation.OFF

    def prepare(self, requested: Sequence[tuple[Sequence[int], Prefix, int]]) -> None:
        """Draft for all prefixes of a pass at once; see `BatchedDrafter.prepare`."""
        self.writer.release_others([(tuple(source), prefix) for source, prefix, _ in requested])
        if self._length:
            self.writer.extend_drafts(
                [
                    (tuple(source), prefix, min(self._length, max_new_tokens))
                    for source, prefix, max_new_tokens in requested
                ]
            )

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        tokens, probs = self.writer.generated_tokens(tuple(source), prefix, min(self._length, max_new_tokens))
        return [Draft(tuple(tokens), self.name, chances=tuple(probs))] if tokens else []

    def observe(self, draft: Draft, accepted: int) -> None:
        """Take note of the fate of a draft; see `AdaptiveDrafter`."""
        self.gamma.record_outcome(accepted, int(accepted < len(draft.tokens)))


def draft_cost_ratio(small: float, target: Cost, nodes: int) -> float:
    """Return the cost ratio c of the wall-time equation: what one more drafted token costs, in passes of the target.

    Leviathan et al. take the target's pass to cost the same whatever its width. On a CPU it does not: here the token's
    own node in the pass is part of its price.

    Args:
        small: seconds that the small model takes for one token after each of `nodes` prefixes.
        target: the target's cost curve.
        nodes: prefixes that the target's pass is about anyway.
    """
    wider = (target(nodes * (1 + WIDER)) - target(nodes)) / WIDER
    return (small + wider) / target(nodes)
