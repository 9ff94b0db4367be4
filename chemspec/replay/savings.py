"""Forward passes saved by drafts, in the words of all commands and pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from chemspec.metrics import NO_SAVINGS, Savings, count_savings
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

PRECISIONS = {"up to ties": "up to ties in the arithmetic", "up to rounding": "up to rounding in half precision"}


def summary_line(result: DecodeResult, *, terminal: bool = True) -> str:
    """Return the summary of a prediction: tokens, passes, and what drafts leave unchanged.

    On a `terminal` with the milliseconds of decoding and with options of the command line that may help.
    """
    saved, milliseconds, settings = count_savings(result), 1e3 * result.trace.seconds, result.trace.settings
    time = f", {milliseconds:.{1 if milliseconds < 10 else 0}f} ms" if terminal else ""
    batch = max((item.width for item in result.trace.passes), default=1)
    reason = no_savings_reason(saved, settings, batch, terminal=terminal)
    parts = (f"{describe_savings(saved)}{time}", reason, _describe_exactness(settings))
    return "; ".join(filter(None, parts))


def sum_savings(results: Sequence[DecodeResult]) -> Savings:
    """Return the summed savings of all successful results."""
    return sum((count_savings(result) for result in results if result.status == "ok"), NO_SAVINGS)


def describe_savings(saved: Savings, *, queries: str = "your query") -> str:
    """Describe tokens and passes, with the passes of decoding without drafts if these are more."""
    text = f"{saved.tokens:,} token{'s' * (saved.tokens != 1)} in {saved.passes:,} pass{'es' * (saved.passes != 1)}"
    if saved.standard is not None and saved.standard > saved.passes:
        text += f" instead of {saved.standard:,}"
    return text + (f" ({saved.copied:,} copied from {queries})" if saved.copied else "")


def describe_file(saved: Savings, settings: DecodeSettings, queries: int) -> str:
    """Describe the savings of that many queries with these settings, with the reason if there are none."""
    recorded = asdict(settings) | {"drafter": settings.drafts_by}  # settings in the form of a trace
    reason = no_savings_reason(saved, recorded, batch=min(settings.batch_size, queries))
    return "; ".join(filter(None, (describe_savings(saved, queries="the queries"), reason)))


def no_savings_reason(saved: Savings, settings: dict[str, Any], batch: int, *, terminal: bool = True) -> str:
    """Return why drafts saved no pass, as far as one run shows; empty if some were saved or it is unknown."""
    drafter = settings.get("drafter")
    if drafter == "none" or saved.standard is None or saved.passes < saved.standard:
        return ""
    if saved.drafted:
        return "drafts saved no pass"
    if settings.get("node_budget") == 0:
        return "no drafts: --node-budget is 0"
    if drafter != "auto" and settings.get("drafting") == "fixed":
        return f"no drafts: {drafter} proposed none"
    width = f" with a beam of {settings['n']}" if settings.get("decoder") == "beam" else ""
    alone = " (--batch-size 1 decodes queries one by one)" if terminal else ""
    in_batch = f" in a batch of {batch}{alone}" if batch > 1 and not width else ""
    hint = "" if drafter == "auto" or not terminal else " (--drafting fixed drafts anyway)"
    empty = "" if drafter == "auto" else f"{drafter} proposed none, or "
    return f"no drafts: {empty}on this machine they would not pay{width}{in_batch}{hint}"


def _describe_exactness(settings: dict[str, Any]) -> str:
    """Describe what drafts leave unchanged, and to which arithmetic precision."""
    exactness = str(settings.get("exactness", ""))
    if exactness == "relaxed":
        return "relaxed: drafts can change the answers"
    if settings.get("drafter") == "none":
        return "standard decoding, without drafts"
    guarantee, same = "exact ", "same answers as without drafts"
    if exactness.startswith("exact in distribution "):
        guarantee, same = "exact in distribution ", "each answer as probable as without drafts"
    arithmetic = exactness.removeprefix(guarantee)
    return f"{same}, {PRECISIONS.get(arithmetic, arithmetic)}" if exactness.startswith("exact ") else exactness
