"""Share of targets solved within some seconds, with and without drafts: `python tests/programs/anytime.py`."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

import altair as alt
from charts import COLORS, svg
from charts import _themed as themed
from helpers.scripts import option, script
from syntheseus.search.algorithms.best_first.retro_star import RetroStarSearch
from syntheseus.search.node_evaluation.common import ConstantNodeEvaluator, ReactionModelLogProbCost

from chemspec.engine.engine import Engine
from chemspec.evaluation.loading import load_fastest
from chemspec.plan.algorithms import Inventory, to_syntheseus_molecule
from chemspec.plan.expand import Expander
from chemspec.plan.search import RouteSearch
from chemspec.plan.settings import PlanSettings
from chemspec.planners.syntheseus import ChemspecBackward
from chemspec.settings import DecodeSettings
from chemspec.stock.lists import INTERMEDIATES, PAROUTES, Stock, load_stock
from chemspec.terminal import console

TARGETS = Path(__file__).resolve().parents[2] / "assets" / "examples" / "bench_retro.smi"
MARKS = (1.0, 2.0, 5.0, 15.0)  # seconds; Andronova et al. (2026) compare 5 and 15
SEARCH_ENDS = 10**6  # no limit but time
clock = time.process_time  # of one thread: other work on the machine changes it little


def plan_until_solved(
    models: Mapping[str, Engine], stock: Stock, target: str, drafter: str, seconds: float, n: int
) -> dict[str, Any]:
    """Search as `chemspec plan` does until there is a route; returns when, or None."""
    expander = Expander(models["retro"], models.get("forward"), DecodeSettings(n=n, drafter=drafter), keep=False)
    settings = PlanSettings(seconds=seconds, expansions=SEARCH_ENDS, nodes=SEARCH_ENDS)
    search = RouteSearch(target, expander, stock, settings, clock)
    solved_after: list[float] = []

    def watch(now: RouteSearch) -> bool:
        if now.solved:
            solved_after.append(now.seconds)
        return now.solved

    algorithm_search(search, watch)
    solved = next((at for at in solved_after if at <= seconds), None)
    counts = search.counts
    return {
        "solved": solved,
        "spent": search.seconds,
        "expansions": search.expansions,
        "passes": counts.passes,
        "tokens": counts.tokens,
    }


def algorithm_search(search: RouteSearch, watch: Callable[[RouteSearch], bool]) -> None:
    """Run a search without listing its routes."""
    search.result = lambda _: None  # type: ignore[assignment,method-assign,return-value]
    search.run(watch)


class PlainLoop(RetroStarSearch):  # type: ignore[misc]
    """Retro* of Syntheseus, which ends at the first route or when the time is over.

    Attributes:
        limit: seconds.
    """

    limit = math.inf

    def start(self, seconds: float) -> None:
        """Start the clock."""
        self.began, self.limit, self.expansions = clock(), seconds, 0
        self.solved: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return clock() - self.began

    def should_stop_search(self, graph: Any) -> bool:
        """Return whether there is a route, or the time is over."""
        if any(step.has_solution for step in graph.successors(graph.root_node)):
            self.solved = self.seconds if self.seconds <= self.limit else None
            return True
        return self.seconds >= self.limit or bool(super().should_stop_search(graph))

    def expand_node(self, *args: Any, **options: Any) -> Any:
        """Expand a molecule, and count it."""
        self.expansions += 1
        return super().expand_node(*args, **options)


def plain_until_solved(
    model: ChemspecBackward, stock: Stock, target: str, seconds: float, depth: int
) -> dict[str, Any]:
    """Search with the loop of Syntheseus around chemspec's plug-in until there is a route; returns when, or None."""
    model.reset()  # the cache of a search before
    algorithm = PlainLoop(
        and_node_cost_fn=ReactionModelLogProbCost(),
        value_function=ConstantNodeEvaluator(0.0),
        reaction_model=model,
        mol_inventory=Inventory(stock),
        max_expansion_depth=2 * depth,
        expand_purchasable_target=True,
        prevent_repeat_mol_in_trees=True,
    )
    algorithm.reset()
    algorithm.start(seconds)
    algorithm.run_from_mol(to_syntheseus_molecule(target))
    return {"solved": algorithm.solved, "spent": algorithm.seconds, "expansions": algorithm.expansions}


ARMS = {
    "chemspec plan": "auto",
    "chemspec plan, no drafts": "none",
    "Syntheseus, plug-in": "auto",
    "Syntheseus, plug-in, no drafts": "none",
}


NO_CHECKS = "chemspec plan, no checks"  # as with `--no-check`, an arm of its own


def wilson_interval(successes: int, tries: int, z: float = 1.96) -> tuple[float, float]:
    """Return the 95 % interval of a share."""
    if not tries:
        return 0.0, 1.0
    share, spread = successes / tries, z * z / tries
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / tries + spread / (4 * tries))
    return max(0.0, middle - half), min(1.0, middle + half)


def solved_shares(rows: Sequence[Mapping[str, Any]], marks: Sequence[float] = MARKS) -> list[dict[str, Any]]:
    """Return one row for each arm: the number of targets, how many were solved by each mark, and the 95 % interval."""
    table = []
    for arm in rows[0]["arms"].keys() & {NO_CHECKS} or ARMS:
        times = [row["arms"][arm]["solved"] for row in rows]
        shares = {}
        for mark in marks:
            solved = sum(at is not None and at <= mark for at in times)
            shares[f"{mark:g} s"] = (solved, *wilson_interval(solved, len(times)))
        table.append({"arm": arm, "targets": len(times), "solved": shares})
    return table


def paired_counts(
    rows: Sequence[Mapping[str, Any]], arm: str, other: str, marks: Sequence[float] = MARKS
) -> dict[str, tuple[int, int]]:
    """Return for each mark how many targets only one of two arms solved by then: the arm, the other."""

    def is_solved(row: Mapping[str, Any], name: str, mark: float) -> bool:
        at = row["arms"][name]["solved"]
        return at is not None and bool(at <= mark)

    return {
        f"{mark:g} s": (
            sum(is_solved(row, arm, mark) and not is_solved(row, other, mark) for row in rows),
            sum(is_solved(row, other, mark) and not is_solved(row, arm, mark) for row in rows),
        )
        for mark in marks
    }


def shares_over_time(rows: Sequence[Mapping[str, Any]]) -> alt.Chart:
    """Draw the share of targets solved over seconds, one step curve for each arm."""
    values = []
    for arm in ARMS:
        times = sorted(at for row in rows if (at := row["arms"][arm]["solved"]) is not None)
        steps = [(0.01, 0), *((at, number) for number, at in enumerate(times, 1)), (MARKS[-1], len(times))]
        values += [{"arm": arm, "seconds": max(0.01, at), "share": 100 * number / len(rows)} for at, number in steps]
    colors = alt.Scale(domain=list(ARMS), range=list(COLORS[: len(ARMS)]))
    return (
        alt.Chart(alt.Data(values=values))
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("seconds:Q", title="seconds of processor time, one thread").scale(type="log", domain=[0.01, 15]),
            y=alt.Y("share:Q", title="% of targets with a route"),
            color=alt.Color("arm:N", title=None, scale=colors),
        )
        .properties(title=f"Targets solved within a time, {len(rows)} targets", width=620, height=280)
    )


def times_as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the seconds until the first route of each target and arm as CSV; empty without a route."""
    lines = [",".join(["target", *(f'"{arm}"' for arm in ARMS)])]
    for row in rows:
        times = [row["arms"][arm]["solved"] for arm in ARMS]
        lines.append(",".join([row["target"], *("" if at is None else f"{at:.4f}" for at in times)]))
    return "\n".join(lines) + "\n"


def read_rows(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the complete rows of files."""
    lines = [line for file in files if file.exists() for line in file.read_text(encoding="utf-8").splitlines(True)]
    return [json.loads(line) for line in lines if line.endswith("\n")]


def main(
    seconds: Annotated[float, option("Time limit of a search, in seconds of processor time.")] = 15.0,
    limit: Annotated[int, option("Number of targets.")] = 200,
    part: Annotated[str, option("Part of the targets, such as 0/2: the first of two.")] = "0/1",
    n: Annotated[int, option("Number of precursor sets proposed per molecule.", "--n", "-n")] = 10,
    out: Annotated[Path, option("Rows (.jsonl); those in it are not searched again.")] = Path("anytime.jsonl"),
    check: Annotated[
        bool,
        option("--no-check: only chemspec's planner, with drafts and without the forward model.", "--check/--no-check"),
    ] = True,
    only_table: Annotated[list[Path] | None, option("Print the table of these files; no search.")] = None,
    chart: Annotated[Path | None, option("With --only-table: chart of the shares over time (.svg).")] = None,
    csv: Annotated[Path | None, option("With --only-table: times of all targets (.csv).")] = None,
) -> None:
    """Search a route to each built-in retro target in four ways, and record after how many seconds there was one.

    Targets in stock are left out. Every search begins with empty caches; the arms take turns.
    """
    if only_table:
        rows = read_rows(only_table)
        print_table(rows)
        if chart is not None:
            chart.write_text(svg(themed(shares_over_time(rows))), encoding="utf-8")
        if csv is not None:
            csv.write_text(times_as_csv(rows), encoding="utf-8")
        return
    number, parts = map(int, part.split("/"))
    stock = load_stock((*PAROUTES, INTERMEDIATES))
    targets = [text for text in TARGETS.read_text(encoding="utf-8").split() if not stock.source(text)]
    targets = targets[:limit][number::parts]
    tasks = ("retro", "forward") if check else ("retro",)
    models = {task: load_fastest(task, device="cpu", threads=1) for task in tasks}
    plug_ins = {
        drafter: ChemspecBackward(threads=1, device="cpu", drafter=drafter, use_cache=True, default_num_results=n)
        for drafter in ("auto", "none")
    }

    def run_arm(arm: str, target: str, limit_s: float) -> dict[str, Any]:
        if arm.startswith("chemspec"):
            return plan_until_solved(models, stock, target, ARMS.get(arm, "auto"), limit_s, n)
        return plain_until_solved(plug_ins[ARMS[arm]], stock, target, limit_s, PlanSettings().depth)

    known = {row["target"] for row in read_rows([out])}
    names = list(ARMS) if check else [NO_CHECKS]
    for arm in names:  # models and curves are loaded before the first clock starts
        run_arm(arm, targets[0], 0.5)
    for index, target in enumerate(targets):
        if target in known:
            continue
        turn = index % len(names)
        row = {"target": target, "arms": {arm: run_arm(arm, target, seconds) for arm in names[turn:] + names[:turn]}}
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    print_table(read_rows([out]))


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print shares, intervals and paired counts as Markdown."""
    marks = [f"{mark:g} s" for mark in MARKS]
    console.print_line(f"| {len(rows)} targets | {' | '.join(marks)} |")
    console.print_line("|---" * (len(marks) + 1) + "|")
    for row in solved_shares(rows):
        cells = [
            f"{solved / max(1, row['targets']):.1%} ({low:.0%} to {high:.0%})"
            for solved, low, high in row["solved"].values()
        ]
        console.print_line(f"| {row['arm']} | {' | '.join(cells)} |")
    for arm, other in (
        ()
        if NO_CHECKS in rows[0]["arms"]
        else (
            ("chemspec plan", "chemspec plan, no drafts"),
            ("Syntheseus, plug-in", "Syntheseus, plug-in, no drafts"),
            ("chemspec plan", "Syntheseus, plug-in, no drafts"),
        )
    ):
        pairs = paired_counts(rows, arm, other)
        console.print_line(f"{arm} / {other}, solved by one only: {', '.join(f'{a} / {b}' for a, b in pairs.values())}")


app = script(main)
if __name__ == "__main__":
    app()
