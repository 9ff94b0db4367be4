"""The app opens on a page that answers."""

from __future__ import annotations

import pytest
from paths import ROOT

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from chemspec.engine.engine import installed_models

APP = ROOT / "app.py"


@pytest.mark.ui
def test_the_first_page_opens_and_answers() -> None:
    app = AppTest.from_file(str(APP), default_timeout=240).run()
    assert not app.exception
    assert app.title[0].value == "Predict"
    if "retro" not in {folder.name for folder in installed_models()}:
        pytest.skip("no retro model in assets/models")
    app = AppTest.from_file(str(APP), default_timeout=240)
    app.query_params["task"] = "retro"
    app.query_params["smi"] = "CC(=O)Nc1ccccc1"
    app.run()
    assert not app.exception
    assert "CC(=O)OC(C)=O.Nc1ccccc1" in {item.value for item in app.code}
