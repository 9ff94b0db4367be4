"""Summarise in one line the tokens, passes and time of a prediction, and the passes that drafts saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chemspec.metrics import Savings, count_savings
from chemspec.types import DecodeResult

HOW_EXACT = {
    "to the last bit": "to the last bit",
    "up to ties": "up to ties in the arithmetic",
    "up to rounding": "up to rounding in half precision",
}


def summary_line(result: DecodeResult) -> str:
    """Return the summary of a prediction: tokens, passes, milliseconds of decoding, and exactness."""
    saved, milliseconds = count_savings(result), 1e3 * result.trace.seconds
    time = f"{milliseconds:.{1 if milliseconds < 10 else 0}f} ms"
    settings = result.trace.settings
    return "; ".join(
        filter(
            None,
            [f"{describe_savings(saved)}, {time}", _no_savings_reason(saved, settings), _describe_exactness(settings)],
        )
    )


def sum_savings(results: Sequence[DecodeResult]) -> Savings:
    """Return the summed savings of all successful results."""
    return sum((count_savings(result) for result in results if result.status == "ok"), Savings(0, 0, 0, 0, 0))


def describe_savings(saved: Savings, *, queries: str = "your query") -> str:
    """Describe tokens and passes, with the passes of decoding without drafts if these are more."""
    text = f"{saved.tokens:,} token{'s' * (saved.tokens != 1)} in {saved.passes:,} pass{'es' * (saved.passes != 1)}"
    if saved.standard is not None and saved.standard > saved.passes:
        text += f" instead of {saved.standard:,}"
    return text + (f" ({saved.copied:,} copied from {queries})" if saved.copied else "")


def _no_savings_reason(saved: Savings, settings: dict[str, Any]) -> str:
    """Return why drafts saved no pass, as far as one run shows; empty if some were saved or it is unknown."""
    if settings.get("drafter") == "none" or saved.standard is None or saved.passes < saved.standard:
        return ""
    if saved.drafted:
        return "drafts saved no pass"
    if settings.get("node_budget") == 0:
        return "no drafts: --node-budget is 0"
    drafter = settings.get("drafter")
    if drafter != "auto" and settings.get("drafting") == "fixed":
        return f"no drafts: {drafter} proposed none"
    width = f" with a beam of {settings['n']}" if settings.get("decoder") == "beam" else ""
    hint = "" if drafter == "auto" else " (--drafting fixed drafts anyway)"
    return f"no drafts: on this machine they would not pay{width}{hint}"


def _describe_exactness(settings: dict[str, Any]) -> str:
    """Describe what drafts leave unchanged, and to which arithmetic precision."""
    exactness = str(settings.get("exactness", ""))
    if exactness == "relaxed":
        return "relaxed: drafts can change the answers"
    if settings.get("drafter") == "none":
        return "standard decoding, without drafts"
    for guarantee, sentence in (
        ("exact in distribution ", "each answer as probable as without drafts"),
        ("exact ", "same answers as without drafts"),
    ):
        if exactness.startswith(guarantee):
            arithmetic = exactness.removeprefix(guarantee)
            return f"{sentence}, {HOW_EXACT.get(arithmetic, arithmetic)}"
    return exactness
