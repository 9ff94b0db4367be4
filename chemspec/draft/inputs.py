"""What drafters are built from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from chemspec.draft.calibration import DrafterCalibration
from chemspec.draft.copy import TokenClasses
from chemspec.settings import DraftSettings
from chemspec.types import Cost


def _no_learned_drafter(kind: str) -> Any:
    raise ValueError(f"the drafter {kind} needs a model, which is not available")


@dataclass(frozen=True)
class DrafterInputs:
    """Inputs of `DrafterSpec.build`; callables are evaluated on demand.

    Attributes:
        cost: returns the cost curve on this machine.
        tokens: the vocabulary.
        calibration: returns the calibration of the model's drafters.
        companion: returns the learned drafter of a kind; raises ValueError if the model has none.
        prompt_length: number of tokens before the SMILES of every query.
        merges: merges of the vocabulary, whose tokens span several symbols then.
    """

    cost: Callable[[], Cost]
    tokens: Sequence[str] = ()
    calibration: Callable[[], DrafterCalibration] = DrafterCalibration
    companion: Callable[[str], Any] = _no_learned_drafter
    prompt_length: int = 0
    merges: Sequence[tuple[str, str]] = ()

    @property
    def token_classes(self) -> TokenClasses:
        """Special tokens of the vocabulary."""
        return _token_classes(tuple(self.tokens), self.prompt_length, tuple(self.merges))


_token_classes = lru_cache(maxsize=8)(TokenClasses.from_tokens)


def draft_sizes(settings: DraftSettings) -> dict[str, Any]:
    """Return `length` and `count`, for a drafter that takes both, if they were set; 0 means the drafter's default."""
    sizes = {"length": settings.draft_length, "count": settings.draft_count}
    return {name: value for name, value in sizes.items() if value}


def tree_sizes(settings: DraftSettings) -> dict[str, Any]:
    """Return `draft_sizes`, and `nodes` if they were set, for a drafter of trees, with at most as many drafts."""
    nodes = settings.draft_nodes
    return (({"nodes": nodes, "count": nodes}) if nodes else {}) | draft_sizes(settings)
