"""Collections: what is kept comes back, is found by structure, and a damaged file is told of."""

from __future__ import annotations

import csv
import io
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import pages

pytest.importorskip("streamlit")

from chemspec.ui.collect import collections_view
from chemspec.ui.collect import store as stores
from chemspec.ui.collect.store import SavedAnswer, Store, StoreError, answer_row, find_matching
from chemspec.ui.common import escaping

AMIDE = SavedAnswer(
    "Lidocaine", "retro", "retro", "CCN(CC)CC(=O)Nc1c(C)cccc1C", "CCN(CC)CC(=O)Cl.Cc1cccc(C)c1N", "Amide", 0.35
)
SUZUKI = SavedAnswer(
    "Biaryl", "forward", "forward", "Brc1ccncc1.OB(O)c1ccccc1", "c1ccc(-c2ccncc2)cc1", "Suzuki", 0.9, "=x"
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / stores.FILE)
    made.keep(replace(AMIDE, added=1.0))
    made.keep(replace(SUZUKI, added=2.0))
    return made


def test_what_is_kept_comes_back_changed_and_once(store: Store) -> None:
    assert [replace(one, number=0, added=0.0) for one in store.all()] == [SUZUKI, AMIDE]
    assert store.path.stat().st_mode & 0o077 == 0
    store.keep(replace(AMIDE, note="again", added=3.0))
    first, second = store.all()
    assert (first.note, second.label) == ("again", "Suzuki")
    store.change(first.number, note="50 °C; '\"", status="tried")
    assert (store.all()[0].note, store.all()[0].status) == ("50 °C; '\"", "tried")
    store.remove(first.number)
    assert [one.label for one in store.all()] == ["Suzuki"]


@pytest.mark.parametrize(
    ("how", "labels"),
    [
        ({}, ["Suzuki", "Amide"]),
        ({"text": "lido amide"}, ["Amide"]),
        ({"structure": "c1ccncc1"}, ["Suzuki"]),
        ({"structure": "[NX3][CX3]=O"}, ["Amide"]),
        ({"structure": "C(=O)Cl"}, ["Amide"]),
        ({"status": "tried"}, []),
    ],
)
def test_search(store: Store, how: dict[str, str], labels: list[str]) -> None:
    assert [one.label for one in find_matching(store.all(), **how)] == labels


def test_a_structure_that_cannot_be_read_is_told(store: Store) -> None:
    with pytest.raises(ValueError, match="neither"):
        find_matching(store.all(), structure="C((")


def test_a_damaged_file_is_told_of(store: Store) -> None:
    store.path.write_bytes(b"no database" * 500)
    with pytest.raises(StoreError, match=r"damaged.*move it away"):
        store.all()


def test_what_somebody_else_wrote_into_the_file_is_told_of(store: Store) -> None:
    with closing(sqlite3.connect(store.path)) as base, base:
        base.execute("UPDATE kept SET status = 'gone', note = x'00'")
    with pytest.raises(StoreError, match="damaged"):
        store.all()


def test_sizes_have_limits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="at most 2000"):
        store.keep(replace(AMIDE, note="x" * 2001))
    with pytest.raises(StoreError, match="name"):
        store.keep(replace(AMIDE, question=" "))
    monkeypatch.setattr(stores, "MAX_ANSWERS", 2)
    with pytest.raises(StoreError, match="remove some"):
        store.keep(replace(AMIDE, question="third"))


def test_a_table_has_the_reaction_and_no_formula(store: Store) -> None:
    first, second = csv.DictReader(io.StringIO(escaping.rows_to_csv([answer_row(one) for one in store.all()])))
    assert first["reaction"] == f"{SUZUKI.query}>>{SUZUKI.answer}" and not first["note"].startswith("=")
    assert second["reaction"] == f"{AMIDE.answer}>>{AMIDE.query}"


def test_the_page_shows_searches_and_changes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collections_view, "visitor_store", lambda: store)
    page = pages.open_page("collections", {})
    assert not page.exception and len(page.text_input) == 4
    number = next(one.number for one in store.all() if one.label == "Amide")
    page.text_input(key=f"collect_{number}_note").set_value("<b>hot</b>").run()
    page.selectbox(key=f"collect_{number}_status").set_value("worked").run()
    assert {(one.note, one.status) for one in store.all()} == {("<b>hot</b>", "worked"), ("=x", "idea")}
    page.text_input(key="collect_structure").set_value("c1ccncc1").run()
    assert not page.exception and len(page.text_input) == 3
    store.path.write_bytes(b"no database" * 500)
    assert "damaged" in page.run().error[0].value


def test_a_name_of_a_collection_is_text(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collections_view, "visitor_store", lambda: store)
    store.keep(replace(AMIDE, question="<img src=x onerror=alert(1)>", label="<i>x</i>", added=3.0))
    bodies = "".join(item.proto.body for item in pages.open_page("collections", {}).get("html"))
    assert "<h2>&lt;img src=x onerror=alert(1)&gt;</h2>" in bodies and "&lt;i&gt;x&lt;/i&gt;" in bodies
    assert "<img src=x" not in bodies and "<i>x" not in bodies


def test_on_a_server_they_are_those_of_a_visit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    monkeypatch.setattr(collections_view.st, "session_state", {})
    monkeypatch.setattr(collections_view.st, "get_option", lambda name: {"server.address": "0.0.0.0"}[name])
    assert not collections_view.is_on_disk() and tmp_path not in collections_view.visitor_store().path.parents
    monkeypatch.setattr(collections_view.st, "get_option", lambda name: {"server.address": "127.0.0.1"}[name])
    assert collections_view.visitor_store().path == tmp_path / stores.FILE
