"""Routes as values: what other tools read, what a notebook takes, groups, pictures."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytest.importorskip("syntheseus")
pytest.importorskip("apted")

from toy import AMIDE, retro, stock

from chemspec import chem
from chemspec.plan import draw
from chemspec.plan.expand import SIZE, Expander, Proposal
from chemspec.plan.routes import ALIKE, Node, Plan, Route, distance, document, grouped, ranked, rows, to_markdown
from chemspec.plan.search import plan


@pytest.fixture
def found(tmp_path: Path) -> Plan:
    return plan(AMIDE, Expander(retro(), keep=False), stock(tmp_path))


def test_the_tree_is_that_of_aizynthfinder_and_paroutes(found: Plan) -> None:
    def check(tree: dict[str, object]) -> None:
        assert tree["type"] == "mol" and chem.is_valid(str(tree["smiles"])) and isinstance(tree["in_stock"], bool)
        for reaction in tree.get("children", []):  # type: ignore[attr-defined]
            assert reaction["type"] == "reaction"
            reactants, _, product = reaction["smiles"].partition(">>")
            assert product == tree["smiles"]
            assert chem.same_molecules(reactants, ".".join(child["smiles"] for child in reaction["children"]))
            for child in reaction["children"]:
                check(child)

    text = json.loads(json.dumps(document(found)))
    assert text["status"] == "solved" and len(text["routes"]) == len(found.routes)
    for tree, route in zip(text["routes"], found.routes, strict=True):
        check(tree)
        assert tree["scores"]["steps"] == len(route.steps)


def test_steps_come_after_what_they_need(found: Plan) -> None:
    for route in found.routes:
        have = {leaf.smiles for leaf in route.leaves}
        for node in route.steps:
            assert node.step and set(node.step.reactants) <= have
            have.add(node.smiles)
        assert route.steps[-1].smiles == found.target
        assert [row["step"] for row in rows(route)] == [str(k + 1) for k in range(len(route.steps))]
    text = to_markdown(found)
    assert text.count("## Route") == len(found.routes) and "in stock" not in text.split("## Route 1")[1]
    assert "(mine.smi)" in text and "(step 1)" in text


def leaf(smiles: str) -> Node:
    return Node(smiles, "list")


def one_step(*reactants: str, chance: float = 0.5) -> Route:
    return Route(Node(AMIDE, "", Proposal(reactants, chance), tuple(map(leaf, reactants))))


def test_twins_are_grouped_and_repeats_dropped() -> None:
    chloride, bromide = one_step("CCCCCCCl", "CN", chance=0.4), one_step("CCCCCCBr", "CN", chance=0.3)
    other = one_step("OB(O)c1ccccc1", "Ic1ccc2[nH]ccc2c1", "CCN(CC)CC", chance=0.2)
    found = grouped(ranked([other, bromide, chloride, bromide], 10))
    assert [route.group for route in found] == [1, 1, 2]
    assert [route.score for route in found] == pytest.approx([0.4, 0.3, 0.2], rel=SIZE)
    assert distance(chloride, chloride) == 0 < distance(chloride, bromide) <= ALIKE < distance(chloride, other)
    assert distance(chloride, other) == pytest.approx(distance(other, chloride))


def test_pictures_show_every_molecule(found: Plan) -> None:
    for route in found.routes[:3]:
        svg = draw.to_svg(route)
        ET.fromstring(svg)
        assert draw.to_png(route)[:4] == b"\x89PNG"
        assert draw.to_svg(route, dark=True) != svg
    assert {draw.caption(node) for node in found.routes[0].root} >= {"in stock: mine.smi"}
    assert draw.caption(Node("C")) == "not in stock"
    assert draw.caption(Node("C", "", Proposal(("C",), 0.5, 0.0))) == "chance 0.50, forward differs"
