"""Jobs that plan routes: every target has its row, whatever ends the work, and the files say what the rows say."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("syntheseus")
pytest.importorskip("apted")

from helpers.toy import ACID_AMIDE, AMIDE, BOUGHT, ESTER_AMIDE, Toy, retro

from chemspec.io.crashes import FAILED
from chemspec.jobs import jobs, planned, rows, worker
from chemspec.jobs.jobs import Job
from chemspec.jobs.uploads import Sheet
from chemspec.plan import search
from chemspec.settings import DecodeSettings
from chemspec.stock.offers import Offer, PriceList, inchikey

PRICES = PriceList({inchikey(smiles): Offer(1.5, "EUR/g") for smiles in BOUGHT}, (), len(BOUGHT))


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(planned, "load_fastest", lambda *_, **__: retro())
    monkeypatch.setattr(planned, "load_engines", lambda tasks, **_: dict.fromkeys(tasks, Toy({})))
    return tmp_path


def make(targets: Sequence[str], **more: Any) -> Job:
    sheet = Sheet(("name", "smiles"), tuple((f"=n{k}", target) for k, target in enumerate(targets)))
    facts: dict[str, Any] = {"file": "f.csv", "column": 1, "model": "m", "digest": "d1", "task": "retro", "cards": 1}
    return jobs.create_job(sheet, settings=DecodeSettings(n=10), prices=PRICES, **{**facts, "within": 15.0, **more})


def answered(job: Job) -> list[dict[str, Any]]:
    return rows.parse_rows(rows.whole_lines(jobs.answers_file(job)))


def watch(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets that are planned from now on; "die" ends the plan."""
    asked: list[str] = []
    plan = search.plan

    def watched(target: str, *more: Any) -> Any:
        asked.append(target)
        if target == "die":
            raise RuntimeError("broken")
        return plan(target, *more)

    monkeypatch.setattr(search, "plan", watched)
    return asked


def test_every_target_has_its_row_and_a_price_and_one_that_breaks_costs_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch(monkeypatch)
    job = make([AMIDE, "die", "C" * 3000, "", "aspirin"])
    worker.run_job(job)
    lines = answered(job)
    assert [line["status"] for line in lines] == ["solved", "failed", "refused", "refused", "open"]
    assert len(rows.answer_lines(job).refresh().failed) == 4, "the page counts the others"
    assert lines[0]["row"]["price"] == "4.50" and len(lines[0]["routes"]) == 1
    table = [*csv.DictReader(planned.targets_as_csv(job).decode().splitlines())]
    assert [row["name"] for row in table] == [f"'=n{k}" for k in range(5)] and table[0]["steps"] == "3"
    assert "3,000 characters" in table[2]["message"] and table[4]["smiles"].startswith("CC(=O)Oc1")
    assert [json.loads(line) for line in planned.targets_as_jsonl(job).splitlines()] == lines


def test_a_job_that_was_killed_goes_on_behind_its_last_whole_line(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = watch(monkeypatch)
    job = make([AMIDE, ESTER_AMIDE, "CCO"])
    worker.run_job(job)
    path = jobs.answers_file(job)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    worker.run_job(job)
    assert asked == [AMIDE, ESTER_AMIDE, "CCO", "CCO"]
    assert [line["query"] for line in answered(job)] == [AMIDE, ESTER_AMIDE, "CCO"]


def test_a_target_on_which_processes_die_fails_and_the_others_are_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool dies with it, then this process does, twice; what the crash log keeps is all that a new one has."""
    pools: list[list[str]] = []

    def die_at_the_second(targets: Sequence[str], load: Any, workers: int) -> Iterator[Any]:
        pools.append([*targets])
        yield load()(targets[0])
        raise ValueError("a process has died")

    monkeypatch.setattr(planned, "choose_workers", lambda _: 2)
    monkeypatch.setattr(planned, "plan_in_processes", die_at_the_second)
    targets = [AMIDE, "CCO", "CCC", "CCN", "CCCl", "CCF", "CCBr", "CCI", ACID_AMIDE]
    job = make(targets)
    crash = jobs.answers_file(job).with_name("rows.jsonl.crash")
    crash.write_text(
        json.dumps({"row": 0, "rows": 1, "weights": [[0, 5]]}) + "\nFatal Python error: Segmentation fault"
    )
    worker.run_job(job)
    lines = answered(job)
    assert [line["query"] for line in lines] == targets
    assert [line["row"].get("message") == FAILED for line in lines] == [True] + [False] * 8
    assert pools == [targets[1:], targets[7:]], "in a pool again after those that it had begun"
    assert lines[8]["status"] == "solved"


@pytest.mark.parametrize(
    ("targets", "within", "fault"),
    [(5_000, 5.0, ""), (5_001, 1.0, "5,000 are the limit"), (5_000, 15.0, "all together"), (9, 60.0, "at most 15")],
)
def test_a_job_of_routes_has_limits(targets: int, within: float, fault: str) -> None:
    problem = jobs.planning_problem(targets, within)
    assert fault in problem and bool(problem) == bool(fault)
    if fault:
        with pytest.raises(ValueError, match=fault):
            make(["C"] * targets, within=within)
