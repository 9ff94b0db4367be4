"""What the page Learn says is what the code counts."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from paths import ROOT

import pages

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from chemspec.engine.engine import Engine, installed_models
from chemspec.metrics import SpeedNumbers, speed_numbers
from chemspec.replay.trace_view import view_trace
from chemspec.settings import DecodeSettings
from chemspec.ui.learn import lesson_figures, lessons, walltime

EXAMPLES = ("boc-copy", "boc-none", "amide-beam-copy", "amide-beam-none", "amide-sbs")


def test_every_figure_has_a_definition() -> None:
    """A new property or field of Numbers without words fails here."""
    names = [field.name for field in fields(SpeedNumbers)]
    names += [name for name, value in vars(SpeedNumbers).items() if isinstance(value, property)]
    found = lessons.figure_definitions()
    assert list(found) == names
    assert all(len(meaning) > 8 and meaning.endswith(".") for meaning in found.values()), found


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_real_traces(name: str) -> None:
    result = lessons.recorded_example(name)
    assert result.status == "ok"
    assert all(one.valid for one in result.hypotheses[:1])
    assert len(result.trace.passes) > 2
    readme = (ROOT / "assets" / "learn" / "README.md").read_text()
    assert f"--trace assets/examples/learn/{name}.json" in readme  # the command that made it


@pytest.mark.weights
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_what_the_models_say_today(name: str) -> None:
    """Another model's weights make these traces stale; assets/learn/README.md says how to record them."""
    recorded = lessons.recorded_example(name)
    model = "forward" if name.startswith("boc") else "retro-50k"
    if model not in {folder.name for folder in installed_models()}:
        pytest.skip(f"no model {model} in assets/models")
    told = recorded.trace.settings
    settings = DecodeSettings(**{key: told[key] for key in ("decoder", "n", "drafter")}, drafting="fixed")
    (now,) = Engine.load(model).predict([recorded.query], settings)
    assert [one.smiles for one in now.hypotheses] == [one.smiles for one in recorded.hypotheses]
    assert [one.log_prob for one in now.hypotheses] == pytest.approx(
        [one.log_prob for one in recorded.hypotheses], abs=1e-3
    )
    for count in ("passes", "emitted", "drafted", "accepted"):
        assert getattr(speed_numbers([now.trace]), count) == getattr(speed_numbers([recorded.trace]), count), count


def test_drafts_changed_no_answer() -> None:
    for one, other in (("boc-copy", "boc-none"), ("amide-beam-copy", "amide-beam-none")):
        drafted, standard = lessons.recorded_example(one), lessons.recorded_example(other)
        assert [h.smiles for h in drafted.hypotheses] == [h.smiles for h in standard.hypotheses]
        assert len(drafted.trace.passes) < len(standard.trace.passes)


def test_the_passes_add_up_to_the_answer() -> None:
    for name in ("boc-copy", "boc-none"):
        result = lessons.recorded_example(name)
        view = view_trace(result)
        tokens = view.answers[0].tokens
        assert [token.text for token in tokens] == [*result.hypotheses[0].tokens, "end"]
        start = 0
        for number, step in enumerate(view.passes, 1):
            written = tokens[start : start + step.emitted]
            assert {token.pass_number for token in written} == {number}
            assert [token.origin for token in written] == ["copied"] * step.accepted + ["own"]
            for draft in step.drafts:
                assert draft.start is not None
                there = (*view.query, "end")
                assert draft.tokens == there[draft.start : draft.start + len(draft.tokens)]
                assert draft.tokens[: draft.accepted] == tuple(token.text for token in written[:-1])
            start += step.emitted
        assert start == len(tokens)


def test_copied_tokens_are_equal_in_query_and_answer() -> None:
    result = lessons.recorded_example("boc-copy")
    view = view_trace(result)
    copied = [token for token in view.answers[0].tokens if token.source is not None]
    assert all(token.text == view.query[token.source or 0] for token in copied)
    assert len(copied) == speed_numbers([result.trace]).accepted
    assert len({token.run for token in copied}) == 4  # of the amine two, of the carbonate two


def test_texts_name_only_numbers_that_are_counted() -> None:
    for _, text in lessons.text_sections("idea"):
        assert "$" not in lessons.fill_numbers(text)
    assert f"{lessons.example_facts()['tokens']} tokens" in lessons.fill_numbers(lessons.text_sections("idea")[1][1])


@pytest.mark.parametrize(
    ("alpha", "gamma", "c", "words"),
    [
        (0.8, 5, 0.05, "2.95 times as fast"),
        (0.1, 5, 0.5, "no draft pays"),
        (0.6, 20, 0.2, "slower than standard"),
        (0.9, 5, 0.0, "longest considered"),
    ],
)
def test_the_verdict_says_what_the_numbers_say(alpha: float, gamma: int, c: float, words: str) -> None:
    assert words in lessons.describe_setting(alpha, gamma, c, walltime.flat_cost)


# --- the page -------------------------------------------------------------------------------------


def page(**query: str) -> AppTest:
    return pages.open_page("learn", query)


@pytest.mark.ui
def test_every_section_of_the_idea_has_a_picture_with_words_for_who_cannot_see_it() -> None:
    app = page()
    titles = [item.value for item in app.subheader]
    assert len(titles) == len(lessons.text_sections("idea")) == len(lesson_figures.IDEA)
    figures = [
        json.loads(item.proto.mixed.json if item.proto.HasField("mixed") else item.proto.json)
        for item in app.get("bidi_component")
    ]
    assert len(figures) == 5  # the other three are tables
    for data in figures:
        assert len(data["alt"]) >= 30
        assert "http" not in json.dumps(data).replace("http://www.w3.org", "").replace("http://www.rdkit.org", "")
    tables = [item.value for item in app.markdown if "| --- |" in item.value or "| --: |" in item.value]
    assert len(tables) == 6


@pytest.mark.ui
def test_sliders_move_the_numbers() -> None:
    app = page(part="Speed-up")
    assert pages.page_figures(app)["tokens per pass"] == f"{walltime.expected_tokens(0.8, 5):.2f}"
    app.slider[0].set_value(0.5).run()
    assert pages.page_figures(app)["tokens per pass"] == f"{walltime.expected_tokens(0.5, 5):.2f}"
    app.slider[2].set_value(0.9).run()
    assert any("no draft pays" in item.value for item in app.markdown)


@pytest.mark.ui
@pytest.mark.parametrize("part", ["Figures", "Papers"])
def test_the_other_parts_open(part: str) -> None:
    app = page(part=part)
    text = " ".join(item.value for item in app.markdown)
    assert ("acceptance rate" if part == "Figures" else "doi.org/10.1186") in text
    if part == "Papers":
        assert len(app.expander) == len(lessons.text_sections("faq"))


def row(name: str, **values: Any) -> dict[str, Any]:
    """What the page shows of a row that `chemspec bench papers` writes."""
    return {"name": name, "queries": 9, "median_ms": 10.0, "speedup": None, "weights_mb": 0.0, **values}


@pytest.mark.ui
def test_drafters_are_compared_as_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    report: dict[str, Any] = {}
    monkeypatch.setattr(lessons, "papers_report", lambda: report)
    app = page(part="Drafters")
    assert "bench papers" in app.info[0].value
    report |= {
        "machine": {"date": "2026-01-01", "cpu": "a <b>CPU</b>", "threads": 2},
        "learned": [
            row("retro, greedy B=1, standard"),
            row("retro, greedy B=1, ar", speedup=2.0, weights_mb=4.5),
            row("retro, beam 5, standard"),
            row("forward, greedy B=1, standard"),
        ],
    }
    app = page(part="Drafters")
    table = app.dataframe[0].value
    assert list(table["drafter"]) == ["standard", "ar"]
    assert list(table["speedup"])[1] == 2.0
    assert "2026-01-01" in app.caption[-1].value
    assert [item["drafter"] for item in lessons.drafter_rows("retro", "beam 5")] == ["standard"]


@pytest.mark.ui
def test_a_page_that_lost_its_part_opens_with_the_first_one() -> None:
    """As Streamlit may leave it where the browser goes back."""
    app = pages.open_page("learn", state={"part": None})
    assert [item.value for item in app.subheader] == [item.value for item in page(part="Idea").subheader]
