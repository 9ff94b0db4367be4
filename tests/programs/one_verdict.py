"""Compare the forward check's verdicts of all ways in: `python tests/programs/one_verdict.py 200`."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import script


def main(
    limit: Annotated[int, typer.Argument(help="Built-in retro queries.")] = 200,
    n: Annotated[int, typer.Option("-n", help="Answers to each query.")] = 3,
) -> None:
    """Print for each way in its verdicts, and how many differ from the library's."""
    os.environ["CHEMSPEC_HOME"] = tempfile.mkdtemp()
    from helpers import verdicts

    engines = verdicts.load_models()
    results = engines["retro"].predict(verdicts.built_in_queries(limit), verdicts.settings(n))
    library: verdicts.Verdicts = {}
    different = 0
    for name, way in verdicts.WAYS.items():
        began = time.perf_counter()
        given = way(engines, results, n)
        library = library or given
        wrong = [key for key, verdict in given.items() if library.get(key) != verdict]
        different += len(wrong)
        counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(Counter(given.values()).items()))
        print(f"{name}: {counts}; {len(wrong)} differ; {time.perf_counter() - began:.1f} s", flush=True)
        for query, reactants in wrong:
            print(f"  {reactants}>>{query}: {given[query, reactants]}, library {library.get((query, reactants))}")
    raise typer.Exit(int(different > 0))


app = script(main)
if __name__ == "__main__":
    app()
