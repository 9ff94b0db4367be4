"""The page Your chemistry without a browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import pages
from helpers.paths import TESTS
from helpers.small import two_tiny_folders

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from chemspec.engine.registry import default_model
from chemspec.jobs import job_queue, jobs
from chemspec.jobs.jobs import JOBS
from chemspec.plan import cupboard
from chemspec.plan.cupboard import Made
from chemspec.precedents import own
from chemspec.train import fine_tuned
from chemspec.ui.own import making, runs, teaching

pytestmark = pytest.mark.ui
INVENTORY = "Name,Location,Quantity\nbenzoic acid,A2,40 g\naniline,B1,5 g\n"
TABLE = "id,reactants,product\n" + "".join(
    f"E{k},CC(=O)Cl.{'C' * k}N,{'C' * k}NC(C)=O\n" for k in range(2, 34)
) + "E99,CC(=O)Cl,CC(=O)Nc1ccccc1\n"  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CHEMSPEC_MODELS", str(two_tiny_folders(tmp_path / "models")))
    monkeypatch.setenv("FAKE_PREDICT", str(tmp_path))
    monkeypatch.setattr(job_queue, "PREDICT", (sys.executable, str(TESTS / "jobs" / "fake_predict.py")))
    monkeypatch.setattr(job_queue, "ensure_runner", lambda: None)
    return tmp_path / "home"


def opened(part: str = "Make from my shelf") -> AppTest:
    return pages.open_page("chemistry", state={"part": part})


def test_products_of_what_is_on_the_shelf(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no inventory yet" in pages.words(opened())
    (home / "stock").mkdir(parents=True)
    (home / "stock" / "lab.csv").write_text(INVENTORY)

    def make(kind: Any, pairs: Any, *_: Any, **__: Any) -> list[Made]:
        return [Made(pair, kind.reagents, "O=C(Nc1ccccc1)c1ccccc1", 0.97, (), "") for pair in pairs]

    monkeypatch.setattr(cupboard, "make", make)
    app = opened()
    assert "2 molecules on your shelves" in pages.words(app)
    assert app.selectbox(key="own_kind").options == ["Amide from an acid and an amine: 1 pair (1 × acid, 1 × amine)"]
    app.button[-1].click().run()
    assert not app.exception and "1 product of 1 pair" in pages.words(app)
    (row,) = app.dataframe[0].value.to_dict("records")
    assert row["place"] == "A2 · 40 g + B1 · 5 g" and row["probability"] == "97 %"
    app.text_input(key="own_using").set_value("ethanol")
    app.button[-1].click().run()
    assert "in no pair of this kind" in pages.words(app)


def test_a_table_becomes_precedents_and_a_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teaching, "is_local_only", lambda: True)
    app = opened("Learn from my reactions")
    app.file_uploader[0].set_value(("our amides.csv", TABLE.encode(), "text/csv")).run()
    assert "32 of 33 rows can be used" in pages.words(app)
    assert app.dataframe[0].value.to_dict("records") == [
        {"Row": 33, "What is wrong": "the reactants lack atoms of the product: 6 C, 1 N"}
    ]
    app.button(key="own_keep").click().run()
    assert own.kept_tables() == {"our-amides": 32} and "32 reactions are precedents now" in pages.words(app)
    if not [button for button in app.button if button.key == "own_train"]:
        pytest.skip("the extra train is not installed")
    app.button(key="own_train").click().run()
    (job,) = JOBS.all().values()
    assert (job.fine_tune, job.model, job.task, job.total, job.state) == ("our-amides", "retro", "retro", 32, "waiting")
    read = [own.reaction_of_cells(row) for row in jobs.uploaded_rows(job)]
    assert (read[0].label, read[0].product, len(read)) == ("E2", "CCNC(C)=O", 32)
    assert runs.describe_progress(job_queue.view_job(job.id)) == (0.0, "0 jobs before this one")
    app.button(key=f"own_cancel_{job.id}").click().run()
    assert JOBS.load(job.id).state == "stopped"
    app.button(key=f"own_delete_{job.id}").click().run()
    assert not JOBS.all() and not app.exception


def test_the_model_of_a_question_can_be_switched_and_switched_back(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(teaching, "is_local_only", lambda: True)
    (home.parent / "models" / "retro").rename(home.parent / "models" / "mine-1")
    two_tiny_folders(home.parent / "models")
    top = {"top": {rank: {"value": 0.5} for rank in ("1", "5")}, "reactions": 10}
    side = {"own": top, "public": top}
    facts = {"task": "retro", "start": "retro", "reactions": 40, "steps": 9, "date": "2026-11-29"}
    report = {**facts, "before": side, "after": side}
    monkeypatch.setattr(fine_tuned, "own_models", lambda: {"mine-1": report})
    app = opened("Learn from my reactions")
    assert "5 of 10 (50 %) | 5 of 10 (50 %) | +0" in pages.words(app)
    app.radio[0].set_value("mine-1").run()
    assert default_model("retro") == "mine-1"
    opened("Learn from my reactions").radio[0].set_value("retro").run()
    assert default_model("retro") == "retro"


def test_nothing_is_kept_on_a_server_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teaching, "is_local_only", lambda: False)
    app = opened("Learn from my reactions")
    assert "serves other computers" in pages.words(app) and not app.file_uploader
    assert making.SHOWN
