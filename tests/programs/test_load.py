"""The load test sees what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.serving import serving
from helpers.small import QUERIES, tiny_folder
from programs import load

from chemspec.engine.engine import Engine

pytest.importorskip("fastapi")


def test_it_tells_right_answers_from_wrong_ones(tmp_path: Path) -> None:
    engine = Engine.load(tiny_folder(tmp_path / "retro", seed=4), threads=1)

    def tally(expected: Any, how: Any, seen: Callable[[Any], Any], **options: Any) -> Any:
        """What clients saw: of longer and longer tests, until they have seen it."""
        for seconds in (0.5, 4.0, 32.0):
            found = load.run(service.url, expected, how, seconds=seconds, **options)
            if seen(found):
                break
        return found

    with serving({"retro": engine}) as service:
        expected = load.told(engine.predict(QUERIES, n=2, max_len=12, distinct=False))
        how = {"task": "retro", "n": 2, "max_len": 12, "distinct": False}
        fine = tally(expected, how, lambda one: one.seconds, clients=4, size=2)
        assert fine.right == 2 * len(fine.seconds) > 0
        assert not fine.wrong and not fine.errors
        assert 0 < fine.quantile(0.5) <= fine.quantile(0.95) <= fine.elapsed
        (text, log_prob), *rest = expected["CCO"]
        spoilt = {**expected, "CCO": ((text, log_prob - 0.01), *rest)}
        assert set(tally(spoilt, how, lambda one: one.wrong, clients=4).wrong) == {"CCO"}
        refused = tally(expected, {**how, "model": "nobody"}, lambda one: one.errors.total() >= 2, clients=2)
        assert refused.errors.total() >= 2 and not refused.right
