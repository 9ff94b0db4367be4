"""What a model folder says of its accuracy decides in which precision the app computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chemspec.evaluation.measurements import MEASUREMENTS_FILE, int8_is_usable


def measured(*tops: float, **changed: Any) -> dict[str, Any]:
    top = {str(k): {"value": value} for k, value in enumerate(tops, 1)}
    return {"digest": "d", "file": "f", "reactions": 2000, "top": top, **changed}


@pytest.mark.parametrize(
    ("measurements", "good"),
    [
        ({}, False),
        ({"accuracy": measured(0.748, 0.9065), "int8": measured(0.746, 0.9045)}, True),  # a fifth of a point at most
        ({"accuracy": measured(0.748, 0.9065), "int8": measured(0.76, 0.904)}, False),
        *(  # one of 200 reactions says nothing, one of fewer may be 1 %
            ({"accuracy": measured(0.5, reactions=count), "int8": measured(0.5 - 1 / count, reactions=count)}, good)
            for count, good in ((200, True), (100, False))
        ),
        ({"accuracy": measured(0.748)}, False),
        ({"int8": measured(0.748)}, False),
        *(
            ({"accuracy": measured(0.7), "int8": measured(0.8, **changed)}, False)  # not of the same
            for changed in ({"digest": "e"}, {"file": "g"}, {"reactions": 1000})
        ),
    ],
)
def test_int8_is_usable_where_it_costs_little_on_the_same_reactions_and_weights(
    tmp_path: Path, measurements: dict[str, Any], good: bool
) -> None:
    (tmp_path / MEASUREMENTS_FILE).write_text(json.dumps(measurements), encoding="utf-8")
    assert int8_is_usable(tmp_path) is good
    assert not int8_is_usable(tmp_path / "none")
