"""A job's rows say of a query what the cards of Predict say of it, number by number; on the shipped models."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("streamlit")

from helpers import verdicts
from helpers.pages import MODELS

from chemspec.chem import formats
from chemspec.chem.reading.names.short_names import without_subscripts
from chemspec.engine.registry import model_folder
from chemspec.jobs import jobs, rows, worker
from chemspec.jobs.uploads import Sheet
from chemspec.model.checkpoint import digest_of_folder
from chemspec.review import load_engines
from chemspec.review.rows import SUGGESTION_CELLS
from chemspec.review.suggestions import describe_check, doubt_warning, format_percent
from chemspec.settings import DecodeSettings, Task
from chemspec.stock.lists import BUILT_IN
from chemspec.ui.batch import job_view
from chemspec.ui.predict import details, reviewing
from chemspec.ui.predict.options import search_width
from chemspec.ui.predict.query_panel import Question

CARDS = 5
QUERIES: dict[Task, tuple[str, ...]] = {
    "forward": (
        "OC(=O)c1ccccc1.NCc1ccccc1.CN(C)C=O",  # no activator
        "COC(=O)c1ccc(Br)cc1.OB(O)c1ccc(F)cc1.[Pd].[Na+].[Na+].O=C([O-])[O-]",
        "2,5-hexanedione, benzylamine, acetic acid",
        "CC(=O)CCC(C)=O.[N-]=[N+]=[N-].[Na+]",
        "CC(=O)Cl.Nc1ccccc1>>CC(=O)Nc1ccccc1",
    ),
    "retro": (
        "COc1ccc(-n2nc(C(N)=O)c3c2C(=O)N(c2ccc(N4CCCCC4=O)cc2)CC3)cc1",  # apixaban
        "lidocaine",
        "CC(=O)Nc1ccc(O)cc1",
        "C[C@H](N)c1ccccc1.Cl",
        "O=C(c1cccs1)N1CC2CC[N@]1CC2",
    ),
}


@pytest.mark.slow  # two searches of each query: some 20 s
@pytest.mark.skipif(not {"forward", "retro", "reagents"} <= MODELS, reason="no models")
@pytest.mark.parametrize("task", QUERIES)
def test_a_job_says_what_the_cards_say(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    how = DecodeSettings(n=search_width(task, CARDS), distinct=True)
    facts: dict[str, Any] = {"file": "f", "column": 0, "model": task, "digest": digest_of_folder(model_folder(task))}
    sheet = Sheet(("smiles",), tuple((query,) for query in QUERIES[task]))
    job = jobs.create_job(sheet, task=task, settings=how, cards=CARDS, stock=BUILT_IN, **facts)
    worker.run_job(job)
    table = list(csv.DictReader(io.StringIO(rows.answers_as_csv(job).decode("utf-8-sig"))))
    assert [row["status"] for row in table] == ["ok"] * len(table)
    engines = load_engines(threads=1)
    compared = 0
    for number, query in enumerate(QUERIES[task]):
        read = formats.read_input(query, task=task)
        assert isinstance(read, formats.Input)
        asked = Question(task, task, read.ordered, how, read.notes, CARDS, expected=read.other)
        result = engines[task].predict([read.ordered], how)[0]
        with verdicts.visit(engines):
            cards = reviewing.review_answers(asked, result, described=CARDS).suggestions[:CARDS]
        row = table[number]
        assert all(note in row["message"] for note in read.notes)
        assert row["warning"].startswith(doubt_warning(task, asked.smiles, result, cards))
        assert bool(read.other) == ("The model agrees: the product is its first prediction" in row["warning"])
        for card in cards:
            shown, record = details.card_header(asked, card), details.answer_record(card)
            cells = {name: row[f"{name}_{card.rank}"] for name in rows.ANSWER}
            assert f"<b>{format_percent(float(cells['probability']))}</b>" in shown
            assert job_view.format_share({"probability": float(cells["probability"])}) == format_percent(
                card.probability
            )
            assert float(cells["probability"]) == pytest.approx(card.probability, abs=5e-5)
            assert float(cells["model_probability"]) == pytest.approx(card.best.model_probability, rel=1e-5)
            assert cells["class"] in shown
            for name in {"smiles", *SUGGESTION_CELLS} - {"probability"}:
                assert cells[name] == str(record[name]), (query, card.rank, name)
            assert cells["forward_model"] == describe_check(card.check)
            words, _ = details.conditions_over_arrow(card)
            assert cells["conditions"].startswith(without_subscripts(words).removesuffix("…"))
            compared += 1
    assert compared >= 3 * len(table)
