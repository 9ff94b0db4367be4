"""Peak memory, time and energy of decoding by drafter and batch size (X, tables 8, 10 and 15).

    python tests/programs/footprint.py --out assets/docs/raw/footprint.csv

Every row is measured in a process of its own, greedily, with fixed drafting, on built-in queries. Memory is the peak of
the process (on a GPU that of torch on it), once with the weights loaded and one query answered, and once at the end.
Energy is read from RAPL where Linux lets this process read it; elsewhere it is an estimate, processor seconds times
`--watts`, and the row says so. It leaves out idle power, which X's formula leaves out, too.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chemspec import load
from chemspec.asset_files import bench_queries
from chemspec.engine.registry import drafter_megabytes, weights_megabytes
from chemspec.settings import DecodeSettings

DRAFTERS = ("none", "mixed", "ar", "medusa", "blockwise", "spec_drafter")
BATCHES = (1, 8, 32)
RAPL = Path("/sys/class/powercap/intel-rapl:0/energy_uj")
LENGTHS = {"ar": 7}  # adaptive lengths would make the machine decide what is compared


def measure(task: str, drafter: str, batch: int, queries: int, watts: float, device: str) -> dict[str, Any]:
    """Return the row of one drafter and batch size, measured in this process."""
    engine = load(task, threads=1, device=device)
    length = LENGTHS.get(drafter, 0)
    settings = DecodeSettings(
        decoder="greedy", n=1, drafter=drafter, batch_size=batch, drafting="fixed", draft_length=length
    )
    texts = list(bench_queries(task))[:queries]
    engine.predict(texts[:1], settings)  # loads the drafter
    loaded = peak_megabytes(device)
    began, processor, energy = time.perf_counter(), time.process_time(), _joules()
    results = engine.predict(texts, settings)
    seconds, processor, after = time.perf_counter() - began, time.process_time() - processor, _joules()
    is_read = energy is not None and after is not None
    joules = after - energy if energy is not None and after is not None else watts * processor
    return {
        "task": task,
        "drafter": drafter,
        "batch": batch,
        "queries": len(results),
        "model_mb": round(weights_megabytes(engine.folder), 1),
        "drafter_mb": round(drafter_megabytes(engine.folder, drafter), 1),
        "loaded_mb": round(loaded, 1),
        "peak_mb": round(peak_megabytes(device), 1),
        "ms_per_query": round(1e3 * seconds / len(results), 2),
        "processor_ms_per_query": round(1e3 * processor / len(results), 2),
        "joules_per_query": round(joules / len(results), 3),
        "energy": "RAPL, whole package" if is_read else f"estimate: {watts:g} W per busy core",
    }


def peak_megabytes(device: str) -> float:
    """Return the largest memory so far, of this process or of torch on its GPU, in megabytes."""
    if device != "cpu":
        import torch

        return torch.cuda.max_memory_allocated() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _joules() -> float | None:
    try:
        return int(RAPL.read_text()) / 1e6
    except OSError:
        return None


def parse(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="retro")
    parser.add_argument("--queries", type=int, default=64, help="queries of a row")
    parser.add_argument("--watts", type=float, default=10.0, help="of a busy core, where there is no RAPL")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--drafters", nargs="+", default=DRAFTERS)
    parser.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    parser.add_argument("--out", type=Path, default=Path("runs/footprint.csv"))
    parser.add_argument("--row", nargs=2, metavar=("DRAFTER", "BATCH"), help="measure this row here, and print it")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> None:
    """Measure one row here, or all rows in processes of their own."""
    options = parse(given)
    shared = options.task, options.queries, options.watts, options.device
    if options.row:
        task, queries, watts, device = shared
        print(json.dumps(measure(task, options.row[0], int(options.row[1]), queries, watts, device)))
        return
    names = ("--task", "--queries", "--watts", "--device")
    words = [word for name, value in zip(names, shared, strict=True) for word in (name, str(value))]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", encoding="utf-8", newline="") as file:
        writer = None
        for drafter in options.drafters:
            for batch in options.batches:
                command = [sys.executable, __file__, *words, "--row", drafter, str(batch)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    print(f"{drafter}, batch {batch}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                    continue
                row = json.loads(done.stdout.splitlines()[-1])
                writer = writer or csv.DictWriter(file, list(row), lineterminator="\n")
                if file.tell() == 0:
                    writer.writeheader()
                writer.writerow(row)
                file.flush()
                print(row, flush=True)


if __name__ == "__main__":
    main()
