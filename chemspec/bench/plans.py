"""Searches for routes against each other: ours, ours with standard decoding, and Syntheseus' own loop."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from chemspec.plan.expand import Expander, Model, Proposal
from chemspec.plan.search import PlanSettings, plan
from chemspec.plan.stock import Stock
from chemspec.settings import DecodeSettings


class Eager(Expander):
    """Asks the forward model about every proposal of every molecule, as a filter in the model does."""

    def expand(self, molecules: Sequence[str]) -> list[tuple[Proposal, ...]]:
        """Return the proposals for each molecule; all of them are checked then."""
        found = super().expand(molecules)
        self.check([(smiles, way) for smiles, ways in zip(molecules, found, strict=True) for way in ways])
        return found


# Of each loop: the class of its expander, its drafter, and whether it looks ahead.
LOOPS: dict[str, tuple[type[Expander], str, bool]] = {
    "speculative": (Expander, "auto", True),
    "standard decoding": (Expander, "none", True),
    "Syntheseus": (Eager, "none", False),
}


def run(
    retro: Model,
    forward: Model | None,
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
        retro: proposes.
        forward: checks, if given.
        stock: what can be bought.
        targets: SMILES.
        out: one line a target (.jsonl); what is in it is not done again.
        settings: the limits, the same for all loops.
        n: proposals asked for a molecule.
        progress: is told how many targets of how many are done.

    Returns:
        The lines of `out` that belong to the targets.
    """
    known = {row["target"]: row for row in map(json.loads, out.read_text().splitlines())} if out.exists() else {}
    for number, target in enumerate(targets):
        if target not in known:
            found = dict(_search(retro, forward, stock, target, settings, n, number))
            line = json.dumps({"target": target, "loops": found})
            with out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            known[target] = json.loads(line)
        progress(number + 1, len(targets))
    return [known[target] for target in targets]


def _search(
    retro: Model, forward: Model | None, stock: Stock, target: str, settings: PlanSettings, n: int, turn: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    names = list(LOOPS)
    for name in names[turn % len(names) :] + names[: turn % len(names)]:  # none always comes first
        kind, drafter, ahead = LOOPS[name]
        expander = kind(retro, forward, DecodeSettings(n=n, drafter=drafter), keep=False)
        began = time.process_time()
        found = plan(target, expander, stock, settings if ahead else replace(settings, ahead=0))
        yield (
            name,
            {
                "processor": time.process_time() - began,
                "solved": found.status == "solved",
                "expansions": found.expansions,
                **vars(found.counts),
                "model_seconds": found.counts.seconds,
                "seconds": found.seconds,
                "routes": sorted(sorted(map(list, route.signature)) for route in found.routes[:5]),
                "scores": [route.score for route in found.routes],
            },
        )


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row a loop: shares, means of a target, and rates."""
    found = []
    for name in LOOPS:
        own = [row["loops"][name] for row in rows]
        other = [row["loops"]["Syntheseus"] for row in rows]
        total = {key: sum(one[key] for one in own) for key in ("expansions", "processor", "passes", "tokens")}
        found.append(
            {
                "loop": name,
                "targets": len(own),
                "solved": mean(one["solved"] for one in own),
                "same best route": mean(
                    one["routes"][:1] == two["routes"][:1] for one, two in zip(own, other, strict=True)
                ),
                "same 5 routes": mean(one["routes"] == two["routes"] for one, two in zip(own, other, strict=True)),
                **{
                    f"{key} a target": mean(one[key] for one in own)
                    for key in ("expansions", "molecules", "checks", "calls", "processor", "seconds")
                },
                "tokens a pass": total["tokens"] / max(1, total["passes"]),
                "expansions a minute of processor time": 60 * total["expansions"] / max(1e-9, total["processor"]),
            }
        )
    return found
