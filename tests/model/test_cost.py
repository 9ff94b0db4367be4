"""What a pass costs: a curve through measured points, kept on disk, never in the way."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from helpers.tiny import tiny_model

from chemspec.model import cost
from chemspec.model.cost import CostCurve, cached_curve, measure_cost_curve
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.settings import ModelDims
from chemspec.system import cache

CURVE = CostCurve((1, 2, 4, 8), (1.0, 1.5, 2.0, 4.0))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, which does not exist yet."""
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


# The curve ---------------------------------------------------------------------------------------


def test_a_curve_goes_through_its_points_in_straight_lines_and_beyond() -> None:
    """With the slope of the last two, and never down to nothing."""
    assert [CURVE(count) for count in (1, 1.5, 2, 3, 4, 6, 7, 8)] == [1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 3.5, 4.0]
    assert [CURVE(count) for count in (16, 100)] == [8.0, 50.0]
    assert CURVE(0) == 0.5 and CURVE(-100) > 0


# Kept on disk ------------------------------------------------------------------------------------


def never() -> CostCurve:
    raise AssertionError("measured again")


def test_what_a_busy_machine_gave_is_measured_again_on_a_quiet_one(folder: Path) -> None:
    slow = CostCurve((1, 2), (5.0, 6.0))
    assert cached_curve("busy", lambda: slow, load=lambda: 4.0) == slow
    assert cached_curve("busy", never, load=lambda: 5.0) == slow  # it would be no better now
    assert cached_curve("busy", never, load=lambda: 3.0) == slow  # nor much better: measuring takes time
    assert cached_curve("busy", lambda: CURVE, load=lambda: 0.1) == CURVE
    assert cached_curve("busy", never, load=lambda: 0.0) == CURVE


def test_a_curve_is_measured_once(folder: Path) -> None:
    assert cached_curve("a model", lambda: CURVE) == CURVE
    found = cached_curve("a model", never)
    assert found == CURVE
    assert [found(count) for count in (1, 3, 100)] == [CURVE(count) for count in (1, 3, 100)]
    assert [path.name for path in folder.iterdir()] == ["a model.cost.json"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe\x00", b"7", b'{"nodes": [1, 2]}', b'{"nodes": 1, "seconds": 2}']
)
def test_a_damaged_file_is_replaced(folder: Path, content: bytes) -> None:
    cache.write_cached("a model.cost.json", content)
    assert cached_curve("a model", lambda: CURVE) == CURVE
    assert cached_curve("a model", never) == CURVE


# Measured ----------------------------------------------------------------------------------------


def ticking(seconds: Callable[[int], float]) -> Callable[[], float]:
    """A clock that shows the sum of so many seconds after its n-th look."""
    looks, now = 0, 0.0

    def clock() -> float:
        nonlocal looks, now
        now += seconds(looks)
        looks += 1
        return now

    return clock


@pytest.mark.parametrize(("positions", "largest"), [(27, 3), (30, 4), (41, 16), (200, 64)])
def test_a_model_is_measured_as_far_as_its_positions_reach(positions: int, largest: int) -> None:
    backend = TorchBackend(tiny_model(0, 8, max_positions=positions))
    curve = measure_cost_curve(backend, ModelDims(8, positions), ticking(lambda look: 1.0 + look % 3))
    assert curve.nodes == tuple(size for size in cost.SIZES if size <= largest)
    assert all(low < high for low, high in pairwise(curve.seconds))


@pytest.mark.parametrize(
    ("repeats", "branches", "trials", "expected"),
    [
        (3, 1, [99.0, 5.0, 9.0, 3.0, 8.0, 4.0, 7.0], [3.0, 7.0]),  # a warm-up, then each size in turn
        (1, 3, [99.0, 99.0, 99.0, 9.0, 3.0, 4.0, 8.0, 7.0, 6.0], [3.0, 6.0]),  # of a trial, whose first pass makes room
        (1, 1, [99.0, 5.0, 3.0, 8.0], [5.0, 5.0005, 8.0]),  # noise makes no larger pass cheaper
    ],
)
def test_the_fastest_pass_counts(
    repeats: int, branches: int, trials: list[float], expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second look at the clock ends a pass."""
    sizes = (1, 2, 4)[: len(expected)]
    for name, value in (("SIZES", sizes), ("REPEATS", (repeats,) * 2), ("BRANCHES", branches)):
        monkeypatch.setattr(cost, name, value)
    monkeypatch.setattr(cost, "SMALL_BRANCHES", branches)
    clock = ticking(lambda look: trials[look // 2] if look % 2 else 0.0)
    curve = measure_cost_curve(TorchBackend(tiny_model(0, 8, max_positions=30)), ModelDims(8, 30), clock)
    assert curve.nodes == sizes and curve.seconds == pytest.approx(expected)


def test_a_quick_curve_takes_few_passes() -> None:
    """Where a pass takes long, as with torch, a first answer does not wait for many of them."""
    backend, passes = TorchBackend(tiny_model(0, 8, max_positions=30)), {}
    for quick in (False, True):
        times = iter(range(10**6))
        curve = measure_cost_curve(backend, ModelDims(8, 30), lambda times=times: float(next(times)), quick=quick)
        passes[quick] = next(times) // 2
        assert curve.nodes[0] == 1 and len(curve.nodes) >= 2
    assert passes[True] <= 9 and passes[True] < passes[False] / 10
