"""Rings are never counted too few, whoever writes the graph; what is real passes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from xml.etree import ElementTree

import pytest
from helpers.case_tables import table
from helpers.reading import fault
from hypothesis import given, settings
from hypothesis import strategies as st
from programs.fuzzing import graphs
from rdkit import Chem

from chemspec.chem.molecules import parsing

C60 = (
    "c12c3c4c5c1c1c6c7c2c2c8c3c3c9c4c4c%10c5c5c1c1c6c6c%11c7c2c2c7c8c3c3c8c9c4c4c9c%10c5c5c1c1c6c6c%11c2c2c7c3c3c8c4c4"
    "c9c5c1c1c6c2c3c41"
)
DRAWN = ("mol", "sdf", "cdxml")
REFUSALS = {
    "mol": parsing.molblock_refusal,
    "sdf": parsing.molblock_refusal,
    "cdxml": lambda text: parsing.cdxml_refusal(ElementTree.fromstring(text)),
}


def rings(graph: graphs.Graph) -> int:
    """Bonds less atoms plus pieces, by RDKit, which is safe as long as nothing is perceived."""
    mol = Chem.RWMol()
    for _ in graph.atoms:
        mol.AddAtom(Chem.Atom("*"))
    for one, other in graph.bonds:
        mol.AddBond(one, other, Chem.BondType.SINGLE)
    return len(graph.bonds) - len(graph.atoms) + len(Chem.GetMolFrags(mol))


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Counting alone, without a process for what has many rings."""
    monkeypatch.setattr(parsing, "try_in_process", lambda *_: "")
    parsing.molblock_refusal.cache_clear()
    yield
    parsing.molblock_refusal.cache_clear()


@given(st.integers(0, 10**9))
@settings(max_examples=200)
def test_labels_of_a_smiles_are_two_a_ring(seed: int) -> None:
    graph = graphs.drawn(Random(seed))
    labels = parsing.ring_labels(graphs.smiles(graph, graphs.Style((1, 2, 3, 9)), Random(seed)))
    assert sum(labels) == 2 * rings(graph) if labels else rings(graph) <= parsing.FEW_RINGS


@pytest.mark.usefixtures("untried")
@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("seed", range(40))
def test_drawn_graphs_are_refused_by_their_rings(name: str, seed: int) -> None:
    graph = graphs.drawn(Random(seed))
    refusal = REFUSALS[name](graphs.FORMATS[name](graph, graphs.Style((1, 2), 3), Random(seed)))
    assert (refusal == parsing.TOO_MANY_RINGS) == (rings(graph) > parsing.MAX_RINGS)


def test_atoms_of_a_drawing_are_counted() -> None:
    page = ElementTree.fromstring("<CDXML>" + "<n/>" * parsing.MAX_LENGTH + "</CDXML>")
    assert parsing.cdxml_refusal(page) == ""
    ElementTree.SubElement(page, "n")
    assert parsing.cdxml_refusal(page) == parsing.TOO_MANY_ATOMS


@pytest.mark.usefixtures("untried")
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("  999 V2000", " V3000").replace("  0  0  1  0  0  0  0  0", "  0  0"),
        lambda text: "\n".join(line.split(" V2000")[0].removesuffix("0999") for line in text.split("\n")),
        lambda text: text.replace("\n  1 26", "\n1   26"),
    ],
    ids=["called V3000", "no version", "moved"],
)
def test_a_molfile_is_counted_as_rdkit_reads_it(change: object) -> None:
    text = change(graphs.v2000(graphs.multipartite(25, 25)))  # type: ignore[operator]
    assert parsing.molblock_refusal(text) == parsing.TOO_MANY_RINGS


@pytest.mark.usefixtures("untried")
def test_rows_that_go_on_in_the_next_line_are_counted() -> None:
    lines = graphs.v3000(graphs.multipartite(12, 12)).split("\n")
    cut = [part for line in lines for part in ([f"{line[:-1]}-", f"M  V30 {line[-1]}"] if " 1 " in line else [line])]
    assert parsing.molblock_refusal("\n".join(cut)) == parsing.TOO_MANY_RINGS


@pytest.mark.parametrize(("piece", "times", "labels"), table("chem/ring_labels"))
def test_what_is_a_label(piece: str, times: int, labels: int) -> None:
    assert sum(parsing.ring_labels(piece * times)) == labels


@pytest.mark.parametrize(
    "smiles",
    [C60, "c1ccccc1" * 24, "[Fe]12345678(C9C1C2C3C49)C1C5C6C7C81", "C12C3C4C1C5C2C3C45", f"{C60}.CCO"],
    ids=["C60", "24 benzenes", "ferrocene", "cubane", "C60 in ethanol"],
)
def test_what_is_real_is_read(smiles: str) -> None:
    assert parsing.smiles_refusal(smiles) == ""


def test_only_molecules_of_many_rings_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flask with BINAP and a product of few rings is quick, and so is what our own tables have."""
    tried: list[str] = []
    monkeypatch.setattr(parsing, "try_in_process", lambda _, text: tried.append(text) or "")
    benzenes, binap = "c1ccccc1" * 10, "c1ccc(P(c2ccccc2)c2ccc3ccccc3c2-c2c(P(c3ccccc3)c3ccccc3)ccc3ccccc23)cc1"
    for text in (f"{binap}.{binap}.CCO", ".".join(["c1ccccc1"] * 20), *parsing.QUICK, f"CO.{min(parsing.QUICK)}"):
        assert parsing.smiles_refusal(text) == ""
    assert tried == []
    joined = f"C1.{'c2ccccc2' * 6}C1{'c2ccccc2' * 5}"  # a label joins two parts, of few rings each
    for text in (f"{benzenes}.CCO.{benzenes}.{binap}", joined):
        parsing.smiles_refusal(text)
    assert tried == [benzenes, joined]


def test_what_our_own_tables_have_is_quick() -> None:
    assert all(parsing.try_in_process("smiles", text) == "" for text in parsing.QUICK)


def test_what_takes_rdkit_long_is_refused_by_a_trial() -> None:
    row = graphs.grid(101, 2, "P", bricks=True)  # 50 fused rings: hours of a search for aromaticity
    for text in (graphs.smiles(row), graphs.v2000(row)):
        assert parsing.TOO_HARD in fault(text).message


@pytest.mark.parametrize(
    ("formula", "layers", "why"),
    [
        ("99C999", "", parsing.TOO_MANY_ATOMS),
        ("C30", "c" + "-".join(f"{k}(1,2,3,4,5)" for k in range(6, 31)), parsing.TOO_MANY_RINGS),
        ("50C6H6", "c50*1-2-4-6-5-3-1", ""),
        ("101C6H6", "c101*1-2-4-6-5-3-1", parsing.TOO_MANY_RINGS),
    ],
)
@pytest.mark.usefixtures("untried")
def test_atoms_and_rings_of_an_inchi(formula: str, layers: str, why: str) -> None:
    assert parsing.inchi_refusal(f"InChI=1S/{formula}/{layers}") == why
