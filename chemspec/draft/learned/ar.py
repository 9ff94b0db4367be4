"""Drafters `ar`, `medium`, `hierarchy`: an autoregressive draft model (Tulsian et al., Algorithm 1), or two (3).

For greedy decoding and beam search the drafts are the draft model's greedy output; wrong drafts cost forward passes but
never change the output. In `hierarchy` a small model drafts for the medium one, which generates the same drafts as it
would alone.
"""

from collections.abc import Sequence
from math import exp, prod
from typing import Self

from chemspec.draft.base import Drafter
from chemspec.draft.learned.gamma import AdaptiveGamma, Gamma, draft_cost_ratio
from chemspec.draft.learned.small import DraftGenerator, DraftModelSession, DraftText
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import Cost, Draft, Prefix


class GreedyDraftGenerator(DraftGenerator):
    """Generates greedy drafts; a draft ends when its joint probability falls below `floor`."""

    def __init__(self, model: DraftModelSession, *, helper: Self | None = None, floor: float = 0.0) -> None:
        super().__init__(model, helper=helper)
        self.floor = floor

    def seconds_per_token(self, prefixes: int) -> float:
        """Return the seconds for one more token after each of this number of prefixes."""
        own_pass = self.model.model.cost()
        if self.helper is None:
            return own_pass(prefixes)
        round_ = self.stride * self.helper.seconds_per_token(prefixes) + own_pass(prefixes * (self.stride + 1))
        return round_ * self.rounds / self.written

    def extend(self, text: DraftText, drafted: DraftText | None = None) -> None:
        """Extend a draft as far as scores are known; see `DraftGenerator.extend`."""
        joint_probability = prod(text.probs)
        while text.left > 0 and (scores := self.model.cached_scores(text.source, text.prefix)) is not None:
            token, probability = int(scores.ids[0]), exp(float(scores.log_probs[0]))
            joint_probability *= probability
            if token in (PAD, BOS) or joint_probability < self.floor:
                text.left = 0
                return
            text.tokens.append(token)
            text.probs.append(probability)
            text.prefix, text.left = (*text.prefix, token), 0 if token == EOS else text.left - 1


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
            self.writer.write(
                [DraftText(tuple(source), prefix, min(self._length, left)) for source, prefix, left in requested]
            )

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        text = DraftText(tuple(source), prefix, min(self._length, max_new_tokens))
        self.writer.extend(text)  # needs the scores computed in `prepare`
        return [Draft(tuple(text.tokens), self.name, probabilities=tuple(text.probs))] if text.tokens else []

    def observe(self, draft: Draft, accepted: int) -> None:
        """Record the acceptance of a draft; see `Drafter.observe`."""
        self.gamma.record_outcome(accepted, int(accepted < len(draft.tokens)))
