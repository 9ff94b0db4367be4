"""Spec-Verification: the rules, that beta = 1 is greedy, that nothing else is taken, and what it says of itself."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.adversaries import RandomDrafts
from helpers.small import QUERIES, tiny_folder
from helpers.table import Table, run
from helpers.tiny import tiny_model
from typer.testing import CliRunner

from chemspec.cli.__main__ import app
from chemspec.decode.relaxed.spec_verification import TopBeta, relaxed_greedy
from chemspec.draft.registry import Copy
from chemspec.engine.engine import Engine
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.settings import DecodeSettings
from chemspec.testing import naive_greedy, naive_log_probs
from chemspec.tokenizer import BOS
from chemspec.types import FinishedSequence, Prefix, Scores

SCORES = Scores([7, 5, 9, 4], [-0.5, -1.0, -1.6, -3.0])
SOURCES = [(4, 5, 6, 7, 8), (9, 4, 8), (5, 5, 9, 8, 7, 6, 5)]


def test_rules_take_what_they_say() -> None:
    assert [token for token in range(10) if TopBeta(1, 9.0).accepts_token(SCORES, token)] == [7]
    assert [token for token in range(10) if TopBeta(3, 9.0).accepts_token(SCORES, token)] == [5, 7, 9]
    assert [token for token in range(10) if TopBeta(3, 1.0).accepts_token(SCORES, token)] == [5, 7]
    assert [token for token in range(10) if TopBeta(3, 0.5).accepts_token(SCORES, token)] == [5, 7]  # at most
    assert [token for token in range(10) if TopBeta(3, 0.4).accepts_token(SCORES, token)] == [7]


def decode(model: Any, rule: TopBeta, drafter: Any, max_len: int = 14) -> tuple[list[FinishedSequence], int]:
    """Answers, and the number of passes."""

    def decoder(query: int) -> Any:
        def drafts(prefix: Prefix) -> list[tuple[int, ...]]:
            room = max_len - len(prefix)
            return [one.tokens for one in drafter.propose(SOURCES[query], prefix, room)] if room > 0 else []

        return relaxed_greedy(max_len=max_len, rule=rule, drafts=drafts)

    backend = model if isinstance(model, Table) else TorchBackend(model)
    found, passes = run(decoder, SOURCES, backend, drafter, max_len=max_len)
    return [own[0] for own in found], sum(map(len, passes))


def within(model: Any, answers: Sequence[FinishedSequence], beta: int, tau: float) -> bool:
    """Whether every token is within the rule, by scores that know nothing of drafts."""
    for source, answer in zip(SOURCES, answers, strict=True):
        for place, token in enumerate(answer.tokens):
            every = naive_log_probs(model, source, [BOS, *answer.tokens[:place]]).tolist()
            better = sum(value > every[token] for value in every)
            if better >= beta or max(every) - every[token] > tau + 1e-9:
                return False
            if answer.log_probs[place] != pytest.approx(every[token], abs=1e-9):
                return False
    return True


MODELS: list[Any] = [Table(0, copying=1.5), Table(1, copying=2.5, sharpness=1.0), tiny_model(1, 10)]
DRAFTERS: list[Any] = [Copy(), RandomDrafts(seed=0), RandomDrafts(seed=1, count=1, length=9)]


@pytest.mark.parametrize("model", MODELS, ids=["table", "flat table", "tiny model"])
@pytest.mark.parametrize("drafter", DRAFTERS, ids=["copy", "random", "long"])
@pytest.mark.parametrize(("beta", "tau"), [(1, 5.0), (3, 1.0), (2, 4.0), (5, 0.3)])
def test_every_token_is_within_the_rule_and_beta_1_is_greedy(model: Any, drafter: Any, beta: int, tau: float) -> None:
    answers, _ = decode(model, TopBeta(beta, tau), drafter)
    assert within(model, answers, beta, tau)
    if beta == 1:
        assert [one.tokens for one in answers] == [naive_greedy(model, source, 14).tokens for source in SOURCES]


def test_relaxing_saves_passes_and_changes_answers() -> None:
    model = MODELS[1]
    exact, exact_passes = decode(model, TopBeta(1, 5.0), Copy())
    loose, loose_passes = decode(model, TopBeta(5, 5.0), Copy())
    assert not within(model, loose, 1, 5.0)
    tokens, exact_tokens = (sum(len(one.tokens) for one in answers) for answers in (loose, exact))
    assert tokens / loose_passes > exact_tokens / exact_passes


# --- settings, engine, commands ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", [{"beta": 0}, {"beta": 3, "decoder": "beam"}, {"tau": -1.0}, {"tau": math.inf}, {"tau": math.nan}]
)
def test_settings_refuse_what_makes_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"beta|tau"):
        DecodeSettings(**{"decoder": "greedy", **wrong})


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tiny_folder(tmp_path_factory.mktemp("m") / "tiny", sharpness=1.0)
    return Engine.load(folder, threads=1, device="cpu")


def test_the_engine_says_that_it_is_relaxed(engine: Engine) -> None:
    greedy = DecodeSettings(decoder="greedy", drafter="copy", max_len=20)
    loose = DecodeSettings(decoder="greedy", drafter="copy", max_len=20, beta=20, tau=9.0)
    assert (greedy.exact, greedy.guarantee) == (True, "exact")
    assert (loose.exact, loose.guarantee) == (False, "relaxed")
    one, other = (engine.predict(QUERIES, how) for how in (greedy, loose))
    assert [r.trace.settings["exact"] for r in (one[0], other[0])] == [True, False]
    assert [r.hypotheses[0].tokens for r in one] != [r.hypotheses[0].tokens for r in other]
    # None drafts, none departs.
    alone = engine.predict(QUERIES, DecodeSettings(decoder="greedy", drafter="none", max_len=20, beta=20, tau=9.0))
    assert [r.hypotheses[0].tokens for r in one] == [r.hypotheses[0].tokens for r in alone]


def test_the_command_asks_for_relaxed(engine: Engine, tmp_path: Path) -> None:
    options = ["-n", "1", "--beta", "3", "--drafter", "copy", "--device", "cpu"]
    base = ["predict", "CCO", "--model", str(engine.folder), *options]
    done = CliRunner().invoke(app, base)
    assert done.exit_code == 2
    assert "greedy with beta 3 is relaxed" in done.output
    done = CliRunner().invoke(app, [*base, "--relaxed", "--json"])
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["settings"]["beta"], found["settings"]["tau"]) == (3, 1.0)
