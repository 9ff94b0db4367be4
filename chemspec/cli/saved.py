"""Say in one line what an answer took and what drafts saved, claiming no more than is known."""

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


def line(result: DecodeResult) -> str:
    """Return the last line on an answered query: tokens, passes, milliseconds of decoding, and how exact it is."""
    saved, milliseconds = count_savings(result), 1e3 * result.trace.seconds
    time = f"{milliseconds:.{1 if milliseconds < 10 else 0}f} ms"
    settings = result.trace.settings
    return "; ".join(filter(None, [f"{counts(saved)}, {time}", _why_nothing(saved, settings), _exactness(settings)]))


def total(results: Sequence[DecodeResult]) -> Savings:
    """Return what drafts saved several queries, those that were not answered left out."""
    return sum((count_savings(result) for result in results if result.status == "ok"), Savings(0, 0, 0, 0, 0))


def counts(saved: Savings, *, queries: str = "your query") -> str:
    """Return tokens and passes in words, with those of decoding without drafts where they are more."""
    told = f"{saved.tokens:,} token{'s' * (saved.tokens != 1)} in {saved.passes:,} pass{'es' * (saved.passes != 1)}"
    if saved.standard is not None and saved.standard > saved.passes:
        told += f" instead of {saved.standard:,}"
    return told + (f" ({saved.copied:,} copied from {queries})" if saved.copied else "")


def _why_nothing(saved: Savings, settings: dict[str, Any]) -> str:
    """Return why no pass was saved, as far as one run tells; empty where some were, or where nobody can know."""
    if settings.get("drafter") == "none" or saved.standard is None or saved.passes < saved.standard:
        return ""
    if saved.drafted:
        return "drafts saved no pass"
    if settings.get("node_budget") == 0:
        return "no drafts: --node-budget is 0"
    if settings.get("drafter") != "auto":
        return f"no drafts: {settings.get('drafter')} proposed none"
    width = f" with a beam of {settings['n']}" if settings.get("decoder") == "beam" else ""
    return f"no drafts: on this machine they would not pay{width}"


def _exactness(settings: dict[str, Any]) -> str:
    """Return what drafts left as it is, and how far the arithmetic lets that be true."""
    exactness = str(settings.get("exactness", ""))
    if exactness == "relaxed":
        return "relaxed: drafts can change the answers"
    if settings.get("drafter") == "none":
        return "standard decoding, without drafts"
    for guarantee, said in (
        ("exact in distribution ", "each answer as probable as without drafts"),
        ("exact ", "same answers as without drafts"),
    ):
        if exactness.startswith(guarantee):
            arithmetic = exactness.removeprefix(guarantee)
            return f"{said}, {HOW_EXACT.get(arithmetic, arithmetic)}"
    return exactness
