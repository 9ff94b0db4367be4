"""Queries asked before are kept for the visit, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest


def script() -> None:
    import streamlit as st

    from chemspec.settings import DecodeSettings
    from chemspec.types import DecodeResult, Hypothesis
    from chemspec.ui.predict import query_panel

    answer = Hypothesis("CCO", "CCO", True, ("C",), (0.0,), 0.0, 1.0)
    if name := st.text_input("ask"):
        question = query_panel.Question("forward", "forward", name, DecodeSettings())
        query_panel.add_to_history(question, DecodeResult(name, "ok", "", (answer,)))
    query_panel.show_history_menu()


@pytest.mark.ui
def test_queries_are_kept_for_the_visit_and_not_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    monkeypatch.setenv("CHEMSPEC_HISTORY", "1")  # of an earlier version, which shared them with all visitors
    app = AppTest.from_function(script, default_timeout=240).run()
    for text in ("CC", "CN", "CC"):
        app.text_input[0].set_value(text).run()
    assert [smiles for _, _, smiles, _ in app.session_state["predict_history"]] == ["CC", "CN"]
    assert app.menu_button[0].options == ["CC → CCO", "CN → CCO", "Clear the history"]
    assert not list(tmp_path.iterdir())
    assert not AppTest.from_function(script, default_timeout=240).run().menu_button
    app.text_input[0].set_value("").run()
    app.menu_button[0].click(-1).run()
    assert not app.exception and not app.menu_button
