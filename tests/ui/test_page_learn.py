"""What the page How it works says is what the code counts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import ROOT

import pages

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from chemspec.draft.learned.gamma import best_draft_length, expected_tokens, wall_time_improvement
from chemspec.engine.engine import Engine, installed_models
from chemspec.metrics import speed_numbers
from chemspec.replay import trace_view
from chemspec.settings import DecodeSettings
from chemspec.ui.learn import lessons

EXAMPLES = ("boc-copy", "boc-none", "amide-beam-copy", "amide-beam-none", "amide-sbs")


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


def drawn_example() -> trace_view.TraceView:
    return trace_view.view_trace(lessons.recorded_example("boc-copy"))


def test_the_drafts_drawn_have_the_tokens_of_the_table_below() -> None:
    for step in drawn_example().passes:
        assert sum(len(draft.tokens) for draft in step.drafts) == step.drafted


def test_texts_name_the_numbers_of_the_examples() -> None:
    drafted, standard, ahead, beam = (speed_numbers([lessons.recorded_example(name).trace]) for name in EXAMPLES[:4])
    exact, relaxed = (lessons.recorded_example(name).hypotheses for name in EXAMPLES[3:])
    agree = sum(one.smiles == other.smiles for one, other in zip(exact, relaxed, strict=True))
    text = " ".join(lessons.read_text("idea").split())
    passes, ranked = lessons.recorded_example("boc-copy").trace.passes, [*enumerate(exact, 1), *enumerate(relaxed, 1)]
    least = min(drawn_example().answers[0].tokens, key=lambda token: token.probability or 1)
    assert least.pass_number == 1
    for told in (
        f"least sure of the first token ({100 * (least.probability or 1):.0f} %)",
        f"has {standard.emitted} tokens, the end included, so the standard way takes {standard.passes} passes",
        f"{drafted.accepted} of the {drafted.emitted} tokens were copied",
        f"all {drafted.passes} passes of the example",
        f"in {ahead.passes} passes instead of {beam.passes}. But its passes are wide ({ahead.nodes_per_pass:.0f} places"
        f" instead of {beam.nodes_per_pass:.0f})",
        f"{agree} of {len(exact)} answers agree",
        *(f"| {number} | {one.drafted} | {one.accepted} | {one.emitted} |" for number, one in enumerate(passes, 1)),
        *(f"| {rank} | `{one.smiles}` | {100 * one.model_probability:.1f} %" for rank, one in ranked),
    ):
        assert told in text, told


@given(st.floats(0, 0.999), st.integers(0, 40))
def test_expected_tokens_are_the_closed_form_of_the_papers(alpha: float, gamma: int) -> None:
    closed = (1 - alpha ** (gamma + 1)) / (1 - alpha)
    assert expected_tokens(alpha, gamma) == pytest.approx(closed, rel=1e-9)
    assert expected_tokens(1, gamma) == gamma + 1  # all accepted, and the model's own token


@given(st.floats(0, 1), st.floats(0, 2))
def test_drafting_pays_exactly_where_alpha_exceeds_c(alpha: float, c: float) -> None:
    """Leviathan et al., corollary 3.9, and by how much at least."""
    gain = wall_time_improvement(alpha, best_draft_length(alpha, c), c)
    if alpha > c:
        assert gain >= (1 + alpha) / (1 + c) * (1 - 1e-12)
    else:
        assert gain <= 1 + 1e-12


# --- the page -------------------------------------------------------------------------------------


def page(**query: str) -> AppTest:
    return pages.open_page("learn", query)


@pytest.mark.ui
def test_every_section_of_the_idea_has_a_picture_with_words_for_who_cannot_see_it() -> None:
    app = page()
    titles = [item.value for item in app.subheader]
    assert len(titles) == len(lessons.text_sections("idea")) == len(lessons.IDEA)
    figures = [
        json.loads(item.proto.mixed.json if item.proto.HasField("mixed") else item.proto.json)
        for item in app.get("bidi_component")
    ]
    assert len(figures) == 5  # the other three are tables
    for data in figures:
        assert len(data["alt"]) >= 30
        assert "http" not in json.dumps(data).replace("http://www.w3.org", "").replace("http://www.rdkit.org", "")
    tables = [item.value for item in app.markdown if "| --- |" in item.value or "| --: |" in item.value]
    assert len(tables) == lessons.IDEA.count(None)


@pytest.mark.ui
def test_sliders_move_the_numbers() -> None:
    app = page(part="Speed-up")
    assert app.metric[0].value == f"{expected_tokens(0.8, 5):.2f}"
    app.slider[0].set_value(0.5).run()
    assert app.metric[0].value == f"{expected_tokens(0.5, 5):.2f}"
    app.slider[2].set_value(0.9).run()
    assert (app.metric[2].label, app.metric[2].value) == ("at best, γ = 0", "1.00×")


@pytest.mark.ui
@pytest.mark.parametrize(
    ("part", "words"), [("Drafters", "spec_drafter"), ("Words", "**Accepted.**"), ("Papers", "doi.org/10.1186")]
)
def test_the_other_parts_open(part: str, words: str) -> None:
    app = page(part=part)
    assert words in " ".join(item.value for item in app.markdown)
    if part == "Papers":
        assert len(app.expander) == len(lessons.text_sections("faq"))
