"""What a model folder says of its accuracy decides in which precision the app computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chemspec.evaluation import MEASUREMENTS_FILE, int8_is_as_good, read_measurements


def measured(*tops: float, **changed: Any) -> dict[str, Any]:
    top = {str(k): {"value": value} for k, value in enumerate(tops, 1)}
    return {"digest": "d", "file": "f", "reactions": 2000, "top": top, **changed}


def say(folder: Path, **measurements: Any) -> bool:
    (folder / MEASUREMENTS_FILE).write_text(json.dumps(measurements), encoding="utf-8")
    return int8_is_as_good(read_measurements(folder))


def test_int8_is_as_good_where_it_costs_a_fifth_of_a_point_at_most(tmp_path: Path) -> None:
    assert not int8_is_as_good(read_measurements(tmp_path))
    assert say(tmp_path, accuracy=measured(0.748, 0.9065), int8=measured(0.746, 0.9045))
    assert say(tmp_path, accuracy=measured(0.748, 0.9065), int8=measured(0.76, 0.91))
    assert not say(tmp_path, accuracy=measured(0.748, 0.9065), int8=measured(0.76, 0.904))
    assert not say(tmp_path, accuracy=measured(0.748))
    assert not say(tmp_path, int8=measured(0.748))


@pytest.mark.parametrize("changed", [{"digest": "e"}, {"file": "g"}, {"reactions": 1000}])
def test_only_measurements_of_the_same_reactions_and_weights_are_compared(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    assert not say(tmp_path, accuracy=measured(0.7), int8=measured(0.8, **changed))
