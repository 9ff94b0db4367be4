"""Every way in reads a text the same: the library and HTTP (prepare), plans, checks and the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from helpers.paths import TESTS
from helpers.small import tiny_folder

from chemspec import chem
from chemspec.chem import formats
from chemspec.engine.engine import Engine
from chemspec.plan import search
from chemspec.plan.expand import Expander
from chemspec.plan.routes import Plan
from chemspec.review.reaction_check import check_reaction

ROWS = [json.loads(line) for line in (TESTS / "chem" / "texts.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def engine_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Engine]:
    engines = {
        task: Engine.load(tiny_folder(tmp_path_factory.mktemp(task), task=task), device="cpu", threads=1)  # type: ignore[arg-type]
        for task in ("forward", "retro")
    }
    return engines.__getitem__


def test_library_and_service_read_as_the_app_does(engine_of: Callable[[str], Engine]) -> None:
    for row in ROWS:
        read = formats.read_input(row["text"], task=row["task"])
        ready = engine_of(row["task"]).prepare(row["text"])
        if isinstance(read, chem.Fault):
            assert ready.refusal and ready.refusal.message == str(read), row
            assert ready.refusal.smiles == ""
        elif ready.refusal:  # this small model does not know all atoms, but says what was read
            assert "never seen" in ready.refusal.message, row
            assert ready.refusal.smiles == read.smiles
        else:
            assert ready.smiles == read.smiles, row
            assert set(read.notes) <= set(ready.notes)


def test_the_result_says_what_was_read(engine_of: Callable[[str], Engine]) -> None:
    result = engine_of("retro").predict("acetone", max_len=5)
    assert (result.query, result.smiles) == ("acetone", "CC(C)=O")


@pytest.mark.parametrize("row", [row for row in ROWS if row["task"] == "retro"], ids=lambda row: row["id"])
def test_plans_read_as_the_app_does(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    read = formats.read_input(row["text"], task="retro")
    monkeypatch.setattr(search.RouteSearch, "run", lambda self, _: Plan(self.target, "open", ""))
    found = search.plan(row["text"], Expander(None, keep=False), None)  # type: ignore[arg-type]
    if not isinstance(read, formats.Input):
        assert (found.status, found.message, found.target) == ("refused", str(read), row["text"])
    else:
        assert found.target == read.smiles
        assert found.notes == (read.notes if found.status == "open" else ())


def test_checks_read_as_the_app_does(engine_of: Callable[[str], Engine]) -> None:
    faults = [row for row in ROWS if "fault" in row]
    assert faults
    for row in faults:
        read = formats.read_input(row["text"], task=row["task"])
        with pytest.raises(ValueError, match="cannot be read") as error:
            check_reaction(engine_of(row["task"]), row["text"])
        assert str(read) in str(error.value)
