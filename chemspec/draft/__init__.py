"""The drafters by name."""

from chemspec.draft.base import Drafter
from chemspec.draft.none import NoDrafts

DRAFTERS: dict[str, type[Drafter]] = {"none": NoDrafts}

__all__ = ["DRAFTERS", "Drafter"]
