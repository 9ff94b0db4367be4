"""What the loop costs beside the model, measured on the loop that runs."""

from __future__ import annotations

from itertools import count

import pytest
from compilers import needs_compiler

from chemspec.decode import host_cost
from chemspec.draft.auto import Auto
from chemspec.draft.base import HostCost, Speculation
from chemspec.model.cost import CostCurve


def test_without_a_compiler_the_loop_in_python_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_cost, "library", lambda: None)
    assert host_cost.loop_that_runs() == "python"


def test_passes_are_not_counted_in() -> None:
    """With a clock that ticks once a look, all that the loop takes is one tick a pass, and the one at the end."""
    ticks = count()
    found = host_cost.measure("python", lambda: float(next(ticks)))
    assert found == HostCost(1 + 1 / host_cost.PASSES, 0.0, 0.0, 0.0)


@needs_compiler
def test_the_compiled_loop_costs_less() -> None:
    assert host_cost.loop_that_runs() == "compiled"
    compiled, python = (host_cost.measure(loop) for loop in ("compiled", "python"))
    assert min(compiled) >= 0
    assert compiled.start < python.start
    assert compiled.ahead < python.ahead / 2


def test_auto_looks_ahead_where_the_loop_can_afford_it() -> None:
    """Of a pass of ten nodes and one of 120, of which a look-ahead saves three in five."""
    nodes, seconds = (1, 10, 120, 240), (1e-3, 1e-3, 1.2e-3, 2.4e-3)
    dear, cheap = (CostCurve(nodes, seconds, HostCost(ahead=ahead)) for ahead in (3e-5, 1e-6))
    assert Auto(dear).plan_pass(10, 1, waiting=10) is Speculation.OFF
    assert Auto(cheap).plan_pass(10, 1, waiting=10) is Speculation.LOOKAHEAD
