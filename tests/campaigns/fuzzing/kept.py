"""What the app keeps, where others could write to it, and the links to its pages."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import sys
from contextlib import closing
from dataclasses import asdict
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from campaigns.fuzzing.mutate import VALUES, altered, broken, mutated
from campaigns.fuzzing.tools import QUERIES, Tools

ID = "B" * 22
LINKED = ("predict", "step", "batch", "plan")  # pages that read their address
WORDS = ("retro", "forward", "", "nobody", "beam", "greedy", "3", "-1", "9" * 30, "copy", "break C1-N3", ID, "A" * 22)
NAMES = ("task", "smi", "guide", "job", "plan", "decoder", "n", "drafts", "keep", "use", "drop", "x")


# --- collections -----------------------------------------------------------------------------------


def _entry(random: Random) -> dict[str, Any]:
    entry = {
        "question": "Lidocaine", "task": "retro", "model": "retro", "query": "CCO", "answer": "CC.O", "label": "Amide",
        "chance": 0.5, "note": "", "status": "idea", "added": 1.0,
    }  # fmt: skip
    for name in entry:
        if random.random() < 0.2:
            entry[name] = mutated(random.choice(QUERIES), random) if random.random() < 0.7 else random.choice(VALUES)
    return entry


def collection(random: Random) -> bytes:
    """Return entries as JSON and, after a line end, how the file of them is broken."""
    entries = json.dumps([_entry(random) for _ in range(random.choice((1, 2, 5)))])
    places = [[random.random(), random.randrange(256)] for _ in range(random.choice((0, 0, 1, 8, 200)))]
    cut = random.random() if random.random() < 0.1 else 1.0
    return json.dumps({"entries": entries, "places": places, "cut": cut}).encode()


def read_collection(case: bytes, tools: Tools) -> None:
    """Keep entries, damage the file, and look at it."""
    from chemspec.ui.collect.store import SavedAnswer, Store, StoreError, answer_row, find_matching
    from chemspec.ui.common import escaping

    told = json.loads(case)
    store = Store(tools.work / "collections.sqlite3")
    try:
        for entry in json.loads(told["entries"]):
            try:
                store.keep(SavedAnswer(**entry))
            except (ValueError, TypeError, StoreError):  # of a kind that no page makes
                if store.path.exists():
                    _put(store.path, entry)  # as if somebody else had written it
        if not store.path.exists():
            return
        raw = bytearray(store.path.read_bytes())
        for place, value in told["places"]:
            raw[int(place * (len(raw) - 1))] = value
        store.path.write_bytes(raw[: int(told["cut"] * len(raw))])
        found = store.all()
        for text, structure in (("lido", ""), ("", "CO"), ("", "[#6]")):
            find_matching(found, text=text, structure=structure)
        escaping.rows_to_csv([answer_row(one) for one in found])
        store.change(1, note="x", status="tried")
        store.remove(1)
    finally:
        for file in tools.work.glob("collections.sqlite3*"):
            file.unlink()


def _put(path: Path, entry: dict[str, Any]) -> None:
    values = [value if isinstance(value, str | int | float | None) else str(value) for value in entry.values()]
    values = [value.encode("utf-8", "replace").decode() if isinstance(value, str) else value for value in values]
    with closing(sqlite3.connect(path)) as base, base:
        try:
            base.execute(f"INSERT INTO kept ({', '.join(entry)}) VALUES ({', '.join('?' * len(values))})", values)
        except (OverflowError, sqlite3.Error):  # numbers that no database holds
            return


# --- searches on disk ------------------------------------------------------------------------------


def search(random: Random) -> bytes:
    """Return the files of a search: its description, and its list of stock."""
    from chemspec.plan.plan_settings import PlanSettings

    project = {
        "id": ID, "target": random.choice(QUERIES), "lists": ["paroutes-n1"], "own": "mine", "changed": 1.0,
        "settings": asdict(PlanSettings(seconds=1.0)), "ended": "",
    }  # fmt: skip
    raw = broken(_stock(), random, 4) if random.random() < 0.5 else _stock()
    return altered(project, random).encode("utf-8", "surrogatepass") + b"\n\n" + raw


@cache
def _stock() -> bytes:
    import io

    import numpy as np

    into = io.BytesIO()
    np.save(into, np.array(["LFQSCWFLJHTTHZ-UHFFFAOYSA-N"] * 3, dtype="S27"))
    return into.getvalue()


def read_search(case: bytes, __: Tools) -> None:
    """Open a search that is on disk."""
    from chemspec.plan import bonds
    from chemspec.ui.plan import saved_searches

    place = saved_searches.search_folder(ID)
    place.mkdir(parents=True, exist_ok=True)
    text, _, raw = case.partition(b"\n\n")
    (place / "project.json").write_bytes(text)
    (place / "stock.npy").write_bytes(raw)
    project = saved_searches.load_search(ID)
    saved_searches.load_own_stock(ID)
    bonds.bonds_by_name(project.target)
    int(project.settings.seconds)
    saved_searches.save_search(project)
    assert saved_searches.load_search(ID).target == project.target
    saved_searches.remove_old_searches()


# --- links to pages --------------------------------------------------------------------------------


def address(random: Random) -> bytes:
    """Return a page and its query parameters."""
    asked: dict[str, Any] = {}
    for name in random.sample(NAMES, random.randint(1, 5)):
        text = mutated(random.choice(QUERIES), random) if name == "smi" else random.choice(WORDS)
        if random.random() < 0.3:
            text = mutated(text, random)
        asked[name] = text.encode("utf-8", "replace").decode()
    page = random.choice(LINKED)
    if page == "plan":
        asked.pop("smi", None)  # which begins a search of a minute
    return json.dumps({"page": page, "asked": asked}).encode()


def open_page(case: bytes, tools: Tools) -> None:
    """Open a page by a link; an exception that it shows is a defect."""
    logging.getLogger("streamlit").setLevel(logging.CRITICAL)  # that there is no browser
    from streamlit.testing.v1 import AppTest

    from chemspec.asset_files import app_script

    told = json.loads(case)
    os.environ["CHEMSPEC_MODELS"] = str(tools.home / "models")
    os.environ["CHEMSPEC_WARM_UP"] = "0"
    app = AppTest.from_file(str(app_script().parent / "pages" / f"{told['page']}.py"), default_timeout=120)
    for name, text in told["asked"].items():
        app.query_params[name] = text
    before = sys.modules["__main__"]
    try:
        app.run()
    finally:
        sys.modules["__main__"] = before  # a page's script took its place, which a spawned process would run
    assert not app.exception, f"{app.exception[0].message} {' | '.join(app.exception[0].stack_trace[-6:])}"[:900]
