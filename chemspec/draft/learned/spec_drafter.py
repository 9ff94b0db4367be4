"""Draft what a trained non-autoregressive encoder-decoder fills in: the Spec-Drafter of Xia et al. (2023, section
3.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp

from chemspec.draft.base import check_size
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix

# Of every (source, prefix) the tokens that were filled in after it, and their log-probs; in one model call.
Fill = Callable[[Sequence[tuple[Sequence[int], Prefix]]], Sequence[tuple[Sequence[int], Sequence[float]]]]


class SpecDrafter:
    """One draft a prefix: the tokens of up to `length` masks, as far as they are likely enough to be worth a node.

    One object serves one run; it has drafts only for the prefixes of which it was told by `prepare`.
    """

    LEAST = 0.02  # chance of a whole draft up to a token; beyond it, nothing is drafted

    def __init__(self, fill: Fill, *, masks: int, length: int = 0) -> None:
        """Use a model that was trained to fill `masks` masks.

        Args:
            length: most tokens of a draft; 0 drafts as many as there are masks.

        Raises:
            ValueError: for drafts longer than the model was trained for.
        """
        self.fill, self.length = fill, length or masks
        check_size(self.length, 1)
        if self.length > masks:
            raise ValueError(
                f"draft length {length}; this drafter was trained to fill {masks} tokens at once, and no more"
            )
        self.calls = 0  # of the model
        self._drafts: dict[tuple[tuple[int, ...], Prefix], Draft] = {}

    def prepare(self, asked: Sequence[tuple[Sequence[int], Prefix, int]]) -> None:
        self._drafts = {}
        wanted = [(source, prefix) for source, prefix, room in asked if room > 0]
        if not wanted:
            return
        self.calls += 1
        for (source, prefix), (tokens, log_probs) in zip(wanted, self.fill(wanted), strict=True):
            self._drafts[tuple(source), prefix] = self._draft(tokens, log_probs)

    def propose(self, source: Sequence[int], prefix: Prefix, room: int) -> Sequence[Draft]:
        draft = self._drafts.get((tuple(source), prefix))
        if draft is None or not draft.tokens or room < 1:
            return ()
        if len(draft.tokens) <= room:
            return (draft,)
        return (Draft(draft.tokens[:room], draft.drafter, chances=draft.chances[:room]),)

    def _draft(self, tokens: Sequence[int], log_probs: Sequence[float]) -> Draft:
        return line(tokens[: self.length], log_probs, "spec_drafter", self.LEAST)


def line(tokens: Sequence[int], log_probs: Sequence[float], drafter: str, least: float) -> Draft:
    """Tokens in a row as a draft: up to eos, and as long as all of them together are likely enough."""
    kept: list[int] = []
    chances: list[float] = []
    whole = 1.0
    for token, log_prob in zip(tokens, log_probs, strict=False):
        chance = exp(log_prob)
        whole *= chance
        if whole < least:
            break
        kept.append(token)
        chances.append(chance)
        if token == EOS:
            break
    return Draft(tuple(kept), drafter, chances=tuple(chances))
