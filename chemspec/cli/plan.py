"""The command `plan`: multi-step routes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command
from chemspec.plan.settings import PlanSettings
from chemspec.settings import DecodeSettings
from chemspec.system import extras
from chemspec.terminal import console
from chemspec.terminal.documented_options import FieldsOf, Outcome

if TYPE_CHECKING:
    from chemspec.plan.expand import Expander
    from chemspec.plan.routes import Evidence, Plan

MAX_SHOWN = 5  # routes printed
PROBABILITY = "probability"  # default order of `plan.orders`, whose import waits for the command
LIMITS = ("seconds", "expansions", "depth", "routes", "through")


@dataclass(frozen=True, kw_only=True)
class Models(opt.Hardware):
    """Models of a search, and where they run.

    Attributes:
        n -n: number of precursor sets proposed per molecule.
        check --check/--no-check: check with the forward model whether each step gives its product.
        dtype: precision: fp32, int8, ...; auto: int8 on a CPU if the model card shows the same accuracy.
    """

    n: int = 10
    check: bool = True
    drafter: str = opt.DEFAULT.drafter
    model: str = ""

    def load_expander(self) -> Expander:
        """Load the models."""
        from chemspec.plan.expand import load_expander

        settings = DecodeSettings(n=self.n, drafter=self.drafter)
        return load_expander(self.model or "retro", settings, check=self.check, **self.loading)


@command("plan", "Answers")
def plan_routes(
    targets: list[str],
    stock: list[str] | None = None,
    out: list[Path] | None = None,
    column: str = "",
    *,
    limits: Annotated[dict[str, Any], FieldsOf(PlanSettings, LIMITS)],
    within: opt.Duration = None,
    avoid: list[str] | None = None,
    order: str = PROBABILITY,
    models: Models,
) -> Outcome:
    """Multi-step retrosynthesis down to purchasable building blocks.

    Ctrl-C stops and prints the routes found so far. Files are written after each target. Exit code 1 if some target
    has no route from building blocks alone.

    Options:
        targets TARGETS: SMILES, one file of them (.csv .smi .parquet ...), or - for stdin.
        within: time limit per target, such as 5s, with the list of routes: the best routes by then, and steps that
            cannot be checked in time stay unchecked.
        avoid: substructure (SMARTS) that no precursor may have; repeatable, at most five.
        order: order of the routes: probability, steps, weakest (step), convergence, price or diversity.
        out -o: output file: .json (all routes), .md (text), .svg or .png (the best route); repeatable.
    """
    extras.require_packages("syntheseus", "apted", what="planning")
    from chemspec.plan import export, orders, routes
    from chemspec.plan.search import plan
    from chemspec.plan.stock import BUILT_IN, load_stock
    from chemspec.precedents import installed

    outputs = [export.PlanFile(file) for file in out or ()]
    opt.check_parent_folders(*(output.file for output in outputs))
    if within is not None:
        if limits["seconds"] != PlanSettings.seconds:
            raise ValueError("--within limits the search too; leave --seconds out")
        limits |= {"within": within, "seconds": math.inf}
    if order not in orders.ORDERS:
        raise ValueError(f"--order {order}: choose one of {', '.join(orders.ORDERS)}")
    settings = PlanSettings(**limits, avoid=tuple(avoid or ()))  # reports invalid limits before the models are loaded
    queries = _read_targets(targets, column)
    can_buy, index, most = load_stock(stock or BUILT_IN), installed(), settings.expansions
    expander = models.load_expander()
    plans: list[tuple[Plan, Evidence]] = []
    for target in queries:
        with console.progress_bar("expanding") as progress:
            result = plan(target, expander, can_buy, settings, lambda now: progress(now.expansions, most))
        result = orders.order_plan(result, order)
        all_listed = outputs or console.answers.quiet  # finding the precedents of a step takes 18 ms
        evidence = routes.find_evidence(result.routes if all_listed else result.routes[:MAX_SHOWN], index)
        plans.append((result, evidence))
        for output in outputs:  # after each target: an interruption, or `head` closing the pipe, costs one at most
            output.add(result, evidence)
            output.write(as_list=len(queries) > 1)
        _print_plan(target, result, evidence)
        if len(result.routes) > 1:
            console.print_line(f"  order: {orders.ORDERS[order][0]} (--order {'|'.join(orders.ORDERS)})", "dim")
        if result.interrupted:
            break
    for output in outputs:
        if output.lacks_route:
            console.print_note(f"{output.file} is not written: there is no route to draw")
    solved = all(each.status == "solved" for each, _ in plans)
    documents = [routes.plan_document(*entry) for entry in plans]
    return Outcome({"plans": documents}, 130 if result.interrupted else 0 if solved else 1)


def _read_targets(given: list[str], column: str) -> list[str]:
    from chemspec.io.readers import read_given_texts

    texts, source = read_given_texts(given, column, "retro", console.print_note)
    if source and not (texts := [text for text in texts if text.strip()]):
        raise ValueError(f"there is no target in {source}")
    return texts


def _print_plan(target: str, plan: Plan, evidence: Evidence) -> None:
    from chemspec.plan.routes import route_titles, step_table

    if plan.target != target:  # the SMILES of a name, for instance
        console.print_note(f"{show.query_heading(target)}: {plan.target}")
    console.print_line(plan.target, "bold")
    for note in plan.notes:
        console.print_line(f"  note: {note}", "yellow")
    console.print_line(f"  {plan.message}", "" if plan.status == "solved" else "yellow")
    titled = [*zip(route_titles(plan.routes), plan.routes, strict=True)]
    for title, route in sorted(titled, key=lambda pair: pair[1].group)[:MAX_SHOWN]:  # the variants below their best
        console.print_rows(step_table(route, evidence), f"{title.lower()}: {route.summary}")
    if len(plan.routes) > MAX_SHOWN:
        console.print_line(f"  {len(plan.routes) - MAX_SHOWN} more routes; -o FILE.json has all", "dim")
    if plan.expansions:
        console.print_line(f"  {plan.effort}", "dim")
