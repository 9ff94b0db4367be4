"""Compare many requests of one query with one request: `python tests/programs/small_requests.py URL FILE`.

Against a running service, such as `chemspec serve --port 8000 --threads 1 --model retro`. Both ways take turns with the
same queries, first one and then the other, with other queries in every turn; times are those of the clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script

from chemspec.cli import options as opt
from chemspec.client import Client
from chemspec.io import readers
from chemspec.tasks import check_task
from chemspec.terminal import console


def timed(send: Any, requests: Sequence[Sequence[str]], clients: int) -> float:
    """Return the seconds in which requests by so many clients are answered."""
    with ThreadPoolExecutor(clients) as pool:
        began = time.perf_counter()
        list(pool.map(send, requests))
        return time.perf_counter() - began


def main(
    url: Annotated[str, typer.Argument(help="Address of the service.")],
    file: Annotated[Path, typer.Argument(help="File of queries.")],
    task: Annotated[str, option("retro or forward.", "-t")] = "retro",
    queries: Annotated[int, option("Queries of a turn.")] = 240,
    clients: Annotated[int, option("Clients of the small requests.")] = 16,
    turns: Annotated[int, option("Turns.")] = 4,
) -> None:
    """Compare requests of one query each with one request of all, greedy."""
    client, texts = Client(url), readers.read_queries(file, task=check_task(task))
    if len(texts) < turns * queries:
        raise ValueError(f"{file} has {len(texts)} queries; {turns} turns need {turns * queries}")

    def send(part: Sequence[str]) -> Any:
        return client.request("POST", "/v1/predict", {"queries": list(part), "task": task, "n": 1, "decoder": "greedy"})

    send(texts[-4:])
    spent = {"small": 0.0, "one": 0.0}
    for turn in range(turns):
        part = texts[turn * queries : (turn + 1) * queries]
        ways = {
            "small": partial(timed, send, [[text] for text in part], clients),
            "one": partial(timed, send, [part], 1),
        }
        seconds = {way: ways[way]() for way in (sorted(ways) if turn % 2 else sorted(ways)[::-1])}
        for way, taken in seconds.items():
            spent[way] += taken
        console.print_json({"turn": turn, **{way: round(taken, 2) for way, taken in seconds.items()}})
    ratio = round(spent["small"] / spent["one"], 3)
    console.print_json({"times as long": ratio, "queries": turns * queries, "command": opt.command_line()})


app = script(main)
if __name__ == "__main__":
    app()
