"""Products that differ only in the place of the new bond, E/Z isomers, and stereochemistry that is left open."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.case_tables import table
from rdkit import Chem

from chemspec import chem
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.review import Review, StepChecker, review_document, review_result
from chemspec.review.suggestions import recorded_rank
from chemspec.types import DecodeResult, Hypothesis, Vote


def answer(smiles: str, odds: float, *, sure: bool = True) -> Hypothesis:
    canonical = chem.canonical(smiles) or ""
    return Hypothesis(smiles, canonical, bool(canonical), (smiles,), (0.0,), 0.0, odds, odds, calibrated=sure)


def reviewed(flask: str, *products: tuple[str, float], sure: bool = True) -> Review:
    flask = chem.canonical(flask) or ""
    answers = tuple(answer(smiles, odds, sure=sure) for smiles, odds in products)
    return review_result("forward", DecodeResult(flask, "ok", "", answers, smiles=flask), StepChecker(None))


def percentages(review: Review) -> list[dict[str, float]]:
    """Of each choice: the reactant's SMILES with a star at the atom -> probability."""
    found = []
    for choice in review.selectivity:
        marked = {}
        for site in choice.sites:
            mol = mol_from_smiles(choice.reactant)
            mol.GetAtomWithIdx(site.atom).SetAtomMapNum(1)
            marked[Chem.MolToSmiles(mol)] = site.probability
        found.append(marked)
    return found


CASES = {name: case for name, *case in table("review/selectivity")}


@pytest.mark.parametrize("name", CASES)
def test_percentages_stand_at_the_atoms_of_the_reactant(name: str) -> None:
    flask, products, expected = CASES[name]
    review = reviewed(flask, *products)
    (found,) = percentages(review)
    same = {Chem.CanonSmiles(smiles): odds for smiles, odds in expected.items()}
    assert found == same
    (choice,) = review.selectivity
    assert [site.ranks for site in choice.sites] == [(rank,) for rank in range(1, len(products) + 1)]
    assert len(review.suggestions) == len(products)  # the cards stay


def test_equivalent_atoms_share_a_percentage() -> None:
    flask, products, _ = CASES["acylation of anisole"]
    (choice,) = reviewed(flask, *products).selectivity
    assert [len(site.equivalent) for site in choice.sites] == [1, 2, 2]
    assert all(site.atom in site.equivalent for site in choice.sites)
    assert "11 % at atom 5 or 7, C (answer 2)" in choice.text


@pytest.mark.parametrize(("flask", "products"), table("review/no_choice"))
def test_where_there_is_no_choice_of_atoms_none_is_shown(flask: str, products: list[tuple[str, float]]) -> None:
    assert reviewed(flask, *products).selectivity == ()


def test_probabilities_of_the_model_are_called_that() -> None:
    flask, products, _ = CASES["which chloride"]
    (choice,) = reviewed(flask, *products).selectivity
    (plain,) = reviewed(flask, *products, sure=False).selectivity
    assert choice.calibrated and choice.meaning.startswith("calibrated probability")
    assert not plain.calibrated and "not calibrated" in plain.meaning
    assert "no measured ratio of isomers, no yield" in plain.meaning


HECK = "C=CC(=O)OC.Ic1ccccc1.[Pd].CCN(CC)CC"


def test_e_and_z_are_one_product_with_both_listed() -> None:
    review = reviewed(
        HECK, ("COC(=O)C=Cc1ccccc1", 0.5), ("COC(=O)/C=C/c1ccccc1", 0.2), ("COC(=O)CCc1ccccc1", 0.1),
        ("COC(=O)/C=C\\c1ccccc1", 0.02),
    )  # fmt: skip
    first, second = review.suggestions
    assert first.geometry == "E/Z not set 50 %, E 20 %, Z 2 %"
    assert first.also == first.geometry and second.geometry == ""
    assert first.probability == pytest.approx(0.72)
    assert len(first.members) == 3
    document = review_document(review)["suggestions"][0]
    assert document["geometry"] == first.geometry
    assert [other["smiles"] for other in document["alternatives"]] == [
        other.canonical for other in review.result.hypotheses[1::2]
    ]


def test_merged_isomers_may_overtake_another_product() -> None:
    answers = (("COC(=O)CCc1ccccc1", 0.4), ("COC(=O)/C=C/c1ccccc1", 0.3), ("COC(=O)C=Cc1ccccc1", 0.2))
    review = reviewed(HECK, *answers)
    assert [item.best.canonical for item in review.suggestions] == ["COC(=O)/C=C/c1ccccc1", "COC(=O)CCc1ccccc1"]
    assert review.suggestions[0].geometry == "E 30 %, E/Z not set 20 %"
    voted = tuple(replace(item, vote=Vote(1.0, 1, 1, 0)) for item in review.result.hypotheses)
    kept = review_result("forward", replace(review.result, hypotheses=voted), StepChecker(None))
    assert kept.suggestions[0].best.canonical == "COC(=O)CCc1ccccc1"  # votes order the list


def test_a_double_bond_turned_against_the_flask_stays_apart() -> None:
    flask = "OC(=O)/C=C/c1ccccc1.NC.CCN=C=NCCCN(C)C"
    review = reviewed(flask, ("CNC(=O)/C=C/c1ccccc1", 0.8), ("CNC(=O)/C=C\\c1ccccc1", 0.1))
    first, turned = review.suggestions
    assert not first.alternatives and not first.problems
    assert any("wrong geometry" in problem for problem in turned.problems)


@pytest.mark.parametrize(("flask", "product", "notes"), table("review/open_stereo"))
def test_stereochemistry_that_the_reaction_leaves_open_is_told(
    flask: str, product: str, notes: tuple[str, ...]
) -> None:
    review = reviewed(flask, (product, 0.9))
    assert review.suggestions[0].notes == notes
    assert review_document(review)["suggestions"][0]["notes"] == list(notes)


def test_a_product_of_several_double_bonds_lists_them_in_one_order() -> None:
    flask = "O=CC=Cc1ccccc1.CCOC(=O)CP(=O)(OCC)OCC.[H-].[Na+]"
    review = reviewed(
        flask, ("CCOC(=O)/C=C/C=Cc1ccccc1", 0.5), ("CCOC(=O)/C=C\\C=Cc1ccccc1", 0.2), ("CCOC(=O)C=CC=Cc1ccccc1", 0.1)
    )
    (only,) = review.suggestions
    words = [part.split()[0] for part in only.geometry.split(", ")]
    assert len(only.members) == 3 and only.geometry.endswith("E/Z not set 10 %")
    assert sorted(words[0].split(",")) == ["?", "E"] and words[1] == words[0].replace("E", "Z")


def suggestion(rank: int, *, same: str = "", known: bool = True, givers: tuple[str, ...] = ()) -> Any:
    record = SimpleNamespace(reactants=same, reagents="CO.[BH4-].[Na+]") if same else None
    return SimpleNamespace(rank=rank, precedents=SimpleNamespace(same=record) if known else None, givers=givers)


def test_the_first_recorded_prediction_is_named() -> None:
    assert recorded_rank([]) is None
    assert recorded_rank([suggestion(1, known=False), suggestion(2)]) is None
    assert recorded_rank([suggestion(1), suggestion(2, same="CC=O"), suggestion(3, same="CC")]) == 2
    amination = suggestion(1, givers=("CC=O", "CN"))  # the patent reduces the aldehyde without the amine
    assert recorded_rank([amination, suggestion(2, same="CC=O")]) is None
    assert recorded_rank([amination, suggestion(2, same="CC=O.CN")]) == 2
