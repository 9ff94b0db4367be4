"""The app opens and answers."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from chemspec.engine import installed

APP = Path(__file__).parent.parent / "app.py"


@pytest.mark.ui
def test_the_page_opens_and_answers() -> None:
    app = AppTest.from_file(str(APP), default_timeout=30).run()
    assert not app.exception
    if not installed():
        pytest.skip("no model in assets/models")
    app.text_input[0].set_value("CC(").run()
    assert not app.exception
    assert "never closed" in app.error[0].value
    app.text_input[0].set_value("CC(=O)Nc1ccccc1").run()
    assert not app.exception
    assert len(app.dataframe[0].value) == 5
