"""What the page Predict shows of the passes behind its answers: run by run, in colours on the atoms, in one total."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest
from paths import ROOT
from rdkit import Chem

import pages
from chemspec import asset_files
from chemspec.depict.molecules import Colouring, Depiction
from chemspec.engine.engine import Engine, model_folder
from chemspec.metrics import PassCounts
from chemspec.replay.trace_view import view_trace
from chemspec.review import suggestions
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.predict import gallery, pass_totals, token_origins
from chemspec.ui.predict.query_panel import Question
from pages import MODELS, html, weights

LIDOCAINE = "CCN(CC)CC(=O)Nc1c(C)cccc1C"
GREEDY = DecodeSettings(decoder="greedy", n=1)


def test_a_recorded_example_gives_way_to_other_answers_or_fewer_passes_only() -> None:
    spec = spec_from_file_location("record", ROOT / "assets" / "examples" / "record.py")
    assert spec is not None and spec.loader is not None
    record = module_from_spec(spec)
    spec.loader.exec_module(record)
    recorded = gallery.recorded_answer("retro")
    assert record.supersedes(recorded, None)
    assert not record.supersedes(recorded, recorded)
    fewer = replace(recorded, trace=replace(recorded.trace, passes=recorded.trace.passes[1:]))
    assert record.supersedes(fewer, recorded) and not record.supersedes(recorded, fewer)
    assert record.supersedes(replace(recorded, hypotheses=recorded.hypotheses[1:]), recorded)


@pytest.fixture(scope="module", params=["forward", "retro"])
def greedy_runs(request: pytest.FixtureRequest) -> list[DecodeResult]:
    if not {"forward", "retro"} <= MODELS:
        pytest.skip("no models")
    engine = Engine.load(model_folder(request.param))
    return engine.predict(asset_files.bench_queries(request.param)[:8], replace(GREEDY, drafter="mixed"))


def picture(run: DecodeResult) -> token_origins.Picture:
    return token_origins.Picture(1, run.hypotheses[0].canonical, view_trace(run), PassCounts.of_result(run))


def words(text: str) -> str:
    return unescape(re.sub("<[^>]+>", "", text))


@weights
@pytest.mark.parametrize("task", ["forward", "retro"])
@pytest.mark.parametrize("n", [1, 3])
def test_passes_instead_of_are_those_that_no_drafts_take(task: str, n: int) -> None:
    engine = Engine.load(model_folder(task))
    queries = asset_files.bench_queries(task)[:4]
    ways = [DecodeSettings(decoder="greedy" if n == 1 else "beam", n=n, drafter=name) for name in ("none", "mixed")]
    plain, drafted = (engine.predict(queries, way) for way in ways)
    for slow, fast in zip(plain, drafted, strict=True):
        assert PassCounts.of_result(slow) == (len(slow.trace.passes), len(slow.trace.passes))
        assert PassCounts.of_result(fast) == (len(fast.trace.passes), len(slow.trace.passes))


@weights
def test_searches_that_were_too_narrow_are_counted_too() -> None:
    engine = Engine.load(model_folder("retro"))
    how = DecodeSettings(n=20, distinct=True)
    (result,) = engine.predict([LIDOCAINE], how)
    assert result.distinct is not None and len(result.distinct.widths) > 1
    (plain,) = engine.predict([LIDOCAINE], replace(how, drafter="none"))
    assert (
        PassCounts.of_result(result).standard
        == PassCounts.of_result(plain).taken
        == PassCounts.of_result(plain).standard
    )
    alone = [engine.predict(LIDOCAINE, n=width, drafter="none").trace.passes for width in result.distinct.widths]
    assert len(alone[0]) < PassCounts.of_result(plain).taken < sum(map(len, alone)), "the second goes on from the first"


def test_a_strip_is_the_text_pass_by_pass(greedy_runs: list[DecodeResult]) -> None:
    for run in greedy_runs:
        view = view_trace(run)
        text = words(token_origins.runs_html(view))
        assert text == run.hypotheses[0].smiles + "end"
        made = token_origins.accepted_runs(view)
        assert len(made) == len(run.trace.passes)
        assert [len(one.accepted) + len(one.chosen) for one in made] == [step.emitted for step in run.trace.passes]
        assert [len(one.accepted) for one in made] == [step.accepted for step in run.trace.passes]
        assert token_origins.passes_line(picture(run)).count("<i ") == len(made)
        label = re.search('aria-label="([^"]*)"', token_origins.runs_html(view))
        assert label and "chosen by the model itself" in label[1] and run.hypotheses[0].smiles in unescape(label[1])


def test_colours_are_on_the_same_atoms_however_the_molecule_is_written(greedy_runs: list[DecodeResult]) -> None:
    for run in greedy_runs:
        view, best = view_trace(run), run.hypotheses[0]
        mol = Chem.MolFromSmiles(best.smiles)
        for other in (best.canonical, Chem.MolToSmiles(mol, doRandom=True)):
            target, places = Chem.MolFromSmiles(other), token_origins.matching_atoms(best.smiles, other)
            assert sorted(places.values()) == list(range(mol.GetNumAtoms()))
            for bond in mol.GetBonds():
                ends = places[bond.GetBeginAtomIdx()], places[bond.GetEndAtomIdx()]
                assert target.GetBondBetweenAtoms(*ends) is not None
        colours = token_origins.answer_colouring(view, best.canonical)
        atoms = {atom for atom, _ in colours.fills} | set(colours.ringed)
        assert atoms == set(range(mol.GetNumAtoms())), "every atom was accepted or chosen"
        assert not {atom for atom, _ in colours.fills} & set(colours.ringed)
        assert len(colours.notes) == len({color for _, color in colours.notes}), "one number a run: never colour alone"
    assert token_origins.matching_atoms("CCO", "CCN") == {} == token_origins.matching_atoms("CCO", "CC")


def test_rings_and_numbers_are_in_the_drawing() -> None:
    marked = Depiction("CCO", colouring=Colouring(((0, "#0072B2"),), (2,), ((0, "1"),))).svg
    plain = Depiction("CCO").svg
    assert marked.count("class='ring'") == 1 and "stroke-dasharray" in marked
    assert marked.count("class='note'") > plain.count("class='note'")


@weights
def test_without_drafts_nothing_is_coloured_and_the_page_says_so() -> None:
    engine = Engine.load(model_folder("retro"))
    first = engine.predict([LIDOCAINE], replace(GREEDY, drafter="none"))[0]
    found = suggestions.group_answers("retro", LIDOCAINE, first)
    assert token_origins.picture_of_greedy(first, found) is None
    assert "no draft was accepted" in words(token_origins.passes_line(picture(first)))
    asked = Question("retro", "retro", LIDOCAINE, replace(GREEDY, drafter="none"))
    assert pass_totals.draft_remark(first) == "drafts are switched off"
    assert "drafts saved none" in pass_totals.total_line(PassCounts.of_result(first))
    assert pass_totals.displayed_search(asked, first, first).drafter == "none"


def test_the_strip_belongs_to_the_card_that_has_its_answer_and_to_no_other() -> None:
    result, first = gallery.recorded_answer("retro"), gallery.recorded_answer("retro", "first")
    found = suggestions.group_answers("retro", result.query, result)
    drawn = token_origins.picture_of_greedy(first, found)
    assert drawn is not None and drawn.canonical == first.hypotheses[0].canonical
    assert found[drawn.rank - 1].best.canonical == drawn.canonical
    others = [card for card in found if card.rank != drawn.rank]
    assert token_origins.picture_of_greedy(first, others) is None
    assert "another first prediction" in pass_totals.greedy_note(first)


@pytest.mark.parametrize(
    ("settings", "there"),
    [
        (DecodeSettings(n=20, distinct=True), True),
        (GREEDY, True),
        (DecodeSettings(decoder="sample", n=5), False),
        (DecodeSettings(decoder="sbs", n=5, drafter="copy"), False),
        (DecodeSettings(n=5, augment=3), False),
        (DecodeSettings(n=5, distinct=True, guide="break C6-N8"), False),
    ],
)
def test_the_first_answer_is_decoded_greedily_where_it_is_one_of_those_asked_for(
    settings: DecodeSettings, there: bool
) -> None:
    way = token_origins.greedy_settings(settings)
    assert (way is not None) == there
    if way:
        assert (way.decoder, way.n, way.drafter) == ("greedy", 1, settings.drafter)


def labels(page: Any) -> str:
    return " ".join(item.label for item in page.expander)


@weights
def test_the_page_adds_up_and_its_buttons_mean_the_search_that_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    page = pages.open_page("predict", {"task": "retro", "smi": LIDOCAINE})
    text = html(page)
    total = re.search(r"This page: ([\d,]+) passes of the models instead of ([\d,]+)", labels(page))
    rows = re.findall(r"\| \*\*([\d,]+)\*\* instead of ([\d,]+)", " ".join(item.value for item in page.markdown))
    assert total and len(rows) == 4  # first answer, beam, checks, reagents
    for column in (0, 1):
        assert int(total[column + 1].replace(",", "")) == sum(int(row[column].replace(",", "")) for row in rows)
    strip = re.search(r"<b>(\d+) passes</b> of the model instead of (\d+)", text)
    assert strip and (strip[1], strip[2]) == rows[0]
    (kept,) = [key for key in page.session_state["_answers"] if key[3].decoder == "greedy"]
    gone: dict[str, Any] = {}
    monkeypatch.setattr("chemspec.ui.common.nav.open_page", lambda name, **query: gone.update({name: query}))
    page.button(key="predict_step").click().run()
    assert gone["step"]["decoder"] == kept[3].decoder == "greedy" and gone["step"]["drafts"] == kept[3].drafter
    page.button(key="predict_measure").click().run()
    state = page.session_state
    assert (state["speed_lane1_decoder"], state["speed_lane1_drafter"]) == ("greedy", kept[3].drafter)


@weights
def test_a_detail_of_the_first_answer_colours_target_and_answer() -> None:
    page = pages.open_page("predict", {"task": "retro", "smi": LIDOCAINE})
    assert "coloured by origin" not in html(page)
    (control,) = [item for item in page.segmented_control if "Copied" in item.options]
    control.select("Copied").run()
    assert not page.exception
    text = html(page)
    assert text.count("coloured by origin") == 3  # the target and two reactants
    assert "tokens are pieces of your molecule" in text and "The model itself chose" in text


@weights
def test_a_greedy_page_decodes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = pages.watch_queries(monkeypatch)
    state = {"predict_search": "greedy"}
    page = pages.open_page("predict", {"task": "forward", "smi": "CC(=O)Cl.Nc1ccccc1"}, state)
    assert [settings.decoder for _, _, settings in asked] == ["greedy"]
    told = re.search(r"This page: (\d+) passes of the models instead of (\d+)", labels(page))
    assert told and f"<b>{told[1]} passes</b> of the model instead of {told[2]}" in html(page)
