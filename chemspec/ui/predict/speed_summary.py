"""Say above the answers what speculation did for them, and compare it with the standard way on request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape

import streamlit as st

from chemspec.engine.engine import Engine
from chemspec.metrics import numbers
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine
from chemspec.ui.common.web_files import web_file

CSS = web_file(__file__, "css")
SLOW = 1.0  # seconds; then a visitor may stop in the middle of a run, and one round is enough
ROUNDS = 2  # the first after loading or after another query may be cold


@dataclass(frozen=True)
class Measured:
    """The same query with drafts, and the standard way, without: the faster of `ROUNDS` runs each, in turns."""

    drafted: DecodeResult
    standard: DecodeResult


class SpeedSummary:
    """The strip on the page: what the answers' own run tells, and, where somebody wants it, a comparison."""

    def __init__(self, model: Engine, query: str, settings: DecodeSettings, result: DecodeResult) -> None:
        self._model, self._query, self._settings, self._result = model, query, settings, result
        self._key = (model.digest, query, settings)
        self._known: dict[tuple[str, str, DecodeSettings], list[Measured]]
        self._known = st.session_state.setdefault("predict_measured", {})
        self._strip, button = st.empty(), st.empty()
        self._wanted = self._key not in self._known and button.button(
            "Measure the saving",
            key="predict_measure",
            type="tertiary",
            help="Answer again, with drafts and without, and compare",
        )
        if self._wanted:
            button.empty()
        self._draw()

    def _draw(self) -> None:
        self._strip.html(html(self._result, self._settings, self._known.get(self._key), busy=self._wanted))

    def measure(self) -> None:
        """Time the settings, and for a wider search greedy decoding too, each against the standard way, if asked to.

        The answers stand already and have warmed the machine up. Visitors who wait for theirs go first.
        """
        if not self._wanted:
            return
        chosen = [self._settings]
        if self._settings.decoder != "greedy":
            chosen.append(replace(self._settings, decoder="greedy", n=1, drafter="auto", augment=1))
        self._known[self._key] = [self._measured(settings) for settings in chosen]
        while len(self._known) > 100:
            self._known.pop(next(iter(self._known)))
        self._draw()

    def _measured(self, settings: DecodeSettings) -> Measured:
        slow = self._result.trace.seconds > SLOW
        pair = (settings, replace(settings, drafter="none", decoder=_standard(settings)))
        runs: tuple[list[DecodeResult], list[DecodeResult]] = ([], [])

        def draw(_: str) -> None:
            self._draw()  # a Streamlit call: here a click may end this

        for _ in range(1 if slow else ROUNDS):
            for results, way in zip(runs, pair, strict=True):
                report = draw if slow else None
                result = queued_engine.decode(self._model, self._query, way, report=report, waiting=draw, patient=True)
                results.append(result)
                self._draw()
        return Measured(*(min(results, key=lambda result: result.trace.seconds) for results in runs))


def _standard(settings: DecodeSettings) -> str:
    if settings.guarantee == "exact in distribution":
        return "sample"
    return settings.decoder if settings.exact else "beam"


def html(result: DecodeResult, settings: DecodeSettings, measured: list[Measured] | None, *, busy: bool = False) -> str:
    """Return the strip as safe HTML; before the measurement, what is known of the answers themselves.

    Args:
        result: the answers.
        settings: how they were made.
        measured: the comparisons of these settings and of greedy decoding, if there are any.
        busy: whether they are under way.
    """
    if measured is None:
        main = f"{counts(result)}, {duration(result.trace.seconds)}"
        main += "; the standard way: measuring …" if busy else ""
        return f'<div class="cs-strip" role="status"><p>{escape(main)}</p></div>'
    lines = [f"<p>{escape(sentence(measured[0], settings))}</p>"]
    for item in measured[1:]:
        lines.append(f"<p>A single best answer (greedy): {escape(sentence(item))}</p>")
    return f'<div class="cs-strip">{"".join(lines)}{_details(settings)}</div>'


def sentence(item: Measured, settings: DecodeSettings | None = None) -> str:
    """Return passes, times and the check of the answers in words."""
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
    """Return tokens, passes and their ratio in words."""
    found = numbers([result.trace])
    passes = f"{found.passes} pass" + ("es" if found.passes != 1 else "")
    return f"{found.emitted} tokens in {passes} ({found.tokens_per_pass:.1f} per pass)"


def same(drafted: DecodeResult, standard: DecodeResult) -> str:
    """Return whether both wrote the same tokens in the same order: yes, or no with the first difference."""
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
    """Return seconds as people say them."""
    return f"{seconds * 1000:.0f} ms" if seconds < 0.995 else f"{seconds:.2f} s"


def _details(settings: DecodeSettings) -> str:
    text = (
        "A pass is one run of the model. The standard way writes one token a pass; with drafts the model checks "
        "several guessed tokens at once and keeps those it would have written itself. Both were timed in "
        "turns, twice each (slow searches once); the faster run is shown."
    )
    if settings.decoder == "beam":
        text += (
            f" Beam search keeps {settings.n} candidates and goes on only when all are scored, so drafts gain less "
            f"than "
            "with one answer; auto drafts only as much as pays on this machine."
        )
    if not settings.exact:
        text += " The chosen search is relaxed: its drafts may change the answers; it is compared with beam search."
    return f"<details><summary>What is this?</summary><p>{escape(text)}</p></details>"
