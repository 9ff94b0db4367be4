"""Precedents on the page Predict: counted, drawn, proposed as conditions; safe, and never in the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st
from helpers.precedents_index import make
from test_page_predict import result

from chemspec.depict import schemes
from chemspec.precedents import index_file
from chemspec.review.forward_check import ForwardCheck
from chemspec.review.suggestions import Suggestion
from chemspec.settings import DecodeSettings, Task
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine
from chemspec.ui.predict import details, query_panel, reviewing

AMIDE, PRODUCT = "CC(=O)Cl.Nc1ccccc1", "CC(=O)Nc1ccccc1"
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def _index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_PRECEDENTS", str(make(tmp_path)[0].path))


def question(task: Task, query: str, answer: str) -> tuple[query_panel.Question, Suggestion]:
    asked = query_panel.Question(task, task, query, DecodeSettings())
    return asked, reviewing.review_answers(asked, result(answer), models=False).suggestions[0]


def test_a_card_tells_how_often_its_change_was_made() -> None:
    asked, card = question("retro", "CCC(=O)Nc1ccc(Cl)cc1", "CCC(=O)Cl.Nc1ccc(Cl)cc1")
    drawing = details.card_drawing(asked, card, wide=True)
    assert "3 precedents" in details.card_footer(asked, card)
    agreed = replace(card, check=ForwardCheck(True, 0.9, card.query))
    assert details.card_footer(asked, agreed).endswith("] 3 precedents"), "no dot begins a line behind a badge"
    assert "DCM, Et₃N" in drawing and "from precedents" in drawing
    # What the class usually takes is not told beside what was recorded.
    assert "usual:" not in details.card_footer(asked, card)


def nearest(monkeypatch: pytest.MonkeyPatch, asked: query_panel.Question, card: Suggestion) -> str:
    """What the detail view draws of precedents; captions without their escapes."""
    shown: list[str] = []
    monkeypatch.setattr(st, "html", lambda text: shown.append(str(text)))
    monkeypatch.setattr(st, "caption", lambda text: shown.append(text.replace("\\", "") if "<" not in text else text))
    monkeypatch.setattr(queued_engine, "model_names", lambda *_: [])
    details.show_precedents(details.Answer(asked, card, [card], None, "key"))
    return "\n".join(shown)


def test_a_reaction_of_the_training_data_is_told_so() -> None:
    for asked, card in (question("retro", PRODUCT, AMIDE), question("forward", f"{AMIDE}.CCN(CC)CC", PRODUCT)):
        assert "this very reaction is in the training data" in details.card_footer(asked, card)


def test_the_nearest_are_drawn_with_reagents_and_patent_which_files_hold_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, card = question("retro", PRODUCT, AMIDE)
    shown = nearest(monkeypatch, asked, card)
    assert shown.count("cs-precedent") == 3
    assert "the same reaction · US01000001 · DCM, Et₃N" in shown
    assert "similarity 0." in shown and "reagents not recorded" in shown
    row = details.answer_record(card)
    assert isinstance(row["model_probability"], float), "a number in a workbook"
    assert (row["patent_reactions"], row["conditions"]) == (3, "DCM, Et3N")
    assert str(row["patents"]).startswith("US01000001")


def test_conditions_to_choose_from_name_the_source_that_the_card_names() -> None:
    _, card = question("retro", PRODUCT, AMIDE)
    offered = details.offered_conditions(card, [("ClCCl.CCN(CC)CC", 0.11), ("O", 0.05)])
    assert list(offered) == ["DCM, Et3N", "pyridine", "H2O", ""]
    assert offered["DCM, Et3N"] == "DCM, Et3N (recorded with 1 of the nearest precedents)"
    assert offered["H2O"] == "H2O (proposed by a model, 5 %)" and offered[""] == "no reagents"


def test_a_scheme_for_a_slide_has_the_conditions_over_its_arrow() -> None:
    _, card = question("retro", PRODUCT, AMIDE)
    over, whose = details.conditions_over_arrow(card)
    assert whose == "from precedents"
    assert ">DCM, Et₃N</text>" in schemes.scheme_to_svg(*card.sides, card.step, over)
    long = schemes.scheme_to_svg(*card.sides, card.step, "Na₂CO₃, H₂O, DME, Pd(PPh₃)₄")
    assert ">Na₂CO₃, H₂O, DME,</text>" in long and ">Pd(PPh₃)₄</text>" in long
    plain = schemes.scheme_to_png(*card.sides, card.step)
    assert plain != schemes.scheme_to_png(*card.sides, card.step, over)


def test_what_an_index_says_cannot_become_html(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path)[0].path
    arrays, about = index_file.read_index(path)
    lines = [line for block in range(len(arrays["blocks"]) - 1) for line in index_file.unpack_block(arrays, block)]
    lines = ["\t".join((*line.split("\t")[:2], EVIL, EVIL)) for line in lines]
    text, blocks = index_file.pack_lines(lines)
    evil = tmp_path / "evil"
    own = {name: np.array(array) for name, array in arrays.items()} | {"text": text, "blocks": blocks}
    index_file.write_index(evil, own, {"files": [f"{EVIL}"] * len(about["files"])})
    monkeypatch.setenv("CHEMSPEC_PRECEDENTS", str(evil))
    asked, card = question("retro", PRODUCT, AMIDE)
    precedents = nearest(monkeypatch, asked, card)
    for shown in (precedents, details.card_drawing(asked, card, wide=True), details.card_footer(asked, card)):
        assert "<img src=x" not in shown
    assert "\\<img \\(src\\=x" in precedents


@pytest.mark.parametrize("what", ["none", "damaged"])
def test_without_an_index_the_page_is_as_before(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / what
    if what == "damaged":
        path.write_bytes(b"nothing of the kind")
    monkeypatch.setenv("CHEMSPEC_PRECEDENTS", str(path))
    asked, card = question("retro", PRODUCT, AMIDE)
    assert "patent" not in details.card_footer(asked, card)
    assert "from precedents" not in details.card_drawing(asked, card, wide=True)
    assert "chemspec precedents build" in details.precedents_footnote()


def test_an_answer_that_is_no_molecule_has_none() -> None:
    _, card = question("retro", "CCO", "C(")
    assert card.precedents is None and details.precedents_line(card) == ""
    assert details.conditions_over_arrow(card) == ("", "")


# --- conditions that a visitor tries -----------------------------------------------------------------


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the forward model is asked, and what it answers."""
    told: dict[str, Any] = {"answers": [PRODUCT]}

    def decode_many(_: object, queries: list[str], __: object) -> list[DecodeResult]:
        told["query"] = queries[0]
        found = told["answers"]
        return [result(*found) if found else DecodeResult(queries[0], "unsupported", "a token is unknown")]

    monkeypatch.setattr(queued_engine, "load_engine", lambda name: name)
    monkeypatch.setattr(queued_engine.QueuedEngine, "predict", decode_many)
    return told


def opinion(written: str) -> str:
    return details.forward_opinion("forward", AMIDE, written, PRODUCT)


def test_the_forward_model_reads_the_conditions(asked_for: dict[str, Any]) -> None:
    said = opinion("Et3N, DCM")
    assert set(asked_for["query"].split(".")) == {*AMIDE.split("."), "CCN(CC)CC", "ClCCl"}
    assert (
        said.startswith("With DCM, Et₃N, the forward model gives the target") and "as its first answer, with 3" in said
    )
    assert opinion("").startswith("Without reagents") and asked_for["query"] == AMIDE
    assert opinion("nonsense!").startswith("These conditions cannot be read")


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (["CCO", PRODUCT], "as its answer 2"),
        (["CCO"], "not among the forward model's 1 answers, but `CCO`"),
        ([], "The forward model cannot answer this: a token is unknown."),
    ],
)
def test_what_else_the_forward_model_says_is_told(asked_for: dict[str, Any], answers: list[str], told: str) -> None:
    asked_for["answers"] = answers
    assert told in opinion("DMF")
