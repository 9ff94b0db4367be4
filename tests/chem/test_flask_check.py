"""What a flask lacks or holds against its product: flasks of a chemist's trial, and recorded ones that are complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from case_tables import table

from chemspec import chem
from chemspec.chem import flask_check
from chemspec.chem.parsing import mol_from_smarts

EXAMPLES = Path(__file__).parents[2] / "assets" / "examples"
K2CO3 = "[K+].[K+].O=C([O-])[O-]"
SUZUKI = "COC(=O)c1ccc(Br)cc1.OB(O)c1ccc(F)cc1", "COC(=O)c1ccc(-c2ccc(F)cc2)cc1"
BUCHWALD = "Brc1ccc(C)cc1.C1COCCN1", "Cc1ccc(N2CCOCC2)cc1"
AMIDE = "O=C(O)c1ccccc1.NCc1ccccc1", "O=C(NCc1ccccc1)c1ccccc1"
NITRO = "O=[N+]([O-])c1ccc(Br)cc1", "Nc1ccc(Br)cc1"
BOC_AMIDE = "CC(C)(C)OC(=O)NCCC(=O)O.NCc1ccccc1", "CC(C)(C)OC(=O)NCCC(=O)NCc1ccccc1"
BOC_OFF = "CC(C)(C)OC(=O)NCCc1ccccc1", "NCCc1ccccc1"
KETONE = "CC(=O)c1ccccc1", "CC(O)c1ccccc1"
ETHER = "Oc1ccccc1.CI", "COc1ccccc1"
ESTER = "COC(=O)c1ccccc1", "O=C(O)c1ccccc1"
ALCOHOL = "OCc1ccccc1", "O=Cc1ccccc1"
AMINATION = "O=Cc1ccccc1.C1COCCN1", "c1ccc(CN2CCOCC2)cc1"
GRIGNARD = "C[Mg]Br.O=Cc1ccccc1", "CC(O)c1ccccc1"
EDC = "CCN=C=NCCCN(C)C"

# What stands with the reactants in the flask, and words of what is missing; "" where the flask is complete.
FLASKS = [
    (SUZUKI, "CCCCCC", "palladium, nickel or copper catalyst; a base"),
    (SUZUKI, f"{K2CO3}.Cc1ccccc1.CCO", "palladium, nickel or copper catalyst"),
    (SUZUKI, "[Pd].C1COCCO1", "a base"),
    (SUZUKI, f"[Pd].c1ccc(P(c2ccccc2)c2ccccc2)cc1.{K2CO3}.Cc1ccccc1.CCO", ""),
    (BUCHWALD, "Cc1ccccc1", "palladium, nickel or copper catalyst; a base"),
    (BUCHWALD, "CC(=O)[O-].CC(=O)[O-].[Pd+2].CC(C)(C)[O-].[Na+].Cc1ccccc1", ""),
    (AMIDE, "CN(C)C=O", "an activator of the acid"),
    (AMIDE, "CN(C)C=O.CCN(C(C)C)C(C)C", "an activator of the acid"),
    (AMIDE, "CN(C)C=O.CCN(C(C)C)C(C)C.CN(C)C(On1nnc2cccnc21)=[N+](C)C.F[P-](F)(F)(F)(F)F", ""),
    (AMIDE, f"ClCCl.{EDC}.On1nnc2ccccc21", ""),
    (AMIDE, "C1CCOC1.O=C(n1ccnc1)n1ccnc1", ""),
    (AMIDE, "ClCCl.O=S(Cl)Cl.CCN(CC)CC", ""),
    (NITRO, "CCO", "hydrogen or another reductant"),
    (NITRO, "CCO.[Fe].[NH4+].[Cl-]", ""),
    (NITRO, "CO.[H][H].[Pd]", ""),
    (BOC_OFF, "ClCCl", "a strong acid"),
    (BOC_OFF, "ClCCl.CCN(CC)CC", "a strong acid"),
    (BOC_OFF, "ClCCl.O=C(O)C(F)(F)F", ""),
    (KETONE, "CO", "a hydride or another reductant"),
    (KETONE, "CO.[BH4-].[Na+]", ""),
    (ETHER, "CN(C)C=O", "a base"),
    (ETHER, f"CN(C)C=O.{K2CO3}", ""),
    (ESTER, "C1CCOC1", "a base"),
    (ESTER, "C1CCOC1.O.[Li+].[OH-]", ""),
    (ALCOHOL, "ClCCl", "an oxidant"),
    (ALCOHOL, "ClCCl.O=[Mn]=O", ""),
    (ALCOHOL, "ClCCl.CS(C)=O.O=C(Cl)C(=O)Cl.CCN(CC)CC", ""),
    (AMINATION, "ClCCl", "a hydride or another reductant"),
    (AMINATION, "ClCCl.CC(=O)O[BH-](OC(C)=O)OC(C)=O.[Na+]", ""),
]
# Whole flasks, products, and words of the conflict.
CONFLICTS = [
    (f"{BOC_AMIDE[0]}.O=C(O)C(F)(F)F.{EDC}.ClCCl", BOC_AMIDE[1], "Boc"),
    (f"{BOC_AMIDE[0]}.O=C(O)C(F)(F)F.{EDC}.CCN(CC)CC.ClCCl", BOC_AMIDE[1], ""),  # the acid is neutralised
    (f"{BOC_AMIDE[0]}.{EDC}.ClCCl", BOC_AMIDE[1], ""),
    ("C[Mg]Br.CC(=O)CCC(=O)O.C1CCOC1", "CC(C)(O)CCC(=O)O", "carboxylic acid"),
    ("C[Mg]Br.CC(=O)CCCO.C1CCOC1", "CC(C)(O)CCCO", "O-H"),
    (f"{GRIGNARD[0]}.C1CCOC1", GRIGNARD[1], ""),
    ("[Li]CCCC.COC(=O)c1ccc(Br)cc1.CN(C)C=O.C1CCOC1", "COC(=O)c1ccc(C=O)cc1", "ester"),
    ("[Mg].OCCCBr.O=C1CCCCC1.C1CCOC1", "OCCCC1(O)CCCCC1", "O-H"),
    (
        f"COC(=O)C(N)CC.O=C(O)C(CC)NC(=O)OCC1c2ccccc2-c2ccccc21.{EDC}.C1CCNCC1",
        "COC(=O)C(CC)NC(=O)C(CC)NC(=O)OCC1c2ccccc2-c2ccccc21",
        "Fmoc",
    ),
    ("O=[N+]([O-])c1ccc(C=C)cc1.[H][H].[Pd]", "O=[N+]([O-])c1ccc(CC)cc1", "nitro"),
]


def check(flask: str, product: str) -> tuple[str, ...]:
    canonical = chem.canonical(flask), chem.canonical(product)
    assert all(canonical), (flask, product)
    return flask_check.missing_or_conflicting(*map(str, canonical))


@pytest.mark.parametrize(("reaction", "rest", "missing"), FLASKS)
def test_missing_reagents_are_named_and_complete_flasks_raise_no_warning(
    reaction: tuple[str, str], rest: str, missing: str
) -> None:
    sentences = check(f"{reaction[0]}.{rest}", reaction[1])
    if not missing:
        assert sentences == ()
        return
    (sentence,) = sentences
    assert sentence.startswith("Missing in the flask: ")
    assert missing in sentence
    assert sentence.count(";") == missing.count(";") + 1  # nothing else is missing


@pytest.mark.parametrize(("flask", "product", "conflict"), CONFLICTS)
def test_a_conflict_is_told_where_the_product_has_what_would_not_survive(
    flask: str, product: str, conflict: str
) -> None:
    sentences = check(flask, product)
    assert [sentence.startswith("Conflict: ") and conflict in sentence for sentence in sentences] == [True] * bool(
        conflict
    )


def test_the_flask_that_the_first_page_answers_lacks_nothing() -> None:
    answered = json.loads((EXAMPLES / "answered_forward.json").read_text(encoding="utf-8"))
    assert check(answered["query"], answered["hypotheses"][0]["canonical"]) == ()


@pytest.mark.parametrize(("left", "right", "words"), table("chem/hazards"))
def test_a_hazard_is_told(left: str, right: str, words: str) -> None:
    assert any(words in sentence for sentence in flask_check.hazards(left, right)), flask_check.hazards(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("CC(=O)Cl.NCc1ccccc1.CCN(CC)CC.ClCCl", "CC(=O)NCc1ccccc1"),
        ("N#Cc1ccccc1.[Na+].[OH-].O", "O=C(O)c1ccccc1"),  # a nitrile is no cyanide
        ("O=[N+]([O-])c1ccccc1.[Fe].[NH4+].[Cl-]", "Nc1ccccc1"),
        ("CC(=O)OC(C)=O.OCc1ccccc1", "CC(=O)OCc1ccccc1"),
        ("COc1ccc(Br)cc1.OB(O)c1ccccc1.[Pd].[K+].[K+].O=C([O-])[O-]", "COc1ccc(-c2ccccc2)cc1"),
    ],
)
def test_no_hazard_is_told_of_harmless_mixtures(left: str, right: str) -> None:
    assert flask_check.hazards(left, right) == ()


def test_every_pattern_of_the_tables_can_be_read_and_every_set_is_used() -> None:
    sets, needs, conflicts = flask_check._sets(), flask_check._needs(), flask_check._conflicts()
    patterns = [group for item in sets.values() for group in (*item.anywhere, *item.agents)]
    patterns += [group for conflict in conflicts for group in (*conflict.agent, *conflict.unless, (conflict.group,))]
    patterns += [group for groups, _ in flask_check._hazard_rows() for group in groups]
    patterns += [(need.reactants,) for lines in needs.values() for need in lines if need.reactants != "-"]
    assert [smarts for group in patterns for smarts in group if mol_from_smarts(smarts) is None] == []
    used = {id(item) for lines in needs.values() for need in lines for item in need.sets}
    assert [name for name, item in sets.items() if id(item) not in used] == []


def test_every_class_of_the_table_of_needs_is_a_class_of_reactions() -> None:
    lines = (Path(flask_check.__file__).with_name("reaction_classes.tsv")).read_text(encoding="utf-8").splitlines()
    names = {line.split("\t")[1] for line in lines if line and not line.startswith("#")}
    assert set(flask_check._needs()) - names == set()
