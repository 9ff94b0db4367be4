"""Collections: what is kept comes back, is found by structure, and a damaged file is told of."""

from __future__ import annotations

import csv
import io
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import pages
from helpers.case_tables import table

pytest.importorskip("streamlit")

from chemspec.io import spreadsheets
from chemspec.jobs.store import FILE, Documents
from chemspec.ui.collect import collections_view
from chemspec.ui.collect.answers import ANSWERS, SavedAnswer, answer_row, find_matching

AMIDE = SavedAnswer(
    "Lidocaine", "retro", "retro", "CCN(CC)CC(=O)Nc1c(C)cccc1C", "CCN(CC)CC(=O)Cl.Cc1cccc(C)c1N", "Amide", 0.35
)
SUZUKI = SavedAnswer(
    "Biaryl", "forward", "forward", "Brc1ccncc1.OB(O)c1ccccc1", "c1ccc(-c2ccncc2)cc1", "Suzuki", 0.9, "=x"
)


Answers = Documents[SavedAnswer]


@pytest.fixture
def store(tmp_path: Path) -> Answers:
    made = replace(ANSWERS, home=tmp_path)
    keep(made, AMIDE, added=1.0)
    keep(made, SUZUKI, added=2.0)
    return made


def keep(answers: Answers, answer: SavedAnswer, **changes: Any) -> None:
    changed = replace(answer, **changes)
    answers.save(changed.id, changed)


def file_of(answers: Answers) -> Path:
    assert answers.home
    return answers.home / FILE


def stored(answers: Answers) -> list[SavedAnswer]:
    """The newest first."""
    return [*answers.all().values()][::-1]


def test_what_is_kept_comes_back_changed_and_once(store: Answers) -> None:
    assert stored(store) == [replace(SUZUKI, added=2.0), replace(AMIDE, added=1.0)]
    assert file_of(store).stat().st_mode & 0o077 == 0
    keep(store, AMIDE, note="again", added=3.0)
    first, second = stored(store)
    assert (first.note, second.label) == ("again", "Suzuki")
    store.change(first.id, lambda one: replace(one, note="50 °C; '\"", status="tried"))
    assert (stored(store)[0].note, stored(store)[0].status) == ("50 °C; '\"", "tried")
    store.delete(first.id)
    assert [one.label for one in stored(store)] == ["Suzuki"]


@pytest.mark.parametrize(("how", "labels"), table("ui/collection_searches"))
def test_search(store: Answers, how: dict[str, str], labels: tuple[str, ...]) -> None:
    assert tuple(one.label for one in find_matching(stored(store), **how)) == labels


def test_a_structure_that_cannot_be_read_is_told(store: Answers) -> None:
    with pytest.raises(ValueError, match="neither"):
        find_matching(stored(store), structure="C((")


def test_what_somebody_else_wrote_into_the_file_is_left_out(store: Answers) -> None:
    with closing(sqlite3.connect(file_of(store))) as base, base:
        base.execute("UPDATE documents SET json = replace(json, 'idea', 'gone') WHERE json LIKE '%Amide%'")
    assert [one.label for one in stored(store)] == ["Suzuki"]


def test_a_table_has_the_reaction_and_no_formula(store: Answers) -> None:
    first, second = csv.DictReader(io.StringIO(spreadsheets.rows_to_csv([answer_row(one) for one in stored(store)])))
    assert first["reaction"] == f"{SUZUKI.query}>>{SUZUKI.answer}" and not first["note"].startswith("=")
    assert second["reaction"] == f"{AMIDE.answer}>>{AMIDE.query}"
    assert [*first][:2] == ["collection", "task"] and first["collection"] == SUZUKI.question


def test_the_page_shows_searches_and_changes(store: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collections_view, "visitor_answers", lambda: store)
    page = pages.open_page("collections")
    assert len(page.text_input) == 4
    number = next(one.id for one in stored(store) if one.label == "Amide")
    page.text_input(key=f"collect_{number}_note").set_value("<b>hot</b>").run()
    page.selectbox(key=f"collect_{number}_status").set_value("worked").run()
    assert {(one.note, one.status) for one in stored(store)} == {("<b>hot</b>", "worked"), ("=x", "idea")}
    page.text_input(key="collect_structure").set_value("c1ccncc1").run()
    assert not page.exception and len(page.text_input) == 3
    file_of(store).write_bytes(b"no database" * 500)
    assert "damaged" in page.run().error[0].value


def test_a_name_of_a_collection_is_text(store: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collections_view, "visitor_answers", lambda: store)
    keep(store, AMIDE, question="<img src=x onerror=alert(1)>", label="<i>x</i>", added=3.0)
    bodies = pages.html(pages.open_page("collections"))
    assert "<h2>&lt;img src=x onerror=alert(1)&gt;</h2>" in bodies and "&lt;i&gt;x&lt;/i&gt;" in bodies
    assert "<img src=x" not in bodies and "<i>x" not in bodies


def test_on_a_server_they_are_those_of_a_visit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    monkeypatch.setattr(collections_view.st, "session_state", {})
    monkeypatch.setattr(collections_view.st, "get_option", lambda name: {"server.address": "0.0.0.0"}[name])
    answers = collections_view.visitor_answers()
    keep(answers, AMIDE)
    assert stored(collections_view.visitor_answers()) and not [*tmp_path.iterdir()]
    collections_view.st.session_state["collect_folder"].cleanup()
    monkeypatch.setattr(collections_view.st, "get_option", lambda name: {"server.address": "127.0.0.1"}[name])
    assert collections_view.visitor_answers() is ANSWERS
