"""The rule of the forward check: alone, with usual reagents, with proposed ones; each query once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from helpers.case_tables import table

from chemspec import chem
from chemspec.review import review_result
from chemspec.review.forward_check import ForwardCheck, StepChecker, best_check, gives_target
from chemspec.review.suggestions import Suggestion
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Hypothesis, Pass, Trace

TARGET, ACID = "CC(=O)Nc1ccccc1", "CC(=O)O.Nc1ccccc1"
PROPOSED = "CCN=C=NCCCN(C)C"  # fits the class of the step


class Table:
    """A model that answers from a table: SMILES and probability."""

    def __init__(self, answers: Mapping[str, tuple[str, float]], default: tuple[str, float] = ("CCO", 0.9)) -> None:
        self.answers, self.default = answers, default
        self.asked: list[str] = []

    def predict(self, queries: Sequence[str], _: DecodeSettings) -> list[DecodeResult]:
        self.asked += queries
        found = [self.answers.get(query, self.default) for query in queries]
        return [
            DecodeResult(query, "ok", "", (Hypothesis(text, text, bool(text), (), (), -1.0, odds, odds),))
            for query, (text, odds) in zip(queries, found, strict=True)
        ]


def usual_reagents() -> str:
    """What the rule adds to the acid and the amine without precedents."""
    forward = Table({})
    StepChecker(forward).check([(TARGET, ACID)])
    alone, helped = forward.asked
    return helped.removeprefix(f"{alone}.")


def check(answers: Mapping[str, tuple[str, float]], proposed: str = PROPOSED) -> tuple[ForwardCheck, Table, Table]:
    forward, reagents = Table(answers), Table({}, (proposed, 0.5))
    (verdict,) = StepChecker(forward, reagents).check([(TARGET, ACID)])
    assert verdict is not None
    return verdict, forward, reagents


def test_a_sure_answer_needs_no_reagents() -> None:
    verdict, forward, reagents = check({ACID: (TARGET, 0.3)})
    assert (verdict.verdict, verdict.text, verdict.added, verdict.confirmed) == ("agrees", "agrees", "", True)
    assert forward.asked == [ACID] and not reagents.asked


def test_usual_reagents_come_before_proposed_ones() -> None:
    usual = usual_reagents()
    verdict, forward, reagents = check({f"{ACID}.{usual}": (TARGET, 0.8)})
    assert verdict.confirmed and verdict.added == usual and not reagents.asked
    verdict, forward, reagents = check({f"{ACID}.{PROPOSED}": (TARGET, 0.8)})
    assert verdict.confirmed and verdict.added == PROPOSED
    assert forward.asked == [ACID, f"{ACID}.{usual}", f"{ACID}.{PROPOSED}"]


def test_proposed_reagents_of_another_class_are_passed_over() -> None:
    """An alcohol and sodium hydride are no Mitsunobu reaction, whatever a model proposes."""
    forward, reagents = Table({}), Table({}, ("CN(C)C=O.[H-].[Na+]", 0.5))
    StepChecker(forward, reagents).check([("CC(C)n1cccn1", "CC(C)O.c1cn[nH]c1")])
    assert reagents.asked and not any("[H-]" in flask for flask in forward.asked)


def test_an_unsure_check_gives_way_only_to_a_surer_one() -> None:
    usual = usual_reagents()
    doubt = {ACID: (TARGET, 0.2), f"{ACID}.{usual}": (TARGET, 0.1), f"{ACID}.{PROPOSED}": ("CCC", 0.9)}
    verdict, *_ = check(doubt)
    assert (verdict.verdict, verdict.text) == ("unsure", "unsure of it")
    assert (verdict.probability, verdict.added) == (0.2, ""), "neither a lower probability nor another product"
    verdict, *_ = check(doubt | {f"{ACID}.{PROPOSED}": (TARGET, 0.6)})
    assert (verdict.verdict, verdict.added) == ("agrees", PROPOSED)


@pytest.mark.parametrize(("product", "text"), [("CCO", "gives CCO"), ("", "gives no product")])
def test_another_product_is_named(product: str, text: str) -> None:
    forward = Table({}, (product, 0.9))
    (verdict,) = StepChecker(forward).check([(TARGET, ACID)])
    assert verdict is not None and (verdict.verdict, verdict.text) == ("differs", text)


def test_a_step_is_one_however_it_is_written() -> None:
    forward = Table({})
    checker = StepChecker(forward)
    first = checker.check([(TARGET, ACID)])
    asked = [*forward.asked]
    assert checker.check([("c1ccccc1NC(C)=O", "c1ccccc1N.OC(C)=O"), (TARGET, ACID)]) == first * 2
    assert forward.asked == asked


def test_without_a_forward_model_there_is_no_verdict() -> None:
    assert StepChecker(None).check([(TARGET, ACID)]) == [None]


def test_a_failure_is_no_verdict_and_asked_again() -> None:
    class Broken(Table):
        def predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
            return [replace(result, status="failed") for result in super().predict(queries, settings)]

    forward = Broken({})
    checker = StepChecker(forward)
    assert checker.check([(TARGET, ACID)]) == [None]
    asked = len(forward.asked)
    assert checker.check([(TARGET, ACID)]) == [None] and len(forward.asked) == 2 * asked
    forward = Broken({})
    assert StepChecker(forward).check([("CCCl", "c1ccccc1")]) == [None]
    assert len(forward.asked) == 1, "there are no reagents to try it with"


def test_no_step_of_a_call_is_dropped() -> None:
    """Whether the steps are more than are cached, or among them some that were cached long ago."""
    steps = [(TARGET, ACID), ("CCO", "CC=O"), ("CCN", "CC#N"), ("CCOC(C)=O", "CCO.CC(=O)O")]
    for earlier in ([], steps[:1]):
        large, small = (StepChecker(Table({}), Table({}, ("CCN", 0.5)), most=most) for most in (100, 1 + len(earlier)))
        for checker in (large, small):
            checker.check(earlier)
        assert small.check(steps) == large.check(steps)
        assert [small.proposed_sets(step) for step in steps] == [large.proposed_sets(step) for step in steps]
        assert small.forward.asked == large.forward.asked  # type: ignore[union-attr]


def test_old_checks_are_dropped() -> None:
    forward = Table({})
    checker = StepChecker(forward, most=1)
    assert len(checker.check([(TARGET, ACID), ("CCO", "CC=O")])) == 2
    asked = len(forward.asked)
    checker.check([("CCO", "CC=O")])
    assert len(forward.asked) == asked
    checker.check([(TARGET, ACID)])
    assert len(forward.asked) > asked


def test_stereochemistry_counts_and_by_products_do_not() -> None:
    assert gives_target("C[C@H](O)CC", "C[C@H](O)CC") and not gives_target("C[C@H](O)CC", "C[C@@H](O)CC")
    assert gives_target(TARGET, f"{TARGET}.O") and not gives_target(TARGET, "")


@pytest.mark.parametrize(("target", "made", "text"), table("review/open_geometry"))
def test_a_geometry_left_open_is_no_contradiction(target: str, made: str, text: str) -> None:
    (verdict,) = StepChecker(Table({}, (made, 0.9))).check([(target, "CC")])
    assert verdict is not None and verdict.text == text


def test_passes_of_checks_and_proposals_are_counted_once() -> None:
    step = Pass(1, 1, 0, 1, 0, 1.0, 1, 0.0, 0.001)

    class Timed(Table):
        def predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
            trace = Trace((), {"exactness": "exact bit for bit"}, (step, step), 0.1)
            return [replace(result, trace=trace) for result in super().predict(queries, settings)]

    forward, reagents = Timed({}), Timed({}, (PROPOSED, 0.5))
    checker = StepChecker(forward, reagents)
    for _ in range(2):
        checker.check([(TARGET, ACID)])
        saved = checker.savings([(TARGET, ACID)])
        assert saved.passes == saved.standard == 2 * (len(forward.asked) + len(reagents.asked)) == 8
    assert checker.savings([("CCO", "CO")]).passes == 0


def test_of_equal_checks_the_last_counts() -> None:
    """It has the likelier reagents of the rule."""
    for agrees, p, product in ((True, 0.5, "C"), (False, 0.9, "N"), (False, 0.0, "")):
        checks = [ForwardCheck(agrees, p, product, added) for added in ("", "O", "N")]
        assert best_check(checks) is checks[2]
    sure, unsure, other = (ForwardCheck(*given) for given in ((True, 0.4, "C"), (True, 0.3, "C"), (False, 0.9, "N")))
    assert best_check([unsure, sure, other]) is sure
    assert best_check([]) is None


@pytest.mark.parametrize(("described", "expected"), [(1, 3), (2, 3), (3, 4)])
def test_only_what_may_be_shown_is_checked_and_shown_as_if_all_were(described: int, expected: int) -> None:
    """The first is doubted, so the second comes up and is checked; the last is only where three are shown."""
    sides = ("Nc1ccccc1.O=C(O)C", "CC(=O)Cl.Nc1ccccc1", "CC(N)=O.Ic1ccccc1", "CC(=O)Nc1ccc(Br)cc1")
    answers = tuple(
        Hypothesis(text, chem.canonical(text) or "", True, (), (), -1.0, odds, odds)
        for text, odds in zip(sides, (0.4, 0.3, 0.2, 0.1), strict=True)
    )
    result, agreeing = DecodeResult(TARGET, "ok", "", answers, smiles=TARGET), (TARGET, 0.9)

    def review(described: int | None) -> tuple[list[Suggestion], list[str]]:
        forward = Table({answers[2].canonical: agreeing, answers[3].canonical: agreeing})
        found = review_result("retro", result, StepChecker(forward), heads=8, described=described)
        return list(found.suggestions), forward.asked

    (whole, asked_of_all), (shown, asked) = review(None), review(described)
    assert len(whole) == 3 and {item.best for item in shown} == {item.best for item in whole}
    assert [(item.best, item.check) for item in shown[:described]] == [
        (item.best, item.check) for item in whole[:described]
    ]
    assert len(asked_of_all) == 4 and len(asked) == expected, "the first twice, with reagents the second time"
