"""Kills `chemspec predict FILE` several times on its way, and compares the file with that of one run.

    python tests/programs/killed_files.py
    python tests/programs/killed_files.py --rows 100000 --repeats 0.9 --kills 3

A file with many repeats, the small random model of the tests, `.jsonl` and `.csv`. A run is killed (SIGKILL) when it
has written a share of the bytes of the whole. Rows must be the same but for what is measured: seconds, and forward
passes, which may depend on the queries that share a batch.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from helpers.small import tiny_folder

MEASURED = ("seconds", "passes", "forward_passes", "savings", "tokens_per_pass", "stats", "trace", "speed", "timings")


def make_queries(rows: int, repeats: float, seed: int = 0) -> list[str]:
    """Return the queries of a file: so many distinct molecules, and the others repeats of them in random places."""
    chains = ["C" * length for length in range(1, 16)]
    heads = [start + chain for start in ("", "O", "N", "Cl", "Br", "F", "N#C", "OC(=O)") for chain in chains]
    tails = [chain + end for end in ("", "O", "N", "Cl", "Br", "F", "C#N", "C(=O)O") for chain in chains]
    distinct = max(1, round(rows * (1 - repeats)))
    molecules = [f"{head}c1ccc({tail})nc1" for head, tail in product(heads, tails)]  # 14,400
    rng = random.Random(seed)
    chosen = rng.sample(molecules, distinct)
    queries = chosen + rng.choices(chosen, k=rows - distinct)
    rng.shuffle(queries)
    return queries


def command_of(model: Path, source: Path, out: Path) -> list[str]:
    options = ["-n", "2", "--max-len", "16", "--threads", "1", "--task", "retro"]
    return [sys.executable, "-m", "chemspec.cli", "predict", str(source), "-m", str(model), "-o", str(out), *options]


def run_killed(command: list[str], out: Path, sizes: list[int]) -> int:
    """Run a command again and again until it ends; kills it when its output has each of these sizes."""
    kills = 0
    for size in (*sizes, None):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            if size is not None and out.exists() and out.stat().st_size >= size:
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.005)
        if process.wait() not in (0, -signal.SIGKILL):
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return kills


def plain_rows(file: Path) -> list[Any]:
    """Return the rows of a file without what is measured."""
    if file.suffix == ".csv":
        lines = file.read_text("utf-8").splitlines()
        header = lines[0].split(",")
        aside = {k for k, name in enumerate(header) if name in MEASURED}
        return [[cell for k, cell in enumerate(line.split(",")) if k not in aside] for line in lines]
    return [_without(json.loads(line)) for line in file.read_text("utf-8").splitlines()]


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(part) for key, part in value.items() if key not in MEASURED}
    return [_without(part) for part in value] if isinstance(value, list) else value


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--repeats", type=float, default=0.9, help="share of the rows that repeat another")
    parser.add_argument("--kills", type=int, default=3)
    given = parser.parse_args(arguments)
    differing = 0
    with tempfile.TemporaryDirectory() as home:
        folder, source = Path(home), Path(home, "queries.smi")
        model = tiny_folder(folder / "model")
        source.write_text("\n".join(make_queries(given.rows, given.repeats)) + "\n")
        for ending in (".jsonl", ".csv"):
            whole, killed = folder / f"whole{ending}", folder / f"killed{ending}"
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command_of(model, source, whole), check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            total = whole.stat().st_size
            sizes = [total * (k + 1) // (given.kills + 1) for k in range(given.kills)]
            kills = run_killed(command_of(model, source, killed), killed, sizes)
            rows = plain_rows(whole), plain_rows(killed)
            unequal = sum(a != b for a, b in zip(*rows, strict=False)) + abs(len(rows[0]) - len(rows[1]))
            differing += unequal
            print(
                f"{ending}: {given.rows:,} rows, {total / 1e6:.1f} MB in {seconds:.1f} s of processor time, "
                f"{after.ru_maxrss / 1000:.0f} MB; killed {kills} times: {len(rows[1]):,} lines, {unequal} differ",
                flush=True,
            )
    return int(differing > 0)


if __name__ == "__main__":
    raise SystemExit(main())
