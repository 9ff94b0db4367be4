"""A service: ten requests of fifty rows, four at once; its processor time and memory, and the order of the answers."""

import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import Request, urlopen

REQUESTS, ROWS, CLIENTS = 10, 50, 4
TICKS = os.sysconf("SC_CLK_TCK")


def main(examples: str) -> None:
    molecules = (Path(examples) / "bench_retro.smi").read_text().split()
    command = [sys.executable, "-m", "chemspec.cli", "serve", "--port", "0", "--threads", "1", "--dtype", "int8"]
    server = subprocess.Popen(
        [*command, "--timeout", "600"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert server.stdout
    address = next(match[0] for line in server.stdout if (match := re.search(r"http://127\.0\.0\.1:\d+", line)))

    def ask(number: int) -> float:
        start = number * 5 % len(molecules)
        queries = (molecules * 2)[start : start + ROWS]
        body = json.dumps({"queries": queries, "task": "retro", "n": 5, "distinct": True}).encode()
        request = Request(f"{address}/v1/predict", body, {"Content-Type": "application/json"})
        answer = json.load(urlopen(request, timeout=600))
        assert [row["status"] for row in answer["results"]] == ROWS * ["ok"]
        return time.monotonic()

    def cost() -> tuple[float, float]:
        stat = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, stat[11:13])) / TICKS, int(stat[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    try:
        ask(0)
        before, started = cost()
        with ThreadPoolExecutor(CLIENTS) as pool:
            ended = [*pool.map(ask, range(REQUESTS))]
        after, memory = cost()
    finally:
        server.terminate()
        server.wait()
    late = sum(any(later < end for later in ended[number + 1 :]) for number, end in enumerate(ended))
    rows = REQUESTS * ROWS
    print(
        f"{1000 * (after - before) / rows:.1f} ms a row, memory {started:.0f} and {memory:.0f} MB; "
        f"{late} requests that end after a later one"
    )


if __name__ == "__main__":
    main(sys.argv[1])
