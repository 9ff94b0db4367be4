"""How many passes drafts save with the shipped weights: counters that do not depend on the machine."""

from __future__ import annotations

import pytest

from chemspec import checks
from chemspec.engine import Engine, installed
from chemspec.metrics import numbers
from chemspec.settings import DecodeSettings

# At least so many times fewer passes than tokens; a change of weights or drafter that lowers them is a decision.
LEAST = {"forward": 5.0, "retro": 4.0}
LEAST_MIXED = {"forward": 7.5, "retro": 9.0}
COPY = DecodeSettings(
    decoder="greedy", n=1, batch_size=32, drafter="copy", draft_length=16, draft_count=3
)
MIXED = DecodeSettings(decoder="greedy", n=1, batch_size=32, drafter="mixed")


@pytest.mark.weights
@pytest.mark.parametrize(("drafted", "least"), [(COPY, LEAST), (MIXED, LEAST_MIXED)])
@pytest.mark.parametrize("task", ["forward", "retro"])
def test_drafts_save_passes_and_change_nothing(
    task: str, drafted: DecodeSettings, least: dict[str, float]
) -> None:
    if task not in {folder.name for folder in installed()}:
        pytest.skip(f"no {task} model in assets/models")
    engine = Engine.load(task, threads=1)
    queries = checks.bench_queries(task)  # type: ignore[arg-type]
    plain = DecodeSettings(decoder="greedy", n=1, batch_size=32, drafter="none")
    standard, fast = engine.predict(queries, plain), engine.predict(queries, drafted)
    for one, other in zip(standard, fast, strict=True):
        same = [item.tokens for item in one.hypotheses] == [
            item.tokens for item in other.hypotheses
        ]
        assert same or numbers([one.trace]).margin < 1e-4
    before = numbers([result.trace for result in standard])
    after = numbers([result.trace for result in fast])
    assert before.tokens_per_pass == 1
    assert before.passes / after.passes >= least[task]
