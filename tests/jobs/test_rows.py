"""The rows of a job: predicted and reviewed by the worker, and exported with what the cards of Predict say."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers.small import tiny_folder

from chemspec import chem, precedents
from chemspec.io import spreadsheets
from chemspec.io.writers import result_document, settings_stamp
from chemspec.jobs import exports, jobs, rows, uploads, worker
from chemspec.jobs.jobs import Job
from chemspec.jobs.store import StoreError
from chemspec.jobs.uploads import Sheet
from chemspec.model.checkpoint import full_digest_of_folder
from chemspec.review.forward_check import StepChecker
from chemspec.settings import DecodeSettings
from chemspec.stock.lists import Stock
from chemspec.stock.offers import Offer, PriceList, inchikey
from chemspec.types import DecodeResult, Hypothesis


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path / "home"))


def make(*cells: tuple[str, ...], columns: tuple[str, ...], **more: Any) -> Job:
    """A job for the column "smiles" of a table."""
    facts = {"file": "f", "column": columns.index("smiles"), "model": "m", "digest": "d1", "task": "retro"}
    how = DecodeSettings(decoder="greedy", n=1)
    return jobs.create_job(Sheet(columns, cells), **{"settings": how, **facts, **more})


class Answering:
    """As much of an engine as the worker needs; its answer is C, and x is no molecule."""

    full_digest, dtype = "d1", "fp32"

    def prefetch(self, queries: Sequence[str]) -> None: ...

    def predict(self, queries: Sequence[str], *_: Any, **__: Any) -> list[DecodeResult]:
        answer = Hypothesis("C", "C", True, ("C",), (-0.5,), -0.5, 0.6, 0.6)
        return [
            DecodeResult(query, "invalid", "x is no atom") if query == "x" else DecodeResult(query, "ok", "", (answer,))
            for query in queries
        ]


ENGINE: Any = Answering()


@pytest.mark.filterwarnings("ignore:forward passes are computed by")
def test_the_worker_answers_a_job_as_its_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_NATIVE", "0")  # compiling takes longer
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path / "none"))
    folder = tiny_folder(tmp_path / "tiny")
    queries, digest = ["CCO", "CC(", "", "c1ccccc1"], full_digest_of_folder(folder)
    settings = DecodeSettings(decoder="sbs", n=2, drafter="copy", max_len=20)
    job = make(*((query,) for query in queries), columns=("smiles",), model=str(folder), settings=settings)
    worker.run_job(job)
    lines = rows.GrowingLines(jobs.answers_file(job)).refresh()
    written = rows.parse_rows(lines.read(range(len(lines))))
    assert [row["query"] for row in written] == queries
    assert ["review" in row for row in written] == [True] * 4  # also in those that cannot be read
    assert list(lines.failed) == [1, 2]
    side = json.loads(jobs.answers_file(job).with_name("rows.jsonl.settings.json").read_text())
    assert side == {**settings_stamp(digest, side["dtype"], settings), "review": ["suggestions"]}


def test_a_review_that_breaks_costs_no_prediction(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job = make(("C",), ("CC",), columns=("smiles",))
    reviewed = worker.review_results

    def break_once(task: Any, results: Sequence[DecodeResult], *rest: Any, **more: Any) -> Any:
        if any(result.query == "C" for result in results):
            raise RuntimeError(f"broken over {results[0].query}")
        return reviewed(task, results, *rest, **more)

    monkeypatch.setattr(worker, "review_results", break_once)
    worker.predict_rows(job, ENGINE, partial(worker.review_rows, job, StepChecker(None), Stock({})))
    first, second = csv.DictReader(io.StringIO(rows.answers_as_csv(job).decode()))
    assert first["smiles_1"] == second["smiles_1"] == "C"
    assert not first["class_1"] and second["class_1"]
    (record,) = [record for record in caplog.records if record.name == worker.__name__]
    text = logging.Formatter().format(record)  # kind and place, and neither the query nor the message
    assert "RuntimeError at test_rows.py:" in text and "broken" not in text and "'C'" not in text


def test_downloads_hold_the_uploaded_columns_and_the_answers() -> None:
    job = make(("@a", "C", "-1"), ("b", "x", "=1"), columns=("=name", "smiles", "ω"))
    assert len(rows.answers_as_csv(job).splitlines()) == 1
    worker.predict_rows(job, ENGINE, lambda results: [({}, [])] * len(results))
    table = list(csv.DictReader(io.StringIO(rows.answers_as_csv(job).decode("utf-8-sig"))))
    assert [[row["row"], row["'=name"], row["ω"]] for row in table] == [["1", "'@a", "-1"], ["2", "b", "'=1"]]
    assert [row["smiles_1"] for row in table] == ["C", ""]
    assert [row["status"] for row in table] == ["ok", "invalid"]
    assert (table[0]["probability_1"], table[0]["log_prob_1"]) == ("0.6", "-0.5")
    assert (table[0]["calibrated_1"], table[0]["note_1"]) == ("False", "")
    lines = [*spreadsheets.read_workbook_rows(rows.answers_as_xlsx(job), "it")]
    assert lines[0] == [name.removeprefix("'") for name in table[0]]
    assert lines[1][:5] == ["1", "@a", "-1", "C", "ok"]
    records = uploads.read_upload(rows.answers_as_sdf(job), "a.sdf")
    (record,) = [dict(zip(records.columns, cells, strict=True)) for cells in records.rows]
    assert (record["smiles"], record["row"], record["rank"], record["_name"]) == ("C", "1", "1", "@a")


def test_a_table_tells_class_stock_and_the_verdict_of_the_forward_model() -> None:
    amide = "CC(=O)Nc1ccccc1"
    prices = PriceList({inchikey("Nc1ccccc1"): Offer(12.5, "EUR/g", "Acme")}, (), 1)
    job = make((amide,), columns=("smiles",), prices=prices, cards=2)
    answers = [
        Hypothesis(one, chem.canonical(one) or "", True, (one,), (-1,), -1, 0.2, 0.25, "eos", True)
        for one in ("CC(=O)Cl.Nc1ccccc1", "CC(=O)O.Nc1ccccc1", "CCN")
    ]
    asked: list[list[str]] = []

    class Forward:
        def predict(self, reactants: Sequence[str], _: DecodeSettings) -> list[DecodeResult]:
            asked.append(list(reactants))
            return [
                DecodeResult(one, "ok", "", (Hypothesis(amide, amide, True, (), (), 0, 0.93, 0.93, "eos"),))
                for one in reactants
            ]

    checker, (_, stock) = StepChecker(Forward(), index=precedents.installed()), worker.load_review(job, 1)
    review, _ = worker.review_rows(job, checker, stock, [DecodeResult(amide, "ok", "", tuple(answers))])[0]
    document = result_document(DecodeResult(amide, "ok", "", tuple(answers))) | {"review": review}
    jobs.answers_file(job).write_text(json.dumps(document) + "\n")
    (row,) = csv.DictReader(io.StringIO(rows.answers_as_csv(job).decode("utf-8-sig")))
    assert row["smiles_1"] == "CC(=O)Cl.Nc1ccccc1" and row["alike_1"] == "CC(=O)O.Nc1ccccc1"  # one strategy
    assert (row["class_1"], row["probability_1"], row["model_probability_1"]) == ("Amide formation", "0.5", "0.2")
    assert row["forward_model_1"] == row["forward_model_2"] == "agrees (93 %)"
    assert int(row["patent_reactions_1"]) > 100 and row["patents_1"].count("US") == 3
    assert row["stock_1"] == "○ in no list; ● buy, 12.50 EUR/g, Acme"
    assert row["conditions_1"] and row["conditions_1"].isascii()
    assert "cannot supply" in row["note_2"] and "smiles_3" not in row
    assert rows.answers_as_sdf(job).count(b"$$$$") == 2
    before = rows.answers_as_csv(job), len(asked)
    assert (rows.answers_as_csv(job), len(asked)) == before  # a download looks nothing up


def test_half_a_line_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert rows.whole_lines(path) == []
    path.write_bytes(b'{"status": "ok"}\n{"stat')
    assert rows.parse_rows(rows.whole_lines(path)) == [{"status": "ok"}]


def test_of_a_growing_file_only_what_is_new_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = tmp_path / "rows.jsonl", [0]
    lines = rows.GrowingLines(path)
    assert len(lines.refresh()) == 0
    texts = [
        json.dumps({"query": '"status": "ok"' * (k % 3), "status": "ok" if k % 4 else "failed"}) for k in range(50)
    ]
    whole = "".join(f"{text}\n" for text in texts).encode()
    for end in (3, 100, 101, 900, len(whole) - 1, len(whole)):
        path.write_bytes(whole[:end])
        lines.refresh()
        assert len(lines) == whole[:end].count(b"\n")
        assert list(lines.failed) == [k for k in range(len(lines)) if k % 4 == 0]
        assert lines.read(range(len(lines))) == whole.splitlines(keepends=True)[: len(lines)]
    assert lines.read([7, 3]) == [f"{texts[7]}\n".encode(), f"{texts[3]}\n".encode()]
    with pytest.raises(StoreError, match="damaged"):
        lines.read([50])
    monkeypatch.setattr(Path, "open", lambda *_, **__: read.append(1))  # nothing is new: the file is not opened
    assert len(lines.refresh()) == 50 and len(read) == 1
    monkeypatch.undo()
    path.write_bytes(whole[:100])  # shorter: another file
    assert len(lines.refresh()) == whole[:100].count(b"\n")


def test_an_export_is_made_in_a_process_of_its_own() -> None:
    job = make(("C",), columns=("smiles",))
    jobs.answers_file(job).write_text('{"query": "C", "status"\n')
    with pytest.raises(StoreError, match="rows are damaged"):
        exports.export_job(job, "csv")
    jobs.answers_file(job).unlink()
    for kind, make_file in exports.FORMATS.items():
        if kind != "xlsx":  # which holds the time
            assert exports.export_job(job, kind) == make_file(job)
    assert exports.export_job(job, "xlsx")[:2] == b"PK"
