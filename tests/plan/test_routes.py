"""Routes as values: what other tools read, what a notebook takes, groups, pictures."""

from __future__ import annotations

import json
import math
import os
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("syntheseus")
pytest.importorskip("apted")

from helpers.toy import AMIDE, retro, stock

from chemspec import chem
from chemspec.plan import depict
from chemspec.plan.expand import SIZE_COST, Expander, Proposal
from chemspec.plan.routes import (
    MAX_GROUP_DISTANCE,
    Node,
    Plan,
    Route,
    build_tree,
    find_evidence,
    group_routes,
    node_problems,
    plan_document,
    plan_to_markdown,
    rank_routes,
    route_distance,
    route_titles,
    step_conditions,
    step_percent,
    step_table,
    stock_text,
)
from chemspec.plan.search import plan
from chemspec.precedents import Conditions, Found, Precedent
from chemspec.stock.lists import Stock
from chemspec.stock.offers import read_price_list

AIZYNTH = os.environ.get("CHEMSPEC_AIZYNTH", "")  # a Python that has aizynthfinder
READ = """
import json, sys
from aizynthfinder.reactiontree import ReactionTree
trees = [ReactionTree.from_dict(tree) for tree in json.load(open(sys.argv[1]))]
print(json.dumps([[len(list(tree.reactions())), len(list(tree.molecules())), tree.is_solved] for tree in trees]))
"""


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

    text = json.loads(json.dumps(plan_document(found)))
    assert text["status"] == "solved" and len(text["routes"]) == len(found.routes)
    for tree, route in zip(text["routes"], found.routes, strict=True):
        check(tree)
        assert tree["scores"]["steps"] == len(route.steps)


def test_a_patent_intermediate_is_said_in_sums_tables_files_and_colours() -> None:
    leaves = (Node("CN", "common"), Node("O=C(Cl)c1ccc(NC(C)=O)cc1", intermediate=True), Node("CCCCC"))
    route = Route(Node(AMIDE, step=Proposal(tuple(leaf.smiles for leaf in leaves), 0.9), children=leaves))
    assert route.summary.endswith("1 patent intermediate to make or buy, 1 building block in no list")
    assert not route.solved and "(a patent intermediate)" in step_table(route)[0]["from"]
    accepted = replace(leaves[1], stock="patent-intermediates")
    chosen = Route(replace(route.root, children=(leaves[0], accepted)))
    assert chosen.solved and "in stock lists" not in chosen.summary
    tree = plan_document(Plan(AMIDE, "open", "", (route,)))["routes"][0]["children"][0]["children"]
    assert [child.get("metadata") for child in tree] == [{"stock": "common"}, {"patent_intermediate": True}, None]
    for text in (depict.to_svg(route), depict.to_svg(chosen)):
        words = [element.attrib["fill"] for element in ET.fromstring(text).iter() if element.text == "intermediate"]
        assert depict.LIGHT.listed not in words
        assert depict.LIGHT.unlisted in text


def test_a_title_says_the_group_and_the_place_in_it(found: Plan) -> None:
    root = found.routes[0].root
    titles = route_titles([Route(root, group) for group in (1, 1, 2, 1, 2)])
    assert titles == ["Route 1", "Route 1, variant 2", "Route 2", "Route 1, variant 3", "Route 2, variant 2"]


def test_steps_come_after_what_they_need(found: Plan) -> None:
    for route in found.routes:
        have = {leaf.smiles for leaf in route.leaves}
        for node in route.steps:
            assert node.step and set(node.step.reactants) <= have
            have.add(node.smiles)
        assert route.steps[-1].smiles == found.target
        assert [row["step"] for row in step_table(route)] == [str(k + 1) for k in range(len(route.steps))]
    text = plan_to_markdown(found)
    assert text.count("## Route") == len(found.routes) and "(in stock)" not in text.split("## Route 1")[1]
    assert "(in mine.smi)" in text and "(step 1)" in text


def test_syntheseus_and_aizynthfinder_open_what_is_saved(found: Plan, tmp_path: Path) -> None:
    from chemspec.planners.syntheseus import read_route

    trees = json.loads(json.dumps(plan_document(found)))["routes"]
    for tree, route in zip(trees, found.routes, strict=True):
        graph = read_route(tree)
        graph.assert_validity()
        assert graph.root_mol.smiles == found.target and len(graph) == len(route.steps)
        leaves = {".".join(sorted(one.smiles.split("."))) for one in graph.get_starting_molecules()}
        assert leaves == {".".join(sorted(leaf.smiles.split("."))) for leaf in route.leaves}
    with pytest.raises(ValueError, match="no step"):
        read_route({"type": "mol", "smiles": "C", "in_stock": True})
    if not AIZYNTH:  # cannot be installed beside our RDKit, see tests/planners/test_aizynth.py
        return
    (tmp_path / "routes.json").write_text(json.dumps(trees))
    done = subprocess.run([AIZYNTH, "-W", "ignore", "-c", READ, str(tmp_path / "routes.json")], capture_output=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [
        [len(route.steps), len(list(route.root)), route.solved] for route in found.routes
    ]


def test_steps_have_their_precedents_where_there_is_an_index(found: Plan) -> None:
    assert find_evidence(found.routes, None) == {} and "patent reactions" not in step_table(found.routes[0])[0]
    near = Precedent("CC(=O)Cl.CN", "CNC(C)=O", "CCN(CC)CC", "US1", "2001", 0.5, close=True, same=False, files=())
    one = found.routes[0].steps[-1]
    assert one.step
    reaction = one.step.reaction(one.smiles)
    seen = {reaction: Found(3, 9, (near,), (Conditions("CCN(CC)CC.CCN=C=NCCCN(C)C", 2),))}
    first, *_, last = step_table(found.routes[0], seen)
    assert last["patent reactions"] == "3" and last["conditions"] == "Et₃N, EDC"
    assert first["patent reactions"].startswith("0")
    (step,) = plan_document(found, seen)["routes"][0]["children"]
    assert step["metadata"]["precedents"] == {"close": 3, "wide": 9}
    assert step["metadata"]["nearest"][0]["patent"] == "US1"
    assert json.loads(json.dumps(step)) and "patent reactions: 3" in plan_to_markdown(found, seen)


def leaf(smiles: str) -> Node:
    return Node(smiles, "list")


def one_step(*reactants: str, chance: float = 0.5) -> Route:
    return Route(Node(AMIDE, "", Proposal(reactants, chance), tuple(map(leaf, reactants))))


def test_twins_are_grouped_and_repeats_dropped() -> None:
    chloride, bromide = one_step("CCCCCCCl", "CN", chance=0.4), one_step("CCCCCCBr", "CN", chance=0.3)
    other = one_step("OB(O)c1ccccc1", "Ic1ccc2[nH]ccc2c1", "CCN(CC)CC", chance=0.2)
    found = group_routes(rank_routes([other, bromide, chloride, bromide], 10))
    assert [route.group for route in found] == [1, 1, 2]
    assert [route.score for route in found] == pytest.approx([0.4, 0.3, 0.2], rel=SIZE_COST)
    assert (
        route_distance(chloride, chloride)
        == 0
        < route_distance(chloride, bromide)
        <= MAX_GROUP_DISTANCE
        < route_distance(chloride, other)
    )
    assert route_distance(chloride, other) == pytest.approx(route_distance(other, chloride))


def test_a_step_that_two_branches_need_is_done_once() -> None:
    """Its chance counts once, and so does the step."""
    shared = Node("CCO", "", Proposal(("C=C", "O"), 0.5), (leaf("C=C"), leaf("O")))
    acid = Node("CCOC(=O)CBr", "", Proposal(("CCO", "O=C(O)CBr"), 0.8), (shared, leaf("O=C(O)CBr")))
    route = Route(Node("CCOCC(=O)OCC", "", Proposal(("CCOC(=O)CBr", "CCO"), 0.9), (acid, shared)))
    assert [node.smiles for node in route.steps] == ["CCO", "CCOC(=O)CBr", "CCOCC(=O)OCC"]
    assert route.score == math.prod(node.step.prior(node.smiles) for node in (route.root, acid, shared) if node.step)


def test_of_equal_chances_the_step_into_smaller_parts_comes_first() -> None:
    halves, whole = one_step("CCCCC(=O)O", "CCCCN"), one_step("CCCCC(=O)NCCC", "C")
    assert halves.score > whole.score
    assert rank_routes([whole, halves], 2) == rank_routes([halves, whole], 2) == [halves, whole]
    likelier = one_step("CCCCC(=O)NCCC", "C", chance=0.5 * math.exp(SIZE_COST))
    assert rank_routes([halves, likelier], 2) == [likelier, halves], "it breaks ties and no more"


def test_pictures_show_every_molecule(found: Plan) -> None:
    for route in found.routes[:3]:
        svg = depict.to_svg(route)
        ET.fromstring(svg)
        assert depict.to_png(route)[:4] == b"\x89PNG"
        assert depict.to_svg(route, dark=True) != svg
    for back, said in ((None, ""), (0.0, ", forward differs"), (0.1, ", forward is unsure"), (0.9, ", forward agrees")):
        assert step_percent(Proposal(("C",), 0.5, back)) == f"50 %{said}"


def texts(svg: str) -> str:
    """All texts of a picture, one after the other: a caption may take several lines."""
    return " ".join(item.text or "" for item in ET.fromstring(svg).iter() if item.tag.endswith("text"))


def test_an_arrow_has_number_class_conditions_and_percent_and_a_leaf_its_name_and_list(found: Plan) -> None:
    route = found.routes[0]
    last = route.steps[-1]
    assert last.step
    seen = {last.step.reaction(last.smiles): Found(3, 9, (), (Conditions("CCN(CC)CC.CCN=C=NCCCN(C)C", 2),))}
    written = texts(depict.to_svg(route, "Route 2", seen))
    assert f"Route 2: {route.summary}" in written
    assert "5. Amide formation Et₃N, EDC 50 %" in written
    assert "methylamine in mine.smi" in written
    for row in step_table(route):
        assert f"{row['step']}. {row['class']}" in written, "the picture has the numbers of the table"
    bare = Route(Node("CCN", "", Proposal(("CCO", "CN"), 0.5), (Node("CCO", "paroutes-n5"), Node("CN"))))
    assert "in PaRoutes" in texts(depict.to_svg(bare)) and "in no list" in texts(depict.to_svg(bare))
    priced = Route(Node("CCN", "", Proposal(("CCO",), 0.5), (Node("CCO", "mine.csv, 2.00 EUR/g, <b>"),)))
    assert "in mine.csv, 2.00 EUR/g, <b>" in texts(depict.to_svg(priced)), "read back from escaped text"


def test_nothing_of_a_picture_is_drawn_over_anything_else(found: Plan) -> None:
    """Captions, molecules and texts over arrows have rectangles of their own, none smaller than 11 px."""
    for route in found.routes:
        sizes, boxes = [], []
        for item in depict.draw_route(route, "Route 1", {}, dark=False).items:
            if item.text or item.molecule:
                boxes.append((item.left, item.top, item.left + item.width, item.top + item.height))
                sizes.append(item.size)
        assert min(sizes) >= 11
        for number, (left, top, right, bottom) in enumerate(boxes):
            for other_left, other_top, other_right, other_bottom in boxes[:number]:
                apart = left >= other_right or other_left >= right or top >= other_bottom or other_top >= bottom
                assert apart


def test_a_summary_says_the_weakest_step_and_what_is_doubtful(found: Plan) -> None:
    assert found.routes[0].summary == "5 steps, weakest step 50 %, all in stock lists"
    doubted = Route(Node("CCN", "", Proposal(("CCO",), 0.001, 0.0), (Node("CCO"),)))
    assert doubted.summary == (
        "1 step, weakest step under 1 %, forward model differs on step 1, ⚠ on step 1, 1 building block in no list"
    )
    assert "cannot supply 1 N" in step_table(doubted)[0]["problems"] and "⚠ the" in texts(depict.to_svg(doubted))
    document = plan_document(found)["routes"][0]
    assert (
        document["title"] == "Route 1" and document["scores"]["weakest_step"] == 0.5 and "score" in document["scores"]
    )
    assert document["children"][0]["metadata"]["step"] == 5
    assert document["children"][0]["metadata"]["class"] == "Amide formation"


def test_a_start_that_is_nearly_the_target_is_said() -> None:
    acid = "O=C(Cl)c1ccc(NC(C)=O)cc1"
    near = Route(Node(AMIDE, "", Proposal((acid, "CN"), 0.9), (Node(acid, "paroutes-n1"), Node("CN", "common"))))
    assert "starts from 93 % of the target" in near.summary
    larger = Route(Node("CN", "", Proposal((acid,), 0.9), (Node(acid, "paroutes-n1"),)))
    assert (near.head_start, larger.head_start) == (13 / 14, 1.0)
    own = Route(replace(near.root, children=(Node(acid, "mine.csv"), Node("CN", "common"))))
    assert "starts from" not in own.summary, "one's own shelf is believed"


def test_conflicts_within_a_step_are_said_as_in_a_flask() -> None:
    reactants, product = ("C=CC[Mg]Br", "O=Cc1ccc(O)cc1"), "C=CCC(O)c1ccc(O)cc1"
    smiles = [str(chem.canonical(text)) for text in (*reactants, product)]
    node = Node(smiles[2], "", Proposal(tuple(smiles[:2]), 0.5), (leaf(smiles[0]), leaf(smiles[1])))
    assert node_problems(node), "a Grignard reagent beside a phenol"
    aldol = Node("N#CC[C@H](O)C1CCCC1", "", Proposal(("CC#N", "O=CC1CCCC1"), 0.1), (leaf("CC#N"), leaf("O=CC1CCCC1")))
    assert any("enantiomer" in text for text in node_problems(aldol)), "from achiral reactants"


def words(conditions: str) -> set[str]:
    """The reagents of a text of conditions, in short names."""
    long = {"manganese dioxide": "MnO₂", "acetic anhydride": "Ac₂O"}
    return {long.get(name, name) for name in conditions.split(", ")}


def test_reagents_that_confirm_a_step_go_before_recorded_ones_and_usual_ones_come_last() -> None:
    step = Proposal(("OCc1ccccc1",), 0.5, round_trip=0.6, reagents="CS(C)=O.CC(=O)OC(C)=O", added="O=[Mn]=O.ClCCl")
    node = Node("O=Cc1ccccc1", "", step, (Node("OCc1ccccc1"),))
    assert words(step_conditions(node)) == words("MnO₂, DCM")
    unconfirmed = replace(node, step=replace(step, round_trip=0.1))
    recorded = {
        step.reaction("O=Cc1ccccc1"): Found(conditions=(Conditions("C1CCOC1", 1), Conditions("O=[Mn]=O.C1CCOC1", 1)))
    }
    assert words(step_conditions(unconfirmed, recorded)) == words("MnO₂, THF"), "THF alone is no oxidant"
    assert words(step_conditions(unconfirmed)) == words("DMSO, Ac₂O"), "of a model, before the usual ones"
    assert step_conditions(replace(unconfirmed, step=replace(step, round_trip=0.1, reagents=""))).startswith(
        "DCM, Dess"
    )


def test_no_conditions_have_a_substructure_to_avoid() -> None:
    step = Proposal(("OCc1ccccc1",), 0.5, round_trip=0.6, reagents="CN(C)C=O", added="ClCCl")
    route = Route(Node("O=Cc1ccccc1", "", step, (Node("OCc1ccccc1"),)), avoid=("[CH2]Cl",))
    recorded = Found(conditions=(Conditions("O=[Mn]=O.ClCCl", 5), Conditions("O=[Mn]=O.C1CCOC1", 1)))
    index: Any = SimpleNamespace(find=lambda *_: recorded)
    assert words(step_conditions(route.root, find_evidence([route], index), route.avoid)) == words("MnO₂, THF")
    assert step_conditions(route.root, {}, route.avoid) == "DMF"
    drawn = texts(depict.to_svg(route))
    assert "DMF" in drawn and "DCM" not in drawn and "DCM" in texts(depict.to_svg(replace(route, avoid=())))


def test_an_arrow_ends_before_its_product_below_the_class_and_above_the_conditions() -> None:
    step = Proposal(("OCc1ccccc1",), 0.5, reagents="CS(C)=O.CC(=O)OC(C)=O")
    picture = ET.fromstring(depict.to_svg(Route(Node("O=Cc1ccccc1", "", step, (Node("OCc1ccccc1"),)))))
    space = "{http://www.w3.org/2000/svg}"
    product, reactant = (float(item.attrib["x"]) for item in picture.iter(f"{space}svg") if "x" in item.attrib)
    (head,) = (item for item in picture.iter(f"{space}polygon") if item.attrib["points"].count(",") == 3)
    right, middle = map(float, head.attrib["points"].split()[0].split(","))
    assert reactant < right == product - 6
    heights = {"".join(item.itertext()): float(item.attrib["y"]) for item in picture.iter(f"{space}text")}
    assert heights["compound"] < middle < heights["DMSO, acetic"], "the last line of the class, the first one below"


def test_the_depth_of_a_convergent_route_is_its_longest_branch() -> None:
    step = Proposal("", 0.5)
    leaf = Node("C")
    short, long = Node("CC", step=step, children=(leaf,)), leaf
    for _ in range(3):
        long = Node("CCC", step=step, children=(long,))
    for children in ((short, long), (long, short), (leaf, long, leaf)):
        route = Route(Node("CCCC", step=step, children=children))
        assert route.depth == 4
        assert route.root.branches[0] is long
    assert Route(leaf).depth == 0


def test_a_building_block_that_the_lab_has_as_a_salt_is_named_and_no_stock() -> None:
    inventory = read_price_list(b"name,location\naniline hydrochloride,B1\n", "a.csv")
    supply = Stock({"a.csv": np.array(sorted(inventory.offers), dtype="S27")}, inventory.offers)
    have, lack = (build_tree(smiles, {}, supply, frozenset(["CC"])) for smiles in ("Nc1ccccc1", "Nc1ccccc1C"))
    assert (stock_text(have), stock_text(lack), have.stock) == ("here: B1, as a salt", "in no list", "")
