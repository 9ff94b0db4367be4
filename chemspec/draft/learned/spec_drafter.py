"""Draft what a trained non-autoregressive model fills in: the Spec-Drafter of Xia et al. (2023, section 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp

from chemspec.draft.base import check_draft_size
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix

# Fills in, in one model call, the tokens after every (source, prefix); returns them and their log-probs.
Fill = Callable[[Sequence[tuple[Sequence[int], Prefix]]], Sequence[tuple[Sequence[int], Sequence[float]]]]


class SpecDrafter:
    """One draft a prefix: the tokens of up to `length` masks, as far as they are likely enough to be worth a node.

    One object serves one run; it has drafts only for the prefixes given to `prepare`.

    Attributes:
        calls: runs of the model so far.
    """

    MIN_CHANCE = 0.02  # of a whole draft up to a token; below it, nothing more is drafted

    def __init__(self, fill: Fill, *, masks: int, length: int = 0) -> None:
        """Use a model that was trained to fill `masks` masks.

        Args:
            fill: runs the model.
            masks: how many it fills at once.
            length: most tokens of a draft; 0 drafts as many as there are masks.

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
    """Make a draft of tokens in a row, up to eos.

    Args:
        tokens: what was predicted, in order.
        log_probs: of each token.
        drafter: name for the trace.
        min_chance: where all tokens together are less likely, the draft ends.
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
