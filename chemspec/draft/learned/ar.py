"""Drafters `ar` and `hierarchy`: an autoregressive draft model (Tulsian et al., Algorithm 1), or two (Algorithm 3).

For greedy decoding and beam search the drafts are the draft model's greedy output; wrong drafts cost forward passes but
never change the output. In `hierarchy` a small model drafts for the medium one, which generates the same drafts as it
would alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import filterfalse, starmap
from math import exp
from typing import Self

from chemspec.draft.base import Drafter
from chemspec.draft.learned.gamma import AdaptiveGamma, Gamma, draft_cost_ratio
from chemspec.draft.learned.small import DraftGenerator, DraftModelSession, SourcePrefix
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import Cost, Draft, Prefix, SourceIds


@dataclass
class _Text:
    """A draft being generated: its prefix, the maximum number of tokens left, its tokens and their probabilities."""

    source: SourceIds
    prefix: Prefix
    left: int
    tokens: list[int] = field(default_factory=list)
    probs: list[float] = field(default_factory=list)
    joint_probability: float = 1.0


class GreedyDraftGenerator(DraftGenerator):
    """Generates greedy drafts; a draft ends when its joint probability falls below `floor`."""

    def __init__(self, model: DraftModelSession, *, helper: Self | None = None, floor: float = 0.0) -> None:
        super().__init__(model, helper=helper)
        self.floor = floor
        self._rounds, self._written = 1, 1 if helper is None else 3  # prior: tokens of one round

    def extend_drafts(self, texts: Sequence[tuple[SourceIds, Prefix, int]]) -> None:
        """Generate drafts from (source, prefix, maximum length) each, to be read by `generated_tokens`."""
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

    def generated_tokens(self, source: SourceIds, prefix: Prefix, length: int) -> tuple[list[int], list[float]]:
        """Return at most `length` tokens generated after a prefix, and their probabilities."""
        text = _Text(source, prefix, length)
        self._extend_from_scores(text)
        return text.tokens, text.probs

    def seconds_per_token(self, prefixes: int) -> float:
        """Return the seconds for one more token after each of this number of prefixes."""
        own_pass = self.model.model.cost()
        if self.helper is None:
            return own_pass(prefixes)
        round_ = self.stride * self.helper.seconds_per_token(prefixes) + own_pass(prefixes * (self.stride + 1))
        return round_ * self._rounds / self._written

    def _extend_from_scores(self, text: _Text) -> bool:
        """Extend a draft as far as scores are cached; returns whether it is complete."""
        while text.left > 0 and self.model.can_read(text.source, text.prefix):
            scores = self.model.cached_scores(text.source, text.prefix)
            if scores is None:
                return False
            token, probability = int(scores.ids[0]), exp(float(scores.log_probs[0]))
            text.joint_probability *= probability
            if token in (PAD, BOS) or text.joint_probability < self.floor:
                break
            text.tokens.append(token)
            text.probs.append(probability)
            text.prefix, text.left = (*text.prefix, token), text.left - 1
            if token == EOS:
                break
        return True


class Autoregressive(Drafter):
    """Drafts with a small model after each prefix, with a length chosen by `gamma`; create one per run."""

    has_hooks = True

    def __init__(self, writer: GreedyDraftGenerator, gamma: Gamma, *, name: str, cost: Cost) -> None:
        self.writer, self.gamma, self.name, self._cost = writer, gamma, name, cost
        self._length = 0

    @property
    def calls(self) -> int:  # type: ignore[override]
        """Number of forward passes of the draft models so far."""
        return self.writer.calls

    def plan_pass(self, requested: int, queries: int, *, waiting: int) -> bool:
        """Choose the draft length of the next forward pass; see `Drafter.plan_pass`."""
        if isinstance(self.gamma, AdaptiveGamma):
            self.gamma.ratio = draft_cost_ratio(self.writer.seconds_per_token(requested), self._cost, requested)
        self._length = self.gamma.next_length()
        return self._length > 0

    def prepare(self, requested: Sequence[tuple[Sequence[int], Prefix, int]]) -> None:
        """Draft for all prefixes of a pass at once; see `Drafter.prepare`."""
        self.writer.release_others([(tuple(source), prefix) for source, prefix, _ in requested])
        if self._length:
            texts = [(tuple(source), prefix, min(self._length, left)) for source, prefix, left in requested]
            self.writer.extend_drafts(texts)

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        tokens, probs = self.writer.generated_tokens(tuple(source), prefix, min(self._length, max_new_tokens))
        return [Draft(tuple(tokens), self.name, chances=tuple(probs))] if tokens else []

    def observe(self, draft: Draft, accepted: int) -> None:
        """Record the acceptance of a draft; see `Drafter.observe`."""
        self.gamma.record_outcome(accepted, int(accepted < len(draft.tokens)))
