"""What a flask lacks or holds against its product: flasks of a chemist's trial, and recorded ones that are complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.case_tables import table

from chemspec import chem
from chemspec.chem.checks import flask_check, flask_laws
from chemspec.chem.checks.flask_media import medium_conflicts
from chemspec.chem.molecules.parsing import mol_from_smarts, mol_from_smiles
from chemspec.chem.reactions import step_class

EXAMPLES = Path(__file__).parents[2] / "assets" / "examples"


def check(flask: str, product: str) -> tuple[str, ...]:
    canonical = chem.canonical(flask), chem.canonical(product)
    assert all(canonical), (flask, product)
    return flask_check.missing_or_conflicting(*map(str, canonical))


# What stands with the reactants in the flask, and words of what is missing; "" where the flask is complete.
@pytest.mark.parametrize(("reaction", "rest", "missing"), table("chem/flasks"))
def test_missing_reagents_are_named_and_complete_flasks_raise_no_warning(
    reaction: tuple[str, str], rest: str, missing: str
) -> None:
    sentences = check(f"{reaction[0]}.{rest}", reaction[1])
    if not missing:
        assert sentences == ()
        return
    (sentence,) = sentences
    assert sentence.startswith("Missing in the reaction mixture: ") and sentence[-1] != "."
    assert missing in sentence
    assert sentence.count(";") == missing.count(";") + 1  # nothing else is missing


@pytest.mark.parametrize(("flask", "product", "conflict"), table("chem/flask_conflicts"))
def test_a_conflict_is_told_where_the_product_has_what_would_not_survive(
    flask: str, product: str, conflict: str
) -> None:
    sentences = check(flask, product)
    assert [sentence.startswith("Conflict: ") and conflict in sentence for sentence in sentences] == [True] * bool(
        conflict
    )


@pytest.mark.parametrize(
    ("flask", "product"),
    [("CS(C)=O.CCO", "CSC"), ("[O-][n+]1ccccc1.CCO", "c1ccncc1"), ("CC(=O)OC.C", "CCOC"), ("CC1CC1C.CO", "CCC(C)C")],
)
def test_a_count_of_electrons_is_remarked_where_no_class_says_what_is_missing(flask: str, product: str) -> None:
    canonical, complete = (str(chem.canonical(text)) for text in (flask, f"{flask}.[Na+].[BH4-]"))
    product = str(chem.canonical(product))
    assert "by the count of electrons, a reductant is missing" in flask_check.check_flask(canonical, product).remarks
    report = flask_check.check_flask(complete, product)
    assert not any("a reductant" in sentence for sentence in (*report.problems, *report.remarks))


def test_a_count_of_electrons_is_a_problem_where_one_bond_forms() -> None:
    assert "Missing in the reaction mixture: an oxidant;" in " ".join(check("c1ccccc1.CN1CCCC1", "CN1CCCC1c1ccccc1"))


def test_a_catalyst_of_hydrogenations_without_hydrogen_is_remarked() -> None:
    report = flask_check.check_flask("C.CO.Cc1ccc([N+](=O)[O-])cc1.[C].[Pd]", "Cc1ccc(N)cc1")
    assert not report.problems and "no hydrogen" in " ".join(report.remarks)
    assert check("CO.Cc1ccc([N+](=O)[O-])cc1.[Pd]", "Cc1ccc(N)cc1")


def test_a_halide_may_be_that_of_an_oxidant() -> None:
    assert check("CC(=O)c1ccccc1.[Cu+2].[Br-].[Br-]", "O=C(CBr)c1ccccc1") == ()


def test_the_flask_that_the_first_page_answers_lacks_nothing() -> None:
    answered = json.loads((EXAMPLES / "answered_forward.json").read_text(encoding="utf-8"))
    assert check(answered["query"], answered["hypotheses"][0]["canonical"]) == ()


@pytest.mark.parametrize(("left", "right", "words"), table("chem/hazards"))
def test_a_hazard_is_told_and_none_of_harmless_mixtures(left: str, right: str, words: str) -> None:
    told = flask_check.hazards(left, right)
    assert any(words in sentence for sentence in told) if words else not told, told


def test_every_pattern_of_the_tables_can_be_read_and_every_set_is_used() -> None:
    needs = [need for _, need in flask_check.load_needs()]
    texts = [text for _, _, *texts in flask_check.read_rows("flask_sets") for text in texts]
    texts += [text for row in flask_check.read_rows("flask_conflicts") for text in row[:3]]
    texts += [patterns for patterns, _ in flask_check.read_rows("hazards")]
    texts += [need.reactants for need in needs if need.reactants != "-"]
    patterns = [smarts for text in texts for pattern in text.split() for smarts in pattern.split(".")]
    assert [smarts for smarts in patterns if mol_from_smarts(smarts) is None] == []
    used = {item.phrase for need in needs for item in need.sets}
    assert [name for name, phrase, *_ in flask_check.read_rows("flask_sets") if phrase not in used] == []


def test_every_class_of_the_table_of_needs_is_a_class_of_reactions() -> None:
    lines = (Path(step_class.__file__).with_name("reaction_classes.tsv")).read_text(encoding="utf-8").splitlines()
    names = {line.split("\t")[1] for line in lines if line and not line.startswith("#")}
    rings = (Path(step_class.__file__).with_name("rings.tsv")).read_text(encoding="utf-8").splitlines()
    names |= {f"{line.split(chr(9))[0].capitalize()} synthesis" for line in rings if not line.startswith("#")}
    assert {name for classes, _ in flask_check.load_needs() for name in classes} - names == set()


@pytest.mark.parametrize(
    ("flask", "wrong", "right", "words"),
    [
        ("COc1ccc(Br)cc1.O=S(=O)(O)Cl", "COc1ccc(Br)c(S(=O)(=O)Cl)c1", "COc1ccc(Br)cc1S(=O)(=O)Cl", "ortho or para"),
        ("Cc1ccc(N)cc1.O=N[O-].[Na+].Cl.[Cu]Br", "Cc1ccc(Cl)cc1", "Cc1ccc(Br)cc1", "halide of the copper salt"),
        ("O=C1CCC(=O)C1.BrBr", "O=C1CC(=O)C(Br)C1", "O=C1CCC(=O)C1Br", "between two carbonyl"),
        ("Brc1cccc(I)c1.[Mg].CC(C)=O", "CC(C)(O)c1cccc(I)c1", "CC(C)(O)c1cccc(Br)c1", "better leaving group"),
        ("BrC1CC1.Oc1ccccc1.O=C([O-])[O-].[K+].[K+]", "c1ccc(OC2CC2)cc1", "", "cyclopropyl halide"),
        ("COc1c(C)cc(C)cc1C.COC(Cl)Cl.Cl[Ti](Cl)(Cl)Cl", "", "COc1c(C)cc(C)c(C=O)c1C", "ortho or para"),
    ],
)
def test_a_site_against_a_law_is_a_problem_and_the_right_one_is_not(
    flask: str, wrong: str, right: str, words: str
) -> None:
    assert not wrong or words in " ".join(check(flask, wrong))
    assert not right or words not in " ".join(check(flask, right))


@pytest.mark.parametrize(
    ("flask", "product", "remark"),
    [
        ("COC(=O)CCC1CCCCC1.CC(C)C[AlH]CC(C)C.ClCCl", "OCCCC1CCCCC1", "DIBAL"),
        ("COC(=O)CCC1CCCCC1.CC(C)C[AlH]CC(C)C.ClCCl", "O=CCCC1CCCCC1", "DIBAL"),
        ("N#CCCc1ccccc1.CC(C)C[AlH]CC(C)C.Cc1ccccc1", "O=CCCc1ccccc1", ""),
        ("COC(=O)CCC1CCCCC1.[Li+].[AlH4-].C1CCOC1", "OCCCC1CCCCC1", ""),
        ("CSc1ncccn1.O=C(OO)c1cccc(Cl)c1.ClCCl", "CS(=O)c1ncccn1", "sulfone"),
        ("CSc1ncccn1.O=C(OO)c1cccc(Cl)c1.ClCCl", "CS(=O)(=O)c1ncccn1", "sulfone"),
        ("CS(=O)(=O)c1ncccn1.NCC.OO", "CCNc1ncccn1", ""),
    ],
)
def test_products_between_which_amounts_decide_are_remarked(flask: str, product: str, remark: str) -> None:
    remarks = flask_check.check_flask(*(str(chem.canonical(text)) for text in (flask, product))).remarks
    assert [remark in sentence for sentence in remarks if "equivalent" in sentence] == [True] * bool(remark)


@pytest.mark.parametrize(
    ("flask", "wrong", "right"),
    [
        (
            "Cc1nccs1.Brc1ccccc1.CC(=O)[O-].CC(=O)[O-].[Pd+2].CC(=O)[O-].[K+].CN(C)C(C)=O",
            "c1ccc(Cc2nccs2)cc1",
            "Cc1ncc(-c2ccccc2)s1",
        ),
        (
            "O=Cc1ccc([N+](=O)[O-])cc1.C=CC(=O)OC.C1CN2CCN1CC2",
            "COC(=O)C=Cc1ccc([N+](=O)[O-])cc1",
            "C=C(C(=O)OC)C(O)c1ccc([N+](=O)[O-])cc1",
        ),
        ("C=CC#N.CC(C)C=O.C1CN2CCN1CC2", "CC(C)C(=O)CCC#N", "C=C(C#N)C(O)C(C)C"),
    ],
)
def test_what_well_known_reagents_do_together_is_told_of_other_products_only(
    flask: str, wrong: str, right: str
) -> None:
    assert any("usually give another product" in sentence for sentence in check(flask, wrong))
    assert check(flask, right) == ()


def test_of_several_solvents_only_the_one_that_reacts_is_named() -> None:
    for agents in (("C1CCOC1", "CO"), ("CO", "C1CCOC1"), ("ClCCl", "CO", "CCCCCC"), ("CC(=O)O", "CO")):
        conflicts = medium_conflicts(("O=C(Cl)c1ccccc1",), agents)
        assert [conflict.sentence.split()[0] for conflict in conflicts] == ["methanol"], agents


def test_a_ketone_is_doubted_whatever_atom_of_the_flask_the_organometallic_carbon_is() -> None:
    for flask in ("[CH3][Mg][Br].COC(=O)c1ccccc1", "COC(=O)c1ccccc1.[CH3][Mg][Br]"):
        (sentence,) = flask_check.missing_or_conflicting(flask, "CC(=O)c1ccccc1")
        assert "adds twice" in sentence


def test_a_formyl_group_that_leaves_is_the_reductant_of_an_amination() -> None:
    for flask, product in (("NC=O.O=C1CCCCC1", "NC1CCCCC1"), ("CC(=O)c1ccccc1.NC=O", "CC(N)c1ccccc1")):
        step = step_class.classify_step(flask, product)
        assert step is not None
        assert flask_laws.missing_electrons(step, mol_from_smiles(flask), mol_from_smiles(product)) == ""


def test_an_epoxide_that_stays_has_no_part_in_the_check_of_one_that_opens() -> None:
    assert check("C1OC1CCCCC1CO1.CN", "CNCC(O)CCCCC1CO1") == ()


def test_periodate_leaves_no_vicinal_diol_though_an_oxygen_may_be_its_own() -> None:
    rest, diol = "O=[Os](=O)(=O)=O.O.C1CCOC1", "OC1CCCCC1O"
    (sentence,) = check(f"C1=CCCCC1.[O-][I+3]([O-])([O-])[O-].[Na+].{rest}", diol)
    assert "periodate cleaves a vicinal diol" in sentence
    assert check(f"C1=CCCCC1.C[N+]1([O-])CCOCC1.{rest}", diol) == ()
