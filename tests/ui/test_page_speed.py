"""The page Speed, without a browser: it opens, races, measures, stops and says what is wrong."""

from __future__ import annotations

import time
from dataclasses import replace
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

import pages
from chemspec.engine.engine import model_folder, usable_drafters
from chemspec.jobs import job_queue
from chemspec.metrics import Spread, speed_numbers
from chemspec.replay import timing
from chemspec.settings import DecodeSettings
from chemspec.system import host
from chemspec.system.fair_queue import FairQueue
from chemspec.types import DecodeResult, Hypothesis, Pass, Trace
from chemspec.ui.common import queued_engine
from chemspec.ui.speed import race_page, trials
from pages import MODELS, html, weights, words

pytestmark = pytest.mark.ui
GREEDY = DecodeSettings(decoder="greedy", n=1, drafter="none")
AUTO = replace(GREEDY, drafter="auto")


def opened(**state: Any) -> AppTest:
    if "forward" not in MODELS:
        pytest.skip("no forward model in assets/models")
    return pages.open_page("speed", state={"speed_repeats": 3, **state})


def press(app: AppTest, key: str) -> None:
    app.button(key=key).click().run()
    assert not app.exception


def test_the_page_races_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "load_average", lambda: 0.0)
    app = opened()
    trial = app.session_state["speed_race"]  # it races by itself
    assert trial.model == "retro" and trial.settings == (GREEDY, AUTO) and trial.done == trial.total == 6
    base, lane = timing.lane_figures(trial.settings, trial.answered_rounds)
    assert lane.same and lane.passes < base.passes
    assert "tokens per pass" in pages.page_figures(app) and pages.page_figures(app)["same answer"] == "yes"
    assert list(app.dataframe[0].value["same answer"]) == ["reference", "yes"]
    assert [item.proto.label for item in app.get("download_button")] == ["SVG", "WEBP", "GIF"]
    assert "Wall clock on the server" in words(app)
    assert app.button(key="speed_race_start").label == "Start the race"
    press(app, "speed_race_start")
    assert app.session_state["speed_race"] is not trial and app.session_state["speed_race"].done == 6


def test_on_a_busy_machine_passes_are_told_and_no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "load_average", lambda: 1000.0)
    app = opened()
    told = pages.page_figures(app)
    assert any(big.endswith("passes") for big in told.values())
    assert not any(" ms" in big or "times" in big for big in told.values())
    assert "speed-up" not in app.dataframe[0].value and "time" not in app.dataframe[0].value
    assert "The server was busy" in words(app) and "busy machine" in app.expander[0].label
    assert "replayed pass by pass" in race_page.BUSY_CAPTION


def test_a_query_that_cannot_be_read_is_pointed_at_and_nothing_can_be_started() -> None:
    app = opened(speed_text="CC(=O)Nc1ccc<script>")
    assert "⚠" in html(app) and "<script>" not in html(app)
    assert not [button for button in app.button if button.key == "speed_race_start"]
    press(app, "speed_example_Lidocaine: amide and amine")
    assert app.button(key="speed_race_start")
    assert opened(speed_text=" ").info[0].value.startswith("Type or paste")


@weights
def test_the_link_chooses_model_and_query() -> None:
    app = pages.open_page("speed", {"task": "retro", "smi": "c1ccncc1"})
    assert app.session_state["speed_model"] == "retro"
    assert app.session_state["speed_text"] == "c1ccncc1"
    app.query_params["task"] = "nobody"
    app.query_params["smi"] = "CC"
    app.run()
    assert "nobody" in app.warning[0].value


def test_a_draft_longer_than_its_drafter_can_write_is_refused_in_words() -> None:
    if "medusa" not in usable_drafters(model_folder("retro")):
        pytest.skip("no drafter medusa for retro")
    lane = {"speed_lane1_drafter": "medusa", "speed_lane1_length": 50}
    app = opened(speed_model="retro", **lane)
    press(app, "speed_race_start")
    (error,) = app.error
    assert "draft length 50" in str(error.value) and "8 heads" in str(error.value)
    app.number_input(key="speed_lane1_length").set_value(3)
    press(app, "speed_race_start")
    assert not app.error
    assert "tokens per pass" in pages.page_figures(app)


# --- trials


def fake(settings: DecodeSettings, text: str = "CCO") -> DecodeResult:
    one = Pass(1, 1, 0, 1, 0, 0.5, 1, 0.0, 0.01)
    hypothesis = Hypothesis(text, text, True, tuple(text), (0.0,) * (len(text) + 1), 0.0, 1.0)
    return DecodeResult("C", "ok", "", (hypothesis,), Trace((), {"exact": True}, (one,), 0.01))


class FakeModel:
    """As much of an engine as a trial needs; every answer takes `seconds`."""

    name, task = "fake", "forward"
    device, dtype, runtime, threads = "cpu", "fp32", "none", 1

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def stream(self, query: str, settings: DecodeSettings) -> Any:
        time.sleep(self.seconds)
        yield fake(settings)


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> FairQueue:
    """A queue of the test's own."""
    turns = FairQueue()
    monkeypatch.setattr(queued_engine, "shared_queue", lambda: turns)
    return turns


def trial_of(model: Any, repeats: int = 3) -> trials.Trial:
    return trials.new_trial(model, "C", (GREEDY, AUTO), repeats=repeats)


def test_a_trial_reports_every_run_and_sees_nobody(line: FairQueue) -> None:
    model: Any = FakeModel()
    trial, said = trial_of(model), []
    trials.run_trial(trial, model, lambda share, text: said.append((round(share, 3), text)))
    assert [len(own) for own in trial.rounds] == [3, 3]
    assert not trial.shared and not trial.problem
    told = list(dict.fromkeys(text for _, text in said))
    assert told == ["Warming up: one run of each, not counted", *(f"Run {k} of 6" for k in range(1, 7))]
    assert said[-1][0] == 0.833


@pytest.mark.parametrize("during", [False, True])
def test_a_stop_keeps_the_runs_so_far_but_not_the_one_it_disturbed(line: FairQueue, during: bool) -> None:
    model: Any = FakeModel()
    trial, said = trial_of(model), []

    def say(_: float, text: str) -> None:
        said.append(text)
        if said.count("Run 4 of 6") == 1 + during:  # before it, or while it ran
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trials.run_trial(trial, model, say)
    assert [len(own) for own in trial.rounds] == [2, 1]
    assert len(line) == 0  # the queue is free again


@pytest.mark.parametrize("when", ["Run 2 of 2", "Warming up: one run of each, not counted"])
def test_other_visitors_in_the_queue_are_noticed_once_it_counts(line: FairQueue, when: str) -> None:
    model: Any = FakeModel()
    trial, there, leave = trial_of(model, 1), Event(), Event()
    threads: list[Thread] = []
    said: list[str] = []

    def visitor() -> None:
        with line.wait_for_turn():
            there.set()
            leave.wait(5)

    def say(_: float, text: str) -> None:
        said.append(text)
        if text == when and not threads:
            threads.append(Thread(target=visitor))
            threads[0].start()
            there.wait(5)
        if text.startswith("In queue"):
            leave.set()

    trials.run_trial(trial, model, say)
    threads[0].join()
    assert "In queue: 1 ahead of you" in said
    assert trial.shared == when.startswith("Run")


def test_a_batch_job_at_work_is_noticed(line: FairQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = FakeModel()
    for at_work in (None, {"job": "x"}):
        monkeypatch.setattr(job_queue, "running_job", lambda told=at_work: told)
        trial = trial_of(model, 1)
        trials.run_trial(trial, model, lambda *_: None)
        assert trial.shared == (at_work is not None)


def test_runs_without_an_answer_are_told_not_drawn(line: FairQueue) -> None:
    model: Any = FakeModel()
    trial = trial_of(model)
    trial.rounds[0].append(DecodeResult("C", "failed", "no memory"))
    assert trial.problem == "no memory" and trial.answered_rounds == [[], []]
    assert timing.lane_figures(trial.settings, trial.answered_rounds) == []


# --- what is shown of lanes


def run_of(passes: int, accepted: int = 0) -> Trace:
    """A greedy run of 12 tokens in so many passes."""
    emitted = [12 // passes + (number < 12 % passes) for number in range(passes)]
    drafted = accepted // passes
    return Trace(
        (),
        {"exact": True},
        tuple(Pass(1, 1 + drafted, drafted, one, drafted, 0.5, 1, 0.0, 0.01) for one in emitted),
        0.1,
    )


def lane_of(settings: DecodeSettings, median: float, passes: int, accepted: int = 0) -> timing.LaneFigures:
    spread = Spread(median, median, median, 3)
    return timing.LaneFigures(settings, spread, speed_numbers([run_of(passes, accepted)]), 20 / median, True)


def test_the_headline_leads_with_passes_of_the_fastest_exact_lane() -> None:
    sbs = DecodeSettings(decoder="sbs", n=5, drafter="copy")
    base, auto = lane_of(GREEDY, 20, 12), lane_of(AUTO, 10, 4, 8)
    lanes = [base, auto, lane_of(sbs, 5, 3), lane_of(timing.standard_of(sbs), 40, 12)]
    told = race_page.headline_figures(lanes, quiet=True)
    assert told[:2] == [("4 passes", "Greedy · auto, instead of 12"), ("3.0", "tokens per pass")]
    assert told[2:] == [
        ("10.0 ms", "instead of 20.0 ms"),
        ("2.00 times faster", "by the medians of the runs"),
        ("yes", "same answer"),
    ]
    assert race_page.headline_figures(lanes, quiet=False) == [*told[:2], told[-1]]
    noisy = [base, auto._replace(time=Spread(18, 9, 60, 3))]  # its quartiles hold the standard's
    assert race_page.headline_figures(noisy, quiet=True) == [*told[:2], told[-1]]
    assert race_page.headline_figures([base], quiet=True) == []
    assert "tokens per pass" not in [small for _, small in race_page.headline_figures(lanes[2:], quiet=True)]


@pytest.mark.parametrize("median", [5, 20, 37])
def test_equal_work_is_told_as_equal_whatever_the_clock_says(median: float) -> None:
    told = race_page.headline_figures([lane_of(GREEDY, 20, 12), lane_of(AUTO, median, 12)], quiet=True)
    assert told[0][0] == "12 passes" and "as without drafts" in told[0][1]
    assert not any("times" in big or "ms" in big for big, _ in told)


def test_a_question_of_another_page_is_raced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    state: dict[str, Any] = {}
    with monkeypatch.context() as patch:
        patch.setattr(race_page, "st", SimpleNamespace(session_state=state))
        race_page.race_against_standard(DecodeSettings(decoder="beam", n=20, drafter="auto"))
    trial = opened(**state).session_state["speed_race"]
    assert [(lane.decoder, lane.n, lane.drafter) for lane in trial.settings] == [
        ("beam", 20, "none"),
        ("beam", 20, "auto"),
    ]
    assert trial.done == trial.total


def test_names_and_files_are_read_as_on_predict_and_what_was_done_is_said() -> None:
    said = html(opened(speed_text="aniline, 4-bromobenzoyl chloride, Et3N"))
    assert "Et3N: triethylamine; read as a list" in said
    assert "⚠" not in said
