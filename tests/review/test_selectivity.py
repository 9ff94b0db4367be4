"""Products that differ only in the place of the new bond, E/Z isomers, and stereochemistry that is left open."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from chemspec import chem
from chemspec.review import Review, StepChecker, review_document, review_result
from chemspec.review.selectivity import MIN_SECOND, MIN_TOTAL
from chemspec.review.suggestions import recorded_rank
from chemspec.types import DecodeResult, Hypothesis, Vote


def answer(smiles: str, odds: float, *, sure: bool = True) -> Hypothesis:
    canonical = chem.canonical(smiles) or ""
    return Hypothesis(
        smiles, canonical, bool(canonical), (smiles,), (0.0,), 0.0, odds, confidence=odds if sure else None
    )


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
            mol = chem.parsing.mol_from_smiles(choice.reactant)
            mol.GetAtomWithIdx(site.atom).SetAtomMapNum(1)
            from rdkit import Chem

            marked[Chem.MolToSmiles(mol)] = site.probability
        found.append(marked)
    return found


CASES = {
    "acylation of anisole": (
        "COc1ccccc1.CC(=O)Cl.[Al+3].[Cl-].[Cl-].[Cl-].ClCCl",
        [("COc1ccc(C(C)=O)cc1", 0.78), ("COc1cccc(C(C)=O)c1", 0.11), ("COc1ccccc1C(C)=O", 0.06)],
        {"COc1cc[cH:1]cc1": 0.78, "COc1c[cH:1]ccc1": 0.11, "COc1[cH:1]cccc1": 0.06},
    ),
    "which chloride": (
        "Clc1ccnc(Cl)n1.C1COCCN1.CCN(CC)CC",
        [("Clc1nccc(N2CCOCC2)n1", 0.65), ("Clc1ccnc(N2CCOCC2)n1", 0.21)],
        {"Cl[c:1]1ccnc(Cl)n1": 0.65, "Clc1ccn[c:1](Cl)n1": 0.21},
    ),
    "N1 or N2 of indazole": (
        "c1ccc2[nH]ncc2c1.OB(O)c1ccc(C)cc1.CC(=O)[O-].CC(=O)[O-].[Cu+2].c1ccncc1.ClCCl",
        [("Cc1ccc(-n2ncc3ccccc32)cc1", 0.5), ("Cc1ccc(-n2cc3ccccc3n2)cc1", 0.2)],
        {"c1ccc2c(c1)cn[nH:1]2": 0.5, "c1ccc2c(c1)c[n:1][nH]2": 0.2},
    ),
    "bromide or chloride": (
        "Clc1ccc(Br)cn1.C1COCCN1.CCN(C(C)C)C(C)C.CS(C)=O",
        [("Brc1ccc(N2CCOCC2)nc1", 0.78), ("Clc1ccc(N2CCOCC2)cn1", 0.15)],
        {"Cl[c:1]1ccc(Br)cn1": 0.78, "Clc1cc[c:1](Br)cn1": 0.15},
    ),
    "N or O": (
        "Nc1cccc(O)c1.Cc1ccc(S(=O)(=O)Cl)cc1.c1ccncc1",
        [("Cc1ccc(S(=O)(=O)Nc2cccc(O)c2)cc1", 0.95), ("Cc1ccc(S(=O)(=O)Oc2cccc(N)c2)cc1", 0.015)],
        {"Oc1cccc([NH2:1])c1": 0.95, "Nc1cccc([OH:1])c1": 0.015},
    ),
    "which carbon of an epoxide": (
        "[N-]=[N+]=[N-].[Na+].c1ccc(OCC2CO2)cc1.CN(C)C=O",
        [("[N-]=[N+]=NCC(O)COc1ccccc1", 0.9), ("[N-]=[N+]=NC(CO)COc1ccccc1", 0.05)],
        {"c1ccc(OCC2[CH2:1]O2)cc1": 0.9, "c1ccc(OC[CH:1]2CO2)cc1": 0.05},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_percentages_stand_at_the_atoms_of_the_reactant(name: str) -> None:
    flask, products, expected = CASES[name]
    review = reviewed(flask, *products)
    (found,) = percentages(review)
    from rdkit import Chem

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


ANISOLE = "COc1ccccc1.CC(=O)Cl.[Al+3].[Cl-].[Cl-].[Cl-].ClCCl"


@pytest.mark.parametrize(
    ("flask", "products"),
    [
        (ANISOLE, [("COc1ccc(C(C)=O)cc1", 0.95)]),  # no second
        (ANISOLE, [("COc1ccc(C(C)=O)cc1", 0.95), ("COc1ccccc1C(C)=O", MIN_SECOND / 2)]),  # hardly a second
        (ANISOLE, [("COc1ccc(C(C)=O)cc1", MIN_TOTAL / 2), ("COc1ccccc1C(C)=O", MIN_TOTAL / 3)]),  # not known at all
        (ANISOLE, [("COc1ccc(C(C)=O)cc1", 0.7), ("CC(=O)c1ccccc1O", 0.2)]),  # loses its methyl group besides
        (ANISOLE, [("Cc1ccccc1OC", 0.5), ("COc1ccc(C(C)=O)cc1", 0.2), ("COc1ccccc1C(C)=O", 0.1)]),  # not the first
        (  # another reaction at another group
            "O=C(O)c1ccc(F)cc1.C1CCNCC1.CCN=C=NCCCN(C)C.CN(C)C=O",
            [("O=C(c1ccc(F)cc1)N1CCCCC1", 0.9), ("O=C(O)c1ccc(N2CCCCC2)cc1", 0.05)],
        ),
        (  # beside the leaving group
            "COC(=O)c1ccc(Br)cc1.OB(O)c1ccccc1.[Pd].[Na+].[OH-]",
            [("COC(=O)c1ccc(-c2ccccc2)cc1", 0.9), ("COC(=O)c1cccc(-c2ccccc2)c1", 0.05)],
        ),
        ("O=[N+]([O-])c1ccccc1.[Fe].[Cl-].[NH4+]", [("Nc1ccccc1", 0.9), ("ONc1ccccc1", 0.05)]),  # no new bond
        (  # the nitrogen of the amine once and twice
            "NCc1ccccc1.CI.CO",
            [("CNCc1ccccc1", 0.6), ("CN(C)Cc1ccccc1", 0.3)],
        ),
    ],
)
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


@pytest.mark.parametrize(
    ("flask", "product", "notes"),
    [
        (HECK, "COC(=O)C=Cc1ccccc1", ("E/Z is not set",)),
        (HECK, "COC(=O)/C=C/c1ccccc1", ()),
        ("CC(=O)c1ccccc1.[BH4-].[Na+]", "CC(O)c1ccccc1", ("1 stereocentre is not set",)),
        ("CC(=O)c1ccccc1.[BH4-].[Na+]", "C[C@H](O)c1ccccc1", ()),
        ("C1=CCC=C1.O=C1C=CC(=O)O1", "O=C1OC(=O)C2C3C=CC(C3)C12", ("4 stereocentres are not set",)),
        ("CC(N)c1ccccc1.CC(=O)Cl", "CC(=O)NC(C)c1ccccc1", ()),  # the flask leaves it open itself
        ("C[C@H](N)c1ccccc1.CC(=O)Cl", "CC(=O)NC(C)c1ccccc1", ()),  # lost: a problem, told as one
        ("CC(C)=O.NO", "CC(C)=NO", ()),  # two methyl groups
        ("CC=CC(C)=O.NO", "CC=CC(C)=NO", ("E/Z is not set",)),
    ],
)
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


def suggestion(rank: int, *, same: object = None, known: bool = True) -> Any:
    return SimpleNamespace(rank=rank, precedents=SimpleNamespace(same=same) if known else None)


def test_the_first_recorded_prediction_is_named() -> None:
    assert recorded_rank([]) is None
    assert recorded_rank([suggestion(1, known=False), suggestion(2)]) is None
    assert recorded_rank([suggestion(1), suggestion(2, same="US1"), suggestion(3, same="US2")]) == 2
