"""The drafters by name."""

from chemspec.draft.base import Adaptive, Drafter
from chemspec.draft.copy import Copy
from chemspec.draft.none import NoDrafts
from chemspec.draft.windows import Windows

DRAFTERS: dict[str, type[Drafter]] = {"none": NoDrafts, "windows": Windows, "copy": Copy}

__all__ = ["DRAFTERS", "Adaptive", "Copy", "Drafter", "NoDrafts", "Windows"]
