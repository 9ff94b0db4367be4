"""What a review says of an answer."""

from __future__ import annotations

from math import log
from types import SimpleNamespace
from typing import Any, cast

import pytest
from helpers.case_tables import table

from chemspec import chem, precedents
from chemspec.chem.reactions.stoichiometry import classify_whole_step
from chemspec.precedents import Conditions, Found
from chemspec.review import suggestions
from chemspec.review.rows import review_table
from chemspec.review.suggestions import Suggestion
from chemspec.types import Hypothesis


@pytest.mark.parametrize(("flask", "product", "recorded", "reagents"), table("review/recorded_reagents"))
def test_recorded_reagents_are_of_the_class_of_the_flask(
    flask: str, product: str, recorded: tuple[str, ...], reagents: str
) -> None:
    flask, product = str(chem.canonical(flask)), str(chem.canonical(product))
    answer = Hypothesis(product, product, True, (product,), (0.0,), 0.0, 0.9, 0.9)
    found = Found(conditions=tuple(Conditions(smiles, 1) for smiles in recorded))
    card = Suggestion("forward", flask, 1, answer, precedents=found)
    assert card.reagents[0] == reagents
    (row,) = review_table(cast(Any, SimpleNamespace(task="forward", checks={}, suggestions=[card])))
    assert row["reagents"] == precedents.in_words(reagents, formulas=True)


def test_an_answer_that_is_no_molecule_has_no_reagents() -> None:
    invalid = Hypothesis("C(", "", False, ("C", "("), (0.0,), 0.0, 0.9, 0.9)
    for task in ("forward", "retro"):
        assert Suggestion(task, "CCO", 1, invalid).reagents == ("", "")


def test_what_a_reaction_does_is_found_for_the_cards_that_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    monkeypatch.setattr(
        suggestions, "classify_whole_step", lambda *sides: looked_at.append(sides) or classify_whole_step(*sides)
    )

    def cards(flask: str, *products: str) -> list[Suggestion]:
        answers = [Hypothesis(name, name, True, (), (), log(0.2), 0.2, 0.2) for name in products]
        return suggestions.group_answers("forward", flask, cast(Any, SimpleNamespace(hypotheses=answers)))

    flask, amide = "CC(=O)Cl.Nc1ccccc1", "CC(=O)Nc1ccccc1"
    first, _ = cards(flask, amide, "CC(=O)c1ccc(N)cc1")
    assert looked_at == []
    assert first.step == classify_whole_step(flask, amide) and looked_at == [(flask, amide)]
    looked_at.clear()
    cards("CC(=O)Cl.C[C@H](N)c1ccccc1", "CC(=O)N[C@@H](C)c1ccccc1", amide)  # a law may set their order
    assert len(looked_at) == 2


def test_a_wrong_epimer_among_the_alternatives_adds_nothing_to_the_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggestions, "spoils_stereo", lambda step: step == "inverts")
    answers = [Hypothesis(name, name, True, (), (), log(p), p, p) for name, p in (("C", 0.4), ("N", 0.2), ("O", 0.1))]
    best, *others = answers
    for steps, expected in ((["inverts", "keeps"], 0.5), (["keeps", "inverts"], 0.6), ([None, None], 0.7)):
        alternatives = list(zip(others, steps, strict=True))
        card: Any = SimpleNamespace(best=best, alternatives=alternatives)
        assert Suggestion.probability.__get__(card) == pytest.approx(expected)


def test_an_answer_set_aside_must_be_more_probable_than_the_first_to_say_that_nothing_reacts() -> None:
    for aside, is_said in ((0.31, True), (0.3, False), (0.29, False)):
        best, other = (Hypothesis("C", "C", True, (), (), log(p), p, p) for p in (0.3, aside))
        distinct = SimpleNamespace(omitted=(other,), excluded=())
        shown: Any = [SimpleNamespace(best=best, probability=0.3, variants=None)]
        warning = suggestions.doubt_warning("forward", "CO.CN", cast(Any, SimpleNamespace(distinct=distinct)), shown)
        assert warning.startswith("The model predicts no reaction") == is_said


def test_a_single_molecule_is_warned_of_below_high_confidence_only() -> None:
    for probability, warned in ((suggestions.CONFIDENT - 0.01, True), (suggestions.CONFIDENT, False)):
        shown: Any = [SimpleNamespace(probability=probability, best=SimpleNamespace(probability=1.0), variants=None)]
        result: Any = SimpleNamespace(distinct=None)
        warning = suggestions.doubt_warning("forward", "CCO", result, shown)
        assert ("Only one molecule" in warning) == warned
