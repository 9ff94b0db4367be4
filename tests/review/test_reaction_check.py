"""A whole reaction is checked: its product, or its reactants, are looked for among the model's answers."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.case_tables import table

from chemspec import chem
from chemspec.chem import formats
from chemspec.review.reaction_check import CHECK_SETTINGS, check_reaction, judge_predictions
from chemspec.types import DecodeResult, Hypothesis

ACETANILIDE = "CC(=O)Nc1ccccc1"
FLASK = "CC(=O)Cl.Nc1ccccc1"


def answers(*smiles: str) -> DecodeResult:
    def answer(text: str, rank: int) -> Hypothesis:
        odds = 0.5**rank
        return Hypothesis(text, chem.canonical(text) or "", chem.is_valid(text), (text,), (-rank,), -rank, odds, odds)

    return DecodeResult("?", "ok", "", tuple(answer(text, rank) for rank, text in enumerate(smiles, 1)))


class Fake:
    """As much of an engine as a check needs."""

    def __init__(self, task: str, *smiles: str) -> None:
        self.task, self.smiles, self.asked = task, smiles, []

    def predict(self, query: str, settings: Any) -> DecodeResult:
        self.asked.append((query, settings))
        return answers(*self.smiles)


@pytest.mark.parametrize(
    "written",
    [
        f"{FLASK}>>{ACETANILIDE}",
        f"{FLASK}>ClCCl>{ACETANILIDE}",
        f"Nc1ccccc1.CC(=O)Cl.ClCCl>>{ACETANILIDE}",
        "[CH3:1][C:2](=[O:3])Cl.[NH2:4]c1ccccc1>>[CH3:1][C:2](=[O:3])[NH:4]c1ccccc1",
        formats.to_rxn(FLASK, ACETANILIDE),
    ],
)
@pytest.mark.parametrize("task", ["forward", "retro"])
def test_a_reaction_in_any_format_is_checked_with_one_search(written: str, task: str) -> None:
    engine: Any = Fake(task, "CCO", ACETANILIDE if task == "forward" else FLASK)
    found = check_reaction(engine, written)
    assert (found.rank, found.agrees, found.probability, found.problem) == (2, False, 0.25, "")
    assert [one.canonical for one in found.others] == ["CCO"]
    (asked,) = engine.asked
    right = set(formats.read_input(written, task="forward").smiles.split(".")), {ACETANILIDE}  # type: ignore[union-attr]
    assert (set(asked[0].split(".")), asked[1]) == (right[task == "retro"], CHECK_SETTINGS)


@pytest.mark.parametrize("text", ["CCO", "CC(=O)Cl.Nc1ccccc1>>", ">>CCO", "aniline", "C(>>C", ""])
def test_what_is_no_whole_reaction_is_refused(text: str) -> None:
    for task in ("forward", "retro"):
        engine: Any = Fake(task, "C")
        with pytest.raises(ValueError, match="reaction"):
            check_reaction(engine, text)
        assert not engine.asked


def test_reactants_agree_with_solvents_beside_them_but_not_without_all_atoms() -> None:
    flask = f"{FLASK}.ClCCl.CCN(CC)CC"
    assert judge_predictions("retro", ACETANILIDE, flask, answers(FLASK)).agrees
    assert not judge_predictions("retro", ACETANILIDE, flask, answers("Nc1ccccc1")).rank
    assert not judge_predictions("retro", ACETANILIDE, flask, answers("CC(=O)OC(C)=O.Nc1ccccc1")).rank


@pytest.mark.parametrize(
    "written",
    [
        f"{FLASK}>CCN(CC)CC.ClCCl.ClCCl>{ACETANILIDE}",
        "aniline.acetyl chloride>triethylamine, DCM>acetanilide",
        f"Nc1ccccc1 . acetyl chloride > NEt3 + DCM > {ACETANILIDE}",
    ],
)
def test_agents_are_looked_for_as_a_set(written: str) -> None:
    engine: Any = Fake("reagents", "c1ccncc1", "ClCCl.CCN(CC)CC")
    found = check_reaction(engine, written)
    assert (found.rank, found.problem, found.probability) == (2, "", 0.25)
    assert "this set is prediction 2 of 2" in found.sentence()
    assert [query for query, _ in engine.asked] == [f"{FLASK}>>{ACETANILIDE}"]


def test_a_set_that_differs_in_one_reagent_is_nearly_it() -> None:
    for answer, how in (("ClCCl", "without CCN(CC)CC"), ("ClCCl.O.CCN(CC)CC", "with O besides"), ("O", "")):
        found = judge_predictions("reagents", f"{FLASK}>>{ACETANILIDE}", "CCN(CC)CC.ClCCl", answers(answer))
        assert (found.rank, found.nearly) == (0, f"the same {how}" if how else "")


def test_a_reaction_without_agents_has_none_to_judge() -> None:
    engine: Any = Fake("reagents", "C")
    with pytest.raises(ValueError, match="no agents that could be judged; write reactants>agents>product"):
        check_reaction(engine, f"{FLASK}>>{ACETANILIDE}")


def test_what_is_nearly_it_is_said() -> None:
    near = judge_predictions("forward", "C[C@H](Br)C(=O)O.[OH-]", "C[C@@H](O)C(=O)O", answers("CCO", "C[C@H](O)C(=O)O"))
    assert (near.rank, near.near) == (0, 2)
    assert "stereochemistry" in near.sentence()
    isomer = judge_predictions("forward", "CC=C.Br", "CC(C)Br", answers("CCCBr"))
    assert (isomer.near, "isomer" in isomer.nearly) == (1, True)
    idea = judge_predictions("retro", ACETANILIDE, FLASK, answers("CCO", "CC(=O)Br.Nc1ccccc1"))
    assert (idea.near, idea.nearly) == (2, "the same idea with other reactants")
    assert judge_predictions("forward", FLASK, ACETANILIDE, answers("CCO", "C(")).near == 0


@pytest.mark.parametrize(("reaction", "says"), table("review/wrong_on_paper"))
def test_what_is_wrong_on_paper_is_told_whatever_the_model_says(reaction: str, says: str) -> None:
    left, right = reaction.split(">>")
    for found in (
        judge_predictions("forward", left, right, answers(right)),
        judge_predictions("retro", right, left, answers(left)),
    ):
        assert says in found.problem
        assert bool(found.problem) == bool(says)


def test_a_model_that_cannot_answer_is_no_disagreement() -> None:
    refused = judge_predictions("forward", FLASK, ACETANILIDE, DecodeResult(FLASK, "too_long", "too many tokens"))
    assert "cannot judge" in refused.sentence()
    assert not refused.agrees
