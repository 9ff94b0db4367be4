"""The page Predict without a browser: what it says of answers, of faults, of speculation."""

from __future__ import annotations

import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import openpyxl
import pytest
import streamlit as st
from helpers import pages
from helpers.case_tables import table
from helpers.pages import MODELS, html, weights
from rdkit import Chem
from rdkit.Chem import rdDepictor
from streamlit.testing.v1 import AppTest

import chemspec
from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.molecules import layout
from chemspec.chem.molecules.bottles import as_bottled
from chemspec.chem.reactions.step_class import classify_step
from chemspec.chem.reading.names import short_names
from chemspec.depict import molecules, schemes
from chemspec.depict.molecules import Depiction
from chemspec.engine.engine import model_folder
from chemspec.engine.forks import Fork
from chemspec.evaluation.measurements import MEASUREMENTS_FILE, int8_is_usable
from chemspec.io import spreadsheets
from chemspec.plan import depict as route_drawing
from chemspec.plan.routes import Node, Route
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.precedents import Conditions, Found
from chemspec.review import suggestions
from chemspec.review.forward_check import ForwardCheck
from chemspec.settings import DecodeSettings, Task
from chemspec.stock.lists import BUILT_IN, load_stock, stock_marks
from chemspec.types import DecodeResult, Hypothesis, Pass, Trace
from chemspec.ui.common import bond_picker, query_box, queued_engine, scheme
from chemspec.ui.common.escaping import join
from chemspec.ui.common.queued_engine import QueuedEngine
from chemspec.ui.learn.lessons import text_sections
from chemspec.ui.models.cards import read_accuracy
from chemspec.ui.predict import answers, details, gallery, options, query_panel, query_view, reviewing, token_origins


def open_page(**query: str) -> AppTest:
    return pages.open_page("predict", query)


def unescaped(markdown: str) -> str:
    """Markdown without its escapes."""
    return markdown.replace("\\", "")


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
        model_probability=2.718281828**log_prob,
        probability=2.718281828**log_prob,
        ended=ended,
    )


def result(*smiles: str, seconds: float = 0.05, passes: int = 6, emitted: int = 41) -> DecodeResult:
    per = [emitted // passes] * passes
    per[-1] += emitted - sum(per)
    trace = Trace(("C",), {}, tuple(Pass(1, 1, 0, count, 0, 1.0, 1, 0.0, 0.001) for count in per), seconds)
    return DecodeResult("C", "ok", "", tuple(map(hypothesis, smiles)), trace)


CLICK = "C#Cc1ccccc1.[N-]=[N+]=NCc1ccccc1.[Cu+2].O=S(=O)([O-])[O-].O=C1O[C@H]([C@@H](O)CO)C(O)=C1[O-].[Na+].O.CC(C)(C)O"


# --- answers ----------------------------------------------------------------------------------------


LIDOCAINE = "CCN(CC)CC(=O)Nc1c(C)cccc1C"
ALKYLATED = [f"CCNCC.Cc1cccc(C)c1NC(=O)C{halide}" for halide in ("Cl", "Br")]


def canonical(smiles: str) -> str:
    return chem.canonical(smiles) or ""


def test_answers_that_are_one_idea_share_a_card() -> None:
    amide = "CCN(CC)CC(=O)Cl.Cc1cccc(C)c1N"
    found = suggestions.group_answers("retro", LIDOCAINE, result(*map(canonical, (ALKYLATED[0], amide, ALKYLATED[1]))))
    assert [(card.name, len(card.members)) for card in found] == [("N-Alkylation", 2), ("Amide formation", 1)]
    assert found[0].also == "other leaving groups under More: bromide"
    assert found[0].probability == pytest.approx(2 * found[1].best.probability)


@pytest.mark.parametrize(
    ("target", "answers", "name"),
    [
        ("Cc1cc(C)n(-c2ccccc2)n1", ["CC(=O)CC(C)=O.NNc1ccccc1", "CC#CC(C)=O.NNc1ccccc1"], "Pyrazole synthesis"),
        ("ClCCc1ccccc1", ["O=S(Cl)Cl.OCCc1ccccc1", "Cl.OCCc1ccccc1"], "Halide from an alcohol"),
    ],
)
def test_similar_answers_are_only_counted_where_their_groups_say_nothing(
    target: str, answers: list[str], name: str
) -> None:
    (card,) = suggestions.group_answers("retro", target, result(*map(canonical, answers)))
    assert (card.name, card.also) == (name, "1 similar set of precursors under More")
    assert suggestions.describe_patents(("US1", "", "US2", "US1"), 3) == "US1; US2"


@pytest.mark.parametrize(("task", "query", "answer", "problem"), table("ui/isotope_labels"))
def test_isotope_labels_are_watched(task: Any, query: str, answer: str, problem: str) -> None:
    (card,) = suggestions.group_answers(task, canonical(query), result(canonical(answer)))
    told = [text for text in card.problems if "label" in text]
    assert len(told) == bool(problem) and problem in "".join(told)


def test_another_stereoisomer_is_no_other_product() -> None:
    target = "COC(=O)/C=C/c1ccccc1"
    (card,) = suggestions.group_answers("retro", target, result("COC(=O)CP(=O)(OC)OC.O=Cc1ccccc1"))
    unset = replace(card, check=ForwardCheck(False, 0.9, "COC(=O)C=Cc1ccccc1"))
    assert not any("forward model" in text for text in unset.problems)
    assert unset.notes[-1].startswith("the forward model gives this product, and leaves open")
    turned = replace(card, check=ForwardCheck(False, 0.9, "COC(=O)/C=C\\c1ccccc1"))
    assert turned.problems[-1] == "the forward model expects another stereoisomer"
    other = replace(card, check=ForwardCheck(False, 0.9, "CCO"))
    assert other.problems[-1] == "the forward model expects another product"


def test_the_heading_counts_the_strategies_and_sets_that_are_not_drawn_yet() -> None:
    found = suggestions.group_answers("retro", LIDOCAINE, result(*ALKYLATED, "CCN(CC)CC(=O)Cl.Cc1cccc(C)c1N"))
    question = query_panel.Question("retro", "retro", LIDOCAINE, DecodeSettings(), cards=1)
    assert answers.answers_heading(question, found) == "2 strategies, 3 sets of precursors"


def test_of_epimeric_precursors_the_one_that_a_substitution_inverts_goes_first() -> None:
    target = "CC[C@H](C)N=[N+]=[N-]"
    retained, inverted = (f"{left}.[N-]=[N+]=[N-]" for left in ("CC[C@H](C)Br", "CC[C@@H](C)Br"))
    (card,) = suggestions.group_answers("retro", target, result(*map(canonical, (retained, inverted))))
    assert card.best.canonical == as_bottled(canonical(inverted)) and not card.problems
    assert card.probability == card.best.probability  # that of the other counts nothing


def test_reagents_that_confirm_a_step_go_first_and_recorded_ones_before_proposed_ones() -> None:
    target, precursor = "O=CC1CCCCC1", "CCOC(=O)C1CCCCC1"
    (card,) = suggestions.group_answers("retro", target, result(precursor))
    proposed = replace(card, proposed=(("[AlH4-].[Li+].C1CCOC1", 0.4),))
    assert card.step and card.step.reagents
    confirmed = replace(proposed, check=ForwardCheck(True, 0.5, target, card.step.reagents))
    assert confirmed.reagents == (card.step.reagents, "usual for the class")
    unsure = replace(confirmed, check=ForwardCheck(True, 0.1, target, card.step.reagents))
    alone = replace(confirmed, check=ForwardCheck(True, 0.5, target))
    assert unsure.reagents == alone.reagents == proposed.reagents == ("[AlH4-].[Li+].C1CCOC1", "proposed by a model")
    hydride = "CC(C)C[Al]CC(C)C.ClCCl"
    found = Found(conditions=(Conditions("ClCCl", 2), Conditions(hydride, 1)))  # the first lacks a reductant
    assert replace(confirmed, precedents=found).reagents == confirmed.reagents, "one set: that of the verdict"
    assert replace(alone, precedents=found).reagents == (hydride, "from precedents")


def test_a_wrong_epimer_counts_nothing_and_is_told() -> None:
    target, right, wrong = map(
        canonical, ("C[C@H](NC(C)=O)C(=O)O", "C[C@H](NC(C)=O)C(=O)OC", "C[C@@H](NC(C)=O)C(=O)OCC")
    )
    (card,) = suggestions.group_answers("retro", target, result(wrong, right))
    assert card.best.canonical == right and not card.problems
    assert card.probability == pytest.approx(card.best.probability)
    assert suggestions.spoils_stereo(card.alternatives[0][1])
    (alone,) = suggestions.group_answers("retro", target, result(wrong))
    assert alone.problems[0] == "wrong epimer: centre 4 would have to invert"  # CC(=O)N[C@@H], from 0


def test_what_the_forward_model_doubts_counts_a_fifth() -> None:
    found = suggestions.group_answers(
        "retro", LIDOCAINE, result(canonical(ALKYLATED[0]), "CCN(CC)CC(=O)Cl.Cc1cccc(C)c1N")
    )
    doubted = replace(found[0], check=ForwardCheck(False, 0.5, "CCO"))
    ranked = suggestions.rank_suggestions([doubted, found[1]])
    assert [card.name for card in ranked] == ["Amide formation", "N-Alkylation"]
    assert [card.rank for card in ranked] == [1, 2]
    unsure, sure = (replace(found[0], check=ForwardCheck(True, chance, LIDOCAINE)) for chance in (0.2, 0.4))
    asked = query_panel.Question("retro", "retro", LIDOCAINE, DecodeSettings())
    assert unsure.problems == ("the forward model is unsure of it (20 %)",)
    assert "✓" not in details.card_footer(asked, unsure)
    assert ":green-badge[✓ forward model agrees (40 %)]" in unescaped(details.card_footer(asked, sure))
    assert not sure.problems


@pytest.mark.parametrize(("task", "query", "answer", "words"), table("ui/badges"))
def test_badges_are_for_trouble_only(task: Any, query: str, answer: str, words: list[str]) -> None:
    (card,) = suggestions.group_answers(task, query, result(answer))
    found = card.problems
    assert len(found) == len(words)
    for told, word in zip(found, words, strict=True):
        assert word in told


def test_a_cut_answer_says_so() -> None:
    cut = replace(hypothesis("CCO", ended="length"), canonical="", valid=False)
    assert suggestions.Suggestion("forward", "CC", 1, cut).problems == ("cut after 3 tokens",)


@pytest.mark.parametrize(("odds", "told", "words"), table("ui/chances_in_words"))
def test_chances_in_words(odds: float, told: str, words: str) -> None:
    assert (suggestions.format_percent(odds), suggestions.confidence_word(odds)) == (told, words)


@weights
@pytest.mark.parametrize(("smiles", "words"), table("ui/doubtful_lists"))
def test_a_list_that_deserves_doubt_says_so(smiles: str, words: str | None) -> None:
    banner = [item.value for item in open_page(smi=smiles).warning]
    assert len(banner) == (words is not None)
    assert words is None or words in banner[0]


@weights
def test_no_list_shows_an_echo_and_chances_add_up_to_one_at_most() -> None:
    caffeine = "Cn1c(=O)c2c(ncn2C)n(C)c1=O"  # which the model returns among ten
    page = open_page(task="retro", smi=caffeine)
    assert caffeine not in [item.value for item in page.code]
    assert any(item.value.startswith("Left out, as already in the query") for item in page.caption)
    hatu = "O=C(O)c1ccccc1.NCc1ccccc1.CCN(C(C)C)C(C)C.CN(C)C=O.CN(C)C(On1nnc2cccnc21)=[N+](C)C.F[P-](F)(F)(F)(F)F"
    told = [int(odds) for odds in re.findall(r"<b>(\d+) %</b>", html(open_page(smi=hatu)))]
    assert told and sum(told) <= 101  # each is rounded


def test_nothing_a_visitor_types_becomes_markup() -> None:
    evil = "<script>alert(1)</script>"
    broken = replace(hypothesis("CC"), tokens=(evil,), smiles=evil, canonical="", valid=False)
    card = suggestions.Suggestion("retro", "CC", 1, broken, check=ForwardCheck(False, 0.5, evil))
    asked = query_panel.Question("forward", "forward", "CC", DecodeSettings())
    texts = [
        details.token_probabilities_html(card.best),
        details.forks_html(card.best, [Fork(0, evil, 0.6, evil, 0.2, "CCO")], {}),
        details.card_header(asked, card),
        join(evil),
        query_box.fault_html(evil, chem.explain(evil) or chem.Fault("", 0, 1, "")),
        scheme.reaction_html(schemes.Side(evil, labels=(evil,)), schemes.Side(evil), apart=True),
        scheme.arrow_html(evil),
    ]
    for text in texts:
        assert "<script" not in text
    for text in texts[:2] + texts[3:]:
        assert "&lt;" in text
    assert "'\\<\\' is" in details.card_footer(asked, card), "what is at fault, escaped"


def test_the_text_of_a_picture_stays_in_its_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = '"><script>alert(1)</script>'
    monkeypatch.setattr(Depiction, "svg", "<svg/>")  # of no SMILES with such signs there is a drawing
    for text in (scheme.molecule_figure(Depiction(evil)), scheme.picture_html("data:", evil)):
        assert "<script" not in text and 'alt="' in text and "&quot;&gt;&lt;script" in text
    view: Any = SimpleNamespace(passes=(), answers=[SimpleNamespace(smiles=evil)])
    text = token_origins.runs_html(view)
    assert "<script" not in text and "&quot;&gt;&lt;script" in text


UNDRAWABLE = "c1cccc2cc3ccccc(cc1)ccccc-3c2"  # RDKit's own layout puts two bonded atoms of it at one point


def test_what_cannot_be_drawn_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "shortest_bond", lambda _: 1.0)  # without the other layout RDKit refuses to draw it
    molecules.draw_svg.cache_clear()
    assert Depiction(UNDRAWABLE).svg == "" and UNDRAWABLE in scheme.molecule_figure(Depiction(UNDRAWABLE))
    assert Depiction(UNDRAWABLE).png() == schemes.scheme_to_png(UNDRAWABLE, "CCO", None) == b""
    route = Route(Node(UNDRAWABLE))
    assert "<svg" in route_drawing.to_svg(route) and route_drawing.to_png(route)[:4] == b"\x89PNG"


# --- the scheme -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flask", "keep", "drawn", "names"), table("ui/over_the_arrow"))
def test_reagents_stand_over_the_arrow(flask: str, keep: Any, drawn: Any, names: Any) -> None:
    assert short_names.split_drawn_and_named(flask.split("."), keep=keep) == (drawn, names)


def test_a_precursor_lies_like_the_target_though_its_new_groups_need_room() -> None:
    core = "CC(C)c1c(C(=O)Nc2ccccc2)c(-c2ccccc2)c(-c2ccc(F)cc2)n1CC[C@@H](O)C[C@@H]"
    target = chem.canonical(core + "(O)CC(=O)O")
    reactants = chem.canonical(core + "(OC(C)=O)CC(=O)OC(C)(C)C")
    assert target and reactants
    change = classify_step(reactants, target)
    assert change
    laid, model = Chem.MolFromSmiles(reactants), Chem.MolFromSmiles(target)
    pairs = tuple((origin, atom) for atom, origin in enumerate(change.origin) if origin >= 0)
    molecules.align_layout(laid, target, pairs)
    rdDepictor.Compute2DCoords(model)
    here = laid.GetConformer().GetPositions()[[atom for atom, _ in pairs]]
    there = model.GetConformer().GetPositions()[[atom for _, atom in pairs]]
    far = np.linalg.norm((here - here.mean(axis=0)) - (there - there.mean(axis=0)), axis=1)
    assert np.median(far) < 1.5  # the length of a bond


def test_a_layout_that_rdkit_cannot_align_is_drawn_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """RDKit raises "Range Error" for a few molecules, depending on what it has laid out before."""

    def broken(*_: Any, **options: Any) -> None:
        assert "coordMap" in options
        raise RuntimeError("Range Error")

    product, reactants = "CC(=O)Nc1ccc(C)cc1CCN", "CC(=O)Cl.Cc1ccc(N)c(CCN)c1"
    change = classify_step(reactants, product)
    assert change is not None
    plain = schemes.scheme_to_svg(reactants, product, change)
    molecules.draw_svg.cache_clear()
    monkeypatch.setattr(molecules, "rdDepictor", SimpleNamespace(Compute2DCoords=broken))
    assert plain and schemes.scheme_to_svg(reactants, product, change)


def test_every_short_name_is_known_and_can_be_typed() -> None:
    assert len(short_names.name_table()) == len(short_names.read_short_names()) > 100
    assert not [name for name, parts in short_names.name_table() if "?" in parts]
    for name, _ in short_names.read_short_names():
        assert isinstance(formats.read_input(f"CCO, {name}", task="forward"), formats.Input), name


def test_the_salts_of_a_click_reaction_have_names_in_the_order_of_the_flask() -> None:
    for flask in (CLICK, "phenylacetylene, benzyl azide, CuSO4, sodium ascorbate, water, tBuOH"):
        read = formats.read_input(flask, task="forward")
        assert isinstance(read, formats.Input), read
        drawn, names = short_names.split_drawn_and_named(read.ordered.split("."))
        assert drawn == (0, 1)
        assert names == ("CuSO₄", "sodium ascorbate", "H₂O", "tBuOH")


# --- the options ----------------------------------------------------------------------------------------


def test_every_choice_has_a_label() -> None:
    drafters = tuple(DRAFTERS)
    searches = options.decoder_labels(drafters)
    drafts = options.drafter_labels("beam", drafters)
    assert set(drafts) == set(DRAFTERS)
    assert set(searches) == set(DECODERS)
    sampled = {"speculative-sample", "block-sample", "sampled-beam"}
    assert set(searches) - set(options.decoder_labels(("windows", "none"))) == sampled
    assert set(options.drafter_labels("speculative-sample", drafters)) == {"auto", "ar", "medium", "hierarchy", "none"}
    first = DecodeSettings(decoder=next(iter(searches)), drafter=next(iter(drafts)))
    assert first == DecodeSettings(), "the choices shown first are the defaults"


# --- the page -------------------------------------------------------------------------------------------


def test_examples_can_be_read_and_have_names() -> None:
    tasks = [item.task for item in query_box.load_examples()]
    assert tasks.count("forward") >= 6 and tasks.count("retro") >= 6
    for item in query_box.load_examples():
        assert chem.is_valid(item.smiles), item.name
        assert item.line.endswith((".", "?"))


def test_a_page_that_lost_its_task_opens_with_the_first_one() -> None:
    page = pages.open_page("predict", {"smi": "CCO.CC(=O)Cl"}, {"predict_task": None})
    assert page.session_state["predict_task"] == query_panel.TASKS[0]


@weights
def test_a_link_is_answered_with_ideas_and_options_change_the_search() -> None:
    page = open_page(task="retro", smi="CC(=O)Nc1ccccc1")
    assert "CC(=O)Cl.Nc1ccccc1" in " ".join(item.value for item in page.code) + html(page) or "acid" in html(page)
    text = html(page)
    assert "Amide formation" in text and "under More" in text
    assert any("forward model agrees" in item.value for item in page.caption)
    assert "● in " in text
    assert "probability of the recorded route" in text
    assert "atoms that change are highlighted" in text
    assert page.button(key="predict_measure").label == "Race it"
    engine = queued_engine.loaded_engines()[model_folder("retro")]
    fast = engine.runtime == "native" and int8_is_usable(model_folder("retro"))
    assert engine.dtype == ("int8" if fast else "fp32")
    page.selectbox(key="predict_search").select("greedy").run()
    assert not page.exception and len(page.code) == 1
    page.session_state["predict_text"] = LIDOCAINE
    page.run()
    assert "belong to an earlier query" in page.warning[0].value


@weights
@pytest.mark.parametrize(("task", "smiles"), [("forward", "CC(=O)Cl.Nc1ccccc1"), ("retro", "CC(=O)Nc1ccccc1")])
def test_a_question_is_decoded_once_and_each_idea_checked_once_or_with_reagents(
    task: Any, smiles: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = pages.watch_queries(monkeypatch)
    checked: list[str] = []
    helped: list[str] = []
    decode_many = QueuedEngine.predict

    def counting_many(model: Any, queries: Any, settings: DecodeSettings) -> list[DecodeResult]:
        assert model.engine.task in ("forward", "reagents")
        (checked if model.engine.task == "forward" else helped).extend(queries)
        return decode_many(model, queries, settings)

    monkeypatch.setattr(QueuedEngine, "predict", counting_many)
    page = open_page(task=task, smi=smiles)
    assert [(model, query) for model, query, _ in asked] == [(task, smiles)] * 2, (
        "greedily for the first answer, and once for all"
    )
    assert len(set(checked)) == len(checked) <= 3 * reviewing.MAX_CHECKED
    assert len(set(helped)) == len(helped) <= reviewing.MAX_CHECKED
    assert bool(checked) == (task == "retro")
    assert any("the likeliest 8 cards are checked" in one.value for one in page.caption) == (task == "retro")
    before = len(checked), len(helped)
    page.run()
    assert len(asked) == 2 and (len(checked), len(helped)) == before


def test_the_first_screen_shows_an_answer_and_decodes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queued_engine, "decode_query", None)
    monkeypatch.setattr(QueuedEngine, "predict", None)
    page = open_page()
    text = html(page)
    kept = gallery.recorded_answer("forward")
    (card, *_) = suggestions.group_answers("forward", kept.query, kept)
    assert "Example: " in text and "Suzuki coupling" in text
    assert suggestions.format_percent(card.probability) in text
    assert "sent nowhere else" in page.markdown[0].value


@weights
@pytest.mark.parametrize(
    ("task", "classes"), [("forward", ["Ring closure", "C–C bond formation"]), ("retro", [])], ids=["forward", "retro"]
)
def test_the_start_page_names_the_accuracy_of_the_model(task: Task, classes: list[str]) -> None:
    top, by_class = read_accuracy(model_folder(task))
    rates = [top[0][1], *({name: shares[0][1] for name, _, shares in by_class}[name] for name in classes)]
    assert re.findall(r"\d+ %", dict(text_sections("strengths"))[task]) == [f"{rate:.0f} %" for rate in rates]


@weights
@pytest.mark.parametrize("task", ["forward", "retro"])
def test_the_recorded_example_is_what_the_model_says(task: Any) -> None:
    kept = gallery.recorded_answer(task)
    engine = chemspec.load(task)
    now = engine.predict(kept.query, n=20 if task == "retro" else 5, distinct=True)
    assert [one.canonical for one in now.hypotheses] == [one.canonical for one in kept.hypotheses]
    for one, other in zip(now.hypotheses, kept.hypotheses, strict=True):
        assert one.probability == pytest.approx(other.probability, abs=1e-4)


@weights
def test_a_question_is_one_run_of_the_page_with_few_values_in_the_session_and_cuts_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[None] = []
    panel = query_panel.show_query_panel
    monkeypatch.setattr(query_panel, "show_query_panel", lambda: (runs.append(None), panel())[1])
    monkeypatch.setattr(details, "find_forks", None)  # only where somebody opens "Why?"
    drawn: list[tuple[str, tuple[int, ...]]] = []
    picker = bond_picker.show_bond_picker

    def watched(smiles: str, *args: Any, bold: Any, **more: Any) -> None:
        drawn.append((smiles, tuple(atom for pair in bold for atom in pair)))
        picker(smiles, *args, bold=bold, **more)

    monkeypatch.setattr(bond_picker, "show_bond_picker", watched)
    page = open_page(task="retro", smi=LIDOCAINE)
    assert len(runs) == 1 and page.session_state["predict_question"].link == {"task": "retro", "smi": LIDOCAINE}
    state: Any = page.session_state._state._state
    values = {key for key in (*state._old_state, *state._new_session_state) if not key.startswith("$$")}
    assert len(values) <= 13, "what is no widget's, and three that are"
    widgets = [key for key in state._new_widget_state.widget_metadata if "INTERNAL" not in key]
    assert len(widgets) <= 35, "with five cards, of which each has one control and one button"

    assert max(drawn[-1][1]) > 5
    drawn.clear()
    page.session_state["predict_text"] = "CCOC(C)=O"  # as "Find precursors" puts it
    page.button(key="predict_ask").click().run()
    assert not page.exception
    ((target, atoms),) = drawn  # once a run, when the answers are known
    assert target == "CCOC(C)=O" and atoms and max(atoms) <= 5


@weights
@pytest.mark.skipif("retro-50k" not in MODELS, reason="one retro model")
def test_a_link_chooses_its_model_again() -> None:
    page = pages.open_page("predict", {"task": "retro", "smi": "CCOC(C)=O"}, {"predict_model_retro": "retro-50k"})
    assert page.session_state["predict_question"].model == "retro" == page.query_params["task"]
    page.selectbox(key="predict_model_retro").select("retro-50k").run()
    assert not page.exception and page.query_params["task"] == "retro-50k"


@weights
def test_an_example_is_one_click() -> None:
    page = open_page()
    page.button(key="predict_example_Williamson ether synthesis").click().run()
    assert not page.exception
    assert page.code[0].value == "Brc1ccc(OCc2ccccc2)cc1"


@weights
@pytest.mark.parametrize(("smiles", "words"), [("CC(=O)Nc1ccc(O)cc", "never closed"), ("[Rf]", "[Rf]")])
def test_what_cannot_be_predicted_is_refused_in_words(smiles: str, words: str) -> None:
    page = open_page(smi=smiles)
    assert words in html(page) + pages.words(page) and not page.code


def test_a_doubtful_name_is_a_question_with_a_button_for_each_molecule() -> None:
    page = open_page(task="forward", smi="aniline; propanol")
    labels = [unescaped(button.label) for button in page.button if "_choice_" in str(button.key)]
    assert labels == ["1-propanol", "2-propanol"]
    page.button(key="predict_choice_1").click().run()
    assert page.session_state["predict_text"] == "aniline; 2-propanol"
    assert not any("_choice_" in str(button.key) for button in page.button)


def test_the_next_of_several_steps_is_one_click_with_the_product_of_the_first() -> None:
    page = open_page(task="forward", smi="")
    page.session_state["predict_text"] = "1) acetanilide, NaH; 2) MeI"
    page.session_state["predict_task"] = "forward"
    page.button(key="predict_ask").click().run()
    shown = page.button(key="predict_next_step")
    assert unescaped(shown.label) == "Next step: this product with MeI"
    shown.click().run()
    assert page.session_state["predict_text"].endswith("; MeI") and "NaH" not in page.session_state["predict_text"]


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


def test_long_work_shows_its_progress_and_a_stop_button_and_stays_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def spying(model: object, query: str, settings: DecodeSettings, *, report: Any) -> None:
        report("7 tokens written in 1 passes")
        st.stop()  # the page is left as it is

    def script() -> None:
        import streamlit

        from chemspec.settings import DecodeSettings
        from chemspec.ui.predict import answers
        from chemspec.ui.predict.query_panel import Question

        question = Question("forward", "forward", "CC", DecodeSettings())
        answers.predict_with_progress(None, question, streamlit.empty())  # type: ignore[arg-type]

    monkeypatch.setattr(queued_engine, "cached_prediction", spying)
    page = AppTest.from_function(script, default_timeout=240).run()
    assert not page.exception
    assert page.caption[0].value == "7 tokens written in 1 passes"
    page.button(key="predict_stop").click().run()
    assert not page.exception and "Stopped" in page.info[0].value


# --- files ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(Chem, "MolToCDXMLBlock"), reason="this RDKit writes no CDXML")
def test_a_scheme_for_chemdraw_holds_the_reaction_with_its_arrow() -> None:
    flask = "C[C@H](N)C(=O)O.O=C(Cl)c1ccccc1.[Na+].[OH-].C1CCOC1"
    product = "C[C@H](NC(=O)c1ccccc1)C(=O)O"
    text = schemes.scheme_to_cdxml(flask, product, classify_step(flask, product))
    read = formats.read_input(text, task="forward")
    assert isinstance(read, formats.Input)
    assert (read.kind, read.reaction) == ("CDXML", f"{flask}>>{product}")  # names over the arrow are read too
    assert schemes.scheme_to_cdxml("x", product, None) == schemes.scheme_to_cdxml("C", "x", None) == ""


def test_a_table_goes_into_files() -> None:
    rows = [{"rank": 1, "smiles": "=CC", "trouble": "a < b"}, {"rank": 2, "smiles": "CCO", "trouble": ""}]
    assert spreadsheets.rows_to_csv(rows).splitlines()[1] == "1,'=CC,a < b"
    book = openpyxl.load_workbook(io.BytesIO(spreadsheets.rows_to_xlsx(rows)))
    assert [[(cell.value, cell.data_type) for cell in row] for row in book.active.iter_rows(min_row=2)] == [
        [(1, "n"), ("=CC", "s"), ("a < b", "s")],
        [(2, "n"), ("CCO", "s"), (None, "n")],
    ]


# --- a whole reaction -----------------------------------------------------------------------------------


WHOLE = "Nc1ccccc1.CC(=O)Cl.ClCCl>>CC(=O)Nc1ccccc1"


@pytest.mark.parametrize(
    ("text", "task", "answers", "words"),
    [
        (WHOLE, "retro", ("CC(=O)Nc1ccc(Br)cc1.[HH]", "CC(=O)Cl.Nc1ccccc1"), ("prediction 2 of 2", "), on card 1.")),
        (
            "CCO.Nc1ccccc1>>CCBr",
            "forward",
            ("CCNc1ccccc1",),
            ("does not expect this", "cannot supply 1 Br", "drawing of CCBr"),
        ),
    ],
)
def test_a_reaction_that_is_not_the_first_answer_is_shown_where_it_stands_or_drawn_with_what_is_wrong(
    text: str, task: Any, answers: tuple[str, ...], words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = formats.read_input(text, task=task)
    assert isinstance(read, formats.Input)
    asked = query_panel.Question(task, task, read.ordered, DecodeSettings(), cards=1, expected=read.other)
    assert asked.text == text
    shown: list[tuple[str, str]] = []
    for kind in ("success", "warning", "html"):
        monkeypatch.setattr(st, kind, lambda told, kind=kind, **_: shown.append((kind, str(told))))
    found = result(*answers)
    cards = suggestions.group_answers(task, read.ordered, found)
    reviewing.show_reaction_verdict(asked, found, cards)
    told = unescaped(" ".join(part for _, part in shown))
    assert shown[0][0] == "warning" and all(word in told for word in words)
    typed = [card.rank for card in cards if re.search("your (reactants|product)", details.card_header(asked, card))]
    assert bool(typed) == (len(answers) > 1)
    if typed:
        assert reviewing.include_typed_card(asked, cards).cards == typed[0]


@weights
@pytest.mark.parametrize("task", ["forward", "retro"])
def test_the_page_checks_a_reaction_with_one_search(task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = pages.watch_queries(monkeypatch)
    whole = "Nc1ccccc1.O=C(Cl)c1ccccc1.ClCCl>>O=C(Nc1ccccc1)c1ccccc1"
    page = open_page(task=task, smi=whole)
    assert [one[1] for one in asked] == [whole.split(">>")[0 if task == "forward" else 1]] * 2
    text = html(page)
    assert any("Your reaction." in item.value and "The model agrees" in item.value for item in page.success)
    assert "a whole reaction: its" in text and "is left out" not in text
    assert whole in page.query_params["smi"]
    page.run()
    assert len(asked) == 2


@weights
def test_an_upload_is_read_as_if_it_were_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    page = open_page()
    monkeypatch.setattr(st, "session_state", page.session_state)
    fault = query_panel.submit_file(b"no file", "forward")
    assert isinstance(fault, chem.Fault)
    rxn = formats.to_rxn("CC(=O)Cl.Nc1ccccc1", "CC(=O)Nc1ccccc1")
    assert query_panel.submit_file(rxn.encode(), "forward") is None
    monkeypatch.undo()
    page.run()
    assert "read as RXN; a whole reaction" in html(page) and page.success


def test_salts_are_drawn_and_marked_as_one() -> None:
    flask = "C#Cc1ccccc1.[Cu+2].O=S(=O)([O-])[O-].[Na+].O=C1OC(C(O)CO)C([O-])=C1O"
    built_in = load_stock(BUILT_IN)
    text = scheme.side_html(schemes.Side(flask, labels=stock_marks(flask, built_in)))
    assert text.count("<figure>") == 3
    assert "drawing of [Cu+2].O=S(=O)([O-])[O-]" in text
    assert text.count("● in ") + text.count("○ in no list") == 3
    apart = "C#Cc1ccccc1.O=S(=O)([O-])[O-].[Na+].[Cl-].[Cu+2]"
    changed = {
        places: (molecule.smiles, dict(molecule.fills))
        for places, molecule in schemes.side_molecules(schemes.Side(apart, atoms=(9, 14, 15)))
    }
    assert set(changed) == {(0,), (1, 4), (2, 3)}
    assert changed[(1, 4)] == ("O=S(=O)([O-])[O-].[Cu+2]", dict.fromkeys((1, 5), schemes.CHANGED))
    assert changed[(2, 3)] == ("[Na+].[Cl-]", {1: schemes.CHANGED})


# --- guiding the cut --------------------------------------------------------------------------------


@weights
def test_a_guide_from_a_link_filters_searches_wider_and_says_what_it_left_out() -> None:
    page = open_page(task="retro", smi=LIDOCAINE, guide="break C6-N8; only amide")
    assert not page.exception
    assert page.multiselect(key="predict_only").value == ["amide"]
    told = re.search(
        r"Breaking C6-N8, only Amide: (\d+) other answers left out, (\d+) candidates searched", pages.words(page)
    )
    assert told and int(told[1]) > 0 and int(told[2]) > 20
    assert "N-Alkylation" not in html(page)
    page.button(key="predict_unguide").click().run()
    assert "N-Alkylation" in html(page) and "guide" not in page.query_params
    page.multiselect(key="predict_only").set_value(["cross-coupling"]).run()
    assert page.query_params["guide"] == "only cross-coupling"


def test_a_guide_that_does_not_fit_its_target_is_dropped() -> None:
    page = open_page(task="retro", smi="CCO", guide="break C6-N8")
    assert not page.exception and "Breaking" not in html(page)


# --- why --------------------------------------------------------------------------------------------------


def test_a_doubt_is_told_with_both_probabilities_and_the_other_way_drawn() -> None:
    answer = hypothesis("CCNCC.C(Cl)C")
    fork = Fork(8, "Cl", 0.71, "Br", 0.25, "CCBr.CCNCC")
    told = details.forks_html(answer, [fork], {"CCBr.CCNCC": 3})
    assert "CCNCC.C(<mark>C</mark>l)C" in told  # the tokens of this test are characters
    assert "<b>Cl</b> 71 %, <b>Br</b> 25 %" in told and "answer 3 of this page" in told
    assert "drawing of CCBr" in told and "least certain choices that lead to another molecule" in told
    told = details.forks_html(answer, [fork], {"CCBr.CCNCC": 1, answer.canonical: 1})
    assert "a similar answer of this card" in told and "of this page" not in told
    assert "would give:" in details.forks_html(answer, [fork], {})
    assert "No low-margin choices" in details.forks_html(answer, [], {})


def test_why_names_the_accuracy_of_the_class(tmp_path: Path) -> None:
    flask, product = "CC(=O)O.NCc1ccccc1.CCN=C=NCCCN(C)C", "CC(=O)NCc1ccccc1"
    amide = suggestions.Suggestion("forward", flask, 1, hypothesis(product))
    assert details.describe_class_accuracy(tmp_path, amide) == ""
    top = {"1": {"value": 0.91, "low": 0.87, "high": 0.94}}
    measured = {"top": top, "classes": {"Amide formation": {"reactions": 266, "top": top}}}
    (tmp_path / MEASUREMENTS_FILE).write_text(json.dumps({"accuracy": measured}))
    assert details.describe_class_accuracy(tmp_path, amide) == (
        "Amide formation: of 266 test reactions 91 % had the recorded answer first ([all classes](/models))."
    )
    assert details.describe_class_accuracy(tmp_path, replace(amide, query="O")) == ""


def test_a_pasted_file_is_folded_to_its_name() -> None:
    molfile = formats.to_sdf([{"smiles": "CC(=O)Nc1ccc(O)cc1"}]).split("M  END")[0] + "M  END\n"
    reaction = formats.to_rxn("CC(=O)Cl.Nc1ccccc1.[Na+].[OH-]", "CC(=O)Nc1ccccc1")
    for text, name in (
        (molfile, "molfile, 11 atoms"),
        (reaction, "RXN, a reaction of 4 molecules"),
        ("CCO", ""),
        ("aniline\nacetyl chloride\nEt3N\nDCM\nDMAP", ""),
        (molfile.replace(" O  ", " Xx ", 1), ""),
    ):
        assert query_box.folded_label(text, formats.read_input(text, task="forward")) == name
    assert query_box.folded_label("", None) == ""


@pytest.mark.parametrize(
    ("smiles", "formula"), [("[2H]C([2H])([2H])O", "CHD₃O"), ("[13CH3]O", "¹³CH₄O"), ("CCO", "C₂H₆O")]
)
def test_a_formula_tells_isotopes(smiles: str, formula: str) -> None:
    assert formula in query_view.describe_query(smiles)


def test_the_drawing_of_a_choice_says_in_words_what_it_shows() -> None:
    def script() -> None:
        from chemspec.review.selectivity import Selectivity, Site
        from chemspec.ui.predict import answers

        sites = (Site(5, (5,), 0.78, (1,)), Site(6, (4, 6), 0.11, (2, 9)), Site(0, (0,), 0.002, (10,)))
        answers.show_selectivity(Selectivity("COc1ccccc1", sites, True))

    page = AppTest.from_function(script, default_timeout=240).run()
    assert not page.exception
    (alt,) = re.findall(r'alt="([^"]*)"', html(page))
    assert "78 % at atom 6, C (answer 1); 11 % at atom 5 or 7, C (answers 2, 9)" in alt
    (told,) = [item.value for item in page.caption]
    assert "**11 %** answers 2, 9" in told and "10" not in told
    assert "no measured ratio of isomers, no yield. Atoms that are alike share one percentage." in told


@weights
def test_the_page_draws_the_reactant_with_a_choice_of_atoms_only() -> None:
    friedel = "COc1ccccc1.CC(=O)Cl.[Al+3].[Cl-].[Cl-].[Cl-].ClCCl"
    assert "with percentages at its atoms" in html(open_page(task="forward", smi=friedel))
    assert "with percentages" not in html(open_page(task="forward", smi="COC(=O)c1ccc(Br)cc1.[Li+].[OH-].C1CCOC1.O"))


@pytest.mark.parametrize(
    ("cards", "folded"),
    [
        ([(0.99, 0), (0.005, 0)], True),
        ([(0.98, 1), (0.009, 1), (0.001, 2)], True),
        ([(0.98, 1), (0.009, 0)], False),  # the second has nothing against it
        ([(0.9, 0), (0.05, 0)], False),
        ([(0.3, 0), (0.005, 0)], False),  # where nothing is probable all are worth a look
    ],
)
def test_improbable_answers_are_folded_unless_one_is_sounder(cards: list[tuple[float, int]], folded: bool) -> None:
    shown: Any = [SimpleNamespace(probability=p, problems=("a problem",) * count) for p, count in cards]
    assert answers.are_noise(shown) is folded
