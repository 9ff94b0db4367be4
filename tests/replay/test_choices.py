"""The sentence on what a model chose itself: its counts are those of the trace, its atoms those of the reaction."""

from __future__ import annotations

import re

import pytest

from chemspec.engine.engine import Engine
from chemspec.replay.choices import describe_choices
from chemspec.replay.trace_view import AnswerView, TokenView, TraceView, view_trace


def view(query: str, tokens: str, drafted: str) -> TraceView:
    """An answer whose tokens are drafted where there is a +, and the model's own where there is a -."""
    texts, atoms, written = tokens.split(), 0, []
    for text, mark in zip(texts, drafted, strict=True):
        is_atom = text[0].isalpha() and text != "end"
        written.append(TokenView(text, "own" if mark == "-" else "copied", 1, atoms if is_atom else None))
        atoms += is_atom
    answer = AnswerView("".join(texts[:-1]), 1.0, tuple(written))
    return TraceView(tuple(query), (), (), (answer,), several=False, uneven=False, relaxed=False, tree=None)


@pytest.mark.parametrize(
    ("task", "query", "tokens", "drafted", "words"),
    [
        (
            "retro",
            "CC(=O)NCCC",
            "C C ( = O ) Cl . N C C C end",
            "++++++---+++-",
            "4 of 13 tokens itself: N where the reaction takes place, Cl of the leaving group, "
            "where a molecule begins, and the end; the other 9 were drafted, and it agreed",
        ),
        (
            "forward",
            "CCCN.CC(=O)Cl",
            "C C ( = O ) N C C C end",
            "-+---+-++++",
            "5 of 11 tokens itself: N where the reaction takes place, 2 other atoms, and 2 marks of bonds, branches or "
            "rings; the other 6 were drafted, and it agreed",
        ),
    ],
)
def test_atoms_are_named_by_what_they_do(task: str, query: str, tokens: str, drafted: str, words: str) -> None:
    assert describe_choices(view(query, tokens, drafted), task) == f"The model chose {words}"


def test_without_drafts_or_a_product_nothing_is_said() -> None:
    assert describe_choices(view("CC(=O)NC", "C N end", "---"), "retro") == ""
    assert describe_choices(view("CC(=O)NC", "C N end", "+--"), "reagents") == ""
    assert describe_choices(view("CC(=O)NC", "C ( end", "+--"), "retro") == "", "no molecule"


def test_the_counts_are_those_of_the_trace() -> None:
    engine = Engine.load("retro", threads=1, dtype="int8")
    shown = view_trace(engine.predict("CCN(CC)CC(=O)Nc1c(C)cccc1C", decoder="greedy", n=1))
    words = describe_choices(shown, "retro")
    chosen, count, drafted = map(int, re.findall(r"\d+(?= of \d+ tokens)|(?<= of )\d+|(?<=other )\d+(?= were)", words))
    assert count == len(shown.answers[0].tokens) == chosen + drafted
    assert drafted == sum(step.accepted for step in shown.passes)
