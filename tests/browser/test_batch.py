"""Batch in a real browser: jobs of the models, their downloads, and the way from a row to Predict or Plan."""

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


def test_routes_are_planned_on_a_phone_and_a_row_leads_to_plan(app: Any) -> None:
    page = app.new_page(viewport={"width": 390, "height": 900})
    page.set_default_timeout(300_000)
    page.goto(app.url + "/batch")
    file = {"name": "designs.smi", "mimeType": "text/plain", "buffer": b"COc1ccc(CNC(=O)c2ccccc2)cc1\n"}
    page.locator("input[type=file]").first.set_input_files(file)
    page.get_by_role("radio", name="Routes").or_(page.get_by_role("button", name="Routes")).first.click()
    page.get_by_text("1 s", exact=True).click()
    page.get_by_role("button", name="Plan 1 target").click()
    page.get_by_text("1 of 1 target, 1 with a route from stock").wait_for()
    page.get_by_text("Done", exact=True).wait_for()
    app.settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_test_id("stDataFrame").first.click(position={"x": 17, "y": 84})
    page.get_by_role("button", name="Open row 1 in Plan").click()
    page.wait_for_url(re.compile(r"/plan\?smi="))
