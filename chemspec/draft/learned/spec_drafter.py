"""Drafter `spec_drafter`: a non-autoregressive model that fills masks (Xia et al. 2023, section 3.1)."""

from collections.abc import Callable, Mapping, Sequence
from math import exp

from chemspec.draft.base import check_draft_size
from chemspec.draft.learned.base import Key, LearnedDrafter
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix

Filled = tuple[Sequence[int], Sequence[float]]  # the tokens of the masks after a prefix, and their log-probs
# Predicts the tokens after every (source, prefix) in one forward pass.
Fill = Callable[[Sequence[tuple[Sequence[int], Prefix]]], Sequence[Filled]]


class SpecDrafter(LearnedDrafter[Filled]):
    """One draft per prefix: the tokens of up to `length` masks, up to a minimum joint probability."""

    MIN_CHANCE = 0.02  # minimum joint probability of a draft's tokens

    def __init__(self, fill: Fill, *, masks: int, length: int = 0) -> None:
        """Draft at most `length` tokens (0: one per mask) with a model that fills `masks` masks at once, not more."""
        super().__init__("spec_drafter")
        self.fill, self.length = fill, length or masks
        check_draft_size(self.length, 1)
        if self.length > masks:
            message = f"draft length {length}; this drafter was trained to fill {masks} tokens at once, and no more"
            raise ValueError(message)

    def predict(self, requested: Sequence[tuple[Key, int]]) -> Mapping[Key, Filled]:
        """Fill the masks after all prefixes of a pass; see `LearnedDrafter.predict`."""
        keys = [key for key, max_new_tokens in requested if max_new_tokens > 0]
        self.calls += bool(keys)
        return dict(zip(keys, self.fill(keys), strict=True)) if keys else {}

    def drafts_of(self, predicted: Filled, max_new_tokens: int) -> Sequence[Draft]:
        """Return one draft, or none if the first token is improbable; see `LearnedDrafter.drafts_of`."""
        tokens, log_probs = predicted
        return sequential_draft(tokens[: min(self.length, max_new_tokens)], log_probs, self.name, self.MIN_CHANCE)


def sequential_draft(
    tokens: Sequence[int], log_probs: Sequence[float], drafter: str, min_chance: float
) -> tuple[Draft, ...]:
    """Return one draft of the tokens up to eos or a joint probability below the minimum; none if it is empty."""
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
    return (Draft(tuple(drafted), drafter, chances=tuple(probs)),) if drafted else ()
