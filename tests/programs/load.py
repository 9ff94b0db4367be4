"""Load-test a running service: `python tests/programs/load.py http://localhost:8000 FILE -t retro`.

Many clients ask at once; each answer is compared with the engine's own.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script

from chemspec.cli import options as opt
from chemspec.client import Client, ServiceError
from chemspec.io import readers
from chemspec.tasks import check_task
from chemspec.terminal import console
from chemspec.types import DecodeResult

Answers = tuple[tuple[str, float], ...]  # SMILES and log-probs, best first
NOISE = 1e-3  # nats by which log-probs may differ where batches change arithmetic; texts must be the same


@dataclass
class Tally:
    """What clients saw.

    Attributes:
        right: queries whose answers were the engine's.
        wrong: queries whose answers were not, by query.
        errors: requests that failed, by message.
        seconds: that every request took.
        elapsed: seconds from the first request to the last answer.
    """

    right: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    elapsed: float = 0.0

    def quantile(self, share: float) -> float:
        """Seconds within which a share of the requests were answered."""
        return sorted(self.seconds)[max(0, ceil(share * len(self.seconds)) - 1)] if self.seconds else 0.0

    def document(self) -> dict[str, Any]:
        """The numbers that matter."""
        return {
            "requests": len(self.seconds),
            "queries": self.right + self.wrong.total(),
            "wrong": self.wrong.total(),
            "errors": self.errors.total(),
            "error_messages": dict(self.errors.most_common(5)),
            "seconds": self.elapsed,
            "queries_per_second": (self.right + self.wrong.total()) / self.elapsed if self.elapsed else 0.0,
            "p50": self.quantile(0.5),
            "p95": self.quantile(0.95),
            "p99": self.quantile(0.99),
        }


def told(results: Sequence[DecodeResult]) -> dict[str, Answers]:
    """Return of every query what the service must answer."""
    return {result.query: tuple((one.smiles, one.log_prob) for one in result.hypotheses) for result in results}


def run(
    url: str,
    expected: Mapping[str, Answers],
    how: Mapping[str, Any],
    *,
    clients: int,
    seconds: float,
    size: int = 1,
    pause: float = 0.0,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Tally:
    """Ask until the time is over, then wait for the last answers.

    Args:
        url: of the service.
        expected: queries, and what the engine answers.
        how: the task and the settings of every request.
        clients: that ask at once, each as soon as it has its answer and has paused.
        seconds: for which new requests are begun.
        size: queries of a request.
        pause: seconds between an answer and the next request of a client.
        progress: is told the seconds gone and in all.
    """
    tally, lock = Tally(), threading.Lock()
    began = time.monotonic()
    client = Client(url, retry_seconds=0.0)

    def ask(number: int) -> None:
        rng, queries = Random(number), list(expected)
        while time.monotonic() < began + seconds:
            time.sleep(pause)
            part = [rng.choice(queries) for _ in range(size)]
            start = time.monotonic()
            try:
                results = client.predict(part, **how)
            except ServiceError as error:
                with lock:
                    tally.errors[str(error)] += 1
                time.sleep(0.1)
                continue
            took = time.monotonic() - start
            with lock:
                tally.seconds.append(took)
                for query, result in zip(part, results, strict=True):
                    found = tuple((one.smiles, one.log_prob) for one in result.answers)
                    if same(found, expected[query]):
                        tally.right += 1
                    else:
                        tally.wrong[query] += 1

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        progress(min(round(seconds), round(time.monotonic() - began)), round(seconds))
        threads[0].join(1.0)
        if not threads[0].is_alive():
            threads = [thread for thread in threads if thread.is_alive()] or threads[:1]
    tally.elapsed = time.monotonic() - began
    return tally


def same(found: Answers, expected: Answers) -> bool:
    """Whether both are the same texts in the same order, with the same log-probs up to arithmetic."""
    return [text for text, _ in found] == [text for text, _ in expected] and all(
        abs(one - other) <= NOISE for (_, one), (_, other) in zip(found, expected, strict=True)
    )


def main(
    url: Annotated[str, typer.Argument(help="Address of the service, such as http://localhost:8000.")],
    queries: Annotated[Path, typer.Argument(help="File of queries (.csv .smi .parquet ...).")],
    task: str,
    model: str = "",
    column: Annotated[str, option("Column of the file with the SMILES.")] = "",
    limit: Annotated[int, option("Number of queries to use; 0: all.")] = 0,
    n: int = opt.DEFAULT.n,
    clients: Annotated[int, option("Clients that send requests at once.")] = 50,
    minutes: Annotated[float, option("Duration of the test.")] = 10.0,
    size: Annotated[int, option("Queries of a request.")] = 1,
    threads: int = 0,
) -> None:
    """Ask a service from many clients at once, and compare each answer with this machine's own.

    Exit code 1 if any request failed or any answer differs.
    """
    asked = list(dict.fromkeys(readers.read_queries(queries, column, check_task(task), console.print_note)))[
        : limit or None
    ]
    engine = opt.load_engine(task, model, threads=threads)
    settings = opt.build_decode_settings("auto", n, True)
    with console.progress_bar("answering here") as report:
        own = engine.predict(asked, settings, progress=lambda done: report(done, len(asked)))
    how = {"task": engine.task, "n": n, "distinct": False, "timeout": 600.0}
    with console.progress_bar("asking the service") as report:
        tally = run(url, told(own), how, clients=clients, seconds=60 * minutes, size=size, progress=report)
    console.print_json({"url": url, "model": engine.name, "clients": clients, "n": n, "size": size, **tally.document()})
    raise typer.Exit(0 if tally.right and not tally.wrong and not tally.errors else 1)


if __name__ == "__main__":
    script(main)()
