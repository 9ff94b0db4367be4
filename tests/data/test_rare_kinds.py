"""The rules of `assets/docs/recipes/rare_kinds.py` give what the textbook says, and keep training and test apart."""

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
        module = importlib.import_module("rare_kinds")
        patch.setattr(module, "TRAIN", 20)
        yield module


@pytest.mark.parametrize(
    ("kind", "recorded", "part", "product"),
    [
        # (R)-2-octanol: azide, fluoride and bromide come from the other side.
        ("sulfonates", "CCCCCC[C@@H](C)O", "[N-]=[N+]=[N-]", "CCCCCC[C@H](C)N=[N+]=[N-]"),
        ("activated_alcohols", "CCCCCC[C@@H](C)O", "CCN(CC)S(F)(F)F", "CCCCCC[C@H](C)F"),
        ("activated_alcohols", "CCCCCC[C@@H](C)O", "BrC(Br)(Br)Br", "CCCCCC[C@H](C)Br"),
        ("terminal_epoxides", "CCCC[C@@H]1CO1", "[N-]=[N+]=[N-]", "CCCC[C@@H](O)CN=[N+]=[N-]"),
        ("terminal_epoxides", "C=C(CC)CCC", "F", "CCCC(F)(CC)CO"),
        ("glycosides", "OCCCCCCC", "CC(=O)OC[C@H]1O[C@H](Br)[C@H](OC(C)=O)[C@@H](OC(C)=O)[C@@H]1OC(C)=O",
         "CCCCCCCO[C@@H]1O[C@H](COC(C)=O)[C@@H](OC(C)=O)[C@H](OC(C)=O)[C@H]1OC(C)=O"),
        ("glycosides", "OCCCCCCC", "CC(=O)OC[C@H]1O[C@H](Br)[C@@H](OC(C)=O)[C@@H](OC(C)=O)[C@@H]1OC(C)=O",
         "CCCCCCCO[C@H]1O[C@H](COC(C)=O)[C@@H](OC(C)=O)[C@H](OC(C)=O)[C@@H]1OC(C)=O"),
        # (2S,3S) by L-tartrate, (2R,3R) by D-tartrate.
        ("sharpless", "CCC/C=C/CO", "CCOC(=O)[C@H](O)[C@@H](O)C(=O)OCC", "CCC[C@@H]1O[C@H]1CO"),
        ("sharpless", "CCC/C=C/CO", "CCOC(=O)[C@@H](O)[C@H](O)C(=O)OCC", "CCC[C@H]1O[C@@H]1CO"),
        ("sharpless", "", "OCC1=CCCCC1.CCOC(=O)[C@H](O)[C@@H](O)C(=O)OCC", "OC[C@@]12CCCC[C@@H]1O2"),
        ("hydroborations", "CCCCC(C)=C", "CCCCC(C)=C.B", "CCCCC(C)CO"),
        ("hydroborations", "CC1=CCCCC1", "B", "CC1CCCCC1O"),
        ("dihydroxylations", "CCCCC(C)=C", "CCCCC(C)=C.[O]=[Os](=[O])(=[O])=[O]", "CCCCC(C)(O)CO"),
        ("ring_closing_metatheses", "O=S(=O)(Cl)c1ccccc1", "C=CCN(CC=C)S(=O)(=O)c1ccccc1", "O=S(=O)(c1ccccc1)N1CC=CC1"),
        ("baeyer_villiger", "", "CC1CCCCC1=O", "CC1CCCCC(=O)O1"),
        ("baeyer_villiger", "", "CC(=O)C1CCCCC1", "CC(=O)OC1CCCCC1"),
        ("beckmann", "", "CC(=NO)c1ccccc1", "CC(=O)Nc1ccccc1"),
        ("beckmann", "", "ON=C1CCCCC1", "O=C1CCCCCN1"),
        ("ugi", "NCc1ccc(OC)cc1", "CC(C)C=O.COc1ccc(CN)cc1.O=C(O)c1ccccc1.[C-]#[N+]C(C)(C)C",
         "COc1ccc(CN(C(=O)c2ccccc2)C(C(=O)NC(C)(C)C)C(C)C)cc1"),
        ("photoredox", "Brc1ccc(C#N)cc1 CCCCCBr", "CC(C)(C)OC(=O)N1CCCC1C(=O)O", "CC(C)(C)OC(=O)N1CCCC1c1ccc(C#N)cc1"),
    ],
)  # fmt: skip
def test_a_rule_gives_the_textbook_product(rules: Any, kind: str, recorded: str, part: str, product: str) -> None:
    pools = rules.Recorded([*recorded.split(), "Oc1ccccc1C", "CCCCCN"], frozenset(), Random(1))
    wanted = [chem.canonical(piece) for piece in part.split(".")]
    found = set[str]()
    for _ in range(400):
        for _, flask, products in getattr(rules, kind)(pools):
            if all(piece in (chem.canonical(flask) or "").split(".") for piece in wanted):
                found |= set(products.split("|"))
        if chem.canonical(product) in found:
            return
    raise AssertionError(f"{chem.canonical(product)} is not among {found}")


def test_an_epoxide_of_a_ring_is_opened_from_the_other_side(rules: Any) -> None:
    mol = Chem.MolFromSmiles("C1CC[C@@H]2O[C@@H]2C1")
    carbon, oxygen, other = mol.GetSubstructMatch(Chem.MolFromSmarts("[CX4;r3]1[OX2;r3][CX4;r3]1"))
    made = {rules.substitute(mol, end, oxygen, "N") for end in (carbon, other)}
    assert made == {chem.canonical("N[C@@H]1CCCC[C@H]1O"), chem.canonical("N[C@H]1CCCC[C@@H]1O")}


def test_no_changing_molecule_is_in_both_parts_or_excluded(rules: Any) -> None:
    pools = rules.Recorded(["CC(=O)c1ccc(F)cc1", "O=C(CC)c1ccccc1Cl"], frozenset(["O=C1CCCC1"]), Random(1))
    train, test = rules.draw(rules.baeyer_villiger, pools, (1000, 1000))
    ketones = {
        text: {part for _, flask, _ in rows for part in flask.split(".")} for text, rows in (("a", train), ("b", test))
    }
    common = set(map(chem.canonical, pools.all("ketone")))
    assert ketones["a"] & common and ketones["b"] & common
    assert not ketones["a"] & ketones["b"] & common and "O=C1CCCC1" not in ketones["a"] | ketones["b"]
