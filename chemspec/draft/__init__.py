"""The drafters by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chemspec.draft.auto import Auto
from chemspec.draft.base import Adaptive, Drafter
from chemspec.draft.copy import Copy, Marks
from chemspec.draft.none import NoDrafts
from chemspec.draft.smart import Smart
from chemspec.draft.windows import Windows
from chemspec.settings import DecodeSettings

Cost = Callable[[float], float]  # seconds of a pass by its nodes


def _chosen(**options: int) -> dict[str, Any]:
    """The options that were set; 0 leaves a drafter its own default."""
    return {name: value for name, value in options.items() if value}


def _windows(settings: DecodeSettings, *_: Any) -> Drafter:
    options = _chosen(length=settings.draft_length, count=settings.draft_count)
    return Windows(dilation=settings.dilation, **options)


def _copy(settings: DecodeSettings, _: Callable[[], Cost], marks: Marks) -> Drafter:
    return Copy(marks=marks, **_chosen(length=settings.draft_length, count=settings.draft_count))


def _smart(settings: DecodeSettings, *_: Any) -> Drafter:
    return Smart(**_chosen(length=settings.draft_length, count=settings.draft_count))


def _auto(settings: DecodeSettings, cost: Callable[[], Cost], marks: Marks) -> Drafter:
    options = _chosen(length=settings.draft_length, places=settings.draft_count)
    return Auto(cost(), marks=marks, **options)


DRAFTERS: dict[str, Callable[[DecodeSettings, Callable[[], Cost], Marks], Drafter]] = {
    "none": lambda *_: NoDrafts(),
    "windows": _windows,
    "smart": _smart,
    "copy": _copy,
    "auto": _auto,
}


def build(
    settings: DecodeSettings, cost: Callable[[], Cost], tokens: Sequence[str] = ()
) -> Drafter:
    """The drafter that the settings ask for, for one run of the loop.

    Args:
        tokens: the vocabulary; drafters that know SMILES find their marks in it.
        cost: gives the cost curve of the machine; called only by drafters that need it.

    Raises:
        ValueError: for an option out of range.
    """
    return DRAFTERS[settings.drafts_by](settings, cost, Marks.of(tokens))


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
