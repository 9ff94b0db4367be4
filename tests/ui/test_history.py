"""Queries asked before are kept for the visit, and on disk if whoever runs the app wants it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from chemspec.ui.common import history
from chemspec.ui.common.history import Entry


def test_the_newest_of_each_query_counts() -> None:
    first, second = Entry("forward", "CC", "CCO", 1.0), Entry("forward", "CN", "CNO", 2.0)
    again = Entry("forward", "CC", "CCC", 3.0)
    other = Entry("retro", "CC", "C", 0.5)
    assert history.newest([first, second, again, other]) == [again, second, other]


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    assert history.read(path) == []
    for number in range(5):
        history.append(path, Entry("forward", f"C{'C' * number}", "line\nend", number))
    history.append(path, Entry("forward", "C", "newer", 10.0))
    entries = history.read(path)
    assert [entry.at for entry in entries] == [10.0, 4.0, 3.0, 2.0, 1.0]
    assert entries[0] == Entry("forward", "C", "newer", 10.0)


def test_a_file_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_ON_DISK", 10)
    monkeypatch.setattr(history, "MOST_BYTES", 1000)
    path = tmp_path / "history.jsonl"
    for number in range(100):
        history.append(path, Entry("forward", str(number), "", number))
        assert path.stat().st_size < 1100
    assert [entry.smiles for entry in history.read(path)] == [str(number) for number in range(99, 89, -1)]


def script() -> None:
    import streamlit as st

    from chemspec.types import DecodeResult, Hypothesis
    from chemspec.ui.common import history

    answer = Hypothesis("CCO", "CCO", True, ("C",), (0.0,), 0.0, 1.0)
    if name := st.text_input("ask"):
        history.remember("forward", name, DecodeResult(name, "ok", "", (answer,)))
    st.button("clear", on_click=history.clear)
    st.write([entry.smiles for entry in history.recent()])
    st.write(history.fault())


@pytest.mark.ui
def test_nothing_goes_to_disk_unless_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    monkeypatch.delenv("CHEMSPEC_HISTORY", raising=False)
    app = AppTest.from_function(script, default_timeout=240).run()
    app.text_input[0].set_value("CC").run()
    app.text_input[0].set_value("CN").run()
    app.text_input[0].set_value("CC").run()
    assert app.json[0].value == '["CC", "CN"]'
    assert not list(tmp_path.iterdir())
    assert AppTest.from_function(script, default_timeout=240).run().json[0].value == "[]"


@pytest.mark.ui
def test_on_disk_the_list_outlives_the_visit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    monkeypatch.setenv("CHEMSPEC_HISTORY", "1")
    AppTest.from_function(script, default_timeout=240).run().text_input[0].set_value("CC").run()
    later = AppTest.from_function(script, default_timeout=240).run()
    assert later.json[0].value == '["CC"]'
    later.button[0].click().run()
    assert later.json[0].value == "[]"
    assert AppTest.from_function(script, default_timeout=240).run().json[0].value == "[]"


@pytest.mark.ui
def test_a_broken_file_costs_only_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "history.jsonl").write_text("this is a poem")
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    monkeypatch.setenv("CHEMSPEC_HISTORY", "1")
    app = AppTest.from_function(script, default_timeout=240).run()
    app.text_input[0].set_value("CC").run()
    assert not app.exception
    assert app.json[0].value == '["CC"]'
    assert "JSON" in app.markdown[-1].value
