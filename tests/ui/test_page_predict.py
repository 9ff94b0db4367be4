"""The page Predict without a browser: what it says of answers, of faults, of speculation."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pages

pytest.importorskip("streamlit")

import streamlit as st
from streamlit.testing.v1 import AppTest

from chemspec import chem
from chemspec.engine.engine import installed, model_folder
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Hypothesis, Pass, Trace
from chemspec.ui.common import examples, options, question, queued_engine, scheme, short_names
from chemspec.ui.predict import answers, ask, verdicts

MODELS = {folder.name for folder in installed()}
weights = pytest.mark.skipif(not {"forward", "retro"} <= MODELS, reason="no models")


def open_page(**query: str) -> AppTest:
    return pages.opened("predict", query)


def html(page: AppTest) -> str:
    """All pieces of HTML on the page."""
    found: list[str] = []

    def walk(block: Any) -> None:
        for child in getattr(block, "children", {}).values():
            if child.type == "html":
                found.append(str(child.proto.body))
            walk(child)

    walk(page.main)
    return "\n".join(found)


def hypothesis(smiles: str, *, log_prob: float = -1.0, ended: Any = "eos") -> Hypothesis:
    canonical = chem.canonical(smiles) or ""
    tokens = tuple(smiles)
    return Hypothesis(
        smiles=smiles,
        canonical=canonical,
        valid=bool(canonical),
        tokens=tokens,
        token_log_probs=(log_prob / (len(tokens) + 1),) * (len(tokens) + 1),
        log_prob=log_prob,
        probability=2.718281828**log_prob,
        ended=ended,
    )


def result(*smiles: str, seconds: float = 0.05, passes: int = 6, emitted: int = 41) -> DecodeResult:
    per = [emitted // passes] * passes
    per[-1] += emitted - sum(per)
    trace = Trace(("C",), {}, tuple(Pass(1, 1, 0, count, 0, 1.0, 1, 0.0, 0.001) for count in per), seconds)
    return DecodeResult("C", "ok", "", tuple(map(hypothesis, smiles)), trace)


# --- answers ----------------------------------------------------------------------------------------


def test_spellings_of_one_molecule_share_a_card() -> None:
    found = verdicts.cards(result("CCO", "CC=O", "OCC", "C(("))
    assert [(card.rank, card.best.smiles) for card in found] == [(1, "CCO"), (2, "CC=O"), (3, "C((")]
    assert [other.smiles for other in found[0].others] == ["OCC"]


@pytest.mark.parametrize(
    ("task", "query", "answer", "words"),
    [
        ("forward", "CC(=O)Cl.N", "CC(N)=O", ["valid", "atoms accounted for"]),
        ("forward", "CCN", "CCBr", ["valid", "atoms the reactants cannot supply: Br 1"]),
        ("forward", "CCO.CN", "CCO", ["valid", "accounted", "returns a starting material"]),
        ("retro", "CC(=O)OC", "CO", ["valid", "cannot supply: C 2, O 1"]),
        ("retro", "CCO", "CCO.O", ["valid", "accounted", "returns the query"]),
        ("forward", "CCO", "C(", ["not a valid SMILES: this ( is never closed (character 2)"]),
    ],
)
def test_badges(task: Any, query: str, answer: str, words: list[str]) -> None:
    (card,) = verdicts.cards(result(answer))
    found = verdicts.badges(task, query, card)
    assert len(found) == len(words)
    for mark, word in zip(found, words, strict=True):
        assert word in mark.text


def test_a_cut_answer_says_so() -> None:
    card = verdicts.AnswerCard(1, replace(hypothesis("CCO", ended="length"), canonical="", valid=False))
    assert "cut after 3 tokens" in verdicts.badges("forward", "CC", card)[0].text


@pytest.mark.parametrize(("answer", "kind"), [("CCO", "good"), ("OCC.Cl", "good"), ("CCN", "bad"), ("C((", "bad")])
def test_round_trips_compare_main_products(answer: str, kind: str) -> None:
    assert verdicts.round_trip_badge(result(answer), "CCO").kind == kind


def test_a_refused_round_trip_is_not_a_failed_one() -> None:
    mark = verdicts.round_trip_badge(DecodeResult("X", "invalid", "unknown token"), "CCO")
    assert mark.kind == "note" and "unknown token" in mark.text


def test_nothing_a_visitor_types_becomes_markup() -> None:
    evil = "<script>alert(1)</script>"
    card = verdicts.AnswerCard(1, replace(hypothesis("CC"), tokens=(evil,), smiles=evil, canonical=""))
    asked = ask.Asked("forward", "forward", "CC", DecodeSettings())
    texts = [
        answers.tokens_html(card.best),
        answers.head(asked, card, [verdicts.Badge("note", evil)]),
        question.fault_html(evil, chem.explain(evil) or chem.Fault("", 0, 1, "")),
        scheme.reaction(scheme.Side(evil, (), (evil,)), scheme.Side(evil), apart=True),
        scheme.arrow(evil),
    ]
    for text in texts:
        assert "<script" not in text
        assert "script" in text


# --- the scheme -----------------------------------------------------------------------------------------


def test_reagents_stand_over_the_arrow() -> None:
    flask = "Brc1ccccc1.OB(O)c1ccccc1.O=C([O-])[O-].[K+].[K+].C1CCOC1"
    parts = (chem.canonical(flask) or "").split(".")
    drawn, names = short_names.set_apart(parts)
    assert sorted(parts[place] for place in drawn) == ["Brc1ccccc1", "OB(O)c1ccccc1"]
    assert names == ("K₂CO₃", "THF")


def test_a_reagent_that_gives_atoms_can_be_kept() -> None:
    assert short_names.set_apart(["CO", "CC(=O)Cl"], keep=["CO"]) == ((0, 1), ())


def test_nothing_is_hidden_where_all_have_names() -> None:
    assert short_names.set_apart(["O", "CO"]) == ((0, 1), ())


def test_every_short_name_is_known() -> None:
    assert len(short_names._book()) == len(short_names.names()) > 100
    assert not [name for name, parts in short_names._book() if "?" in parts]


# --- the options ----------------------------------------------------------------------------------------


def test_every_choice_has_a_label() -> None:
    drafters = tuple(DRAFTERS)
    searches = options.searches(drafters)
    drafts = options.drafts("beam", drafters)
    assert set(drafts) == set(DRAFTERS)
    assert set(searches) == set(DECODERS)
    assert set(options.searches(("windows", "none"))) == {"beam", "greedy", "sample", "sbs"}
    assert set(options.drafts("speculative-sample", drafters)) == {"auto", "ar", "hierarchy", "none"}
    first = DecodeSettings(decoder=next(iter(searches)), drafter=next(iter(drafts)))
    assert first == DecodeSettings(), "the choices shown first are the defaults"


# --- the page -------------------------------------------------------------------------------------------


def test_examples_can_be_read_and_have_names() -> None:
    tasks = [item.task for item in examples.load()]
    assert tasks.count("forward") >= 6 and tasks.count("retro") >= 6
    for item in examples.load():
        assert chem.is_valid(item.smiles), item.name
        assert item.line.endswith((".", "?"))


@weights
def test_a_link_is_answered_with_badges_and_numbers() -> None:
    page = open_page(task="retro", smi="CC(=O)Nc1ccccc1")
    assert "CC(=O)Cl.Nc1ccccc1" in {item.value for item in page.code}
    text = html(page)
    assert "round trip gives the query back" in text
    assert "atoms that change are highlighted" in text
    assert "model probability (uncalibrated)" in text
    assert "tokens in" in text and "per pass" in text and ("; exact to the last bit" in text or "; exact up to" in text)
    assert page.button(key="predict_measure").label == "Measure the saving"


@weights
@pytest.mark.parametrize(("task", "smiles"), [("forward", "CC(=O)Cl.Nc1ccccc1"), ("retro", "CC(=O)Nc1ccccc1")])
def test_a_question_is_decoded_once_and_each_answer_checked_once(
    task: Any, smiles: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    decode = queued_engine.decode

    def counting(model: Any, query: str, settings: DecodeSettings, **more: Any) -> DecodeResult:
        asked.append(f"{model.task} {query}")
        return decode(model, query, settings, **more)

    monkeypatch.setattr(queued_engine, "decode", counting)
    page = open_page(task=task, smi=smiles)
    answers = [item.value for item in page.code if chem.is_valid(item.value)] if task == "retro" else []
    assert sorted(asked) == sorted([f"{task} {smiles}", *(f"forward {answer}" for answer in answers)])
    page.run()
    assert len(asked) == 1 + len(answers)


@weights
def test_an_example_is_one_click() -> None:
    page = open_page()
    page.button(key="predict_example_Williamson ether synthesis").click().run()
    assert not page.exception
    assert page.code[0].value == "Brc1ccc(OCc2ccccc2)cc1"
    assert page.button(key="predict_history_0")
    page.button(key="predict_1_next_0").click().run()
    assert not page.exception
    assert page.session_state.predict_task == "retro"
    assert page.session_state.predict_text == "Brc1ccc(OCc2ccccc2)cc1"


@weights
def test_a_fault_is_pointed_at() -> None:
    page = open_page(smi="CC(=O)Nc1ccc(O)cc")
    assert "never closed" in html(page) and "^" in html(page)
    assert not page.code


@weights
@pytest.mark.parametrize(("smiles", "words"), [("C" * 1200, "1200 characters are too many"), ("[Rf]", "[Rf]")])
def test_what_the_model_cannot_take_is_refused_in_words(smiles: str, words: str) -> None:
    page = open_page(smi=smiles)
    assert words in html(page) + " ".join(item.value.replace("\\", "") for item in page.error)


def test_without_models_the_page_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path))
    page = open_page(smi="CCO")
    assert "No model for this question is installed" in page.info[0].value
    assert str(tmp_path) in page.info[0].value


@weights
def test_a_broken_model_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "forward").mkdir()
    config = model_folder("forward") / "config.json"
    shutil.copy(config, tmp_path / "forward")
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path))
    st.cache_resource.clear()
    page = open_page(smi="CCO")
    assert "The model forward cannot be used" in page.error[0].value
    st.cache_resource.clear()


@weights
def test_options_change_the_question() -> None:
    page = open_page(smi="CC(=O)Cl.Nc1ccccc1")
    page.selectbox(key="predict_search").select("greedy").run()
    assert not page.exception
    assert len(page.code) == 1


@weights
def test_the_precision_is_one_choice() -> None:
    page = open_page(task="retro", smi="CC(=O)Nc1ccccc1")
    engine = queued_engine.in_memory()[model_folder("retro")]
    offered = queued_engine.precisions("retro")
    assert set(offered) == {"int8", "fp32"} and page.selectbox(key="precision").value == offered[0]
    assert engine.dtype == (offered[0] if engine.runtime == "native" else "fp32")
    page.selectbox(key="precision").select("fp32").run()
    assert not page.exception
    assert queued_engine.in_memory()[model_folder("retro")].dtype == "fp32"


def test_a_stopped_question_stays_stopped() -> None:
    def script() -> None:
        from types import SimpleNamespace

        from chemspec.settings import DecodeSettings
        from chemspec.ui.common import progress

        model = SimpleNamespace(digest="d")
        progress._stop("d", "CC", DecodeSettings())
        assert progress.answer(model, "CC", DecodeSettings()) is None  # type: ignore[arg-type]

    page = AppTest.from_function(script, default_timeout=240).run()
    assert not page.exception
    assert "Stopped" in page.info[0].value


def test_long_work_shows_its_progress_and_a_stop_button() -> None:
    def script() -> None:
        from types import SimpleNamespace

        from chemspec.settings import DecodeSettings
        from chemspec.ui.common import progress, queued_engine

        def spying(model, query, settings, *, report):  # type: ignore[no-untyped-def]
            report("7 tokens written in 1 passes")
            raise KeyError("the page is left as it is")

        progress.queued_engine = SimpleNamespace(answer=spying)
        try:
            progress.answer(SimpleNamespace(digest="d"), "CC", DecodeSettings())
        except KeyError:
            pass
        finally:
            progress.queued_engine = queued_engine

    page = AppTest.from_function(script, default_timeout=240).run()
    assert not page.exception
    assert page.caption[0].value == "7 tokens written in 1 passes"
    assert page.button(key="predict_stop").label == "Stop"


def test_an_unknown_model_in_a_link_is_named() -> None:
    page = open_page(task="sideways", smi="CCO")
    assert "sideways" in page.warning[0].value
