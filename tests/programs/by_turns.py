"""Times decoding with and without drafts by turns, query by query, and searches that reuse a narrower beam's cache.

    python tests/programs/by_turns.py --task retro --dtype int8 --threads 1 --batch 1 --widths 1,2,3,5,10,20
    python tests/programs/by_turns.py --task retro --source retro_test.csv.gz --limit 200 --widths 5,10,20
    python tests/programs/by_turns.py --task retro --wider

The first prints, for each beam width, the time without drafts divided by that with the drafter: of every query (or
batch) the minimum of the repeats, summed; processor time with one thread, else wall time. The second takes the first
queries of a test set; parked hypotheses show in the numbers of nodes. The third compares, for built-in queries whose
list of five distinct molecules needs a wider beam, that search with the same beams from nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from chemspec import load
from chemspec.bench.speed import read_queries
from chemspec.engine.engine import Engine
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult


def timed_by_turns(
    calls: Sequence[Callable[[], Any]], repeats: int, clock: Callable[[], float]
) -> tuple[list[float], list[Any]]:
    """Return the minimal seconds of each call, after a warm-up, and the last results."""
    best, results = [float("inf")] * len(calls), [None] * len(calls)
    for turn in range(repeats + 1):
        for index in sorted(range(len(calls)), reverse=turn % 2 == 1):
            began = clock()
            results[index] = calls[index]()
            if turn:
                best[index] = min(best[index], clock() - began)
    return best, results


def compare_drafter(
    engine: Engine, queries: Sequence[str], settings: DecodeSettings, repeats: int, clock: Callable[[], float]
) -> str:
    """Return a line with both times, passes, and whether all lists are the same to the last bit."""
    seconds, passes, nodes, same = [0.0, 0.0], [0, 0], [0, 0], True
    for start in range(0, len(queries), settings.batch_size):
        group = list(queries[start : start + settings.batch_size])
        runs = [replace(settings, drafter="none"), settings]
        best, results = timed_by_turns([partial(engine.predict, group, each) for each in runs], repeats, clock)
        for index in range(2):
            seconds[index] += best[index]
            passes[index] += sum(len(result.trace.passes) for result in results[index])
            nodes[index] += sum(step.computed for result in results[index] for step in result.trace.passes)
        same &= _lists(results[0]) == _lists(results[1])
    count = len(queries)
    return (
        f"n {settings.n:<3} {seconds[0] / seconds[1]:.3f} times faster, ms a query {1e3 * seconds[0] / count:.2f} and "
        f"{1e3 * seconds[1] / count:.2f}, passes {passes[0] / count:.1f} and {passes[1] / count:.1f}, "
        f"nodes {nodes[0] / count:.0f} and {nodes[1] / count:.0f}, "
        f"{'same lists' if same else 'LISTS DIFFER'}"
    )


def _lists(results: Sequence[DecodeResult]) -> list[Any]:
    return [[(item.tokens, item.token_log_probs) for item in result.hypotheses] for result in results]


def compare_wider(engine: Engine, queries: Sequence[str], repeats: int, clock: Callable[[], float]) -> str:
    """Return a line about searches that were widened: with the narrower beam's cache, and from nothing."""
    settings = DecodeSettings(n=5, distinct=True, batch_size=1)
    seconds, count = [0.0, 0.0], 0
    for query in queries:
        result = engine.predict(query, settings)
        widths = result.distinct.widths if result.distinct else ()
        if len(widths) < 2:
            continue
        beams = [replace(settings, n=width, distinct=False) for width in widths]
        calls = [partial(engine.predict, query, settings), partial(_predict_each, engine, query, beams)]
        best, _ = timed_by_turns(calls, repeats, clock)
        seconds, count = [a + b for a, b in zip(seconds, best, strict=True)], count + 1
    cached, apart = (1e3 * total / count for total in seconds)
    times = f"{cached:.1f} ms a query, {apart:.1f} from nothing, {apart / cached:.2f} times"
    return f"{count} of {len(queries)} searched wider: {times}"


def _predict_each(engine: Engine, query: str, beams: Sequence[DecodeSettings]) -> list[DecodeResult]:
    return [engine.predict(query, beam) for beam in beams]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="retro")
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--widths", default="1,2,3,5,10,20")
    parser.add_argument("--drafter", default="auto")
    parser.add_argument("--limit", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--source", type=Path, help="a CSV of test reactions; default: built-in queries")
    parser.add_argument("--wider", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    engine = load(given.task, dtype=given.dtype, threads=given.threads)
    clock = time.process_time if given.threads == 1 else time.perf_counter
    queries = [question.query for question in read_queries(engine, given.source, given.limit)]
    if given.wider:
        print(compare_wider(engine, queries, given.repeats, clock))
        return
    for width in map(int, given.widths.split(",")):
        decoder: Any = "greedy" if width == 1 else "beam"
        settings = DecodeSettings(decoder=decoder, n=width, batch_size=given.batch, drafter=given.drafter)
        print(compare_drafter(engine, queries, settings, given.repeats, clock), flush=True)


if __name__ == "__main__":
    main()
