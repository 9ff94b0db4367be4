"""Stereochemistry by law: of each pair of isomers one keeps the law, and the other gets it as the isomer by rule."""

from __future__ import annotations

import re

import pytest

from chemspec import chem
from chemspec.chem.reactions.step_class import classify_step

PROLINE = "COC(=O)[C@@H]1C[C@@H]({})CN1C(=O)OC(C)(C)C", "COC(=O)[C@@H]1C[C@H]({})CN1C(=O)OC(C)(C)C"
SUGAR = "CC(=O)OC[C@H]1O[C@H](Br)[C@H](OC(C)=O)[C@@H](OC(C)=O)[C@@H]1OC(C)=O"
GLUCOSIDE = "CC(=O)OC[C@H]1O{}[C@H](OC(C)=O)[C@@H](OC(C)=O)[C@@H]1OC(C)=O"
CASES = [  # reactants with reagents, the product by law, and the one against it
    (f"{PROLINE[0].format('O')}.CCN(CC)S(F)(F)F", PROLINE[1].format("F"), PROLINE[0].format("F")),
    ("C[C@H](O)CCc1ccccc1.COCCN(CCOC)S(F)(F)F", "C[C@@H](F)CCc1ccccc1", "C[C@H](F)CCc1ccccc1"),
    ("C[C@H](O)CCc1ccccc1.F[B-](F)(F)F.CC[N+](CC)=S(F)F", "C[C@@H](F)CCc1ccccc1", "C[C@H](F)CCc1ccccc1"),
    ("C[C@H](O)CCC=C.O=S(Cl)Cl.c1ccncc1", "C[C@@H](Cl)CCC=C", "C[C@H](Cl)CCC=C"),
    ("C[C@H](O)CCC=C.BrP(Br)Br", "C[C@@H](Br)CCC=C", "C[C@H](Br)CCC=C"),
    ("C[C@H](O)CCC=C.BrC(Br)(Br)Br.c1ccc(P(c2ccccc2)c2ccccc2)cc1", "C[C@@H](Br)CCC=C", "C[C@H](Br)CCC=C"),
    ("C[C@H](O)CCC=C.[N-]=[N+]=NP(=O)(Oc1ccccc1)Oc1ccccc1", "C[C@H](CCC=C)N=[N+]=[N-]", "C[C@@H](CCC=C)N=[N+]=[N-]"),
    ("C[C@H](OS(C)(=O)=O)CCC=C.[C-]#N.[Na+]", "C[C@@H](C#N)CCC=C", "C[C@H](C#N)CCC=C"),
    ("C[C@H](OS(C)(=O)=O)CCC=C.[N-]=[N+]=[N-].[Na+]", "C[C@H](CCC=C)N=[N+]=[N-]", "C[C@@H](CCC=C)N=[N+]=[N-]"),
    ("C1CCC2OC2C1.NCc1ccccc1", "O[C@@H]1CCCC[C@H]1NCc1ccccc1", "O[C@@H]1CCCC[C@@H]1NCc1ccccc1"),
    ("C1CC[C@@H]2O[C@@H]2C1.[N-]=[N+]=[N-].[Na+]", "O[C@@H]1CCCC[C@H]1N=[N+]=[N-]", "O[C@@H]1CCCC[C@@H]1N=[N+]=[N-]"),
    ("C1CC2OC2C1.C1CCNCC1", "O[C@@H]1CCC[C@H]1N1CCCCC1", "O[C@@H]1CCC[C@@H]1N1CCCCC1"),
    ("C1CCC=CC1.O=[Os](=O)(=O)=O", "O[C@@H]1CCCC[C@@H]1O", "O[C@@H]1CCCC[C@H]1O"),
    ("CC/C=C/CC.O=[Os](=O)(=O)=O", "CC[C@@H](O)[C@H](O)CC", ""),
    ("C/C=C/C.O=[Os](=O)(=O)=O", "C[C@H](O)[C@H](C)O", "C[C@H](O)[C@@H](C)O"),
    ("C/C=C\\C.O=[Os](=O)(=O)=O", "C[C@H](O)[C@@H](C)O", "C[C@H](O)[C@H](C)O"),
    ("CC1=CCCCC1.B.OO", "C[C@@H]1CCCC[C@H]1O", "C[C@@H]1CCCC[C@@H]1O"),
    ("CC1=C(C)CCCC1.[H][H].[Pd]", "C[C@H]1CCCC[C@H]1C", "C[C@H]1CCCC[C@@H]1C"),
    ("C1CCC=CC1.BrBr", "Br[C@@H]1CCCC[C@H]1Br", "Br[C@@H]1CCCC[C@@H]1Br"),
    ("C=CC=C.O=C1OC(=O)C=C1", "O=C1OC(=O)[C@H]2CC=CC[C@@H]12", "O=C1OC(=O)[C@H]2CC=CC[C@H]12"),
    (f"{SUGAR}.OCc1ccccc1", GLUCOSIDE.format("[C@@H](OCc2ccccc2)"), GLUCOSIDE.format("[C@H](OCc2ccccc2)")),
    (f"{SUGAR}.OC1CCCCC1", GLUCOSIDE.format("[C@@H](OC2CCCCC2)"), GLUCOSIDE.format("[C@H](OC2CCCCC2)")),
]
NO_LAW = """
C[C@H](O)CCC=C.CC(=O)Cl>>C=CCC[C@H](C)OC(C)=O
C[C@H](O)CCC=C.CS(=O)(=O)Cl.CCN(CC)CC>>C=CCC[C@H](C)OS(C)(=O)=O
C[C@H](O)CCC=C.O=S(Cl)Cl>>C=CCC[C@H](C)Cl
C[C@H](N)C(=O)O.CO.O=S(Cl)Cl>>COC(=O)[C@H](C)N
O=C[C@H](C)NC(=O)OC(C)(C)C.[BH4-].[Na+]>>C[C@@H](CO)NC(=O)OC(C)(C)C
C[C@H](Cl)C(=O)O.NCc1ccccc1.CCN=C=NCCCN(C)C>>C[C@H](Cl)C(=O)NCc1ccccc1
C1CCC=CC1.O=[Os](=O)(=O)=O>>OC1CCCCC1O
C1CCC2OC2C1.NCc1ccccc1>>OC1CCCCC1NCc1ccccc1
"""


def of(reactants: str, product: str) -> tuple[tuple[int, ...], str]:
    left, right = chem.canonical(reactants), chem.canonical(product)
    assert left and right
    step = classify_step(left, right)
    assert step is not None
    return step.unlawful, step.lawful


@pytest.mark.parametrize(("reactants", "lawful", "unlawful"), CASES)
def test_of_two_isomers_one_is_against_the_law_and_the_other_offered(
    reactants: str, lawful: str, unlawful: str
) -> None:
    if not unlawful:  # its mirror image is the same by symmetry
        unlawful = lawful.replace("[C@H]", "[C@@H]", 1)
        lawful, unlawful = sorted((lawful, unlawful), key=lambda smiles: bool(of(reactants, smiles)[0]))
    assert of(reactants, lawful) == ((), "")
    centres, offered = of(reactants, unlawful)
    assert len(centres) == 1
    assert chem.drop_stereo(offered) == chem.drop_stereo(lawful)
    assert of(reactants, offered)[0] == (), "the isomer by rule keeps the law"


@pytest.mark.parametrize("reaction", NO_LAW.split())
def test_what_keeps_its_centres_or_leaves_them_open_is_not_against_a_law(reaction: str) -> None:
    assert of(*reaction.split(">>")) == ((), "")


def test_the_migrating_carbon_of_a_baeyer_villiger_oxidation_is_mapped() -> None:
    reactants = chem.canonical("CC1CCCCC1=O.O=C(OO)c1cccc(Cl)c1")
    for product in ("CC1CCCCC(=O)O1", "CC1CCCCOC1=O"):
        step = classify_step(str(reactants), product)
        assert step and step.name == "Baeyer-Villiger oxidation" and not step.breaks_carbon_bond


def test_centres_that_a_law_sets_and_a_product_leaves_open_are_told() -> None:
    opened = classify_step("C1CCC2OC2C1.NCc1ccccc1", "OC1CCCCC1NCc1ccccc1")
    assert opened and "trans" in opened.left_open
    assert of("C1CCC2OC2C1.NCc1ccccc1", opened.completed) == ((), "")
    lost = classify_step(str(chem.canonical("C[C@H](OS(C)(=O)=O)CCC=C.[N-]=[N+]=[N-].[Na+]")), "C=CCCC(C)N=[N+]=[N-]")
    assert lost and lost.unlawful and "@" in lost.lawful


def test_the_isomer_of_a_product_that_leaves_its_centres_open_keeps_the_law() -> None:
    for reactants, product, lawful in (
        ("C1CCC=CC1.O=[Os](=O)(=O)=O", "OC1CCCCC1O", "O[C@@H]1CCCC[C@@H]1O"),
        ("C1CCC=CC1.BrBr", "BrC1CCCCC1Br", "Br[C@@H]1CCCC[C@H]1Br"),
        ("C1CC2OC2C1.C1CCNCC1", "OC1CCCC1N1CCCCC1", "O[C@@H]1CCC[C@H]1N1CCCCC1"),
    ):
        step = classify_step(str(chem.canonical(reactants)), str(chem.canonical(product)))
        mirrored = "".join({"@": "@@", "@@": "@"}.get(part, part) for part in re.split("(@+)", lawful))
        assert step and step.completed in (chem.canonical(lawful), chem.canonical(mirrored)), product


def test_that_an_open_centre_inverts_is_told_where_the_molecule_has_another_centre() -> None:
    for rest, told in (("CCC(C)C", True), ("CC(C)C", False)):  # with one centre both hands are the same racemate
        azide = "[N-]=[N+]=[N-].[Na+]"
        sides = f"{rest}C(C)Br.{azide}", f"{rest}C(C)N=[N+]=[N-]"
        step = classify_step(*(str(chem.canonical(side)) for side in sides))
        assert step and ("invert" in step.left_open) == told
