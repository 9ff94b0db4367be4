"""What the page Learn says is what the code counts."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest
from paths import ROOT

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from chemspec.metrics import SpeedNumbers, numbers
from chemspec.ui.learn import chips, lesson_figures, lessons, walltime

EXAMPLES = ("boc-copy", "boc-none", "amide-beam-copy", "amide-beam-none", "amide-sbs")


def test_every_figure_has_a_definition() -> None:
    """A new property or field of Numbers without words fails here."""
    names = [field.name for field in fields(SpeedNumbers)]
    names += [name for name, value in vars(SpeedNumbers).items() if isinstance(value, property)]
    found = lessons.definitions()
    assert list(found) == names
    assert all(len(meaning) > 8 and meaning.endswith(".") for meaning in found.values()), found


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_real_traces(name: str) -> None:
    result = lessons.example(name)
    assert result.status == "ok"
    assert all(one.valid for one in result.hypotheses[:1])
    assert len(result.trace.passes) > 2
    readme = (ROOT / "assets" / "learn" / "README.md").read_text()
    assert f"--trace assets/examples/learn/{name}.json" in readme  # the command that made it


def test_drafts_changed_no_answer() -> None:
    for one, other in (("boc-copy", "boc-none"), ("amide-beam-copy", "amide-beam-none")):
        drafted, standard = lessons.example(one), lessons.example(other)
        assert [h.smiles for h in drafted.hypotheses] == [h.smiles for h in standard.hypotheses]
        assert len(drafted.trace.passes) < len(standard.trace.passes)


def test_the_steps_add_up_to_the_answer() -> None:
    for name in ("boc-copy", "boc-none"):
        result = lessons.example(name)
        text: list[str] = []
        for step in lessons.steps(result):
            assert step.start == len(text)
            text += step.draft[: step.kept]
            text += [step.own] if step.own else []
            if step.span:
                assert step.draft == result.trace.query[slice(*step.span)]
        assert tuple(text) == lessons.written(result)


def test_copied_pieces_are_equal_in_query_and_answer() -> None:
    result = lessons.example("boc-copy")
    pieces = lessons.copied(result)
    for piece in pieces:
        here = lessons.written(result)[piece.start : piece.start + piece.length]
        there = result.trace.query[piece.source : piece.source + piece.length]
        assert here == there
    assert sum(piece.length for piece in pieces) == numbers([result.trace]).accepted
    assert len({piece.fragment for piece in pieces}) == 4  # of the amine two, of the carbonate two


def test_texts_name_only_numbers_that_are_counted() -> None:
    for _, text in lessons.sections("idea"):
        assert "$" not in lessons.filled(text)
    assert f"{lessons.facts()['tokens']} tokens" in lessons.filled(lessons.sections("idea")[1][1])


@pytest.mark.parametrize("dark", [False, True])
def test_every_section_has_a_picture_with_words_for_who_cannot_see_it(dark: bool) -> None:
    pictures = lesson_figures.idea(dark)
    assert len(pictures) == len(lessons.sections("idea"))
    for picture in pictures:
        alt = re.search(r'aria-label="([^"]{30,})"', picture)
        assert alt, picture[:200]
        assert "<svg" not in picture  # Streamlit would drop it
        assert "http" not in re.sub(r"data:image/svg\+xml;base64,[\w+/=]+", "", picture)


def test_tokens_are_escaped() -> None:
    shown = chips.row(["<script>", '"', "C"], lambda _: ("kept", 1))
    assert "<script>" not in shown and "&lt;script&gt;" in shown and "&quot;" in shown


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
    assert words in lessons.verdict(alpha, gamma, c, walltime.flat)


# --- the page -------------------------------------------------------------------------------------


def page(**query: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "pages" / "learn.py"), default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    return app.run()


@pytest.mark.ui
def test_the_idea_opens_first_with_all_its_pictures() -> None:
    app = page()
    assert not app.exception
    titles = [item.value for item in app.subheader]
    assert len(titles) == len(lessons.sections("idea"))
    assert sum('class="cl"' in item.proto.body for item in app.get("html")) >= len(titles)


@pytest.mark.ui
def test_sliders_move_the_numbers() -> None:
    app = page(part="Speed-up")
    assert not app.exception
    before = [item.value for item in app.metric]
    assert before[0] == f"{walltime.expected_tokens(0.8, 5):.2f}"
    app.slider[0].set_value(0.5).run()
    assert app.metric[0].value == f"{walltime.expected_tokens(0.5, 5):.2f}"
    app.slider[2].set_value(0.9).run()
    assert any("no draft pays" in item.value for item in app.markdown)


@pytest.mark.ui
@pytest.mark.parametrize("part", ["Figures", "Papers"])
def test_the_other_parts_open(part: str) -> None:
    app = page(part=part)
    assert not app.exception
    text = " ".join([item.value for item in app.markdown] + [i.proto.body for i in app.get("html")])
    assert ("acceptance rate" if part == "Figures" else "doi.org/10.1186") in text
    if part == "Papers":
        assert len(app.expander) == len(lessons.sections("faq"))


def row(name: str, **values: Any) -> dict[str, Any]:
    """A row as `chemspec dev papers` writes it."""
    told = {
        "name": name,
        "queries": 9,
        "median_ms": 10.0,
        "q1_ms": 8.0,
        "q3_ms": 12.0,
        "speedup": None,
        "passes_per_query": 40.0,
        "calls_per_query": 0.0,
        "tokens_per_pass": 1.0,
        "nodes_per_pass": 1.0,
        "weights_mb": 0.0,
    }
    return {**told, **values}


@pytest.mark.ui
def test_drafters_are_compared_as_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    report: dict[str, Any] = {}
    monkeypatch.setattr(lessons, "measured", lambda: report)
    app = page(part="Drafters")
    assert not app.exception
    assert "dev papers" in app.info[0].value
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
    assert not app.exception
    table = app.dataframe[0].value
    assert list(table["drafter"]) == ["standard", "ar"]
    assert list(table["times as fast"])[1] == 2.0
    assert "2026-01-01" in app.caption[-1].value
    assert [item["drafter"] for item in lessons.compared("retro", "beam 5")] == ["standard"]
