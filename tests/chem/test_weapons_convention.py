"""Chemicals of the Chemical Weapons Convention: refused in every way in, and their harmless neighbours are not."""

from __future__ import annotations

import pytest
from helpers.case_tables import table
from helpers.reading import fault, read
from rdkit import Chem

from chemspec.chem.checks.weapons_convention import TABLE, refusal, scheduled_entry
from chemspec.engine import distinct
from chemspec.settings import DecodeSettings, Task
from chemspec.types import DecodeResult, Hypothesis, Trace

# Entry of the annex; refused in every question.
ALWAYS = table("chem/scheduled_always")
# Everyday reagents: allowed in a flask, refused as a target.
TARGET = table("chem/scheduled_as_target")
NEAR_MISSES = dict(table("chem/near_misses"))


@pytest.mark.parametrize(("number", "smiles"), ALWAYS)
def test_refused_in_every_question(number: str, smiles: str) -> None:
    entry = scheduled_entry(smiles)
    assert entry is not None and (entry.number, entry.where) == (number, "always")
    tasks: tuple[Task, ...] = ("forward", "retro", "reagents")
    for task in tasks:
        text = f"CO.{smiles}>>{smiles}" if task == "reagents" else f"CO.{smiles}" if task == "forward" else smiles
        why = fault(text, task)
        assert why.kind == "regulated"
        assert f"entry {number} of the schedules of the Chemical Weapons Convention" in why.message


@pytest.mark.parametrize(("number", "smiles"), TARGET)
def test_everyday_reagents_are_refused_as_a_target_only(number: str, smiles: str) -> None:
    entry = scheduled_entry(smiles)
    assert entry is not None and (entry.number, entry.where) == (number, "target")
    assert read(f"OCc1ccccc1.{smiles}", "forward")
    questions: tuple[tuple[str, Task], ...] = (
        (smiles, "retro"),
        (f"CO>>{smiles}", "retro"),
        (f"CO>>{smiles}", "forward"),
    )
    for text, task in questions:
        assert fault(text, task).kind == "regulated", (text, task)


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_are_not_refused(name: str) -> None:
    assert scheduled_entry(NEAR_MISSES[name]) is None
    assert read(NEAR_MISSES[name], "forward") and read(NEAR_MISSES[name], "retro")


@pytest.mark.parametrize(("number", "smiles", "side"), table("chem/scheduled_neighbours"))
def test_neighbours_on_both_sides_of_each_entry(number: str, smiles: str, side: str) -> None:
    """The wording of the schedules decides: a quaternary ammonium salt is no protonated amine, an ester no acid."""
    entry = scheduled_entry(smiles)
    assert (entry.number if entry else "") == (number if side == "inside" else "")
    assert (fault(smiles).kind == "regulated") if entry else read(smiles)


def test_every_format_is_refused() -> None:
    mol = Chem.MolFromSmiles("CC(C)OP(C)(=O)F")
    inchi = "InChI=1S/C4H10FO2P/c1-4(2)7-8(3,5)6/h4H,1-3H3"
    assert fault("VX").message
    for text in ("sarin", inchi, Chem.MolToMolBlock(mol), "C C ( C ) O P ( C ) ( = O ) F"):
        assert fault(text).kind == "regulated"


def test_an_agent_over_the_arrow_is_refused_in_a_retro_question_too() -> None:
    assert fault("CO>CC(C)OP(C)(=O)F>COC").kind == "regulated"


def test_answers_with_such_chemicals_are_withheld_and_that_is_noted() -> None:
    def answer(smiles: str) -> Hypothesis:
        return Hypothesis(smiles, smiles, True, tuple(smiles), (-1.0,), -1.0, 0.3, 0.3)

    answers = (answer("CC(C)OP(C)(=O)F"), answer("CCO"))
    result = DecodeResult("CC", "ok", "", answers, Trace((), {"n": 2}, seconds=1.0))
    chosen = distinct.select_result([result], "CC", "forward", DecodeSettings(n=2, distinct=True))
    assert [hypothesis.smiles for hypothesis in chosen.hypotheses] == ["CCO"]
    assert distinct.WITHHELD in chosen.notes
    assert chosen.distinct is not None and chosen.distinct.merged == 0
    assert "CC(C)OP" not in str([chosen.distinct.omitted, chosen.distinct.excluded])


def test_every_line_of_the_table_can_be_read() -> None:
    lines = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert {len(line) for line in lines} == {4}
    assert {line[1] for line in lines} == {"always", "target", "never"}
    for *_, structure in lines:
        mol = Chem.MolFromSmiles(structure[1:]) if structure.startswith("=") else Chem.MolFromSmarts(structure)
        assert mol is not None, structure
    assert refusal("CCO.CC(=O)O") == ""
