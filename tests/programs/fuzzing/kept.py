"""What the app keeps, where others could write to it, and the links to its pages."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from random import Random
from typing import Any

from programs.fuzzing.mutate import VALUES, mutated
from programs.fuzzing.tools import QUERIES, Tools

ID = "B" * 22
LINKED = ("predict", "learn", "batch", "plan")  # pages that read their address
WORDS = (
    "retro",
    "step",
    "forward",
    "",
    "nobody",
    "beam",
    "greedy",
    "3",
    "-1",
    "9" * 30,
    "copy",
    "break C1-N3",
    ID,
    "A" * 22,
)
NAMES = ("task", "smi", "guide", "job", "plan", "decoder", "n", "drafts", "keep", "use", "drop", "depth", "x")


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
    from dataclasses import replace

    from chemspec.io import spreadsheets
    from chemspec.jobs import store
    from chemspec.ui.collect.answers import ANSWERS, SavedAnswer, answer_row, find_matching

    told = json.loads(case)
    answers = replace(ANSWERS, home=tools.work)
    path = tools.work / store.FILE
    try:
        for number, entry in enumerate(json.loads(told["entries"])):
            try:
                answers.save(f"{number:022}", SavedAnswer(**entry))
            except (ValueError, TypeError):  # of a kind that no page makes
                put("answers", f"{number:022}", json.dumps(entry), tools.work)  # as if somebody else had written it
        raw = bytearray(path.read_bytes())
        for place, value in told["places"]:
            raw[int(place * (len(raw) - 1))] = value
        path.write_bytes(raw[: int(told["cut"] * len(raw))])
        found = list(answers.all().values())
        for text, structure in (("lido", ""), ("", "CO"), ("", "[#6]")):
            find_matching(found, text=text, structure=structure)
        spreadsheets.rows_to_csv([answer_row(one) for one in found])
        answers.change(f"{0:022}", lambda one: replace(one, note="x", status="tried"))
        answers.delete(f"{0:022}")
    finally:
        for file in tools.work.glob(f"{store.FILE}*"):
            file.unlink()


def put(kind: str, name: str, text: str, home: Path | None = None) -> None:
    """Write a document without a check."""
    from chemspec.jobs import store

    with store.open_store(home) as base:
        base.execute(store.PUT, (kind, name, text.encode("utf-8", "replace").decode(), 1.0))


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
