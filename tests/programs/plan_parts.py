"""Processor time of plans by part, cold: the three models, precedents, conditions, evidence, documents, the rest.

What the models take is told apart as well: encoders, passes of the decoders, and reading queries and writing answers.

    python tests/programs/plan_parts.py --expansions 60 TARGET ...

int8, one thread, the built-in stock, the cache on disk unused. The last line has a hash of the routes, which is the
same for any `PYTHONHASHSEED`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import chemspec.plan.expand as expand
import chemspec.review.forward_check as forward_check
from chemspec.decode.compiled.loop import CompiledLoop
from chemspec.model.runners.native.runner import NativeRunner
from chemspec.plan.routes import find_evidence, plan_document
from chemspec.plan.search import plan
from chemspec.plan.settings import PlanSettings
from chemspec.precedents import installed
from chemspec.precedents.search import Precedents
from chemspec.stock.lists import load_stock

TARGETS = (
    *("CC(C)(C)NCC(O)c1ccc(O)c(CO)c1", "O=C(NCc1ccccc1)c1ccc(OCc2ccccn2)cc1"),
    *("CCN(CC)CC(=O)Nc1c(C)cccc1C", "Cc1ccc(-c2cc(C(F)(F)F)nn2-c2ccc(S(N)(=O)=O)cc2)cc1"),
)
SECONDS: defaultdict[str, float] = defaultdict(float)
IN_MODELS = ("encoders", "passes of decoders")  # within the three models
QUERIES: Counter[str] = Counter()


def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, whose processor time is added up."""

    def run(*given: Any, **options: Any) -> Any:
        began = time.process_time()
        try:
            return function(*given, **options)
        finally:
            SECONDS[name] += time.process_time() - began

    return run


def time_models(expander: expand.Expander) -> None:
    """Add up the time and the queries of each model of an expander."""
    for model in (expander._retro, expander._checker.forward, expander._checker.reagents):
        object.__setattr__(model, "model", _Timed(model.model))  # type: ignore[union-attr]


class _Timed:
    def __init__(self, engine: Any) -> None:
        self._engine, self._predict = engine, timed(engine.name, engine.predict)

    def predict(self, queries: Any, settings: Any) -> Any:
        QUERIES[self._engine.name] += len(queries)
        return self._predict(queries, settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=TARGETS)
    parser.add_argument("--expansions", type=int, default=60)
    given = parser.parse_args()
    expander = expand.load_expander(dtype="int8", threads=1)
    expander._store = None
    stock, index = load_stock(["common", "paroutes-n1"]), installed()
    plan("CC(=O)Nc1ccccc1", expander, stock, PlanSettings(expansions=2))  # tables and patterns
    time_models(expander)
    NativeRunner.join = timed(IN_MODELS[0], NativeRunner.join)  # type: ignore[method-assign]
    CompiledLoop.run_passes = timed(IN_MODELS[1], CompiledLoop.run_passes)  # type: ignore[method-assign]
    Precedents.find = timed("precedents of checks", Precedents.find)  # type: ignore[method-assign]
    forward_check.usable_conditions = timed("conditions of checks", forward_check.usable_conditions)
    settings, routes = PlanSettings(seconds=math.inf, expansions=given.expansions), []
    began = time.process_time()
    for target in given.targets:
        result = plan(target, expander, stock, settings)
        before = SECONDS["precedents of checks"]
        evidence = timed("precedents of routes", find_evidence)(result.routes, index)
        SECONDS["precedents of checks"] = before
        routes += timed("documents", plan_document)(result, evidence)["routes"]
        print(f"{result.expansions} molecules: {target}")
    whole = time.process_time() - began
    within = {name: SECONDS.pop(name) for name in IN_MODELS}
    SECONDS["the rest"] = whole - sum(SECONDS.values())
    print(f"{whole / len(given.targets):.2f} s a target")
    for name, seconds in sorted(SECONDS.items(), key=lambda entry: -entry[1]):
        queries = round(QUERIES[name] / len(given.targets)) or ""
        print(f"{seconds / len(given.targets):.2f} s {seconds / whole:4.0%} {queries:>5} {name}")
    of_models = sum(SECONDS[name] for name in QUERIES)
    within["queries read and answers written"] = of_models - sum(within.values())
    for name, seconds in within.items():
        print(f"of the models: {seconds / len(given.targets):.2f} s {seconds / whole:4.0%} {name}")
    print("routes", hashlib.sha256(json.dumps(routes, sort_keys=True).encode()).hexdigest()[:16])


if __name__ == "__main__":
    main()
