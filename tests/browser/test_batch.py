"""Batch in a real browser: cancelled, resumed, its server killed, and every row there once in the end."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

from chemspec.engine.engine import installed_models

pytestmark = pytest.mark.skipif(not installed_models(), reason="no model in assets/models")
EXAMPLES = ROOT / "assets" / "examples"
SCRIPT = "<script>alert(1)</script>"
ROWS = 60
BAD = 3  # the number of a row that cannot be read


def molecules() -> list[str]:
    lines = (EXAMPLES / "bench_retro.smi").read_text().splitlines()
    found = [lines[k % len(lines)].split()[0] for k in range(ROWS)]
    found[BAD - 1] = "c1ccccc"
    return found


def upload(page: Any, name: str, raw: bytes) -> None:
    page.get_by_test_id("stFileUploaderDropzone").wait_for()
    page.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(
        {"name": name, "mimeType": "text/csv", "buffer": raw}
    )


def done(page: Any) -> int:
    text = page.get_by_text(re.compile(rf"\d+ of {ROWS} rows")).first.inner_text()
    return int(text.split()[0])


def some_rows(home: Path, more: int) -> None:
    """Waits, on disk, which is quicker than the page, until so many rows have been added."""

    def count() -> int:
        return sum(file.read_bytes().count(b"\n") for file in home.glob("jobs/*/rows.jsonl"))

    before, end = count(), time.monotonic() + 300
    while count() < before + more:
        assert time.monotonic() < end
        time.sleep(0.01)


def downloaded(page: Any, label: str) -> bytes:
    with page.expect_download() as found:
        page.get_by_role("button", name=label, exact=True).click()
    return Path(found.value.path()).read_bytes()


def test_a_job_survives_cancel_and_a_killed_server(new_server: Callable[..., Any], app: Any, tmp_path: Path) -> None:
    queries = molecules()
    table = io.StringIO()
    csv.writer(table).writerows([["name", "smiles"], *([f"=n{k}", q] for k, q in enumerate(queries))])
    first = new_server(CHEMSPEC_HOME=str(tmp_path))
    page = app.new_page()
    page.set_default_timeout(300_000)  # a job has a low priority and loads its model first
    page.goto(first.url + "/batch?task=retro")
    upload(page, f"{SCRIPT}.csv", table.getvalue().encode())
    page.get_by_role("button", name=f"Predict {ROWS} rows").click()

    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Stopped", exact=True).wait_for()
    assert done(page) < ROWS
    assert page.get_by_text(f"{SCRIPT}.csv").is_visible()  # as text
    page.get_by_role("button", name="Resume").click()
    some_rows(tmp_path, 3)
    with closing(sqlite3.connect(tmp_path / "chemspec.sqlite3")) as base:
        ((prediction,),) = base.execute("SELECT pid FROM runner").fetchall()
    os.kill(prediction, signal.SIGSTOP)  # nothing happens any more, and then never again
    link = page.url.replace(first.url, "")
    assert re.fullmatch(r"/batch\?(task=retro&)?job=[\w-]{22}", link)
    page.goto("about:blank")
    first.process.kill()
    first.process.wait()

    second = new_server(CHEMSPEC_HOME=str(tmp_path))
    page = app.new_page()
    page.set_default_timeout(300_000)  # a job has a low priority and loads its model first
    page.goto(second.url + link)
    page.get_by_text("Running", exact=True).wait_for()  # as it was, for a server is not what works at it
    assert 3 <= done(page) < ROWS
    os.kill(prediction, signal.SIGKILL)
    page.get_by_text("Failed", exact=True).wait_for()
    page.get_by_text("ended by the system (signal 9)").wait_for()
    page.get_by_role("button", name="Resume").click()
    page.get_by_text("Done", exact=True).wait_for()
    assert page.get_by_text(f"{ROWS} of {ROWS} rows, 1 with an error").is_visible()
    app.settle(page)

    lines = [json.loads(line) for line in downloaded(page, "JSONL").splitlines()]
    assert [line["query"] for line in lines] == queries
    assert [line["row"] for line in lines if line["status"] != "ok"] == [BAD]
    assert lines[0]["input"] == {"name": "=n0"}
    rows = list(csv.DictReader(io.StringIO(downloaded(page, "CSV").decode())))
    assert [row["query"] for row in rows] == queries
    assert [row["name"] for row in rows] == [f"'=n{k}" for k in range(ROWS)]
    assert rows[0]["smiles_1"] == lines[0]["review"]["suggestions"][0]["smiles"] != ""
    page.get_by_text("Only rows with errors").click()
    page.get_by_test_id("stPagination").wait_for(state="detached")
    page.goto("about:blank")  # a page that loses its server complains
    second.stop()


def test_the_sample_is_one_click_away_in_the_dark(app: Any) -> None:
    page = app.new_page(color_scheme="dark")
    page.set_default_timeout(300_000)  # a job has a low priority and loads its model first
    page.goto(app.url + "/batch")
    page.get_by_role("button", name="Use the sample file").click()
    page.get_by_role("button", name="Predict 12 rows").click()
    page.get_by_text("12 of 12 rows, 1 with an error").wait_for()
    page.get_by_text("Done", exact=True).wait_for()
    app.settle(page)
    frame = page.get_by_test_id("stDataFrame").first
    frame.hover()
    assert not page.get_by_role("button", name=re.compile("Download as CSV")).is_visible()
    # A tick in front of a row shows all of its answers, and the way to the page Predict.
    frame.click(position={"x": 17, "y": 84})
    page.get_by_role("button", name="Open in Predict").click()
    page.wait_for_url(re.compile(r"/\?task=retro&smi="))
