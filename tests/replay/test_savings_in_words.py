"""The last line of `predict` says what is true of the run, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chemspec.replay.savings import summary_line
from chemspec.types import AcceptedSpan, DecodeResult, Pass, Trace


def step(emitted: int = 1, *, copied: int = 0, learned: int = 0, drafted: int = 0) -> Pass:
    spans = [AcceptedSpan(0, copied, "mixed", (3, 3 + copied))] * bool(copied)
    spans += [AcceptedSpan(copied, learned, "mixed")] * bool(learned)
    return Pass(1, 1 + drafted, drafted, emitted, copied + learned, 1.0, 1, 0.0, 0.001, tuple(spans))


def told(*passes: Pass, seconds: float = 0.011, terminal: bool = True, **settings: Any) -> str:
    how = {"decoder": "greedy", "n": 1, "beta": 1, "drafter": "auto", "exactness": "exact to the last bit"}
    trace = Trace(("C",), {**how, **settings}, passes, seconds)
    return summary_line(DecodeResult("C", "ok", "", trace=trace), terminal=terminal)


FEWER = (step(15, copied=9, learned=5, drafted=20), step(11, copied=5, drafted=20))


@pytest.mark.parametrize(
    ("exactness", "claim"),
    [
        ("exact to the last bit", "; same answers as without drafts, to the last bit"),
        ("exact up to ties", "; same answers as without drafts, up to ties in the arithmetic"),
        ("exact up to rounding", "; same answers as without drafts, up to rounding in half precision"),
    ],
)
def test_passes_are_told_beside_those_without_drafts(exactness: str, claim: str) -> None:
    expected = "26 tokens in 2 passes instead of 26 (14 copied from your query), 11 ms" + claim
    assert told(*FEWER, exactness=exactness) == expected


@pytest.mark.parametrize(
    ("passes", "settings", "why"),
    [
        ([step()] * 3, {"drafter": "none"}, "standard decoding, without drafts"),
        ([step()] * 3, {}, "no drafts: on this machine they would not pay; same"),
        ([step()] * 3, {"decoder": "beam", "n": 20}, "no drafts: on this machine they would not pay with a beam of 20"),
        ([step()] * 3, {"drafter": "windows", "drafting": "fixed"}, "no drafts: windows proposed none; same"),
        (
            [step()] * 3,
            {"drafter": "windows"},
            "no drafts: windows proposed none, or on this machine they would not pay (--drafting fixed drafts anyway)",
        ),
        ([step()] * 3, {"node_budget": 0}, "no drafts: --node-budget is 0; same"),
        ([step(drafted=8)] + [step()] * 2, {}, "drafts saved no pass; same"),
    ],
)
def test_where_nothing_was_saved_it_is_told_why(passes: list[Pass], settings: dict[str, Any], why: str) -> None:
    assert told(*passes, seconds=0.0044, **settings).startswith(f"3 tokens in 3 passes, 4.4 ms; {why}")


def test_a_page_names_no_option_of_the_command_line() -> None:
    text = told(*[replace(step(), width=5)] * 3, terminal=False, drafter="windows")
    assert "in a batch of 5; " in text and "--" not in text and " ms" not in text


@pytest.mark.parametrize("settings", [{"decoder": "sbs"}, {"beta": 3}, {"decoder": "sampled-beam"}])
def test_relaxed_decoders_claim_nothing(settings: dict[str, Any]) -> None:
    text = told(*FEWER, exactness="relaxed", **settings)
    assert text.endswith("; relaxed: drafts can change the answers")
    assert "instead of" not in text and "same answers" not in text


def test_sampling_with_a_small_model_is_exact_in_distribution() -> None:
    text = told(step(), decoder="speculative-sample", drafter="ar", exactness="exact in distribution up to ties")
    assert text == "1 token in 1 pass, 11 ms; each answer as probable as without drafts, up to ties in the arithmetic"
