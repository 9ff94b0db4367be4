"""Batch > Routes without a browser: a job is made, its targets stand in a table, and they lead to Plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import pages
from helpers.small import tiny_folder

pytest.importorskip("streamlit")

from chemspec.jobs import job_queue, jobs
from chemspec.jobs.jobs import JOBS, Job
from chemspec.system import extras
from chemspec.ui.batch import routes_view

pytestmark = pytest.mark.ui
AMINE, ACID = "Nc1ccc(C)cc1", "OC(=O)c1ccccc1"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_folder(tmp_path / "models" / "retro", task="retro")
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr(job_queue, "ensure_runner", lambda: None)  # its rows are written here


def chosen(raw: bytes) -> Any:
    """The page with a file and the question Routes."""
    app = pages.open_page("batch")
    app.file_uploader[0].set_value(("targets.csv", raw, "text/csv")).run()
    return app.segmented_control[0].set_value("routes").run()


def write_rows(job: Job, *entries: dict[str, Any]) -> None:
    lines = (json.dumps({"query": row["target"], "status": row["status"], "row": row}) + "\n" for row in entries)
    jobs.answers_file(job).write_text("".join(lines))


def entry(target: str, steps: int, weakest: float, **more: Any) -> dict[str, Any]:
    filled = {"steps": steps, "weakest_step": weakest, "probability": weakest**steps, "price": ""}
    filled |= {"building_blocks": "CC(=O)O", "not_in_stock": "", "intermediates": []}
    return {"target": target, "smiles": target, "status": "solved", **filled, **more}


def test_a_job_of_routes_is_made_shown_and_sorted() -> None:
    app = chosen(b"smiles,name\nCCOC(C)=O,=1+1\nCCN,<b>\nCCCO,c\nx1,d\n")
    assert [*app.segmented_control[1].options] == ["1 s", "2 s", "5 s", "15 s"]
    app.segmented_control[1].set_value(2)
    app.number_input(key="batch_n_routes").set_value(7)
    app.run().button(key="batch_start").click().run()
    assert not app.exception
    (job,) = JOBS.all().values()
    assert (job.within, job.settings.n, job.task, job.state) == (2.0, 7, "retro", "waiting") and job.stock
    shared = {"intermediates": [AMINE, ACID]}
    refused = {"target": "x1", "smiles": "x1", "status": "refused", "message": "<i>no</i> molecule"}
    open_ = entry("CCN", 1, 0.9, status="open", message="no route from stock", not_in_stock="CC=O", **shared)
    write_rows(job, entry("CCOC(C)=O", 2, 0.5, price="3.50", **shared), open_, entry("CCCO", 3, 0.8), refused)
    app.run()
    assert "**4** of 4 targets, **2** with a route from stock" in pages.words(app)
    assert "Routes within 2 s each" in pages.words(app)
    table = app.dataframe[0].value.to_dict("records")
    assert [row["row"] for row in table] == [1, 2, 3, 4] and table[0]["drawing"].startswith("data:image/svg")
    assert table[0]["blocks"] == "acetic acid" and table[0]["own_1"] == "=1+1"
    assert table[1]["lacking"] and table[3]["status"] == "✗ not accepted: <i>no</i> molecule"
    assert table[0]["shared"] == f"{AMINE} (2) {ACID} (2)" and not table[2]["shared"]
    app.selectbox(key=f"batch_order_{job.id}").set_value("weakest step").run()
    assert [row["row"] for row in app.dataframe[0].value.to_dict("records")] == [3, 1, 2, 4]
    app.segmented_control(key=f"batch_view_{job.id}").set_value(routes_view.VIEWS[1]).run()
    assert not app.exception and "2 of 4 targets share 2 intermediates" in pages.words(app)
    assert pages.html(app).count("<img") == 1 and f'alt="{ACID}, in the routes to 2 targets' in pages.html(app)


@pytest.mark.parametrize("order", routes_view.ORDERS)
def test_every_order_lists_every_row_once_and_those_without_a_route_last(order: str) -> None:
    refused = {"target": "x", "smiles": "x", "status": "refused", "shared": ""}
    planned = [refused, entry("C", 2, 0.5, price="3.50", shared="CC (2)"), entry("CC", 1, 0.9, shared="")]
    numbers = routes_view.sorted_numbers(planned, order)
    assert sorted(numbers) == [0, 1, 2] and (order == "as in the file" or numbers[-1] == 0)
    assert numbers[0] == {"as in the file": 0, "steps": 2, "probability": 2, "weakest step": 2}.get(order, 1)


def test_times_that_would_take_days_are_not_offered_nor_more_targets_than_a_job_may_have() -> None:
    app = chosen(b"smiles\n" + b"CCO\n" * 2000)
    assert [*app.segmented_control[1].options] == ["1 s", "2 s", "5 s"]
    app = chosen(b"smiles\n" + b"CCO\n" * 5001)
    assert "5,000 are the limit" in app.error[0].value and "batch_start" not in [item.key for item in app.button]


def test_what_planning_needs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda package: package != "syntheseus")
    assert "pip install 'chemspec-smiles[plan]'" in chosen(b"smiles\nCCO\n").info[0].value
