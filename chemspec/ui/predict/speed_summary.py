"""The line above the answers: what speculation did for them, measured here and now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import Any

import streamlit as st

from chemspec.engine.engine import Engine
from chemspec.metrics import numbers
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine

CSS = """
.cs-strip {border-left: 3px solid #0f766e; padding: .1rem 0 .1rem .9rem; font-size: .9rem; font-variant-numeric: tabular-nums}
.cs-strip p {margin: .15rem 0; font-size: .9rem}
.cs-strip summary {cursor: pointer; opacity: .8; font-size: .85rem}
.cs-strip details p {font-size: .85rem; max-width: 46rem; opacity: .85}
"""
SLOW = 1.0  # seconds; then a visitor may stop in the middle of a run, and one round is enough
ROUNDS = 2  # the first after loading or after another query may be cold


@dataclass(frozen=True)
class Measured:
    """The same query with drafts, and the standard way, without: the faster of `ROUNDS` runs each, in turns."""

    drafted: DecodeResult
    standard: DecodeResult


class SpeedSummary:
    """The strip on the page: first with what the answers' own run tells, later with the comparison."""

    def __init__(self, place: Any, model: Engine, query: str, settings: DecodeSettings, result: DecodeResult) -> None:
        self._place, self._model, self._query = place, model, query
        self._settings, self._result = settings, result
        self._kept: dict[tuple[str, str, DecodeSettings], list[Measured]]
        self._kept = st.session_state.setdefault("predict_measured", {})
        self._draw()

    def _draw(self) -> None:
        measured = self._kept.get((self._model.digest, self._query, self._settings))
        self._place.html(html(self._result, self._settings, measured))

    def measure(self) -> None:
        """Time the settings, and for a wider search greedy decoding too, each against the standard way.

        The answers stand already and have warmed the machine up. Visitors who wait for theirs go first.
        """
        key = (self._model.digest, self._query, self._settings)
        if key in self._kept:
            return
        chosen = [self._settings]
        if self._settings.decoder != "greedy":
            chosen.append(replace(self._settings, decoder="greedy", n=1, drafter="auto", augment=1))
        self._kept[key] = [self._measured(item) for item in chosen]
        while len(self._kept) > 100:
            self._kept.pop(next(iter(self._kept)))
        self._draw()

    def _measured(self, settings: DecodeSettings) -> Measured:
        pair = (settings, replace(settings, drafter="none", decoder=_standard(settings)))
        runs: tuple[list[DecodeResult], list[DecodeResult]] = ([], [])
        slow = self._result.trace.seconds > SLOW
        for _ in range(1 if slow else ROUNDS):
            for own, item in zip(runs, pair, strict=True):
                own.append(
                    queued_engine.decode(
                        self._model,
                        self._query,
                        item,
                        report=(lambda _: self._draw()) if slow else None,
                        waiting=lambda _: self._draw(),
                        patient=True,
                    )
                )
                self._draw()  # a Streamlit call: here a click may end this
        return Measured(*(min(own, key=lambda result: result.trace.seconds) for own in runs))


def _standard(settings: DecodeSettings) -> str:
    if settings.guarantee == "exact in distribution":
        return "sample"
    return settings.decoder if settings.exact else "beam"


def html(result: DecodeResult, settings: DecodeSettings, measured: list[Measured] | None) -> str:
    """The strip as safe HTML; before the measurement, what is known of the answers themselves."""
    if measured is None:
        main = f"{counts(result)}, {duration(result.trace.seconds)}; the standard way: measuring …"
        return f'<div class="cs-strip" role="status"><p>{escape(main)}</p></div>'
    lines = [f"<p>{escape(sentence(measured[0], settings))}</p>"]
    for item in measured[1:]:
        lines.append(f"<p>A single best answer (greedy): {escape(sentence(item))}</p>")
    return f'<div class="cs-strip">{"".join(lines)}{_details(settings)}</div>'


def sentence(item: Measured, settings: DecodeSettings | None = None) -> str:
    """Passes, times and the check of the answers, in words."""
    if settings is not None and settings.drafter == "none" and settings.exact:
        return f"{counts(item.standard)}, {duration(item.standard.trace.seconds)}: the standard way, as chosen"
    told = f"same answers: {same(item.drafted, item.standard)}"
    if settings is not None and settings.guarantee == "exact in distribution":
        told = "every answer is as probable as there, the draws are others"
    return (
        f"{counts(item.drafted)}, {duration(item.drafted.trace.seconds)}; "
        f"the standard way: {duration(item.standard.trace.seconds)}; {told}"
    )


def counts(result: DecodeResult) -> str:
    """Tokens, passes and their ratio."""
    found = numbers([result.trace])
    passes = f"{found.passes} pass" + ("es" if found.passes != 1 else "")
    return f"{found.emitted} tokens in {passes} ({found.tokens_per_pass:.1f} per pass)"


def same(drafted: DecodeResult, standard: DecodeResult) -> str:
    """Whether both wrote the same tokens in the same order: yes, or no with the first difference."""
    if drafted.status != standard.status:
        return f"no ({drafted.status}, {standard.status})"
    pairs = list(zip(drafted.hypotheses, standard.hypotheses, strict=False))
    for rank, (one, other) in enumerate(pairs, 1):
        if one.tokens != other.tokens:
            return f"no (answer {rank} differs)"
    if len(drafted.hypotheses) != len(standard.hypotheses):
        return f"no ({len(drafted.hypotheses)} and {len(standard.hypotheses)} answers)"
    return "yes"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    return f"{seconds * 1000:.0f} ms" if seconds < 0.995 else f"{seconds:.2f} s"


def _details(settings: DecodeSettings) -> str:
    text = (
        "A pass is one run of the model. The standard way writes one token a pass; with drafts the model checks "
        "several guessed tokens at once and keeps those it would have written itself. Both were timed after the "
        "answers were drawn, in turns, twice each (slow searches once); the faster run is shown."
    )
    if settings.decoder == "beam":
        text += (
            f" Beam search keeps {settings.n} candidates and goes on only when all are scored, so drafts gain less than "
            "with one answer; auto drafts only as much as pays on this machine."
        )
    if not settings.exact:
        text += " The chosen search is relaxed: its drafts may change the answers; it is compared with beam search."
    return f"<details><summary>What is this?</summary><p>{escape(text)}</p></details>"
