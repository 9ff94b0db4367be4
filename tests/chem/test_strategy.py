"""What a step does: its class, what is the same idea in another dress, and what becomes of stereocentres."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some
from rdkit import Chem

from chemspec import chem
from chemspec.chem.strategy import _rules, strategy


def of(reaction: str):  # type: ignore[no-untyped-def]
    left, right = (chem.canonical(side) or "" for side in reaction.split(">>"))
    found = strategy(left, right)
    assert found
    return found


@pytest.mark.parametrize(
    ("reaction", "name", "leaving"),
    [
        ("CC(=O)Cl.Nc1ccccc1>>CC(=O)Nc1ccccc1", "Amide formation", "chloride"),
        ("OB(O)c1ccccc1.Brc1ccncc1>>c1ccc(-c2ccncc2)cc1", "Suzuki coupling", "boronic acid + bromide"),
        ("C#Cc1ccccc1.Ic1ccncc1>>C(#Cc1ccncc1)c1ccccc1", "Sonogashira coupling", "iodide"),
        ("C1COCCN1.O=[N+]([O-])c1ccc(F)cc1>>O=[N+]([O-])c1ccc(N2CCOCC2)cc1", "SNAr", "fluoride"),
        ("C1COCCN1.COc1ccc(Br)cc1>>COc1ccc(N2CCOCC2)cc1", "Buchwald-Hartwig amination", "bromide"),
        ("C1COCCN1.O=Cc1ccccc1>>c1ccc(CN2CCOCC2)cc1", "Reductive amination", "aldehyde or ketone"),
        ("C1COCCN1.BrCc1ccccc1>>c1ccc(CN2CCOCC2)cc1", "N-Alkylation", "bromide"),
        ("CN.CS(=O)(=O)Cl>>CNS(C)(=O)=O", "Sulfonamide formation", "chloride"),
        ("CC(C)(C)OC(=O)NCc1ccccc1>>NCc1ccccc1", "Boc removal", "Boc"),
        ("CCOC(=O)c1ccccc1>>O=C(O)c1ccccc1", "Ester hydrolysis", "ethyl"),
        ("O=[N+]([O-])c1ccccc1>>Nc1ccccc1", "Nitro reduction", ""),
        ("CC(=O)c1ccccc1>>CC(O)c1ccccc1", "Reduction to the alcohol", ""),
        ("Oc1ccccc1.CCI>>CCOc1ccccc1", "O-Alkylation (Williamson)", "iodide"),
        (
            "Cc1ccc(C(=O)CC(=O)C(F)(F)F)cc1.NNc1ccccc1>>Cc1ccc(-c2cc(C(F)(F)F)nn2-c2ccccc2)cc1",
            "Pyrazole synthesis",
            "aldehyde or ketone + aldehyde or ketone",
        ),
        ("CCOC(=O)CC(=O)Cc1ccccc1>>O=C(O)CC(O)Cc1ccccc1", "Ester hydrolysis + Reduction to the alcohol", "ethyl"),
        (  # the ring is not toluene's
            "C1COCCN1.CC(C)(C)[O-].Cc1ccc(Br)cc1.Cc1ccccc1.[Na+]>>Cc1ccc(N2CCOCC2)cc1",
            "Buchwald-Hartwig amination",
            "bromide",
        ),
        # names that were wrong
        ("CC(=O)O.Brc1ccccc1>>CC(=O)Oc1ccccc1", "C–O bond formation", "bromide"),
        ("Ic1ccccc1.c1cn[nH]c1>>c1ccc(-n2cccn2)cc1", "N-Arylation of an azole", "iodide"),
        ("O=c1[nH]cnc2ccccc12.O=P(Cl)(Cl)Cl>>Clc1ncnc2ccccc12", "Deoxychlorination", ""),
        ("N#Cc1ccccc1.OO>>NC(=O)c1ccccc1", "Hydration of a nitrile", ""),
        ("C=Cc1ccccc1.O=[O+][O-]>>O=Cc1ccccc1", "Oxidative cleavage of an alkene", ""),
        ("C=Cc1ccccc1.O=[Os](=O)(=O)=O>>OCC(O)c1ccccc1", "Dihydroxylation", ""),
        ("CON(C)C(=O)c1ccccc1.C[Mg]Br>>CC(=O)c1ccccc1", "Ketone from a Weinreb amide", ""),
        ("[N-]=[N+]=[N-].[Na+].CCC1CO1>>CCC(O)CN=[N+]=[N-]", "Epoxide opening", ""),
        ("CO.CCC1CO1>>CCC(O)COC", "Epoxide opening", ""),
        ("CO.CNCc1ccccc1>>CN(C)Cc1ccccc1", "Alkylation with an alcohol", "alcohol"),
        ("OCc1ccccc1.Oc1ccccc1>>c1ccc(COc2ccccc2)cc1", "Alkylation with an alcohol (Mitsunobu)", "alcohol"),
        ("COc1ccccc1.BrBr>>Oc1cccc(Br)c1", "Halogenation", "bromide + methyl"),
        ("Brc1ccccn1.OB(O)c1ccncc1>>c1ccc(-c2ccncc2)nc1", "Suzuki coupling", "boronic acid + bromide"),
        ("C=CC(=O)OC.Ic1ccccc1>>COC(=O)CCc1ccccc1", "Hydroarylation", "iodide"),
        ("C=CC(=O)OC.Ic1ccccc1>>COC(=O)C=Cc1ccccc1", "Heck coupling", "iodide"),
        (
            "CCOC(=O)CP(=O)(OCC)OCC.O=Cc1ccccc1>>CCOC(=O)C=Cc1ccccc1",
            "Wittig or Horner-Wadsworth-Emmons olefination",
            "",
        ),
        (
            "CCOC(=O)CP(=O)(OCC)OCC.O=Cc1ccccc1>>CCOC(=O)C(=Cc1ccccc1)P(=O)(OCC)OCC",
            "Aldol or Knoevenagel condensation",
            "aldehyde or ketone",
        ),
        ("CNC(=O)OCC1c2ccccc2-c2ccccc21>>CN", "Fmoc removal", ""),
        ("C1=CCC=C1.O=C1C=CC(=O)O1>>O=C1OC(=O)C2C3C=CC(C3)C12", "Diels-Alder reaction", ""),
        ("C=CC(=C)C.C=CC(=O)OC>>COC(=O)C1CC=C(C)CC1", "Diels-Alder reaction", ""),
        ("CC(C)=O.C=CC(=O)OC>>COC(=O)CCCC(C)=O", "Michael addition", ""),
        ("C=Cc1ccccc1.O=C(OO)c1cccc(Cl)c1>>c1ccc(C2CO2)cc1", "Epoxidation", ""),
        ("O=C1CCCC(=O)O1.Nc1ccccc1>>O=C(O)CCCC(=O)Nc1ccccc1", "Amide formation", ""),
        ("COC(=O)c1ccccc1>>OCc1ccccc1", "Reduction to the alcohol", "methyl ester"),
        ("CC(=O)OCc1ccccc1>>OCc1ccccc1", "Cleavage of an ester to the alcohol", "acetyl"),
        ("OCc1ccccc1.O=S(Cl)Cl>>ClCc1ccccc1", "Halide from an alcohol", ""),
        ("C=Cc1ccccc1.BrBr>>BrCC(Br)c1ccccc1", "Addition of a halogen", ""),
        ("Cc1ccccc1.O=C1CCC(=O)N1Br>>BrCc1ccccc1", "Halogenation", ""),
        ("NCc1ccccc1.O=C(Cl)OCc1ccccc1>>O=C(NCc1ccccc1)OCc1ccccc1", "Carbamate formation", "chloride"),
        ("C#Cc1ccccc1.CI>>CC#Cc1ccccc1", "C-Alkylation", "iodide"),
        ("COc1ccc(COc2ccccc2)cc1>>Oc1ccccc1", "PMB removal", ""),
        ("CC(C)(C)OC(=O)c1ccccc1>>O=C(O)c1ccccc1", "tert-Butyl ester cleavage", "tert-butyl"),
        ("O=C(OCc1ccccc1)c1ccccc1>>O=C(O)c1ccccc1", "Benzyl ester cleavage", "benzyl"),
        ("CCCOC(=O)c1ccccc1>>O=C(O)c1ccccc1", "Ester hydrolysis", ""),  # propyl is not isopropyl
        ("CC(=O)OCC=C.NCc1ccccc1>>C=CCNCc1ccccc1", "C–N bond formation", ""),  # no anhydride
        ("CC(=O)OC(C)=O.Nc1ccccc1>>CC(=O)Nc1ccccc1", "Amide formation", "anhydride"),
        ("COC(=O)c1ccccc1>>O=Cc1ccccc1", "Reduction to the aldehyde", "methyl ester"),
        ("O=C(Cl)c1ccccc1>>O=Cc1ccccc1", "Reduction to the aldehyde", "chloride"),
        ("N#Cc1ccccc1>>O=Cc1ccccc1", "Nitrile to the aldehyde", ""),
        ("CN(C)C=O.COc1ccccc1.O=P(Cl)(Cl)Cl>>COc1ccc(C=O)cc1", "Formylation", ""),
        ("Cc1ccccc1>>O=C(O)c1ccccc1", "Side-chain oxidation", ""),
        ("O=Cc1ccccc1>>O=C(O)c1ccccc1", "Oxidation to the acid", ""),
        ("OCc1ccccc1>>O=C(O)c1ccccc1", "Oxidation to the acid", ""),
        ("OCCCCCC>>CCCCCC(=O)O", "Oxidation to the acid", ""),
        ("Br[Mg]c1ccccc1.O=C=O>>O=C(O)c1ccccc1", "Carboxylation", "Grignard"),
        ("c1ccc2c(c1)CCC2>>O=C1CCc2ccccc21", "Oxidation beside a ring or carbonyl group", ""),
        ("NC(=O)c1ccccc1>>N#Cc1ccccc1", "Dehydration of an amide to a nitrile", ""),
    ],
)
def test_classes(reaction: str, name: str, leaving: str) -> None:
    found = of(reaction)
    assert (found.name, found.leaving) == (name, leaving)


@given(some.permutations([0, 1]))
def test_twins_have_one_key_and_other_ideas_another(order: list[int]) -> None:
    twins = ["CCNCC.CC(C)NC(=O)CCl>>CCN(CC)CC(=O)NC(C)C", "CCNCC.CC(C)NC(=O)CBr>>CCN(CC)CC(=O)NC(C)C"]
    keys = [of(twins[k]).key for k in order]
    assert keys[0] == keys[1]
    assert of("CCN(CC)CC(=O)Cl.CC(C)N>>CCN(CC)CC(=O)NC(C)C").key != keys[0]


def test_a_symmetric_target_has_one_way_not_two() -> None:
    one, other = ("OCc1ccc(CBr)cc1.O>>OCc1ccc(CO)cc1", "OCc1ccc(CCl)cc1.O>>OCc1ccc(CO)cc1")
    assert of(one).key == of(other).key


@pytest.mark.parametrize(
    "reaction", ["COC(=O)c1ccccc1.OCc1ccccc1>>O=C(OCc1ccccc1)c1ccccc1", "CCO.COC(=O)CC(C)C>>CCOC(=O)CC(C)C"]
)
def test_the_whole_alkoxy_group_of_an_ester_comes_from_the_alcohol(reaction: str) -> None:
    found = of(reaction)
    assert found.name == "Ester formation" and len(found.made) == 1 and found.leaving == "methyl ester"


def test_a_stereocentre_that_takes_no_part_is_watched() -> None:
    target = "C[C@H](NC(C)=O)C(=O)O"
    assert of(f"C[C@H](NC(C)=O)C(=O)OC>>{target}").inverted == ()
    assert len(of(f"C[C@@H](NC(C)=O)C(=O)OC>>{target}").inverted) == 1
    assert len(of(f"CC(NC(C)=O)C(=O)OC>>{target}").unset) == 1


def test_a_centre_that_is_not_told_any_more_is_lost_unless_it_is_none() -> None:
    assert len(of("C[C@H](N)C(=O)OC.CC(=O)Cl>>COC(=O)C(C)NC(C)=O").lost) == 1
    assert not of("C[C@H](N)C(=O)OC.CC(=O)Cl>>COC(=O)[C@H](C)NC(C)=O").lost
    assert not of("N[C@H]1CC[C@H](O)CC1>>NC1CCC(=O)CC1").lost  # no centre without the other


@pytest.mark.parametrize(
    "reaction",
    [
        "N[C@H]1CC[C@H](O)CC1.O=C(O)c1ccccc1>>O=C(N[C@H]1CC[C@H](O)CC1)c1ccccc1",  # a mirror image of itself
        "CC(C)(C)OC(=O)N[C@H]1[C@@H]2CN(Cc3ccccc3)C[C@@H]21>>N[C@H]1[C@@H]2CN(Cc3ccccc3)C[C@@H]21",
    ],
)
def test_symmetry_is_no_inversion(reaction: str) -> None:
    found = of(reaction)
    assert not found.inverted and not found.unset


def test_a_relative_centre_may_be_the_wrong_one() -> None:
    assert of("N[C@H]1CC[C@H](O)CC1.O=C(O)c1ccccc1>>O=C(N[C@H]1CC[C@@H](O)CC1)c1ccccc1").inverted


def test_a_double_bond_that_takes_no_part_is_watched() -> None:
    ester, acid = "C/C=C/CC(=O)OC", "C/C=C/CC(=O)O"
    (bond,) = of(f"C/C=C\\CC(=O)OC>>{acid}").flipped
    right = Chem.MolFromSmiles(acid).GetBondBetweenAtoms(*bond)
    assert right.GetBondType() == Chem.BondType.DOUBLE and right.GetStereo() == Chem.BondStereo.STEREOE
    assert not of(f"{ester}>>{acid}").flipped
    assert not of(f"CC=CCC(=O)OC>>{acid}").flipped  # nothing was told before
    assert not of("O=C(O)C/C=C\\C/C=C/C>>COC(=O)C/C=C\\C/C=C/C").flipped


@pytest.mark.parametrize("flipped", [False, True])
def test_the_side_is_that_of_the_same_neighbours_whatever_ranks_first(flipped: bool) -> None:
    after = "C/C=C(\\CF)CCl" if flipped else "C/C=C(/CF)CCl"  # the chloride ranks above the fluoride, the alcohol below
    assert bool(of(f"C/C=C(/CF)CO.O=S(Cl)Cl>>{Chem.CanonSmiles(after)}").flipped) == flipped


def test_every_rule_can_be_read_and_its_reagents_are_molecules() -> None:
    assert len(_rules()) > 50
    for rule in _rules():
        assert rule.product is not None and None not in rule.reactants, rule.name
        assert rule.sentence.endswith(".")
        assert not rule.reagents or Chem.MolFromSmiles(rule.reagents), rule.name
