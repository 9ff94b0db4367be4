"""Products that take a reactant more than once, and salts, are told from products that cannot be made."""

from __future__ import annotations

import pytest
from case_tables import table

from chemspec import chem
from chemspec.chem import stoichiometry
from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.strategy import NO_CLASS, strategy


def sides(reaction: str) -> tuple[str, str]:
    left, right = (chem.canonical(side) for side in reaction.split(">>"))
    assert left and right
    return left, right


TOSYL = "Cc1ccc(S(=O)(=O)Cl)cc1"
BIS_TOSYLATE = f"Nc1cccc(O)c1.{TOSYL}.c1ccncc1>>Cc1ccc(S(=O)(=O)Nc2cccc(OS(=O)(=O)c3ccc(C)cc3)c2)cc1"
DIBENZYL = "COC(=O)C(N)C(C)C.O=Cc1ccccc1.[BH3-]C#N.[Na+].CO.CC(=O)O>>COC(=O)C(C(C)C)N(Cc1ccccc1)Cc1ccccc1"


@pytest.mark.parametrize(
    ("reaction", "copies", "name"),
    [
        (BIS_TOSYLATE, [TOSYL], "Sulfonamide formation + Sulfonate formation"),
        (DIBENZYL, ["O=Cc1ccccc1"], "Reductive amination"),
        (
            "Nc1cccc(Cl)c1.C1COCCN1.O=C(n1ccnc1)n1ccnc1>>O=C(Nc1cccc(Cl)c1)Nc1cccc(Cl)c1",
            ["Nc1cccc(Cl)c1"],
            "Urea or carbamate formation",
        ),
        ("OCC(O)CO.O=C(Cl)c1ccccc1>>O=C(OCC(O)COC(=O)c1ccccc1)c1ccccc1", ["O=C(Cl)c1ccccc1"], "Ester formation"),
        ("CC(=O)Cl.NCc1ccccc1>>CC(=O)NCc1ccccc1", [], "Amide formation"),
        # Their elements are in the flask as often without a copy.
        (
            "Nc1ccc(Cl)cc1.C1CCNCC1.O=C(n1ccnc1)n1ccnc1>>O=C(Nc1ccc(Cl)cc1)Nc1ccc(Cl)cc1",
            ["Nc1ccc(Cl)cc1"],
            "Urea or carbamate formation",
        ),
        ("Clc1ccnc(Cl)n1.C1COCCN1.CCN(CC)CC>>c1cc(N2CCOCC2)nc(N2CCOCC2)n1", ["C1COCCN1"], "SNAr"),
        ("O=C(Cl)C1CCNCC1.C1CCNCC1>>O=C(C1CCNCC1)N1CCCCC1", [], "Amide formation"),  # both have the ring
    ],
)
def test_reactants_that_a_product_takes_again_are_counted(reaction: str, copies: list[str], name: str) -> None:
    left, right = sides(reaction)
    assert stoichiometry.missing_elements(left, right) == {}
    assert list(stoichiometry.extra_copies(left, right)) == copies
    change = stoichiometry.strategy_of_step(left, right)
    assert change is not None and change.name == name and not change.unlikely
    atoms = mol_from_smiles(left).GetNumAtoms()
    assert max((*change.origin, *change.before)) < atoms
    assert (-1 in change.origin) == bool(copies)


@pytest.mark.parametrize(
    ("reaction", "lacking"),
    [
        ("CC(C)(C)OC(=O)NC(C)c1ccccc1>>CC(N)c1ccccc1.Cl", {}),  # the acid of a salt
        ("CC(C)(C)OC(=O)NC(C)c1ccccc1>>CC(N)c1ccccc1.O=C(O)C(F)(F)F", {}),
        ("NCc1ccccc1.CC(=O)Cl>>CC(=O)NCc1ccccc1Br", {"Br": 1}),
        ("CO.NCc1ccccc1>>CCCCCCNCc1ccccc1", {"C": 5}),  # methanol six times is no over-reaction
        ("OB(O)c1ccccc1.Brc1ccncc1>>c1ccc(-c2ccnc(-c3ccccc3C)c2)cc1", {"C": 7}),  # toluene's is another piece
        ("Cl.Nc1ccccc1>>Nc1ccc(Cl)cc1Cl", {"Cl": 1}),  # hydrogen chloride is no reactant to be doubled
    ],
)
def test_what_no_amount_supplies_is_still_missing(reaction: str, lacking: dict[str, int]) -> None:
    assert stoichiometry.missing_elements(*sides(reaction)) == lacking


@pytest.mark.parametrize(
    ("reaction", "moves", "shifted"),
    [
        ("CC1CCCC(=O)C1.CI>>CCC1CCCCC1=O", True, None),
        ("CC(=O)c1ccccc1>>CC(O)c1ccccc1", False, None),
        ("OB(O)c1ccccc1.Brc1ccncc1>>c1ccc(-c2ccncc2)cc1", False, None),
        ("C=Cc1ccccc1.O=[O+][O-].CSC>>O=Cc1ccccc1", False, None),  # the other carbon leaves
        ("COC(=O)c1ccc(Br)cc1.OB(O)c1ccc(F)cc1>>COC(=O)c1ccc(-c2cccc(F)c2)cc1", None, True),
        ("Brc1ccc(C#N)cn1.[Zn+]c1ccccn1>>N#Cc1cccnc1-c1ccccn1", None, True),
        ("COC(=O)c1ccc(Br)cc1.OB(O)c1ccc(F)cc1>>COC(=O)c1ccc(-c2ccc(F)cc2)cc1", None, False),
        ("C=CC(=O)OC.Ic1ccccc1>>COC(=O)C=Cc1ccccc1", None, False),
        ("CC(=O)Cl.COc1ccccc1>>COc1ccc(C(C)=O)cc1", None, False),
    ],
)
def test_a_carbon_that_moves_and_a_bond_beside_the_leaving_group_are_noticed(
    reaction: str, moves: bool | None, shifted: bool | None
) -> None:
    change = strategy(*sides(reaction))
    assert change is not None
    assert moves in (None, change.carbon_moves) and shifted in (None, change.bond_shifted)


@pytest.mark.parametrize(("reaction", "sentence"), table("chem/skeletons"))
def test_a_skeleton_that_would_break_is_noticed(reaction: str, sentence: str) -> None:
    change = stoichiometry.strategy_of_step(*sides(reaction))
    assert change is not None and change.unlikely == sentence
    assert (change.name == NO_CLASS) == ("ring" in sentence)
