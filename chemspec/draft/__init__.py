"""The drafters by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from chemspec.draft.attention import Attention
from chemspec.draft.auto import Auto
from chemspec.draft.base import Adaptive, Drafter
from chemspec.draft.copy import Copy, Marks
from chemspec.draft.heads import Blockwise, HeadDrafts, Medusa
from chemspec.draft.knowledge import Knowledge
from chemspec.draft.mixed import Mixed
from chemspec.draft.none import NoDrafts
from chemspec.draft.phrases import JUST_COPYING
from chemspec.draft.smart import Smart
from chemspec.draft.spec_drafter import SpecDrafter
from chemspec.draft.windows import Windows
from chemspec.settings import DecodeSettings

Cost = Callable[[float], float]  # seconds of a pass by its nodes


def no_companion(kind: str) -> Any:
    """Nobody has drafters with a model: what stands in where no engine is at hand.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"drafter {kind} needs a model of its own, and there is none")


@dataclass(frozen=True)
class Means:
    """What a drafter may ask for; worked out only if it does.

    Attributes:
        cost: gives the cost curve of the machine.
        tokens: the vocabulary; drafters that know SMILES find their marks in it.
        knowledge: gives what the model's drafters have learned.
        companion: gives the drafter's own model by its kind (`model.companions.Companion`).
    """

    cost: Callable[[], Cost]
    tokens: Sequence[str] = ()
    knowledge: Callable[[], Knowledge] = Knowledge
    companion: Callable[[str], Any] = no_companion

    @property
    def marks(self) -> Marks:
        return Marks.of(self.tokens)


def _chosen(**options: int) -> dict[str, Any]:
    """The options that were set; 0 leaves a drafter its own default."""
    return {name: value for name, value in options.items() if value}


def _sizes(settings: DecodeSettings) -> dict[str, Any]:
    return _chosen(length=settings.draft_length, count=settings.draft_count)


def _mixed(settings: DecodeSettings, means: Means) -> Drafter:
    phrases = means.knowledge().phrases or JUST_COPYING
    return Mixed(phrases, marks=means.marks, **_sizes(settings))


def _attention(settings: DecodeSettings, means: Means) -> Drafter:
    return Attention(means.knowledge().reading, marks=means.marks, **_sizes(settings))


def _auto(settings: DecodeSettings, means: Means) -> Drafter:
    options = _chosen(length=settings.draft_length, places=settings.draft_count)
    return Auto(means.cost(), marks=means.marks, knowledge=means.knowledge(), **options)


def _spec_drafter(settings: DecodeSettings, means: Means) -> Drafter:
    own = means.companion("spec_drafter")
    return SpecDrafter(own.open(), masks=own.length, length=settings.draft_length)


def _blockwise(settings: DecodeSettings, means: Means) -> Drafter:
    own = means.companion("blockwise")
    return Blockwise(own.open(), heads=own.length, length=settings.draft_length)


def _medusa(settings: DecodeSettings, means: Means) -> Drafter:
    own, sizes = means.companion("medusa"), _chosen(count=settings.draft_count)
    return Medusa(own.open(), heads=own.length, length=settings.draft_length, **sizes)


DRAFTERS: dict[str, Callable[[DecodeSettings, Means], Drafter]] = {
    "none": lambda *_: NoDrafts(),
    "windows": lambda settings, _: Windows(dilation=settings.dilation, **_sizes(settings)),
    "smart": lambda settings, _: Smart(**_sizes(settings)),
    "copy": lambda settings, means: Copy(marks=means.marks, **_sizes(settings)),
    "attention": _attention,
    "mixed": _mixed,
    "auto": _auto,
    "spec_drafter": _spec_drafter,
    "blockwise": _blockwise,
    "medusa": _medusa,
}


def build(settings: DecodeSettings, means: Means) -> Drafter:
    """The drafter that the settings ask for, for one run of the loop.

    Raises:
        ValueError: for an option out of range, or a model without what the drafter needs.
    """
    return DRAFTERS[settings.drafts_by](settings, means)


__all__ = [
    "DRAFTERS",
    "Adaptive",
    "Attention",
    "Auto",
    "Blockwise",
    "Copy",
    "Drafter",
    "HeadDrafts",
    "Knowledge",
    "Means",
    "Medusa",
    "Mixed",
    "NoDrafts",
    "Smart",
    "SpecDrafter",
    "Windows",
    "build",
]
