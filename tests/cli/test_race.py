"""The race: both lanes hold the answer, and what is said of them is true."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import command_line
from helpers.command_line import last
from helpers.small import QUERIES

import chemspec
from chemspec.engine.engine import Engine
from chemspec.replay import timing
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

pytestmark = pytest.mark.usefixtures("models")
QUERY = QUERIES[3]


@pytest.fixture(scope="module")
def rounds(home: Path) -> list[list[DecodeResult]]:
    how = DecodeSettings(decoder="greedy", n=1, drafter="windows", max_len=30)
    engine = Engine.load(home / "retro", threads=1)
    return timing.alternate_runs((timing.standard_of(how), how), lambda setting, _: engine.predict(QUERY, setting))


def test_at_the_end_both_lanes_hold_the_answer(rounds: list[list[DecodeResult]]) -> None:
    standard, drafted = timing.median_lanes(rounds)
    answer = rounds[0][0].hypotheses[0]
    expected = [*answer.tokens, *["end"] * (answer.ended == "eos")]
    for lane in (standard, drafted):
        assert [token.text for token in lane.tokens] == expected
    assert {token.origin for token in standard.tokens} == {"own"}
    assert [token.pass_number for token in standard.tokens] == list(range(1, len(expected) + 1))
    accepted = sum(step.accepted for step in rounds[1][0].trace.passes)
    assert sum(token.origin != "own" for token in drafted.tokens) == accepted


def test_identical_is_found_out_and_not_claimed(rounds: list[list[DecodeResult]]) -> None:
    assert timing.compare_answers(rounds) == "yes, to the last bit"
    (first, *others), drafted = rounds
    answer = first.hypotheses[0]
    scores = (answer.token_log_probs[0] + 1e-12, *answer.token_log_probs[1:])
    rounded = replace(first, hypotheses=(replace(answer, token_log_probs=scores),))
    assert timing.compare_answers([[rounded, *others], drafted]) == "yes, with scores that differ in their last digits"
    other = replace(first, hypotheses=(replace(answer, tokens=(*answer.tokens, "C")),))
    assert timing.compare_answers([[*others, other], drafted]) == "no"


def call(*words: str) -> Any:
    return command_line.call("race", *words, "--threads", 1)


def test_in_a_pipe_there_is_the_table_and_a_sentence() -> None:
    done = call(QUERY)
    assert done.exit_code == 0 and "\x1b" not in done.stdout
    head, standard, speculative, verdict = done.stdout.rstrip("\n").split("\n")
    assert head.split()[:4] == ["passes", "tokens", "a", "pass"]
    assert (standard.split()[0], speculative.split()[0]) == timing.NAMES
    assert verdict.startswith("identical: yes, to the last bit; ")
    assert f" instead of {standard.split()[1]}; " in verdict


@pytest.mark.parametrize(
    ("words", "model"), [(("CCO",), "retro"), (("CC.O",), "forward"), (("CC.O", "-t", "retro", "-n", "3"), "retro")]
)
def test_a_flask_is_asked_what_forms_and_a_molecule_what_from(words: tuple[str, ...], model: str) -> None:
    done = last(call(*words, "--json"))
    assert done["model"] == model
    assert [(lane["name"], lane["runs"]) for lane in done["lanes"]] == [("standard", 5), ("speculative", 5)]
    assert done["lanes"][0]["passes"] == done["lanes"][0]["tokens"]


def test_a_query_that_cannot_be_read_is_named() -> None:
    done = call("CC(")
    assert done.exit_code == 1
    assert "invalid" in done.stdout and "never closed" in done.stdout


def test_what_is_left_out_and_written_is_said(tmp_path: Path) -> None:
    done = call("CC.O>>CCO", "-o", str(tmp_path / "r.svg"))
    assert "note: reaction: its reactants and agents are the query" in done.stderr and "r.svg" in done.stderr


def test_a_drafter_without_drafts_is_named(tmp_path: Path) -> None:
    silent = tmp_path / "silent.py"
    silent.write_text("def propose(source, prefix, most):\n    return []\n")
    planned, fixed = (call("CCO", "--drafter", f"{silent}:propose", "--drafting", how) for how in ("planned", "fixed"))
    assert "propose proposed none, or on this machine they would not pay (--drafting fixed" in planned.stdout
    assert "no drafts: " in fixed.stdout and "would not pay" not in fixed.stdout


def test_the_race_needs_none_of_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("streamlit", "pandas", "altair"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in [name for name in sys.modules if name.startswith("chemspec.ui")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(chemspec, "ui", raising=False)  # else the package would keep the one imported here
    assert call("CCO").exit_code == 0
