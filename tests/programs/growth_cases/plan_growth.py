"""A plan that grows on one cache: processor time added, different molecules, forward checks and memory at each size."""

import math
import resource
import sys
import time

from chemspec.plan import expand
from chemspec.plan.search import plan
from chemspec.plan.settings import PlanSettings

try:
    from chemspec.stock.lists import load_stock

    # Different molecules among as many nodes of the tree.
    LIMITS = (18, 39, 67)
except ImportError:  # e55d0684: nodes of the tree
    from chemspec.plan.stock import load_stock

    LIMITS = (20, 50, 200)
TARGET = "CCN(CC)CC(=O)Nc1c(C)cccc1C"


def main() -> None:
    expander = expand.load_expander(dtype="int8", threads=1)
    expander._store = None
    stock = load_stock(["common", "paroutes-n1"])
    plan("CC(=O)Nc1ccccc1", expander, stock, PlanSettings(expansions=2))
    texts = []
    for limit in [*map(int, sys.argv[1:])] or LIMITS:
        began = time.process_time()
        counts = plan(TARGET, expander, stock, PlanSettings(seconds=math.inf, expansions=limit)).counts
        added = time.process_time() - began
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        texts.append(
            f"{limit}: +{added:.1f} s, +{counts.molecules} molecules, +{counts.checks} checks, {memory:.0f} MB"
        )
    print("; ".join(texts))


if __name__ == "__main__":
    main()
