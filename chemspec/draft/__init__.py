"""The drafters by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chemspec.draft.auto import Auto
from chemspec.draft.base import Adaptive, Drafter
from chemspec.draft.copy import Copy
from chemspec.draft.none import NoDrafts
from chemspec.draft.smart import Smart
from chemspec.draft.windows import Windows
from chemspec.settings import DecodeSettings

Cost = Callable[[float], float]  # seconds of a pass by its nodes


def _chosen(**options: int) -> dict[str, Any]:
    """The options that were set; 0 leaves a drafter its own default."""
    return {name: value for name, value in options.items() if value}


def _windows(settings: DecodeSettings, _: Callable[[], Cost]) -> Drafter:
    options = _chosen(length=settings.draft_length, count=settings.draft_count)
    return Windows(dilation=settings.dilation, **options)


def _copy(settings: DecodeSettings, _: Callable[[], Cost]) -> Drafter:
    return Copy(**_chosen(length=settings.draft_length, count=settings.draft_count))


def _smart(settings: DecodeSettings, _: Callable[[], Cost]) -> Drafter:
    return Smart(**_chosen(length=settings.draft_length, count=settings.draft_count))


def _auto(settings: DecodeSettings, cost: Callable[[], Cost]) -> Drafter:
    return Auto(cost(), **_chosen(length=settings.draft_length, places=settings.draft_count))


DRAFTERS: dict[str, Callable[[DecodeSettings, Callable[[], Cost]], Drafter]] = {
    "none": lambda *_: NoDrafts(),
    "windows": _windows,
    "smart": _smart,
    "copy": _copy,
    "auto": _auto,
}


def build(settings: DecodeSettings, cost: Callable[[], Cost]) -> Drafter:
    """The drafter that the settings ask for, for one run of the loop.

    Args:
        cost: gives the cost curve of the machine; called only by drafters that need it.

    Raises:
        ValueError: for an option out of range.
    """
    # SBS is about drafts of a fixed kind; what pays is not its question.
    name = (
        "windows" if settings.decoder == "sbs" and settings.drafter == "auto" else settings.drafter
    )
    return DRAFTERS[name](settings, cost)


__all__ = [
    "DRAFTERS",
    "Adaptive",
    "Auto",
    "Copy",
    "Drafter",
    "NoDrafts",
    "Smart",
    "Windows",
    "build",
]
