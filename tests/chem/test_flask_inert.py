"""Groups that do not react, weak bases, and metals that go without saying: laws on flasks, and where none speaks."""

from __future__ import annotations

import pytest

from chemspec import chem
from chemspec.chem.checks.flask_check import check_flask

# Flask, product, a piece of the sentence; then what changes the flask so that nothing is said of it.
LAWS = [
    ("CC#CCO.[H][H].[Pd].CO", "CC=CCO", "goes on to the alkane", "c1ccc2ncccc2c1"),
    ("C=Cc1ccccc1.Br.CC(=O)O", "BrCCc1ccccc1", "with less hydrogen", "O=C(OOC(=O)c1ccccc1)c1ccccc1"),
    ("C=CC(=O)OC.Br.CCOCC", "COC(=O)CCBr", "", ""),
    ("C=Cc1ccccc1.BrBr.ClC(Cl)(Cl)Cl", "BrC=Cc1ccccc1", "the addition of bromine", "CN(C)C=O"),
    ("CCOC(=O)c1ccccc1.NCCc1ccccc1.ClCCl", "O=C(NCCc1ccccc1)c1ccccc1", "a plain ester and an amine", "C[Al](C)C"),
    ("CCOC(C)=O.CCCCN.CCO", "CCCCNC(C)=O", "an acetate that is a solvent", "[H-].[Na+]"),
    ("CCCCCCl.CCO.CCN(CC)CC", "CCCCC[N+](CC)(CC)CC", "such a hindered amine", "[I-].[K+]"),
    ("CN1CCCCC1.CC(=O)OC(C)=O", "CC(=O)N1CCCCC1", "an amine without N-H", "[Pd]"),
    ("CCCCCCF.OCc1ccccc1.[H-].[Na+]", "CCCCCCOCc1ccccc1", "an alkyl fluoride", "[Al](Cl)(Cl)Cl"),
    ("N#Cc1ccccc1.NCCCC.CCO", "CCCCNC(=N)c1ccccc1", "an amine adds to such a nitrile", "C[Al](C)Cl"),
    ("BrC12CC3CC(CC(C3)C1)C2.[N-]=[N+]=[N-].[Na+]", "[N-]=[N+]=NC12CC3CC(CC(C3)C1)C2", "where rings meet", "[Ag+]"),
    ("BrC1CCCCC1.CC(C)(C)[O-].[K+]", "CC(C)(C)OC1CCCCC1", "tert-butoxide takes hydrogen halide", ""),
    ("Fc1ccccc1.C#CCCC.[Cu]I.[Pd].CCN(CC)CC", "CCCC#Cc1ccccc1", "an aryl fluoride does not take part", ""),
    ("C=CCOc1ccccc1Br.CCCC[SnH](CCCC)CCCC", "C=CCOc1ccccc1[Sn](CCCC)(CCCC)CCCC", "tin hydride takes", "[Pd]"),
    ("CCCC(C)=O.NNc1ccccc1.CC(=O)O", "CCCc1cc2ccccc2[nH]1", "more substituted carbon atom of the ketone", ""),
    ("CN(C)c1ccccc1.CN(C)C=O.O=P(Cl)(Cl)Cl", "CN(C)c1ccccc1C=O", "para to the dialkylamino group", ""),
    ("C=C(Br)C.C1CCNCC1.CC#N", "C=C(C)N1CCCCC1", "a vinyl halide", "[Pd].O=C([O-])[O-].[Cs+].[Cs+]"),
    ("CC#CCO.Ic1ccccc1.[Pd].CCN(CC)CC", "OCCC#Cc1ccccc1", "a triple bond does not move", "[H-].[Na+]"),
    ("C=CC(=O)OCC.O=C(OO)c1cccc(Cl)c1", "CCOC(=O)C1CO1", "does not epoxidise", "OO.[Na+].[OH-]"),
    ("N#Cc1ccccc1.O=C1CCC(=O)N1I.CC#N", "N#Cc1ccc(I)cc1", "such a ring needs", "O=S(=O)(O)C(F)(F)F"),
    ("c1ccccc1.BrBr.ClCCl", "Brc1ccccc1", "such a ring needs", "Br[Fe](Br)Br"),
    ("Cc1ccccc1.II.CC(=O)O", "Cc1ccc(I)cc1", "iodine alone", "[Ag+].O=[N+]([O-])[O-]"),
    ("C1CCCCC1.BrBr.ClCCl", "BrC1CCCCC1", "by radicals only", "CC(C)(C#N)N=NC(C)(C)C#N"),
    ("CCC#CCC.[N-]=[N+]=NCc1ccccc1.[Cu]I", "CCc1nnn(Cc2ccccc2)c1CC", "a terminal alkyne", "[Ru]"),
    ("Brc1ccc(Cl)cc1.C1COCCN1.[Pd].CC(C)(C)[O-].[Na+]", "Brc1ccc(N2CCOCC2)cc1", "better leaving group", ""),
    ("Fc1ccc(C)cc1.[Mg].O=Cc1ccccc1", "Cc1ccc(C(O)c2ccccc2)cc1", "does not insert into an aryl fluoride", ""),
    ("N#Cc1ccccc1.CO.CCN(CC)CC", "COC(=N)c1ccccc1", "with acid or alkoxide only", "C[O-].[Na+]"),
    ("SCc1ccccc1.II.CCO", "ISCc1ccccc1", "a sulfenyl iodide turns into the disulfide", ""),
    ("c1ccncc1.CC(=O)Cl.Cl[Al](Cl)Cl", "CC(=O)c1ccccn1", "a pyridine does not take part", "[Li]C"),
    ("c1ccncc1.O=[N+]([O-])O.O=S(=O)(O)O", "O=[N+]([O-])c1cccnc1", "is not nitrated", ""),
    (
        "CC(C)O.Nc1ccc(C)cc1.CC(C)OC(=O)N=NC(=O)OC(C)C.c1ccc(P(c2ccccc2)c2ccccc2)cc1",
        "Cc1ccc(NC(C)C)cc1",
        "an acidic N-H",
        "",
    ),
    (
        "CC(=O)c1ccccc1.CCOC(=O)C=P(c1ccccc1)(c1ccccc1)c1ccccc1",
        "CCOC(=O)C=C(C)c1ccccc1",
        "does not take an aryl ketone",
        "",
    ),
    (
        "Cc1ccc(F)c(C(=O)OC)c1.O=C1OC(=O)c2ccccc21.CC(=O)[O-].[Na+]",
        "COC(=O)c1cc(C=C2OC(=O)c3ccccc32)ccc1F",
        "not acidic enough",
        "[Li]CCCC",
    ),
    ("Cc1ccc([N+](=O)[O-])cc1.O=Cc1ccccc1.C1CCNC1", "O=[N+]([O-])c1ccc(C=Cc2ccccc2)cc1", "", ""),
    ("OCc1ccccn1.Oc1ccccc1.c1ccc(P(c2ccccc2)c2ccccc2)cc1", "c1ccc(OCc2ccccn2)cc1", "an azodicarboxylate", ""),
    ("OCCc1ccccc1.CI.O=C([O-])[O-].[K+].[K+].CC(C)=O", "COCCc1ccccc1", "strong enough for an alcohol", "[H-].[Na+]"),
    ("CC(=O)Nc1ccccc1.BrCc1ccccc1.CCN(CC)CC", "CC(=O)N(Cc1ccccc1)c1ccccc1", "stronger than an amine", "[H-].[Na+]"),
    ("c1ccc2[nH]ccc2c1.ICC.CCN(CC)CC", "CCn1ccc2ccccc21", "stronger than an amine", "[OH-].[K+]"),
    ("CCCCBr.CC(=O)CC(=O)OCC.CCN(CC)CC", "CCCCC(C(C)=O)C(=O)OCC", "stronger than an amine", "CC[O-].[Na+]"),
    (
        "CC(C)(O)CCc1ccccc1.CC(C)(C)[Si](C)(C)Cl.c1c[nH]cn1",
        "CC(C)(CCc1ccccc1)O[Si](C)(C)C(C)(C)C",
        "a silyl triflate",
        "[H-].[Na+]",
    ),
    ("COC(=O)c1ccccc1.[H][H].[Pd].CO", "COC(=O)C1CCCCC1", "palladium does not", "[Rh]"),
    ("CCCCC(=O)CC.[H][H].[Pd].CCO", "CCCCC(O)CC", "palladium does not reduce such ketones", "[Ru]"),
    ("COc1ccc(F)cc1.C1CCNCC1.O=C([O-])[O-].[K+].[K+]", "COc1ccc(N2CCCCC2)cc1", "an aryl fluoride without", "[Li]CCCC"),
    ("COc1ccc(CN2C(=O)CCC2)cc1.[H][H].[Pd].CO", "O=C1CCCN1", "from amides", "O=C(O)C(F)(F)F"),
    ("O=C(NCc1ccccc1)OCC1c2ccccc2-c2ccccc21.ClCCl", "NCc1ccccc1", "a base", "C1CCNCC1"),
    ("C[N+](=O)[O-].O=Cc1ccccc1.CO", "O=[N+]([O-])CC(O)c1ccccc1", "a base", "CCN(CC)CC"),
    ("c1ccc(C2CO2)cc1.Oc1ccccc1.ClCCl", "OC(COc1ccccc1)c1ccccc1", "a base", "CCN(CC)CC"),
    ("ClCCl.OCC(O)CO.CC(C)=O", "CC1(C)OCC(CO)O1", "an acid", "Cc1ccc(S(=O)(=O)O)cc1"),
    ("CN(C)C(=O)c1ccccc1.NCc1ccccc1.CC#N", "O=C(NCc1ccccc1)c1ccccc1", "an activator", "C[Al](C)C"),
    ("CC(C)(C)O.O=C(Cl)c1ccccc1.ClCCl", "CC(C)(C)OC(=O)c1ccccc1", "a base", "CCN(CC)CC"),
    ("Clc1ccc(C)cc1.[I-].[Na+].CC(C)=O", "Cc1ccc(I)cc1", "a palladium, nickel or copper", "[Cu]I"),
    ("Cc1ccc(S(=O)(=O)N2CCCCC2)cc1.O=C(O)C(F)(F)F", "C1CCNCC1", "take sulfonyl groups", "Br"),
    ("NNc1ccc(Cl)cc1.O=C1CCCCC1.CCO", "Clc1ccc2[nH]c3c(c2c1)CCCC3", "an acid", "CC(=O)O"),
    ("C#Cc1ccccc1.O=Cc1ccccc1.CCN(CC)CC", "OC(C#Cc1ccccc1)c1ccccc1", "for the alkyne", "CC[Zn]CC"),
]


def problems(flask: str, product: str) -> str:
    return " ".join(check_flask(str(chem.canonical(flask)), str(chem.canonical(product))).problems)


@pytest.mark.parametrize(("flask", "product", "sentence", "added"), LAWS)
def test_a_group_that_does_not_react_is_named_unless_something_makes_it_react(
    flask: str, product: str, sentence: str, added: str
) -> None:
    assert sentence in problems(flask, product) if sentence else not problems(flask, product)
    if added:
        assert sentence not in problems(f"{flask}.{added}", product)


def test_a_halogen_from_nowhere_is_no_matter_of_these_laws() -> None:
    assert "cannot" not in problems("CCN", "CCBr") and "radicals" not in problems("CCN", "CCBr")
    assert "such a ring" not in problems("c1ccccc1", "Brc1ccccc1")


@pytest.mark.parametrize("metal", ["[Pd]", "[Ni]"])
def test_hydrogen_without_a_metal_is_remarked_and_a_metal_without_hydrogen_is_a_problem(metal: str) -> None:
    flask, product = "O=[N+]([O-])c1ccc(Cl)cc1.CO", "Nc1ccc(Cl)cc1"
    report = check_flask(str(chem.canonical(f"{flask}.[H][H]")), product)
    assert not report.problems and "no metal that activates it" in " ".join(report.remarks)
    assert "Missing in the reaction mixture: hydrogen" in problems(f"{flask}.{metal}", product)
    assert check_flask(str(chem.canonical(f"{flask}.{metal}.[H][H]")), product) == ((), (), ())
