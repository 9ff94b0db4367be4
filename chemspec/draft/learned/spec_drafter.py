"""Drafter `spec_drafter`: a non-autoregressive model that fills masks (Xia et al. 2023, section 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp

from chemspec.draft.base import check_draft_size
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix

# Predicts the tokens after every (source, prefix) in one forward pass; returns them and their log-probs.
Fill = Callable[[Sequence[tuple[Sequence[int], Prefix]]], Sequence[tuple[Sequence[int], Sequence[float]]]]


class SpecDrafter:
    """One draft per prefix: the tokens of up to `length` masks, up to a minimum joint probability.

    Create one per run; it has drafts only for the prefixes given to `prepare`.

    Attributes:
        calls: number of forward passes so far.
    """

    MIN_CHANCE = 0.02  # minimum joint probability of a draft's tokens

    def __init__(self, fill: Fill, *, masks: int, length: int = 0) -> None:
        """Draft with a model that was trained to fill `masks` masks.

        Args:
            fill: runs the model.
            masks: number of masks filled at once.
            length: maximum draft length in tokens; 0 for the number of masks.

        Raises:
            ValueError: for drafts longer than the model was trained for.
        """
        self.fill, self.length = fill, length or masks
        check_draft_size(self.length, 1)
        if self.length > masks:
            raise ValueError(
                f"draft length {length}; this drafter was trained to fill {masks} tokens at once, and no more"
            )
        self.calls = 0
        self._drafts: dict[tuple[tuple[int, ...], Prefix], Draft] = {}

    def prepare(self, requested: Sequence[tuple[Sequence[int], Prefix, int]]) -> None:
        """Draft for all prefixes of a pass at once; see `BatchedDrafter.prepare`."""
        self._drafts = {}
        to_fill = [(source, prefix) for source, prefix, max_new_tokens in requested if max_new_tokens > 0]
        if not to_fill:
            return
        self.calls += 1
        for (source, prefix), (tokens, log_probs) in zip(to_fill, self.fill(to_fill), strict=True):
            self._drafts[tuple(source), prefix] = self._make_draft(tokens, log_probs)

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        draft = self._drafts.get((tuple(source), prefix))
        if draft is None or not draft.tokens or max_new_tokens < 1:
            return ()
        if len(draft.tokens) <= max_new_tokens:
            return (draft,)
        return (Draft(draft.tokens[:max_new_tokens], draft.drafter, chances=draft.chances[:max_new_tokens]),)

    def _make_draft(self, tokens: Sequence[int], log_probs: Sequence[float]) -> Draft:
        return sequential_draft(tokens[: self.length], log_probs, "spec_drafter", self.MIN_CHANCE)


def sequential_draft(tokens: Sequence[int], log_probs: Sequence[float], drafter: str, min_chance: float) -> Draft:
    """Return a draft of consecutive tokens, up to eos.

    Args:
        tokens: predicted tokens in order.
        log_probs: log-prob of each token.
        drafter: name for the trace.
        min_chance: minimum joint probability of the draft's tokens.
    """
    drafted: list[int] = []
    probs: list[float] = []
    whole = 1.0
    for token, log_prob in zip(tokens, log_probs, strict=False):
        chance = exp(log_prob)
        whole *= chance
        if whole < min_chance:
            break
        drafted.append(token)
        probs.append(chance)
        if token == EOS:
            break
    return Draft(tuple(drafted), drafter, chances=tuple(probs))
