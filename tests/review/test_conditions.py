"""Conditions over an arrow are one protocol that fits the step."""

from __future__ import annotations

import pytest
from helpers.case_tables import table

from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.reactions.stoichiometry import classify_whole_step
from chemspec.precedents import Conditions, Found
from chemspec.review.conditions import FROM_PRECEDENTS, USUAL, fits_step, usable_conditions, without_work_up

PD, CARBONATE, DMF = "[Pd]", "O=C([O-])[O-].[K+].[K+]", "CN(C)C=O"
BIARYL, COUPLED = "OB(O)c1ccccc1.Brc1ccc(C)cc1", "Cc1ccc(-c2ccccc2)cc1"


def smiles_of(names: str) -> str:
    read = formats.read_input(names, task="forward")
    assert isinstance(read, formats.Input), names
    return str(chem.canonical(read.smiles))


def recorded(*sets: str) -> Found:
    return Found(close=len(sets), wide=len(sets), conditions=tuple(Conditions(text, 1) for text in sets))


@pytest.mark.parametrize(("names", "left"), table("review/work_up"))
def test_work_up_is_left_out(names: str, left: str) -> None:
    assert without_work_up(smiles_of(names)) == smiles_of(left)
    assert without_work_up(smiles_of(left)) == smiles_of(left)


def test_a_coupling_takes_the_first_set_with_a_metal() -> None:
    sets = recorded(f"{CARBONATE}.{DMF}", f"{PD}.{CARBONATE}.{DMF}")
    reagents, source = usable_conditions(sets, BIARYL, COUPLED)
    assert source == FROM_PRECEDENTS and PD in reagents.split(".")
    reagents, source = usable_conditions(recorded(f"{CARBONATE}.{DMF}"), BIARYL, COUPLED)
    assert source == USUAL and "Pd" in reagents


@pytest.mark.parametrize(
    ("reactants", "product", "reagents", "fits"),
    [
        ("O=c1cc(Cl)[nH]c(=O)[nH]1.CC(C)N", "CC(C)Nc1cc(=O)[nH]c(=O)[nH]1", "CC#N.CCN(C(C)C)C(C)C", True),
        ("Clc1ncccn1.C1COCCN1", "c1cnc(N2CCOCC2)nc1", f"{PD}.{CARBONATE}.Cc1ccccc1", False),
        ("Clc1ncccn1.C1COCCN1", "c1cnc(N2CCOCC2)nc1", f"{CARBONATE}.{DMF}", True),
        ("Brc1ccc(OC)cc1.C1COCCN1", "COc1ccc(N2CCOCC2)cc1", f"{CARBONATE}.{DMF}", False),
        ("Brc1ccc(OC)cc1.C1COCCN1", "COc1ccc(N2CCOCC2)cc1", f"{PD}.{CARBONATE}.Cc1ccccc1", True),
        ("O=[N+]([O-])c1ccccc1", "Nc1ccccc1", "CCO", False),
        ("O=[N+]([O-])c1ccccc1", "Nc1ccccc1", "CCO.[Fe].[NH4+].[Cl-]", True),
        ("OCCc1ccccc1.c1cn[nH]c1", "c1ccc(CCn2cccn2)cc1", "CN(C)C=O.ClCCl.O=S(Cl)Cl", False),
        (
            "OCCc1ccccc1.c1cn[nH]c1",
            "c1ccc(CCn2cccn2)cc1",
            "CC(C)OC(=O)N=NC(=O)OC(C)C.c1ccc(P(c2ccccc2)c2ccccc2)cc1",
            True,
        ),
    ],
)
def test_class_and_conditions_agree(reactants: str, product: str, reagents: str, fits: bool) -> None:
    left, right = str(chem.canonical(reactants)), str(chem.canonical(product))
    assert fits_step(str(chem.canonical(reagents)), left, right) == fits


@pytest.mark.parametrize(
    ("reactants", "product"),
    [
        ("O=C(OCc1ccccc1)N1CCNCC1", "C1CNCCN1"),
        ("O=C(OCc1ccccc1)C1CCCC1", "O=C(O)C1CCCC1"),
        ("c1ccc(CN2CCOCC2)cc1", "C1COCCN1"),
        ("C=CCCc1ccncc1", "CCCCc1ccncc1"),
    ],
)
def test_the_usual_reagents_of_a_hydrogenation_have_hydrogen_and_metal(reactants: str, product: str) -> None:
    reagents, source = usable_conditions(None, reactants, product)
    assert source == USUAL and {"[H][H]", PD} <= set(reagents.split("."))
    assert fits_step(reagents, reactants, product)


def test_two_protocols_and_nameless_reagents_are_passed_over() -> None:
    ketone, alcohol = "CC(=O)c1ccccc1", "CC(O)c1ccccc1"
    birch, nameless, plain = "[BH4-].[Na+].[Li].N", "[BH4-].[Na+].C1CC1C1CCC1CCCC2CC2", "[BH4-].[Na+].CO"
    reagents, _ = usable_conditions(recorded(birch, nameless, plain), ketone, alcohol)
    assert reagents == plain

    assert reagents == plain
    xphos = "CC(C)c1cc(C(C)C)c(-c2ccccc2P(C2CCCCC2)C2CCCCC2)c(C(C)C)c1"
    reagents, _ = usable_conditions(recorded(f"{plain}.{xphos}", plain), ketone, alcohol)
    assert reagents == plain, "a ligand without its metal"


def test_chlorouracil_and_an_amine_are_an_snar() -> None:
    step = classify_whole_step("CC(C)n1c(=O)cc(Cl)[nH]c1=O.CC(N)c1ccccc1", "CC(Nc1cc(=O)n(C(C)C)c(=O)[nH]1)c1ccccc1")
    assert step is not None and step.name == "SNAr"
