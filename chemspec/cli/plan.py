"""The command `plan`: multi-step routes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
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
from chemspec.version import __version__

if TYPE_CHECKING:
    from chemspec.plan.expand import Expander
    from chemspec.plan.export import PlanFile
    from chemspec.plan.routes import Evidence, Plan, Route
    from chemspec.plan.workers import Planner
    from chemspec.question_text import QuestionText

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
        return load_expander(opt.chosen_model("retro", self.model), settings, check=self.check, **self.loading)


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
    scale: opt.Mass = None,
    workers: int = 0,
    ray: str = "",
    order: str = PROBABILITY,
    models: Models,
) -> Outcome:
    """Multi-step retrosynthesis down to purchasable building blocks.

    Ctrl-C stops and prints the routes found so far. Of several targets each plan is stored when it is done, and the
    same command goes on from there. Exit code 1 if some target has no route from building blocks alone.

    Options:
        targets TARGETS: SMILES, one file of them (.csv .smi .parquet ...), - for stdin, or a chemspec: text.
        within: time limit per target, such as 5s, with the list of routes: the best routes by then, and steps that
            cannot be checked in time stay unchecked.
        avoid: substructure (SMARTS) that no precursor may have; repeatable, at most five.
        order: order of the routes: probability, steps, weakest (step), convergence, price, shelf or diversity.
        out -o: output file: .json (all routes), .jsonl (a line for each target), .csv (a row for each: best route,
            shared intermediates), .md (text); of the best route .svg or .png (scheme; of several targets the
            intermediates that they share), .cdxml (ChemDraw), .pdf, .postcard.svg or .postcard.png (a page of A5);
            repeatable.
        scale: amount of the target, such as 1g: a .md has then for each route the draft of a procedure, with amounts.
        workers: processes that plan several targets side by side, each of 0.7 GB; 0: all cores, if there are four
            targets for each.
        ray: plan on a Ray cluster: local, auto or HOST:PORT; a process on each core, all with models and stock lists
            of these names (extra ray).
    """
    extras.require_packages("syntheseus", "apted", what="planning")
    from chemspec.plan.orders import check_order

    settings = _plan_settings(limits, within, avoid or [])  # reports invalid limits before the models are loaded
    if question := opt.read_question(targets, "plan"):
        targets, settings, models, stock, order = _follow_question(question, settings, models, stock or [], order)
    check_order(order)
    text_of = partial(_question_text, settings=settings, models=models, stock=stock or [], order=order)
    outputs = _open_files(out or [], scale, text_of)
    queries = _read_targets(targets, column)
    made_with = asdict(settings) | asdict(models) | {"stock": stock or [], "order": order, "scale": scale or ""}
    statuses = _resume(outputs, queries, made_with) if len(queries) > 1 else []
    all_listed = console.answers.quiet or any(output.lists_all_routes for output in outputs)
    placed = replace(models, device="cpu") if ray and models.device == "auto" else models  # cores share no GPU
    load = partial(_load_planner, placed, tuple(stock or ()), settings, order, all_listed=all_listed)
    entries = _plan_all(queries[len(statuses) :], load, workers, ray, settings)
    documents, interrupted = _store_and_print(entries, queries, statuses, outputs, order)
    _finish_files(outputs, interrupted=interrupted)
    return Outcome({"plans": documents}, 130 if interrupted else int(bool(set(statuses) - {"solved"})))


def _open_files(files: Sequence[Path], scale: float | None, question: Callable[[str], str]) -> list[PlanFile]:
    """Return the output files; ValueError for one that cannot be written, or a scale without a text."""
    from chemspec.plan.export import PlanFile

    if scale and not any(file.suffix == ".md" for file in files):
        raise ValueError("--scale is for the text of routes; add -o FILE.md")
    outputs = [PlanFile(file, scale or 0.0, question) for file in files]
    opt.check_parent_folders(*files)
    return outputs


def _add_plan(outputs: list[PlanFile], plan: Plan, evidence: Evidence, target: str, number: int | None) -> None:
    """Add a plan to the files: the only one, or that of a number which not all of them have, unless interrupted.

    This comes before the plan is printed, so that an interruption, or `head` closing the pipe, costs one at most.
    """
    if number is not None and plan.interrupted:
        return
    for output in outputs:
        if number is None or number >= output.stored:
            output.add(plan, evidence, target)
        if number is None:
            output.write()


def _store_and_print(
    entries: Iterable[tuple[Plan, Evidence]],
    targets: Sequence[str],
    statuses: list[str],
    outputs: list[PlanFile],
    order: str,
) -> tuple[list[dict[str, Any]], bool]:
    """Store and print the plans of the targets that have no status yet; returns documents for --json, and interruption.

    Adds the status of each plan to `statuses`.
    """
    from chemspec.plan.routes import plan_document

    documents, many = [], len(targets) > 1
    try:
        for result, evidence in entries:
            target = targets[len(statuses)]
            _add_plan(outputs, result, evidence, target, len(statuses) if many else None)
            statuses.append(result.status)
            if console.answers.quiet:  # with --json; a document takes 0.3 s
                documents.append(plan_document(result, evidence))
            print_plan(target, result, evidence, order)
            if result.interrupted:
                return documents, True
    finally:
        for output in outputs if many else ():
            output.write(as_list=True)
    return documents, False


def _finish_files(outputs: list[PlanFile], *, interrupted: bool) -> None:
    for output in outputs:
        if not interrupted:
            output.finish()
        if output.missing:
            console.print_note(f"{output.file} is not written: {output.missing}")
        elif not interrupted:
            console.print_note(f"{output.file} is written")


def _plan_settings(limits: dict[str, Any], within: float | None, avoid: list[str]) -> PlanSettings:
    if within is not None:
        if limits["seconds"] != PlanSettings.seconds:
            raise ValueError("--within limits the search too; leave --seconds out")
        limits = {**limits, "within": within, "seconds": math.inf}
    return PlanSettings(**limits, avoid=tuple(avoid))


def _follow_question(
    question: QuestionText, settings: PlanSettings, models: Models, stock: list[str], order: str
) -> tuple[list[str], PlanSettings, Models, list[str], str]:
    """Return target and options of a `chemspec:` text; an option that is given, and is not the default, stays."""
    from chemspec.plan.question import question_settings
    from chemspec.question_text import read_number

    if models.n == Models.n and (count := read_number(question, "n", int)):
        models = replace(models, n=int(count))
    check = models.check and question.first("check") != "no"
    models = replace(models, check=check, model=models.model or question.first("model"))
    order = question.first("order") or order if order == PROBABILITY else order
    lists = stock or [*question.fields.get("stock", ())]
    return [question.first("smi")], question_settings(question, settings), models, lists, order


def _question_text(target: str, settings: PlanSettings, models: Models, stock: Sequence[str], order: str) -> str:
    """Return the `chemspec:` text of a plan; lists and models that are files are left out, being not everywhere."""
    from chemspec.plan.question import plan_question
    from chemspec.question_text import is_name
    from chemspec.stock.lists import CHOICES
    from chemspec.system.lab_files import lab_files

    lists = [name for name in stock if name in {*CHOICES, *lab_files("stock")}]
    others = {"order": order if order != PROBABILITY else "", "n": models.n if models.n != Models.n else ""}
    others |= {"model": models.model if is_name(models.model) else "", "check": "" if models.check else "no"}
    return plan_question(target, settings, stock=lists, **others)


def _resume(outputs: Sequence[PlanFile], targets: Sequence[str], made_with: Mapping[str, Any]) -> list[str]:
    """Open the files of many targets; returns the statuses of the plans that all of them have already."""
    texts = {name: str(value) for name, value in made_with.items() if name != "threads"} | {"chemspec": __version__}
    for output in outputs:
        output.resume(targets, texts)
    statuses = min((output.statuses for output in outputs if output.keeps_plans), key=len, default=[])
    if statuses:
        console.print_note(f"{len(statuses)} of {len(targets)} targets are planned already")
    return [*statuses]


def _plan_all(
    targets: Sequence[str], load: partial[Planner], workers: int, ray: str, settings: PlanSettings
) -> Iterator[tuple[Plan, Evidence]]:
    """Yield the plan of each target in order, with a progress bar, from one process or several."""
    from chemspec.plan.workers import choose_workers, plan_in_processes
    from chemspec.system.threads import usable_cores

    count = choose_workers(len(targets), workers)
    if ray or count > 1:
        load = partial(load, threads=1 if ray else max(1, usable_cores() // count))
        plans = _plan_on_ray(targets, load, ray) if ray else plan_in_processes(targets, load, count)
        with console.progress_bar("planning") as progress:
            for number, entry in enumerate(plans, 1):
                progress(number, len(targets))
                yield entry
        return
    planner: Any = load() if targets else None
    for target in targets:
        with console.progress_bar("expanding") as progress:
            entry = planner(target, lambda now: progress(now.expansions, settings.expansions))
        yield entry


def _plan_on_ray(targets: Sequence[str], load: partial[Planner], address: str) -> Iterator[tuple[Plan, Evidence]]:
    extras.require_packages("ray", "pyarrow", what="--ray")
    from chemspec.cluster.plans import plan_on_ray

    return plan_on_ray(targets, load, address)


def _load_planner(
    models: Models, stock: tuple[str, ...], settings: PlanSettings, order: str, *, all_listed: bool, threads: int = 0
) -> Planner:
    """Load models, building blocks and precedents; returns the function that plans a target.

    `all_listed`: whether the steps of all routes get their precedents, which takes 5 ms a step. `threads`: of each
    model, if the options name none.
    """
    from chemspec.plan.orders import order_plan
    from chemspec.plan.routes import find_evidence
    from chemspec.plan.search import plan
    from chemspec.precedents import installed
    from chemspec.stock.lists import load_chosen_stock

    expander = replace(models, threads=models.threads or threads).load_expander()
    can_buy, index = load_chosen_stock(stock), installed()

    def plan_target(target: str, watch: Callable[[Any], object] = lambda _: False) -> tuple[Plan, Evidence]:
        result = order_plan(plan(target, expander, can_buy, settings, watch), order)
        return result, find_evidence(result.routes if all_listed else _routes_shown(result), index)

    return plan_target


def _read_targets(given: list[str], column: str) -> list[str]:
    from chemspec.io.readers import read_given_texts

    texts, source = read_given_texts(given, column, "retro", console.print_note)
    if source and not (texts := [text for text in texts if text.strip()]):
        raise ValueError(f"there is no target in {source}")
    return texts


def _step_lines(row: Mapping[str, str]) -> str:
    """Return a row of `step_table` as lines that fit into a window, but for long SMILES."""
    cells = dict(row)
    head = [cells.pop(name) for name in ("step", "class", "probability")]
    lines = [f"  {head[0]}. {', '.join(filter(None, head[1:]))}", cells.pop("product")]
    lines += [f"{'+' if number else 'from'} {part}" for number, part in enumerate(cells.pop("from").split(" + "))]
    lines += [f"{name}: {text}" for name, text in cells.items() if text]
    return "\n     ".join(lines)


def _routes_shown(plan: Plan) -> tuple[Route, ...]:
    """Return the routes that are printed: the best of each group of similar ones, then others."""
    from chemspec.plan.orders import order_routes

    return order_routes(plan.routes, "diversity")[:MAX_SHOWN]


def print_plan(target: str, plan: Plan, evidence: Evidence, order: str) -> None:
    """Print the routes of a target, step by step."""
    from chemspec.plan.orders import ORDERS
    from chemspec.plan.routes import route_titles, step_table

    shown = _routes_shown(plan)
    if plan.target != target:  # the SMILES of a name, for instance
        console.print_note(f"{show.query_heading(target)}: {plan.target}")
    console.print_line(plan.target, "bold")
    for note in plan.notes:
        console.print_line(f"  note: {note}", "yellow")
    console.print_line(f"  {plan.message}", "" if plan.status == "solved" else "yellow")
    titled = zip(route_titles(shown), shown, strict=True)
    for title, route in sorted(titled, key=lambda pair: pair[1].group):  # the variants below their best
        console.print_line(f"{title.lower()}: {route.summary}")
        for row in step_table(route, evidence):
            console.print_line(_step_lines(row))
    if more := len(plan.routes) - len(shown):
        console.print_line(f"  {more} more routes; -o FILE.json has all", "dim")
    if len(plan.routes) > 1:
        console.print_line(f"  order: {ORDERS[order][0]} (--order {'|'.join(ORDERS)})", "dim")
    if plan.expansions:
        console.print_line(f"  {plan.effort}", "dim")
