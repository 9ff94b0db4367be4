"""A simulated job takes what arithmetic says where nothing fails, and more where machines do; it repeats itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chemspec.cluster.dispatch import ClusterError
from chemspec.cluster.simulate import JobPlan, simulate

STEADY = JobPlan(
    rows=1_000_000,
    seconds_a_row=0.01,
    machines=5,
    engines=4,
    hours_between_failures=0,
    spread=0,
    load=0,
    driver_seconds_a_row=0,
)


def test_without_failures_it_is_rows_times_seconds_over_engines() -> None:
    found = simulate(STEADY)
    assert found.hours == pytest.approx(1_000_000 * 0.01 / 20 / 3600)
    assert found.engine_hours == pytest.approx(1_000_000 * 0.01 / 3600)
    assert found.efficiency == pytest.approx(1.0)
    assert (found.shards, found.failures, found.deaths, found.lost_hours) == (100, 0, 0, 0)
    assert found.cost == pytest.approx(found.engine_hours * STEADY.price)


@given(
    rows=st.integers(1, 50_000),
    shard=st.integers(50, 5000),
    machines=st.integers(1, 6),
    engines=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_every_row_is_answered_whatever_fails(rows: int, shard: int, machines: int, engines: int, seed: int) -> None:
    """`simulate` itself asserts that each row was answered once."""
    plan = JobPlan(
        rows=rows,
        shard_rows=shard,
        seconds_a_row=0.001,
        machines=machines,
        engines=engines,
        hours_between_failures=0.02,
        driver_hours=0.05,
        replaced=5,
        load=1,
        seed=seed,
    )
    found = simulate(plan)
    assert found == simulate(plan)
    assert 0 < found.efficiency <= 1
    assert found.hours * 3600 >= rows * 0.001 * 0.2 / (machines * engines)


def test_a_driver_that_is_busy_holds_up_the_engines() -> None:
    """No faster than it reads and writes, however many there are."""
    found = simulate(replace(STEADY, machines=100, driver_seconds_a_row=1e-4))
    assert 100 <= found.hours * 3600 <= 100 + 10_000 * 0.01  # and the first shards, which nothing holds up
    assert found.driver_load >= 0.5 > found.efficiency


def test_failures_cost_time_and_small_shards_less_of_it() -> None:
    kwargs = {"rows": 10**6, "seconds_a_row": 0.01, "machines": 5, "engines": 4, "load": 0, "replaced": 0}
    large, small = (
        simulate(JobPlan(**kwargs, shard_rows=size, hours_between_failures=0.2, spread=0)) for size in (20_000, 1000)
    )
    assert large.lost_hours > 3 * small.lost_hours > 0
    assert small.failures > 0 and small.efficiency > large.efficiency


def test_machines_that_fail_faster_than_they_answer_end_it() -> None:
    with pytest.raises(ClusterError, match="machine failed"):
        simulate(JobPlan(rows=10**6, shard_rows=10**6, machines=1, engines=1, hours_between_failures=0.0001, load=0))


@pytest.mark.parametrize(
    "wrong", [{"rows": 0}, {"machines": 0}, {"seconds_a_row": 0.0}, {"shard_rows": 1, "rows": 10**9}]
)
def test_a_plan_without_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must be above 0|too many shards"):
        JobPlan(**wrong)  # type: ignore[arg-type]
