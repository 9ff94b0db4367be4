"""`chemspec:` texts: what is written is read again, and nothing but names comes in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chemspec.plan.question import plan_question, question_settings
from chemspec.plan.settings import PlanSettings
from chemspec.question_text import is_question, make_question, read_question

AMIDE = "CNC(=O)c1ccc(NC(C)=O)cc1"


@given(st.lists(st.text(min_size=1), min_size=1, max_size=3))
def test_any_values_are_read_as_they_were_written(values: list[str]) -> None:
    question = make_question("plan", {"smi": "C", "avoid": values})
    text = str(question)
    assert is_question(text) and read_question(text) == question
    assert text.isascii() and not set(text) & set(" '\"`<>\\"), "it survives a shell's quotes and a chat"
    broken = text[:12] + "\n " + text[12:]
    assert read_question(f" <{broken}> ") == question, "line breaks and marks of a mail do not count"


def test_a_plan_is_rebuilt_with_its_limits_and_constraints() -> None:
    chosen = PlanSettings(
        depth=3, seconds=7.5, avoid=("[N+](=O)[O-]", "C#N"), keep=((1, 2),), through="CN", without=(f"CN.CO>>{AMIDE}",)
    )
    text = plan_question(AMIDE, chosen, stock=("common",), order="steps")
    question = read_question(text)
    assert (question.page, question.first("smi"), question.first("order")) == ("plan", AMIDE, "steps")
    assert question_settings(question) == chosen
    assert question_settings(question, PlanSettings(depth=2)).depth == 2, "what is given stays"
    deadline = PlanSettings(within=5.0, seconds=float("inf"))
    assert question_settings(read_question(plan_question(AMIDE, deadline))) == deadline


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("chemspec:", "begins with"),
        ("chemspec:evil?smi=C", "begins with"),
        ("chemspec:plan?depth=3", "no molecule"),
        ("chemspec:plan?smi=C&fee=3", "reads no 'fee'"),
        ("chemspec:plan?smi=C&smi=CC", "twice"),
        ("chemspec:plan?smi=C&stock=/etc/passwd", "no paths"),
        ("chemspec:predict?smi=C&task=retro&decoder=evil.py:X", "no paths"),
        ("chemspec:predict?smi=C&model=..%2Fevil", "no paths"),
        ("chemspec:plan?smi=" + "C" * 60_000, "too many"),
    ],
)
def test_what_is_wrong_is_said(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read_question(text)


@pytest.mark.parametrize(("field", "told"), [("depth=many", "must be a number"), ("keep=C1-C99", "no bond C1-C99")])
def test_fields_that_do_not_fit_are_refused(field: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        question_settings(read_question(f"chemspec:plan?smi={AMIDE}&{field}"))
