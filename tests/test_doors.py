"""Texts of every kind mean the same at every door: library, commands, files, uploads, HTTP, planners, links."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlencode

import openpyxl
import pytest
from helpers.case_tables import table
from helpers.paths import ROOT
from helpers.serving import serving
from helpers.small import tiny_folder
from typer.testing import CliRunner

from chemspec.chem import formats
from chemspec.cli.__main__ import app as commands
from chemspec.engine.engine import Engine
from chemspec.jobs import uploads
from chemspec.planners.source import StepSource
from chemspec.question_text import make_question, read_question
from chemspec.settings import Task
from chemspec.tokenizer import Tokenizer

pytest.importorskip("fastapi")
SETTINGS = {"n": 1, "max_len": 4}
WORDS = ("-n", "1", "--max-len", "4", "--threads", "1")
Answer = tuple[str, str, list[tuple[str, float]]]
Door = Callable[[Task, Sequence[str]], list[Answer]]


def texts_of(task: Task) -> list[str]:
    """The first two texts of each group of each round, and a paragraph: names, flasks, notations, refusals."""
    groups: dict[str, list[str]] = {}
    for row in table("chem/fresh_texts"):
        if row["task"] == task:
            groups.setdefault(row["id"].rpartition(".")[0], []).append(row["text"])
    return [text for texts in groups.values() for text in texts[:2]]


TEXTS: dict[Task, list[str]] = {"forward": texts_of("forward"), "retro": texts_of("retro")}
ENGINES: dict[Task, Engine] = {}


@pytest.fixture(scope="module", autouse=True)
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("models")
    for task in TEXTS:
        tokenizer = Tokenizer.load(ROOT / "assets" / "models" / task / "vocab.json")
        ENGINES[task] = Engine.load(tiny_folder(folder / task, task=task, tokenizer=tokenizer), threads=1)
    yield
    ENGINES.clear()


def answer(status: str, message: str, answers: Sequence[tuple[str, float]]) -> Answer:
    """What a text came to: the scores of random weights are those of its query alone."""
    return status, "" if status == "ok" else message[:60], [(smiles, round(score, 4)) for smiles, score in answers]


def of_result(result: Any) -> Answer:
    hypotheses = getattr(result, "hypotheses", None) or getattr(result, "answers", ())
    return answer(result.status, result.message, [(each.smiles, each.log_prob) for each in hypotheses])


def of_document(document: dict[str, Any]) -> Answer:
    hypotheses = [(each["smiles"], each["log_prob"]) for each in document.get("hypotheses", ())]
    return answer(document["status"], document.get("message", ""), hypotheses)


def by_library(task: Task, texts: Sequence[str]) -> list[Answer]:
    return [*map(of_result, ENGINES[task].predict(list(texts), **SETTINGS))]


def by_arguments(task: Task, texts: Sequence[str]) -> list[Answer]:
    words = ["predict", "--model", str(ENGINES[task].folder), *WORDS, "--json", "--", *texts]
    done = CliRunner().invoke(commands, words)
    return [*map(of_document, json.loads(done.stdout.rstrip("\n").split("\n")[-1])["results"])]


def rows_as_csv(texts: Sequence[str]) -> bytes:
    file = io.StringIO()
    csv.writer(file).writerows([["id", "query"], *enumerate(texts)])
    return file.getvalue().encode()


def rows_as_workbook(texts: Sequence[str]) -> bytes:
    book, file = openpyxl.Workbook(), io.BytesIO()
    for row in (["id", "query"], *enumerate(texts)):
        book.active.append(row)
    book.save(file)
    return file.getvalue()


FILES: dict[str, Callable[[Sequence[str]], bytes]] = {
    ".csv": rows_as_csv,
    ".xlsx": rows_as_workbook,
    ".jsonl": lambda texts: "\n".join(json.dumps({"query": text}) for text in texts).encode(),
    ".txt": lambda texts: "\n".join(texts).encode(),
}


def by_file(ending: str, folder: Path) -> Door:
    def read(task: Task, texts: Sequence[str]) -> list[Answer]:
        given, out = folder / f"{task}{ending}", folder / f"{task}.out.jsonl"
        given.write_bytes(FILES[ending](texts))
        words = ["predict", str(given), "--model", str(ENGINES[task].folder), *WORDS, "-o", str(out)]
        assert CliRunner().invoke(commands, words).exit_code in (0, 1)
        documents = map(json.loads, out.read_text(encoding="utf-8").splitlines())
        return [of_document(document) for document in documents if "status" in document]

    return read


def by_upload(ending: str) -> Door:
    def read(task: Task, texts: Sequence[str]) -> list[Answer]:
        sheet = uploads.read_upload(FILES[ending](texts), f"x{ending}")
        column = uploads.guess_query_column(sheet.columns, sheet.rows, task)
        return by_library(task, [row[column] for row in sheet.rows])

    return read


def by_http(task: Task, texts: Sequence[str]) -> list[Answer]:
    with serving({task: ENGINES[task]}) as service:
        results = service.client(retry_seconds=60.0).predict(texts, task=task, n=1, max_len=4)
    return [*map(of_result, results)]


def by_planner(task: Task, texts: Sequence[str]) -> list[Answer]:
    """What the plug-ins of Syntheseus and AiZynthFinder ask."""
    asked: list[Answer] = []
    source = StepSource(task)
    source._engine = SimpleNamespace(predict=lambda queries, **_: asked.extend(by_library(task, queries)) or [])
    source.predict_steps(texts, 1)
    return asked


def by_question_text(task: Task, texts: Sequence[str]) -> list[Answer]:
    questions = (str(make_question("predict", {"task": task, "smi": text})) for text in texts)
    return by_library(task, [read_question(question).first("smi") for question in questions])


def by_link(task: Task, texts: Sequence[str]) -> list[Answer]:
    return by_library(task, [parse_qs(urlencode({"smi": text}))["smi"][0] for text in texts])


DOORS: dict[str, Callable[[Path], Door]] = {
    "arguments": lambda _: by_arguments,
    **{f"file {ending}": lambda folder, ending=ending: by_file(ending, folder) for ending in FILES},
    **{f"upload {ending}": lambda _, ending=ending: by_upload(ending) for ending in (".csv", ".txt")},
    "HTTP": lambda _: by_http,
    "planners": lambda _: by_planner,
    "chemspec: text": lambda _: by_question_text,
    "link": lambda _: by_link,
}


@pytest.mark.parametrize("name", DOORS)
def test_a_text_means_the_same_at_every_door(name: str, tmp_path: Path) -> None:
    door = DOORS[name](tmp_path)
    for task, all_texts in TEXTS.items():
        texts = [text for text in all_texts if "\n" not in text]  # lines of a text file are texts
        assert door(task, texts) == by_library(task, texts)


@pytest.mark.parametrize("task", TEXTS)
def test_the_library_takes_what_the_box_takes(task: Task) -> None:
    """A box shows the reading of `read_input`; the model is given the same molecules, or the same fault is told."""
    for text in TEXTS[task]:
        read, (status, message, _) = formats.read_input(text, task=task), by_library(task, [text])[0]
        if isinstance(read, formats.Input):
            assert status == "ok" or "never seen" in message, text
        else:
            assert message == str(read)[:60], text
