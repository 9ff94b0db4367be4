"""Searches for routes, ours and Syntheseus' own loop around the same models: `python tests/programs/plans.py`."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script

from chemspec.cli import options as opt
from chemspec.evaluation.accuracy import read_test_reactions
from chemspec.evaluation.loading import load_fastest
from chemspec.plan.expand import Expander, Model, Proposal
from chemspec.plan.search import plan
from chemspec.plan.settings import PlanSettings
from chemspec.settings import DecodeSettings
from chemspec.stock.lists import INTERMEDIATES, PAROUTES, Stock, load_stock
from chemspec.system import extras
from chemspec.system.files import write_text_atomic
from chemspec.terminal import console

Models = Mapping[str, Sequence[Model]]  # by precision ("auto", "fp32"): what proposes, and what checks
TIE = 0.05  # two best scores that differ by less, of the larger, are a near-tie: int8 moves scores as much as that


class Eager(Expander):
    """Asks the forward model about every proposal of every molecule, as a filter in the model does."""

    def expand(self, molecules: Sequence[str]) -> list[tuple[Proposal, ...]]:
        """Return the proposals for each molecule; all of them are checked then."""
        found = super().expand(molecules)
        self.run_checks([(smiles, way) for smiles, ways in zip(molecules, found, strict=True) for way in ways])
        return found


@dataclass(frozen=True)
class Loop:
    """One way to search.

    Attributes:
        expander: which steps are checked.
        drafter: of both models.
        dtype: "auto" is the app's choice, int8 where the model's card allows it.
    """

    expander: type[Expander]
    drafter: str
    dtype: str


PLAIN = "Syntheseus, standard, fp32"  # the library's default: no drafts, nothing rounded, all steps checked
LOOPS = {
    "ours": Loop(Expander, "auto", "auto"),
    "ours, fp32": Loop(Expander, "auto", "fp32"),
    "ours, standard, fp32": Loop(Expander, "none", "fp32"),
    PLAIN: Loop(Eager, "none", "fp32"),
    "Syntheseus, standard, app's precision": Loop(Eager, "none", "auto"),
}


def run(
    models: Models,
    stock: Stock,
    targets: Sequence[str],
    out: Path,
    settings: PlanSettings,
    *,
    n: int = 10,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> list[dict[str, Any]]:
    """Search routes to each target with each loop in turn, each search on its own: nothing is kept between them.

    Args:
        models: by precision.
        stock: what can be bought.
        targets: SMILES.
        out: one line a target (.jsonl); what is in it and was searched in this way is not done again.
        settings: the limits, the same for all loops.
        n: proposals asked for a molecule.
        progress: is told how many targets of how many are done.

    Returns:
        The lines of `out` that belong to the targets.
    """
    how = _how(models, stock, settings, n)
    lines = out.read_text(encoding="utf-8").splitlines(keepends=True) if out.exists() else []
    whole = [line for line in lines if line.endswith("\n")]  # the last is torn where the run was killed
    write_text_atomic(out, "".join(whole))
    known = {row["target"]: row for row in map(json.loads, whole) if row.get("how") == how}
    if any(target not in known for target in targets):  # what a first question costs is nobody's
        for name in LOOPS:
            _search(models, stock, targets[0], replace(settings, expansions=1), n, name)
    for number, target in enumerate(targets):
        if target not in known:
            names = list(LOOPS)
            turn = number % len(names)  # none always comes first
            found = {name: _search(models, stock, target, settings, n, name) for name in names[turn:] + names[:turn]}
            line = json.dumps({"target": target, "how": how, "loops": found})
            with out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            known[target] = json.loads(line)
        progress(number + 1, len(targets))
    return [known[target] for target in targets]


def _how(models: Models, stock: Stock, settings: PlanSettings, n: int) -> str:
    """Return a digest of all that has a say in what is found and how fast."""
    weights = {dtype: [(model.digest, model.dtype) for model in pair] for dtype, pair in models.items()}
    lists = {name: hashlib.sha256(keys.tobytes()).hexdigest() for name, keys in stock.lists.items()}
    described = json.dumps([asdict(settings), n, weights, lists], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()[:16]


def _search(models: Models, stock: Stock, target: str, settings: PlanSettings, n: int, name: str) -> dict[str, Any]:
    loop = LOOPS[name]
    retro, forward = models[loop.dtype]
    expander = loop.expander(retro, forward, DecodeSettings(n=n, drafter=loop.drafter), keep=False)
    began = time.process_time()
    found = plan(target, expander, stock, settings)
    return {
        "processor": time.process_time() - began,
        "solved": found.status == "solved",
        "expansions": found.expansions,
        **vars(found.counts),
        "model_seconds": found.counts.seconds,
        "seconds": found.seconds,
        "routes": [sorted(map(list, route.signature)) for route in found.routes],
        "scores": [route.score for route in found.routes],
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row a loop: the share of targets solved, means of a target, and rates."""
    found = []
    plain = [row["loops"][PLAIN] for row in rows]
    for name in LOOPS:
        own = [row["loops"][name] for row in rows]
        total = {key: sum(one[key] for one in own) for key in ("expansions", "processor", "passes", "tokens")}
        rate = 60 * total["expansions"] / max(1e-9, total["processor"])
        base = 60 * sum(one["expansions"] for one in plain) / max(1e-9, sum(one["processor"] for one in plain))
        found.append(
            {
                "loop": name,
                "targets": len(own),
                "solved": mean(one["solved"] for one in own),
                **{
                    f"{key} a target": mean(one[key] for one in own)
                    for key in ("expansions", "molecules", "checks", "calls", "processor", "seconds")
                },
                "tokens a pass": total["tokens"] / max(1, total["passes"]),
                "expansions a minute of processor time": rate,
                "times the plain loop": rate / base,
            }
        )
    return found


def agreement(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row a loop: how its best routes compare with the plain loop's, target by target; see `difference`."""
    found = []
    for name in LOOPS:
        kinds = Counter(difference(row["loops"][name], row["loops"][PLAIN]) for row in rows)
        found.append({"loop": name, **{kind: kinds[kind] for kind in KINDS}})
    return found


KINDS = (
    "same best route",
    "neither solved",
    "near-tie",
    "the other's best is further down",
    "other routes",
    "solved by this only",
    "solved by the plain loop only",
)


def difference(own: Mapping[str, Any], plain: Mapping[str, Any]) -> str:
    """Return how two results for a target compare, as one of `KINDS`."""
    if own["solved"] != plain["solved"]:
        return "solved by this only" if own["solved"] else "solved by the plain loop only"
    if not own["solved"]:
        return "neither solved"
    if own["routes"][0] == plain["routes"][0]:
        return "same best route"
    if abs(own["scores"][0] - plain["scores"][0]) <= TIE * max(own["scores"][0], plain["scores"][0]):
        return "near-tie"
    is_known = own["routes"][0] in plain["routes"] or plain["routes"][0] in own["routes"]
    return "the other's best is further down" if is_known else "other routes"


def main(
    source: opt.Source = None,
    limit: Annotated[int, option("A random sample of so many test products.")] = 200,
    expansions: Annotated[int, option("Most molecules expanded for a target.")] = 20,
    depth: Annotated[int, option("Most steps one after the other.")] = 6,
    stock: Annotated[list[str] | None, option("As for `chemspec plan`.", "--stock", "-s")] = None,
    out: Annotated[Path, option("What was found (.jsonl), resumable.")] = Path("runs/plan-bench.jsonl"),
    threads: int = 0,
    device: str = "auto",
    as_json: bool = False,
) -> None:
    """Search routes to test products as `chemspec plan` does and with Syntheseus' own loop, by turns on each target.

    Both also in the other's precision, so that one sees what comes of what. Rates are by processor time, which a busy
    machine changes little; `--limit 60 --threads 1` takes about five minutes on a quiet core.
    """
    extras.require_packages("syntheseus", "apted", what="planning")
    targets = [item.query for item in read_test_reactions(source, "retro", limit=limit)]
    settings = PlanSettings(expansions=expansions, depth=depth, seconds=3600)
    models = {
        dtype: tuple(load_fastest(task, device=device, dtype=dtype, threads=threads) for task in ("retro", "forward"))
        for dtype in ("auto", "fp32")
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    with console.progress_bar("searching") as report:
        rows = run(models, load_stock(stock or (*PAROUTES, INTERMEDIATES)), targets, out, settings, progress=report)
    found = {"rows": summary(rows), "routes": agreement(rows)}
    if as_json:
        print(json.dumps(found))
        return
    for table in found.values():
        console.print_line(" | ".join(table[0]))
        for row in table:
            console.print_line(
                " | ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row.values())
            )


app = script(main)
if __name__ == "__main__":
    app()
