"""The command `plan`: multi-step routes."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command
from chemspec.cli.options import FieldsOf, Outcome
from chemspec.plan.settings import PlanSettings
from chemspec.settings import DecodeSettings
from chemspec.system import extras
from chemspec.system.files import write_bytes_atomic, write_text_atomic

if TYPE_CHECKING:
    from chemspec.plan.expand import Expander
    from chemspec.plan.routes import Evidence, Plan, Route
    from chemspec.precedents import Precedents

MAX_SHOWN = 5  # routes printed
LIMITS = ("seconds", "expansions", "depth", "routes", "through")
ENDINGS = (".json", ".md", ".svg", ".png")


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

    def load_expander(self, index: Precedents | None) -> Expander:
        """Load the models, that of reagents if it is installed."""
        from chemspec.plan.expand import Expander
        from chemspec.review.review import load_engines, load_fastest

        load = partial(opt.load_engine, "retro")  # which checks the task of the model
        retro = load_fastest(self.model or "retro", load=load, **self.loading)
        others = load_engines(("forward", "reagents") if self.check else ("reagents",), **self.loading)
        if self.check and "forward" not in others:
            raise ValueError("no model named forward is installed to check the steps; leave them unchecked: --no-check")
        settings = DecodeSettings(n=self.n, drafter=self.drafter)
        return Expander(retro, others.get("forward"), settings, reagents=others.get("reagents"), index=index)


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
        out -o: output file: .json (all routes), .md (text), .svg or .png (the best route); repeatable.
    """
    extras.require_packages("syntheseus", "apted", what="planning")
    from chemspec.plan.search import plan
    from chemspec.plan.stock import BUILT_IN, load_stock
    from chemspec.precedents import installed

    files = out or []
    for file in files:
        if file.suffix not in ENDINGS:
            raise ValueError(f"{file}: give a file that ends in one of {', '.join(ENDINGS)}")
    opt.check_parent_folders(*files)
    if within is not None:
        limits |= {"within": within, "seconds": math.inf}
    settings = PlanSettings(**limits, avoid=tuple(avoid or ()))  # reports invalid limits before the models are loaded
    queries = _read_targets(targets, column)
    can_buy = load_stock(stock or BUILT_IN)
    index = installed()
    expander = models.load_expander(index)
    report, most = _Report(), settings.expansions
    for target in queries:
        with show.progress_bar("expanding") as progress:
            result = plan(target, expander, can_buy, settings, lambda now: progress(now.expansions, most))
        report.add(result, index, shown_only=not files and not show.answers.quiet)
        for file in files:  # after each target, so that an interruption costs one target only
            report.write(file, several=len(queries) > 1)
        if result.interrupted:
            break
    for file in files:
        if file.suffix in (".svg", ".png") and report.best is None:
            show.print_note(f"{file} is not written: there is no route to draw")
    solved = all(document["status"] == "solved" for document in report.documents)
    return Outcome({"plans": report.documents}, 130 if result.interrupted else 0 if solved else 1)


@dataclass
class _Report:
    """The plans so far as JSON documents and texts, and the best route of the first target that has one."""

    documents: list[dict[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    best: tuple[Route, str, Evidence] | None = None  # with its title

    def add(self, result: Plan, index: Precedents | None, *, shown_only: bool) -> None:
        """Print the plan of a target, and add it with the precedents of its steps, which take 18 ms each."""
        from chemspec.plan import routes

        evidence = routes.find_evidence(result.routes[:MAX_SHOWN] if shown_only else result.routes, index)
        _print_plan(result, evidence)
        self.documents.append(routes.plan_document(result, evidence))
        self.texts.append(routes.plan_to_markdown(result, evidence))
        if self.best is None and result.routes:
            self.best = result.routes[0], routes.route_titles(result.routes)[0], evidence

    def write(self, file: Path, *, several: bool) -> None:
        """Write a file in the format of its ending; a picture only if there is a route."""
        from chemspec.plan import depict

        if file.suffix == ".json":
            write_text_atomic(file, json.dumps(self.documents if several else self.documents[0], indent=1))
        elif file.suffix == ".md":
            write_text_atomic(file, "\n".join(self.texts))
        elif self.best is not None:
            picture = depict.to_png(*self.best) if file.suffix == ".png" else depict.to_svg(*self.best).encode()
            write_bytes_atomic(file, picture)


def _read_targets(given: list[str], column: str) -> list[str]:
    queries, source = opt.read_texts(given, column, "retro")
    if source and not (queries := [text for text in queries if text.strip()]):
        raise ValueError(f"there is no target in {source}")
    return [_target_smiles(text) for text in queries]


def _target_smiles(text: str) -> str:
    """Return the SMILES of a target given as a name, an InChI and so on; other text unchanged."""
    from chemspec import chem
    from chemspec.chem import formats

    read = formats.read_any(text, task="retro")
    if isinstance(read, chem.Fault):
        return text  # the search reports what is wrong
    if read.notes or read.smiles != chem.canonical(text):
        show.print_note(f"{show.query_heading(text)}: {'; '.join((read.smiles, *read.notes))}")
    return read.smiles


def _print_plan(plan: Plan, evidence: Evidence) -> None:
    from chemspec.plan.routes import route_titles, step_table

    show.print_line(plan.target, "bold")
    show.print_line(f"  {plan.message}", "" if plan.status == "solved" else "yellow")
    for title, route in zip(route_titles(plan.routes), plan.routes[:MAX_SHOWN], strict=False):
        show.print_rows(step_table(route, evidence), f"{title.lower()}: {route.summary}")
    if len(plan.routes) > MAX_SHOWN:
        show.print_line(f"  {len(plan.routes) - MAX_SHOWN} more routes; -o FILE.json has all", "dim")
    counts = plan.counts
    rate = f", {counts.tokens / counts.passes:.2f} tokens a pass" if counts.passes else ""
    show.print_line(f"  {counts.molecules} molecules decoded in {counts.calls} calls of the models{rate}", "dim")
