"""Base class of the drafters that predict with a network: one batched call per forward pass of the target."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from chemspec.draft.base import Drafter
from chemspec.types import Draft, Prefix

P = TypeVar("P")
Key = tuple[tuple[int, ...], Prefix]  # a query's token ids and a prefix of its output


class LearnedDrafter(Drafter, Generic[P]):
    """Predicts for all requested prefixes of a pass at once; create one per run.

    It has drafts only for the prefixes of the last `prepare`.
    """

    has_hooks = True

    def __init__(self, name: str) -> None:
        self.name = name
        self._predicted: Mapping[Key, P] = {}

    @abstractmethod
    def predict(self, requested: Sequence[tuple[Key, int]]) -> Mapping[Key, P]:
        """Return the predictions for requested prefixes, each given with its `max_new_tokens`."""

    @abstractmethod
    def drafts_of(self, predicted: P, max_new_tokens: int) -> Sequence[Draft]:
        """Return the drafts that follow from the prediction for one prefix."""

    def prepare(self, requested: Sequence[tuple[Sequence[int], Prefix, int]]) -> None:
        """Predict for all prefixes of a pass; see `Drafter.prepare`."""
        self._predicted = self.predict(
            [((tuple(source), prefix), max_new_tokens) for source, prefix, max_new_tokens in requested]
        )

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        predicted = self._predicted.get((tuple(source), prefix))
        return () if predicted is None or max_new_tokens < 1 else self.drafts_of(predicted, max_new_tokens)
