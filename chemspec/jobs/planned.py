"""Plan the targets of a job as `chemspec plan FILE --within` does, and read and export what it has planned so far.

A line of the answers is a plan as in a .jsonl of that command, with its best route alone, and with the target's
`row` of the library's table.
"""

import json
import logging
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from chemspec.engine.queries import MAX_CHARS
from chemspec.evaluation.loading import COMPANIONS, load_engines, load_fastest
from chemspec.io import crashes
from chemspec.io.columns import query_of_row
from chemspec.jobs import jobs, rows
from chemspec.jobs.job_stock import load_job_stock
from chemspec.jobs.jobs import Job
from chemspec.plan.library import library_row, library_table
from chemspec.plan.routes import Evidence, Plan, find_evidence, plan_document
from chemspec.plan.settings import PlanSettings
from chemspec.plan.workers import Planner, choose_workers, plan_in_processes
from chemspec.precedents import installed_if_usable
from chemspec.review.processes import MAX_PROCESSES
from chemspec.system.error_places import describe_error
from chemspec.system.locks import lock_file


def plan_targets(job: Job) -> None:
    """Plan the targets of a job that are not on disk yet, each stored when it is done; ValueError as for any job."""
    targets = [query_of_row(row, (job.column,)) for row in jobs.uploaded_rows(job)]
    path = jobs.answers_file(job)
    with ExitStack() as stack:
        file = stack.enter_context(lock_file(path))
        stored = rows.GrowingLines(path).refresh()
        file.truncate(stored.size)
        log = stack.enter_context(crashes.log_crashes(path, len(stored)))
        plans = _plan_from(len(stored), targets, partial(load_planner, job), log)
        for target, entry in zip(targets[len(stored) :], plans, strict=True):
            file.write(_line(target, *entry))
            file.flush()
            os.fsync(file.fileno())


def _plan_from(first: int, targets: Sequence[str], load: Any, log: crashes.CrashLog) -> Iterator[tuple[Plan, Evidence]]:
    """Yield the plans of targets from a number on, in processes; some one by one here after the death of a process."""
    count = min(choose_workers(len(targets) - first), MAX_PROCESSES)
    alone = max(log.weights, default=-1)  # the last target that is planned here
    planner: Planner | None = None
    while first < len(targets):
        if count > 1 and first > alone:
            try:
                for entry in plan_in_processes(targets[first:], load, count):
                    yield entry
                    first += 1
            except ValueError:
                logging.getLogger(__name__).warning("a process that plans has died; its targets are planned here")
                alone = first + 2 * count
            continue
        if log.fails(first):
            yield Plan(targets[first][:MAX_CHARS], "failed", crashes.FAILED), {}
        else:
            log.record(first, 1)
            planner = planner or load()
            yield planner(targets[first])
        first += 1


def load_planner(job: Job) -> Planner:
    """Load models, building blocks and precedents of a job; returns the function that plans a target."""
    from chemspec.plan.expand import Expander
    from chemspec.plan.search import plan

    retro, others = load_fastest(job.model, threads=1), load_engines(COMPANIONS, threads=1)
    stock, index = load_job_stock(job), installed_if_usable()
    settings = PlanSettings(seconds=math.inf, within=job.within)

    def plan_target(target: str) -> tuple[Plan, Evidence]:
        if len(target) > MAX_CHARS:
            message = f"it has {len(target):,} characters; {MAX_CHARS:,} are the limit"
            return Plan(target[:MAX_CHARS], "refused", message), {}
        forward, reagents = others.get("forward"), others.get("reagents")
        try:  # the expander of a target is new: what the last one decoded is on disk, and memory stays small
            expander = Expander(retro, forward, job.settings, reagents=reagents, index=index)
            result = plan(target, expander, stock, settings)
            return result, find_evidence(result.routes[:1], index)
        except OSError:
            raise
        except Exception as error:  # it must not cost the other targets
            logging.getLogger(__name__).error("the plan of a target failed: %s", describe_error(error))
            return Plan(target, "failed", "something unexpected happened"), {}

    return plan_target


def _line(target: str, plan: Plan, evidence: Evidence) -> bytes:
    given = target[:MAX_CHARS]
    best = plan_document(replace(plan, routes=plan.routes[:1]), evidence)
    return (json.dumps({"query": given, "status": plan.status, "row": library_row(plan, given)} | best) + "\n").encode()


def library_rows(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return the rows of the library's table in some lines; StoreError if they are damaged."""
    with rows.report_damage():
        return [json.loads(line)["row"] for line in lines]


def targets_as_csv(job: Job) -> bytes:
    """Return the table of the targets so far as CSV, the uploaded columns first."""
    planned = library_rows(rows.whole_lines(jobs.answers_file(job)))
    others = rows.other_columns(job)
    cells = [[row[position] for position in others] for row in jobs.uploaded_rows(job)]
    with rows.report_damage():
        text = library_table(planned, [job.columns[position] for position in others], cells)
    return text.encode("utf-8" if text.isascii() else "utf-8-sig")  # Excel reads UTF-8 only with the mark


def targets_as_jsonl(job: Job) -> bytes:
    """Return a line for each target so far: its row, and the plan with its best route."""
    return b"".join(rows.whole_lines(jobs.answers_file(job)))


EXPORTS = {"csv": targets_as_csv, "jsonl": targets_as_jsonl}
