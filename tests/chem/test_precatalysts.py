"""Precatalysts become metal and ligand, by structure and however they are drawn; everything else stays."""

from __future__ import annotations

import pytest

from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.reading.precatalysts import split_precatalysts

XPHOS = "CC(C)c1cc(C(C)C)c(-c2ccccc2P(C2CCCCC2)C2CCCCC2)c(C(C)C)c1"
RUPHOS = "CC(C)Oc1cccc(OC(C)C)c1-c1ccccc1P(C1CCCCC1)C1CCCCC1"
SPHOS = "COc1cccc(OC)c1-c1ccccc1P(C1CCCCC1)C1CCCCC1"
PCY3 = "P(C1CCCCC1)(C1CCCCC1)C1CCCCC1"
IMES = "C1N(c2c(C)cc(C)cc2C)CCN1c1c(C)cc(C)cc1C"
IPR = "C1N(c2c(C(C)C)cccc2C(C)C)C=CN1c1c(C(C)C)cccc1C(C)C"
PPY = "[n]1cc(C(F)(F)F)ccc1-c1"
IRIDIUM = f"[n]5ccc(C(C)(C)C)cc5-c2c1)(<-{PPY}c3cc(F)cc1F)<-{PPY}c4cc(F)cc1F"
PRECATALYSTS = {  # a drawing, and what is read
    "G1": ("Cl[Pd]1(c2ccccc2CC[NH2]1)P(C1CCCCC1)(C1CCCCC1)c1ccccc1-c1c(OC)cccc1OC", f"[Pd].{SPHOS}"),
    "G2": (f"{XPHOS}.Cl[Pd]c1ccccc1-c1ccccc1N", f"[Pd].{XPHOS}"),
    "G3, loose": (f"{XPHOS}.CS(=O)(=O)O[Pd]c1ccccc1-c1ccccc1N", f"[Pd].{XPHOS}"),
    "G3, arrows": (
        "CS(=O)(=O)O[Pd]1(<-[NH2]c2ccccc2-c2ccccc21)<-P(C1CCCCC1)(C1CCCCC1)c1ccccc1-c1c(OC)cccc1OC",
        f"[Pd].{SPHOS}",
    ),
    "G4": (
        "CS(=O)(=O)O[Pd]1(<-[NH](C)c2ccccc2-c2ccccc21)<-P(C1CCCCC1)(C1CCCCC1)c1ccccc1-c1c(OC(C)C)cccc1OC(C)C",
        f"[Pd].{RUPHOS}",
    ),
    "G3, ions": (f"{XPHOS}.CS(=O)(=O)[O-].[c-]1ccccc1-c1ccccc1N.[Pd+2]", f"[Pd].{XPHOS}"),
    "G3, acid": (f"{XPHOS}.CS(=O)(=O)O.[c-]1ccccc1-c1ccccc1N.[Pd]", f"[Pd].{XPHOS}"),
    "PEPPSI": (f"Cl[Pd](Cl)(<-n1cccc(Cl)c1)={IPR}", "[Pd]"),
    "cinnamyl": (f"Cl[Pd](C/C=C/c1ccccc1)={IPR}", "[Pd]"),
    "Grubbs I": (f"Cl[Ru](Cl)(=Cc1ccccc1)({PCY3}){PCY3}", "Cl[Ru]Cl"),
    "Grubbs II": (f"Cl[Ru](Cl)(=Cc1ccccc1)(={IMES})<-{PCY3}", "Cl[Ru]Cl"),
    "Hoveyda-Grubbs II": (f"CC(C)O1->[Ru](Cl)(Cl)(=Cc2ccccc21)={IMES.replace('1', '3')}", "Cl[Ru]Cl"),
    "Grubbs II, carbene beside": (
        "Cc1cc(C)cc(C)c1N1CCN([C]1)c1c(C)cc(C)cc1C.Cl[Ru](Cl)=Cc1ccccc1.C1CCCCC1P(C1CCCCC1)C1CCCCC1",
        "Cl[Ru]Cl",
    ),
    "Ir(dF(CF3)ppy)2(dtbbpy)PF6": (f"F[P-](F)(F)(F)(F)F.CC(C)(C)c1cc[n]2->[Ir+]34(<-{IRIDIUM}", "[Ir]"),
    "Ru(bpy)3Cl2": (
        "[Cl-].[Cl-].c1ccn2->[Ru+2]34(<-n5ccccc5-c2c1)(<-n1ccccc1-c1ccccn->31)<-n1ccccc1-c1ccccn->41",
        "[Ru]",
    ),
    "Ni(bpy)Cl2": ("Cl[Ni]1(Cl)<-n2ccccc2-c2ccccn->12", "[Ni]"),
    "NiCl2(dppe)": (
        "Cl[Ni]1(Cl)<-P(c2ccccc2)(c2ccccc2)CCP->1(c1ccccc1)c1ccccc1",
        "Cl[Ni]Cl.c1ccc(P(CCP(c2ccccc2)c2ccccc2)c2ccccc2)cc1",
    ),
    "HP(tBu)3 BF4": ("[Pd].F[B-](F)(F)F.CC(C)(C)[PH+](C(C)(C)C)C(C)(C)C", "[Pd].CC(C)(C)P(C(C)(C)C)C(C)(C)C"),
    "PdCl2(dppf), radicals": (
        "[CH]1[CH][CH][C]([CH]1)P(c2ccccc2)c3ccccc3.[CH]1[CH][CH][C]([CH]1)P(c2ccccc2)c3ccccc3.Cl[Pd]Cl.[Fe]",
        "Cl[Pd]Cl.c1ccc(P(c2ccccc2)[c-]2cccc2)cc1.c1ccc(P(c2ccccc2)[c-]2cccc2)cc1.[Fe+2]",
    ),
}
REACTANTS = "COc1ccc(Cl)cc1.OB(O)c1ccncc1"
UNTOUCHED = """
CC(=O)O[Pd]OC(C)=O N#C[Cu] Cl[Pd]Cl [Pd] [H][H].[Pd] O=[Os](=O)(=O)=O Cl[Ru](Cl)Cl [C-]#[O+].[Pd] CC[Mg]Br [Li]CCCC
c1ccc([P](c2ccccc2)(c2ccccc2)[Pd]([P](c2ccccc2)(c2ccccc2)c2ccccc2)([P](c2ccccc2)(c2ccccc2)c2ccccc2)[P](c2ccccc2)(c2ccccc2)c2ccccc2)cc1
"""


@pytest.mark.parametrize("name", PRECATALYSTS)
def test_a_precatalyst_becomes_metal_and_ligand(name: str) -> None:
    drawn, expected = PRECATALYSTS[name]
    query = formats.read_input(f"{REACTANTS}.{drawn}", task="forward")
    assert not isinstance(query, chem.Fault), query
    assert chem.same_molecules(query.smiles, f"{REACTANTS}.{expected}"), query.smiles
    assert any("read as" in note or "left out" in note for note in query.notes)


@pytest.mark.parametrize("catalyst", UNTOUCHED.split())
def test_what_models_know_stays(catalyst: str) -> None:
    flask = chem.canonical(f"{REACTANTS}.{catalyst}")
    assert flask and split_precatalysts(flask) == (flask, ())


def test_a_catalyst_alone_is_what_the_question_is_about() -> None:
    drawn = chem.canonical(PRECATALYSTS["G3, loose"][0])
    assert drawn and split_precatalysts(drawn) == (drawn, ())


def test_a_precatalyst_typed_by_name() -> None:
    query = formats.read_input("4-chloroanisole, phenylboronic acid, XPhos Pd G3, K3PO4, THF", task="forward")
    assert not isinstance(query, chem.Fault)
    assert {"[Pd]", chem.canonical(XPHOS)} <= {*query.smiles.split(".")}
    assert not any("Pd" in part and "C" in part for part in query.smiles.split("."))


@pytest.mark.parametrize("name", ["4CzIPN", "eosin Y", "rose bengal", "[Mes-Acr]BF4", "methylene blue", "TPPT"])
def test_an_organic_photocatalyst_is_left_out_with_its_counterion(name: str) -> None:
    query = formats.read_input(f"benzaldehyde, methyl acrylate, {name}, DMF", task="forward")
    assert not isinstance(query, chem.Fault)
    assert chem.same_molecules(query.smiles, "O=Cc1ccccc1.C=CC(=O)OC.CN(C)C=O"), query.smiles
    assert any("photocatalyst" in note for note in query.notes)


def test_fluorescein_is_no_photocatalyst() -> None:
    flask = chem.canonical("O=C1OC2(c3ccccc31)c1ccc(O)cc1Oc1cc(O)ccc12.CC(=O)OC(C)=O.c1ccncc1")
    query = formats.read_input(str(flask), task="forward")
    assert not isinstance(query, chem.Fault) and query.smiles == flask
