"""Batch in a real browser: its server is killed, and every row is there once in the end."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Callable
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


def some_rows(home: Path, more: int) -> None:
    """Waits until there are so many rows on disk."""
    end = time.monotonic() + 300
    while sum(file.read_bytes().count(b"\n") for file in home.glob("jobs/*/rows.jsonl")) < more:
        assert time.monotonic() < end
        time.sleep(0.01)


def downloaded(page: Any, label: str) -> bytes:
    with page.expect_download() as found:
        page.get_by_role("button", name=label, exact=True).click()
    return Path(found.value.path()).read_bytes()


def test_a_job_survives_a_killed_server(new_server: Callable[..., Any], app: Any, tmp_path: Path) -> None:
    queries = molecules()
    table = io.StringIO()
    csv.writer(table).writerows([["name", "smiles"], *([f"=n{k}", q] for k, q in enumerate(queries))])
    first = new_server(CHEMSPEC_HOME=str(tmp_path))
    page = app.new_page()
    page.set_default_timeout(300_000)  # a job has a low priority and loads its model first
    page.goto(first.url + "/batch?task=retro")
    upload(page, f"{SCRIPT}.csv", table.getvalue().encode())
    page.get_by_role("button", name=f"Predict {ROWS} rows").click()

    page.wait_for_url("**job=*")
    some_rows(tmp_path, 3)
    link = page.url.replace(first.url, "")
    assert re.fullmatch(r"/batch\?(task=retro&)?job=[\w-]{22}", link)
    assert page.get_by_text(f"{SCRIPT}.csv").is_visible()  # as text
    page.goto("about:blank")
    first.process.kill()
    first.process.wait()

    second = new_server(CHEMSPEC_HOME=str(tmp_path))
    page = app.new_page()
    page.set_default_timeout(300_000)  # a job has a low priority and loads its model first
    page.goto(second.url + link)
    page.get_by_text("Done", exact=True).wait_for()
    assert page.get_by_text(f"{ROWS} of {ROWS} rows, 1 with an error").is_visible()
    app.settle(page)

    rows = list(csv.DictReader(io.StringIO(downloaded(page, "CSV").decode())))
    assert [row["query"] for row in rows] == queries
    assert [row["name"] for row in rows] == [f"'=n{k}" for k in range(ROWS)]
    assert [row["status"] == "ok" for row in rows] == [k != BAD - 1 for k in range(ROWS)] and rows[0]["smiles_1"]
    page.get_by_text("Only rows with errors").click()
    page.get_by_test_id("stPagination").wait_for(state="detached")
    page.goto("about:blank")  # a page that loses its server complains
    second.stop()


def test_the_sample_is_one_click_away_in_the_dark(app: Any) -> None:
    page = app.new_page(color_scheme="dark")
    page.set_default_timeout(300_000)  # a job has a low priority and loads its model first
    page.goto(app.url + "/batch")
    page.get_by_text("Use the sample file").click()
    page.get_by_role("button", name="Predict 12 rows").click()
    page.get_by_text("12 of 12 rows, 1 with an error").wait_for()
    page.get_by_text("Done", exact=True).wait_for()
    app.settle(page)
    frame = page.get_by_test_id("stDataFrame").first
    frame.hover()
    assert not page.get_by_role("button", name=re.compile("Download as CSV")).is_visible()
    # A tick in front of a row shows the way to the page Predict.
    frame.click(position={"x": 17, "y": 84})
    page.get_by_role("button", name="Open row 1 in Predict").click()
    page.wait_for_url(re.compile(r"/\?task=retro&smi="))
