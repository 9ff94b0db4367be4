"""Times greedy decoding with each learned drafter by turns, query by query: `python tests/programs/learned_times.py`.

Drafting is fixed, so that each drafter is used whether or not it pays on this machine; `auto` is planned as by default.
Printed are passes and tokens per pass, the median of milliseconds, and the median of the speed-ups over the queries
with its 95 % interval, for 30 built-in queries, one thread, the minimum of three repeats.
"""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import Any

from by_turns import timed_by_turns

from chemspec import load
from chemspec.asset_files import bench_queries
from chemspec.bench.sweep import paired_ratio
from chemspec.metrics import speed_numbers
from chemspec.settings import DecodeSettings, Task

FIXED = {"drafting": "fixed"}
SETTINGS: dict[str, dict[str, Any]] = {
    "none": {"drafter": "none"},
    "auto": {"drafter": "auto"},
    "mixed": {"drafter": "mixed", **FIXED},
    "ar": {"drafter": "ar", "draft_length": 8, **FIXED},
    "medusa": {"drafter": "medusa", **FIXED},
    "spec_drafter": {"drafter": "spec_drafter", **FIXED},
}
TASKS: tuple[Task, ...] = ("retro", "forward")


def measure(task: Task, dtype: str, queries: int = 30, repeats: int = 3) -> None:
    """Print a row per drafter; raises AssertionError if a drafter changes an output."""
    engine = load(task, dtype=dtype, threads=1)
    texts = bench_queries(task)
    texts = texts[:: len(texts) // queries][:queries]
    settings = [DecodeSettings(decoder="greedy", n=1, batch_size=1, **options) for options in SETTINGS.values()]
    measured = [
        timed_by_turns([partial(engine.predict, [text], each) for each in settings], repeats, time.perf_counter)
        for text in texts
    ]
    for index, name in enumerate(SETTINGS):
        seconds = [best[index] for best, _ in measured]
        results = [decoded[index][0] for _, decoded in measured]
        standard = [decoded[0][0] for _, decoded in measured]
        for result, expected in zip(results, standard, strict=True):
            assert result.hypotheses[0].tokens == expected.hypotheses[0].tokens, (name, result.query)
        numbers = speed_numbers([result.trace for result in results])
        ratio, low, high = paired_ratio([best[0] for best, _ in measured], seconds)
        print(
            f"{task} | {dtype} | {name} | {numbers.passes / len(texts):.1f} | {numbers.tokens_per_pass:.2f} | "
            f"{1e3 * median(seconds):.1f} | {ratio:.2f} ({low:.2f}-{high:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    for each_task in TASKS:
        for precision in ("fp32", "int8"):
            measure(each_task, precision)
