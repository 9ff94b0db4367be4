"""Sets of reagents: one text each, scored as sets and one by one, beside the most frequent ones of a change."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chemspec.chem import canonical
from chemspec.chem.formats import Input, read_input
from chemspec.chem.molecules.salts import normal_form, other_reagents
from chemspec.evaluation import accuracy

REAGENTS = ["CCN(CC)CC", "ClCCl", "[Na+]", "[OH-]", "C[C@H](N)c1ccccc1", "O", "C/C=C/C"]


@given(st.lists(st.sampled_from(REAGENTS), min_size=1), st.randoms(use_true_random=False))
def test_a_set_has_one_text_whatever_the_order_and_how_often(parts: list[str], random: Any) -> None:
    first = normal_form(".".join(parts))
    again = [*parts, *parts[:2]]
    random.shuffle(again)
    assert first == normal_form(".".join(again)) == normal_form(first or "")
    assert first and len(first.split(".")) == len(set(parts))
    assert "@" not in first and "/" not in first
    assert sorted(first.split(".")) == first.split(".")


def test_what_is_no_set_has_no_text() -> None:
    assert normal_form("CC.C((") is None
    assert normal_form("") is None


def test_reagents_are_what_the_core_leaves_over_however_it_is_spelled() -> None:
    assert other_reagents("OCC.CC(=O)O.O.O.[Na+]", "CCO.OC(C)=O") == "O.[Na+]"
    assert other_reagents("CCO", "OCC") == ""


def test_a_whole_reaction_is_one_query() -> None:
    read = read_input("OCC.C(=O)(C)Cl>ClCCl>C(C)OC(C)=O", task="reagents")
    assert isinstance(read, Input)
    left, right = read.smiles.split(">>")
    assert (left, right) == (canonical("CCO.CC(=O)Cl"), canonical("CCOC(C)=O"))
    assert "the agents are left out" in read.notes
    again = read_input(read.smiles, task="reagents")
    assert isinstance(again, Input) and again.smiles == read.smiles and not again.notes


def answers(*sets: str) -> dict[str, Any]:
    hypotheses = [{"canonical": one, "valid": True, "probability": 0.1, "smiles": one} for one in sets]
    return {"hypotheses": hypotheses, "status": "ok", "passes": 1, "seconds": 0.1}


def test_sets_are_compared_in_normal_form_and_reagents_one_by_one() -> None:
    results = [
        accuracy.normalise_result(one, "reagents")
        for one in (answers("O.[Na+]", "ClCCl.CCN(CC)CC.ClCCl"), answers("O", "C1CCOC1"))
    ]
    asked = [accuracy.KnownReaction("q", "CCN(CC)CC.ClCCl"), accuracy.KnownReaction("r", "C1CCOC1.O.[Li+].[OH-]")]
    measured = accuracy.score_predictions(asked, results)
    assert [measured["top"][k]["value"] for k in ("1", "2")] == [0, 0.5]
    found = accuracy.reagent_recall([one.answer for one in asked], [*map(accuracy.distinct_answers, results)])
    assert [found[k]["value"] for k in ("1", "2", "10")] == [1 / 6, 4 / 6, 4 / 6]
