"""Plans of many targets on a Ray cluster, a process with a planner of its own on each core."""

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

from chemspec.cluster.dispatch import DEATHS_OF_A_ROW
from chemspec.cluster.engines import connect_cluster, count_fitting_engines
from chemspec.io.crashes import FAILED
from chemspec.plan.routes import Evidence, Plan
from chemspec.plan.workers import Planner, submit_in_order


def plan_on_ray(targets: Sequence[str], load: partial[Planner], address: str) -> Iterator[tuple[Plan, Evidence]]:
    """Yield the plan of each target with the precedents of its steps, in order.

    `load` is called once in each process; it must be importable and its arguments hashable. A target whose process dies
    again and again has the status "failed". `address`: of the cluster, as for `connect_cluster`.

    Raises:
        ClusterError: if there is no cluster.
        ValueError: what `load` raises, on any machine.
    """
    with connect_cluster(address) as ray:
        # Ray keeps the process of a task, and with it the planner, for the next one.
        task = ray.remote(_plan).options(num_cpus=1, max_retries=DEATHS_OF_A_ROW - 1)
        submit = partial(task.remote, load.func, load.args, tuple(load.keywords.items()))
        for target, reference in submit_in_order(targets, submit, lambda: count_fitting_engines(ray, False, 1)):
            yield _result(ray, target, reference)


def _result(ray: Any, target: str, reference: Any) -> tuple[Plan, Evidence]:
    errors = ray.exceptions
    try:
        plan: tuple[Plan, Evidence] = ray.get(reference)
    except errors.RayTaskError as error:
        raise error.cause if isinstance(error.cause, ValueError | ModuleNotFoundError) else error from None
    except errors.RayError:  # its process or machine died
        return Plan(target, "failed", FAILED), {}
    return plan


def _plan(function: Any, arguments: Any, options: Any, target: str) -> tuple[Plan, Evidence]:
    return _planner(function, arguments, options)(target)


@lru_cache(maxsize=1)
def _planner(function: Any, arguments: Any, options: Any) -> Planner:
    planner: Planner = function(*arguments, **dict(options))
    return planner
