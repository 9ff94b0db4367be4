"""Batch in a real browser: the sample is predicted by a job of the models, downloaded, and leads to Predict."""

from __future__ import annotations

import csv
import re
from typing import Any

from helpers.pages import weights

pytestmark = weights


def test_the_sample_is_one_click_away_in_the_dark(app: Any) -> None:
    page = app.new_page(color_scheme="dark")
    page.set_default_timeout(300_000)  # a job has a low priority and loads its model first
    page.goto(app.url + "/batch")
    page.get_by_text("Use the sample file").click()
    page.get_by_role("button", name="Predict 12 rows").click()
    page.get_by_text("12 of 12 rows, 1 with an error").wait_for()
    page.get_by_text("Done", exact=True).wait_for()
    app.settle(page)
    with page.expect_download() as file:
        page.get_by_role("button", name="CSV", exact=True).click()
    rows = [*csv.DictReader(file.value.path().read_text(encoding="utf-8-sig").splitlines())]
    assert [row["status"] == "ok" for row in rows] == [number != 5 for number in range(1, 13)] and rows[0]["smiles_1"]
    frame = page.get_by_test_id("stDataFrame").first
    frame.hover()
    assert not page.get_by_role("button", name=re.compile("Download as CSV")).is_visible()
    # A tick in front of a row shows the way to the page Predict.
    frame.click(position={"x": 17, "y": 84})
    page.get_by_role("button", name="Open row 1 in Predict").click()
    page.wait_for_url(re.compile(r"/\?task=retro&smi="))
