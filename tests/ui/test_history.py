"""Queries asked before are kept for the visit, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest


def script() -> None:
    import streamlit as st

    from chemspec.types import DecodeResult, Hypothesis
    from chemspec.ui.predict import history

    answer = Hypothesis("CCO", "CCO", True, ("C",), (0.0,), 0.0, 1.0)
    if name := st.text_input("ask"):
        history.add_to_history("forward", name, DecodeResult(name, "ok", "", (answer,)))
    st.button("clear", on_click=history.clear_history)
    st.write([entry.smiles for entry in history.recent_queries()])


@pytest.mark.ui
def test_queries_are_kept_for_the_visit_and_not_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    monkeypatch.setenv("CHEMSPEC_HISTORY", "1")  # of an earlier version, which shared them with all visitors
    app = AppTest.from_function(script, default_timeout=240).run()
    for text in ("CC", "CN", "CC"):
        app.text_input[0].set_value(text).run()
    assert app.json[0].value == '["CC", "CN"]'
    assert not list(tmp_path.iterdir())
    assert AppTest.from_function(script, default_timeout=240).run().json[0].value == "[]"
    app.text_input[0].set_value("").run()
    app.button[0].click().run()
    assert app.json[0].value == "[]"
