"""Many machines, for those who plan: `dev plan-job`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import dev


@dev.command(name="plan-job")
def plan_job(
    rows: Annotated[int, opt.option("Rows of the input.")] = 10**9,
    ms: Annotated[float, opt.option("Milliseconds of an engine for a row, as measured.")] = 5.0,
    machines: Annotated[int, opt.option("Machines at a time.")] = 50,
    engines: Annotated[int, opt.option("Engines of a machine: its GPUs, or its cores.")] = 16,
    shard_rows: Annotated[int, opt.option("Rows of a shard.")] = 10_000,
    price: Annotated[float, opt.option("Of an engine's hour.")] = 0.04,
    hours_between_failures: Annotated[float, opt.option("Of a machine, on average; 0: it never fails.")] = 200.0,
    replaced: Annotated[float, opt.option("Seconds until another machine replaces one that failed.")] = 300.0,
    load: Annotated[float, opt.option("Seconds until an engine on a new machine answers.")] = 60.0,
    driver_hours: Annotated[float, opt.option("Between failures of the driver, on average; 0: it never fails.")] = 0.0,
    bytes_a_row: Annotated[float, opt.option("Of the answers on disk, as measured.")] = 250.0,
    driver_us: Annotated[float, opt.option("Microseconds of the driver for a row, as measured.")] = 10.0,
    seed: Annotated[int, opt.option("Of all chances.")] = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Simulate what `predict --ray` takes for a large input: time, cost, storage, failures."""
    from chemspec.cluster.simulate import JobPlan, simulate

    plan = JobPlan(
        rows=rows,
        shard_rows=shard_rows,
        seconds_a_row=ms / 1e3,
        machines=machines,
        engines=engines,
        load=load,
        hours_between_failures=hours_between_failures,
        replaced=replaced,
        driver_hours=driver_hours,
        price=price,
        bytes_a_row=bytes_a_row,
        driver_seconds_a_row=driver_us / 1e6,
        seed=seed,
    )
    found = simulate(plan)
    if as_json:
        show.document({"plan": asdict(plan), "forecast": asdict(found)})
        return
    show.line(f"{found.hours:,.1f} hours on {machines * engines:,} engines; {found.engine_hours:,.0f} engine hours")
    show.line(f"cost {found.cost:,.0f}; {found.efficiency:.1%} of the time paid for makes answers that count")
    lost = f"{found.deaths:,} shards are begun again, {found.lost_hours:,.1f} engine hours lost"
    show.line(f"{found.failures:,} machines fail: {lost}")
    show.line(
        f"{found.shards:,} shards, {found.gigabytes:,.0f} GB; the driver is busy {found.driver_load:.0%} of the time"
    )
