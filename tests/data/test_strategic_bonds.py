"""The rules of `assets/docs/recipes/strategic_bonds.py` give the textbook product, with maps that name its atoms."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from rdkit import Chem

from chemspec import chem

RECIPES = Path(__file__).parents[2] / "assets" / "docs" / "recipes"


@pytest.fixture(scope="module")
def rules() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(RECIPES)
        yield importlib.import_module("strategic_bonds")


@pytest.mark.parametrize(
    ("kind", "reactants", "products"),
    [
        ("indoles", "NNc1ccc(F)cc1 O=C1CCCCC1", "Fc1ccc2[nH]c3c(c2c1)CCCC3"),
        # Celecoxib's ring: both positions of the aryl group go back to the same reactants.
        ("pyrazoles", "Cc1ccc(C(=O)CC(=O)C(F)(F)F)cc1 NNc1ccccc1",
         "Cc1ccc(-c2cc(C(F)(F)F)nn2-c2ccccc2)cc1 Cc1ccc(-c2cc(C(F)(F)F)n(-c3ccccc3)n2)cc1"),
        ("thiazoles", "O=C(CBr)c1ccccc1 CC(N)=S", "Cc1nc(-c2ccccc2)cs1"),
        ("imidazoles", "O=C(CBr)c1ccccc1 Cc1ccnc(N)c1", "Cc1ccn2cc(-c3ccccc3)nc2c1"),
        ("imidazoles", "O=C(CBr)c1ccccc1 CC(=N)N", "Cc1nc(-c2ccccc2)c[nH]1"),
        ("oxadiazoles", "NC(=NO)c1ccccc1 CCC(=O)O", "CCc1nc(-c2ccccc2)no1"),
        ("oxadiazoles", "NNC(=O)c1ccccc1 CCC(=O)O", "CCc1nnc(-c2ccccc2)o1"),
        ("triazoles", "C#Cc1ccccc1 CCCCN=[N+]=[N-]", "CCCCn1cc(-c2ccccc2)nn1"),
        ("triazoles", "CC(=N)N NNC(=O)c1ccccc1", "Cc1nc(-c2ccccc2)n[nH]1"),
        ("isoxazoles", "ON=Cc1ccccc1 C#CCCC", "CCCc1cc(-c2ccccc2)no1"),
        ("pyrroles", "CC(=O)CCC(C)=O NCc1ccccc1", "Cc1ccc(C)n1Cc1ccccc1"),
        ("pyrroles", "COC1CCC(OC)O1 NCc1ccccc1", "c1ccc(Cn2cccc2)cc1"),
        ("pyrimidines", "N=C(N)c1ccccc1 CC(=O)CC(C)=O", "Cc1cc(C)nc(-c2ccccc2)n1"),
        ("pyrimidines", "N=C(N)c1ccccc1 CC(=O)C=CN(C)C", "Cc1ccnc(-c2ccccc2)n1"),
        ("quinolines", "Nc1ccccc1C=O CC(=O)c1ccccc1", "c1ccc(-c2ccc3ccccc3n2)cc1"),
        ("quinazolinones", "NC(=O)c1ccccc1N O=Cc1ccccc1", "O=c1[nH]c(-c2ccccc2)nc2ccccc12"),
        ("benzimidazoles", "CNc1ccccc1N CCC(=O)O", "CCc1nc2ccccc2n1C"),
        ("benzimidazoles", "Nc1ccccc1O CCC(=O)O", "CCc1nc2ccccc2o1"),
        # Ruxolitinib's bond, and mesembrine's.
        ("aza_michael", "Brc1cn[nH]c1 N#CC=CC1CCCC1", "N#CCC(C1CCCC1)n1cc(Br)cn1"),
        ("aza_michael_rings", "CNCCC1(c2ccc(OC)c(OC)c2)C=CC(=O)CC1", "CN1CCC2(c3ccc(OC)c(OC)c3)CCC(=O)CC12"),
        ("aza_michael_rings", "CCOC(=O)/C=C/CCCNCc1ccccc1", "CCOC(=O)CC1CCCN1Cc1ccccc1"),
        # Uridine's N1, from above as in the acetate, and the silane of an aryl glucoside from below.
        ("nucleosides", "O=c1cc[nH]c(=O)[nH]1 CC(=O)OC[C@H]1O[C@@H](OC(C)=O)[C@H](OC(C)=O)[C@@H]1OC(C)=O",
         "CC(=O)OC[C@H]1O[C@@H](n2ccc(=O)[nH]c2=O)[C@H](OC(C)=O)[C@@H]1OC(C)=O"),
        ("c_glycosides", "COC1(c2ccccc2)O[C@H](CO)[C@@H](O)[C@H](O)[C@H]1O",
         "OC[C@H]1O[C@@H](c2ccccc2)[C@H](O)[C@@H](O)[C@@H]1O"),
        ("c_glycosides",
         "Brc1ccccc1 C[Si](C)(C)OC[C@H]1OC(=O)[C@H](O[Si](C)(C)C)[C@@H](O[Si](C)(C)C)[C@@H]1O[Si](C)(C)C",
         "C[Si](C)(C)OC[C@H]1OC(O)(c2ccccc2)[C@H](O[Si](C)(C)C)[C@@H](O[Si](C)(C)C)[C@@H]1O[Si](C)(C)C"),
    ],
)  # fmt: skip
def test_a_rule_gives_the_textbook_product(rules: Any, kind: str, reactants: str, products: str) -> None:
    wanted = set(map(chem.canonical, products.split()))
    given = reactants.split()
    made = [rules.outcomes(rule, *given) for rule, *pools in rules.TABLES["kinds"][kind] if len(pools) == len(given)]
    assert [set(found) for found in made if found] == [wanted]


def test_maps_pair_equal_elements_and_name_every_atom_of_the_product(rules: Any) -> None:
    rule = rules.TABLES["kinds"]["thiazoles"][0][0]
    (mapped,) = rules.outcomes(rule, "O=C(CBr)c1ccccc1", "CC(N)=S").values()
    left, right = (
        {atom.GetAtomMapNum(): atom.GetSymbol() for atom in Chem.MolFromSmiles(side).GetAtoms()}
        for side in mapped.split(">>")
    )
    assert 0 not in right and len(right) == 12
    assert {number: symbol for number, symbol in left.items() if number} == right


def test_no_reactant_that_is_not_common_is_in_both_parts(rules: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "TRAIN", 100)  # that bounds how often it draws
    ketones = [f"CC(=O)c1ccc({group})cc1" for group in ("F", "Cl", "C", "CC", "CCC", "OC", "C#N", "C(F)(F)F", "Br")]
    ketones += [f"CC(=O)c1cccc({group})c1" for group in ("F", "Cl", "C", "CC", "CCC", "OC", "C#N", "C(F)(F)F", "Br")]
    amides = [f"NC(=S)c1ccc({group})cc1" for group in ("F", "Cl", "C", "CC", "CCC", "CCCC", "OC", "C(F)(F)F", "Br")]
    recorded = rules.Parts([*ketones, *amides], Random(1))
    parts = [
        {text for reactants, *_ in rules.draw("thiazoles", recorded, 60, held=held, excluded=frozenset())
         for text in reactants}
        for held in (False, True)
    ]  # fmt: skip
    common = set(rules.TABLES["common"]["thioamide"].split())
    assert parts[0] - common and parts[1] - common and not (parts[0] & parts[1]) - common
    (product,) = rules.outcomes(rules.TABLES["kinds"]["thiazoles"][0][0], "O=C(CBr)c1ccc(F)cc1", "CC(N)=S")
    left = rules.draw("thiazoles", recorded, 60, held=False, excluded=frozenset([product]))
    assert product not in {made for _, made, _ in left}


def test_glycosides_have_a_donor_and_an_acceptor(rules: Any) -> None:
    recorded = rules.Parts(["OCCCCCCC", "Oc1ccc(C)cc1", "OCCCCCCCC", "OCC1CCCCC1", "Oc1ccccc1C"], Random(1))
    made = rules.draw("glycosylations", recorded, 3, held=False, excluded=frozenset())
    assert made
    for (donor, acceptor), product, _ in made:
        assert "O[C@" in product and "." not in f"{donor}{acceptor}" and product not in (donor, acceptor)
