"""The page Batch without a browser."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import pages
from helpers.case_tables import table
from helpers.paths import TESTS
from helpers.small import tiny_folder

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from chemspec.jobs import job_queue, uploads
from chemspec.jobs.jobs import JOBS
from chemspec.ui.batch import job_form, job_view

pytestmark = pytest.mark.ui


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models with random weights; what answers is `fake_predict`."""
    folder = tmp_path_factory.mktemp("models")
    tiny_folder(folder / "forward", task="forward")
    tiny_folder(folder / "retro", task="retro")
    return folder


@pytest.fixture(autouse=True)
def place(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CHEMSPEC_MODELS", str(models))
    monkeypatch.setenv("FAKE_PREDICT", str(tmp_path))
    monkeypatch.setattr(job_queue, "PREDICT", (sys.executable, str(TESTS / "jobs" / "fake_predict.py")))
    return tmp_path


def opened(**query: str) -> AppTest:
    return pages.open_page("batch", query)


def uploaded(name: str, raw: bytes) -> AppTest:
    app = opened()
    app.file_uploader[0].set_value((name, raw, "text/plain")).run()
    assert not app.exception
    return app


def until(app: AppTest, ready: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.05)
        app.run()
        assert not app.exception


def shown(app: AppTest) -> list[dict[str, Any]]:
    return app.dataframe[0].value.to_dict("records")


def test_limits_are_told_and_the_sample_with_its_bad_row_is_predicted() -> None:
    app = opened()
    assert all(limit in pages.words(app) for limit in ("10 MB", "10,000 rows", "400 tokens"))
    app.toggle(key="batch_sample").set_value(True).run()
    assert app.selectbox[0].value == 2
    assert shown(app)[4]["check"].startswith("✗ ring 1 is opened")
    assert all(row["drawing"].startswith("data:image/svg") for row in shown(app)[:4])
    app.button(key="batch_start").click().run()
    until(app, lambda: any("12** of 12 rows" in item.value for item in app.markdown))
    until(app, lambda: "batch_cancel" not in [item.key for item in app.button])
    assert any("**1** with an error" in item.value for item in app.markdown)
    first = shown(app)
    assert len(first) == job_view.PAGE
    assert first[0]["status"] == "✓ answered" and first[0]["best"].startswith("data:image/svg")
    assert first[4]["status"].startswith("✗ not accepted: ring 1")
    app.toggle[0].set_value(True).run()
    assert [row["row"] for row in shown(app)] == [5]
    (job,) = JOBS.all()
    assert len(shown(opened(job=job))) == job_view.PAGE
    app.button(key="batch_back").click().run()
    app.selectbox(key="batch_own").set_value(job).run()
    app.button(key="batch_delete").click().run()
    assert not app.exception
    assert not JOBS.all() and not JOBS.folder(job).exists()


def test_a_file_that_cannot_be_used_is_told_and_its_name_is_text() -> None:
    (message,) = uploaded("![x](http://evil/x.png)<b>.csv", b"a,b\n1,2,3\n").error
    assert "3 cells" in message.value
    assert "![x]" not in message.value and "<b>" not in message.value


def test_hostile_cells_reach_the_page_as_text_only() -> None:
    evil = '<img src=x onerror="alert(1)">'
    app = uploaded("<script>.csv", f'smiles,"{evil.replace(chr(34), chr(34) * 2)}"\n<script>,=1+1\n'.encode())
    assert shown(app)[0]["query"] == "<script>"
    assert shown(app)[0]["own_1"] == "=1+1"
    assert not any("<script>" in item.value for item in (*app.markdown, *app.caption, *app.subheader))


def test_a_job_is_cancelled_and_resumed(place: Path) -> None:
    app = uploaded("a.smi", b"hold\nC\n")
    app.button(key="batch_start").click().run()
    until(app, (place / "held").exists)
    app.button(key="batch_cancel").click().run()
    assert "Stopped" in pages.words(app) and "**0** of 2 rows" in pages.words(app)
    (place / "go").touch()
    app.button(key="batch_resume").click().run()
    until(app, lambda: "**2** of 2 rows" in pages.words(app))


@pytest.mark.parametrize(("lines", "task"), table("ui/guessed_tasks"))
def test_the_task_is_guessed_from_the_heading_or_the_rows(lines: list[str], task: str) -> None:
    guess, reason = job_form.guess_task(uploads.read_upload("\n".join(lines).encode(), "a.csv"))
    assert (guess, bool(reason)) == (task, bool(task))


def test_a_list_of_targets_opens_with_the_question_how_they_are_made() -> None:
    app = uploaded("a.smi", b"CC(=O)Nc1ccccc1\nCC(=O)Oc1ccccc1C(=O)O\n")
    assert app.segmented_control[0].value == "retro"
    assert any("Retro is proposed: one molecule in 2 of the first 2 rows" in item.value for item in app.caption)
    app.segmented_control[0].set_value("forward").run()
    assert app.segmented_control[0].value == "forward"
    app = uploaded("a.smi", b"CCO.CC(=O)O\n")
    assert app.segmented_control[0].value == "forward"
    assert [row["query"] for row in shown(app)] == ["CCO.CC(=O)O"]


def test_the_preview_checks_rows_as_the_model_does_and_counts_those_of_the_other_question() -> None:
    app = uploaded("a.smi", b"CCO.CC(=O)O\n[Ir].CCO\nCCO\nCC.CCC>>CCCCC\n")
    assert shown(app)[1]["check"].startswith("✗ the model has never seen '[Ir]'")
    assert app.warning[0].value.startswith("1 of the first 4 rows hold one molecule")
    app.segmented_control[0].set_value("retro").run()
    assert app.warning[0].value.startswith("2 of the first 4 rows hold several molecules")


@pytest.mark.parametrize("job", ["a" * 22, "../../etc/passwd", "<script>"])
def test_a_link_to_no_job_is_told(job: str) -> None:
    app = opened(job=job)
    assert "This job cannot be opened" in app.error[0].value


def test_a_home_that_cannot_be_written_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "file").touch()
    monkeypatch.setenv("CHEMSPEC_HOME", str(place / "file"))
    app = uploaded("a.smi", b"CCO\n")
    app.button(key="batch_start").click().run()
    assert "could not be started" in app.error[0].value and "CHEMSPEC_HOME" in pages.words(app)
