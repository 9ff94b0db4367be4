"""The first prediction, decoded greedily with drafts, shown before the beam search ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chemspec.metrics import speed_numbers
from chemspec.review.suggestions import Suggestion
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.predict.query_panel import Question


def greedy_settings(settings: DecodeSettings) -> DecodeSettings | None:
    """Return the greedy search with the same drafter; None where its prediction need not be among the results.

    That is so for samples and for relaxed searches, for several spellings of a query, and where a guide chooses.
    """
    if settings.decoder not in ("greedy", "beam") or settings.augment > 1 or settings.guide:
        return None
    return settings if settings.decoder == "greedy" else replace(settings, decoder="greedy", n=1, distinct=False)


def card_of_greedy_answer(first: DecodeResult | None, cards: Sequence[Suggestion]) -> Suggestion | None:
    """Return the card whose answer is the molecule that was decoded greedily; None where no card has it."""
    if first is None or first.status != "ok" or not first.hypotheses or not first.hypotheses[0].valid:
        return None
    return next((card for card in cards if card.best.canonical == first.hypotheses[0].canonical), None)


def has_accepted_drafts(first: DecodeResult) -> bool:
    """Return whether any token of the answer was accepted from a draft."""
    return speed_numbers([first.trace]).accepted > 0


def displayed_search(question: Question, result: DecodeResult, first: DecodeResult | None) -> DecodeSettings:
    """Return the search for the pages Speed and Step: the greedy one if a card shows it, else the beam."""
    if first is not None and (search := greedy_settings(question.settings)):
        return search
    width = result.distinct.widths[-1] if result.distinct else question.settings.n
    return replace(question.settings, n=width)
