"""Outlines of procedures: amounts follow from the target's, through every step and branch."""

from __future__ import annotations

import re

import pytest

from chemspec import chem
from chemspec.plan.expand import Proposal
from chemspec.plan.outline import EXCESS, molar_mass, procedure_outline, weight
from chemspec.plan.routes import Node, Route
from chemspec.precedents import Conditions, Found, Precedent

ACID, AMINE, AMIDE = "O=C(O)c1ccccc1", "NCc1ccccc1", "O=C(NCc1ccccc1)c1ccccc1"


def made(product: str, *reactants: Node, reagents: str = "") -> Node:
    parts = tuple(str(chem.canonical(node.smiles)) for node in reactants)
    return Node(product, step=Proposal(parts, 0.8, reagents=reagents), children=reactants)


def amounts(text: str, heading: str) -> dict[str, list[str]]:
    """Return the rows of the table below a heading by SMILES or name: the other cells."""
    rows = {}
    for line in text.partition(f"\n## {heading}")[2].partition("\n## ")[0].splitlines():
        if line.startswith("| ") and "equivalents" not in line and "from" not in line:
            first, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            found = re.search(r"`(.*?)`", first)
            rows[found[1] if found else first] = cells
    return rows


def test_amounts_follow_from_the_target_and_the_yield_of_every_step() -> None:
    route = Route(made(AMIDE, made("O=C(Cl)c1ccccc1", Node(ACID, "common")), Node(AMINE, "common")))
    text = procedure_outline(route, grams=molar_mass(AMIDE) / 100, step_yield=0.5)  # 10 mmol
    assert amounts(text, "Step 2")["O=C(Cl)c1ccccc1"][:2] == ["1", "20"], "made before, so it limits the step"
    assert amounts(text, "Step 2")[AMINE][:2] == [f"{EXCESS:.2g}", f"{20 * EXCESS:.3g}"]
    assert amounts(text, "Step 1")[ACID] == ["1", "40", "122.1", "4.88 g"]
    assert amounts(text, "To order") == {
        ACID: ["in common chemicals", "40", "122.1", "4.88 g"],
        AMINE: ["in common chemicals", "22", "107.2", "2.36 g"],
    }


def test_what_two_branches_need_is_added_and_copies_are_counted() -> None:
    urea, aniline = "O=C(Nc1ccccc1)Nc1ccccc1", "Nc1ccccc1"
    route = Route(made(urea, made("O=C=Nc1ccccc1", Node(aniline)), Node(aniline)))
    text = procedure_outline(route, grams=molar_mass(urea) / 1000, step_yield=1)
    assert amounts(text, "To order")[aniline][1] == f"{1 + EXCESS:.3g}"
    twice = Route(made("O=C(Nc1ccccc1)Nc1ccccc1", Node("O=C(n1ccnc1)n1ccnc1"), Node(aniline)))
    text = procedure_outline(twice, grams=molar_mass(urea) / 1000, step_yield=1)
    assert amounts(text, "Step 1")[aniline][0] == f"{2 * EXCESS:.2g}"


def test_reagents_are_weighed_by_the_equivalent_and_solvents_are_not() -> None:
    chloride, reagents = "O=C(Cl)c1ccccc1", "CC#N.O=C([O-])[O-].[K+].[K+]"
    route = Route(made(AMIDE, Node(chloride), Node(AMINE)))
    precedent = Precedent(f"{chloride}.{AMINE}", AMIDE, "", "US1234567", "1999", 0.9, True, False, ())
    evidence = Found(1, 1, (precedent,), (Conditions(reagents, 1),))
    assert route.root.step
    text = procedure_outline(route, evidence={route.root.step.reaction(AMIDE): evidence}, grams=2.1126, step_yield=1)
    table = amounts(text, "Step 1")
    assert table["MeCN"] == ["solvent", "", "41.1", ""]
    assert table["K₂CO₃"] == ["open", "", "138.2", "1.38 g an equivalent"]
    assert "Nearest patents: US1234567 (1999)." in text
    assert "A draft by rule, not a procedure" in text


@pytest.mark.parametrize(("grams", "step_yield"), [(0, 0.7), (float("nan"), 0.7), (1, 0), (1, 1.1), (float("inf"), 1)])
def test_amounts_out_of_range_are_refused(grams: float, step_yield: float) -> None:
    with pytest.raises(ValueError, match="give an amount above 0"):
        procedure_outline(Route(made(AMIDE, Node(ACID), Node(AMINE))), grams=grams, step_yield=step_yield)


@pytest.mark.parametrize(
    ("grams", "text"),
    [
        (1234.5, "1.23 kg"),
        (1000, "1.00 kg"),
        (999.9, "1.00 kg"),
        (0.9999, "1.00 g"),
        (0.0123, "12.3 mg"),
        (1e-4, "0.10 mg"),
    ],
)
def test_masses_have_three_figures(grams: float, text: str) -> None:
    assert weight(grams) == text
