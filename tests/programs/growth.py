"""Processor time and memory of what surrounds the model, beside another version of chemspec, by turns.

    python tests/programs/growth.py --other FOLDER
    python tests/programs/growth.py --other FOLDER --cases help plan --turns 3

FOLDER is a checkout of the other version. Each case runs in a new process of each version in turn; the least of the
turns counts. Models are int8 on one thread; cases of many rows have the small random model of the tests.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# In processes of their own, as the memory of a new process is at least that of the one that starts it.
MAKE_MODEL = """
import pathlib, sys
try:
    from helpers.small import tiny_folder
except ImportError:  # e55d0684
    from small import tiny_folder
tiny_folder(pathlib.Path(sys.argv[1]))
"""
MAKE_REACTIONS = """
from chemspec.precedents import installed
for product, reactants, _ in installed().sample(1_000, 0):
    print(f"{reactants}>>{product}")
"""
CASES = Path(__file__).with_name("growth_cases")  # programs that run in both versions
MAKE_ROWS = "import sys, killed_files; print(*killed_files.make_queries(2_000, 0.9), sep='\\n')"
TARGETS = (
    *("CC(C)(C)NCC(O)c1ccc(O)c(CO)c1", "O=C(NCc1ccccc1)c1ccc(OCc2ccccn2)cc1"),
    *("CCN(CC)CC(=O)Nc1c(C)cccc1C", "Cc1ccc(-c2cc(C(F)(F)F)nn2-c2ccc(S(N)(=O)=O)cc2)cc1"),
)
NODES, MOLECULES = 200, (115, 48, 67, 105)  # nodes of a tree that e55d0684 expands, and the different molecules in them
PLAN = f"""
import math, time, chemspec.plan.expand
from chemspec.plan.search import plan
from chemspec.plan.settings import PlanSettings
try:
    from chemspec.stock.lists import load_stock
    limits = {MOLECULES}
except ImportError:  # e55d0684
    from chemspec.plan.stock import load_stock
    limits = 4 * ({NODES},)
expander = chemspec.plan.expand.load_expander(dtype="int8", threads=1)
expander._store = None
stock = load_stock(["common", "paroutes-n1"])
plan("CC(=O)Nc1ccccc1", expander, stock, PlanSettings(expansions=2))
began = time.process_time()
for target, limit in zip({TARGETS}, limits):
    plan(target, expander, stock, PlanSettings(seconds=math.inf, expansions=limit))
print(time.process_time() - began)
"""
REVIEW = """
import sys, time, chemspec
from dataclasses import replace
from importlib import import_module
from chemspec.precedents import installed
from chemspec.review import StepChecker, load_engines, review_document
from chemspec.settings import DecodeSettings
task = sys.argv[1]
engines = load_engines(("forward", "reagents"), threads=1, dtype="int8") if task == "retro" else {}
checker = StepChecker(engines.get("forward"), engines.get("reagents"), installed())
engine = chemspec.load(task, dtype="int8", threads=1)
queries = open(sys.argv[2]).read().split()
results = engine.predict(queries[:16], DecodeSettings(n=10, distinct=True))
began = time.process_time()
results += engine.predict(queries[16:48], DecodeSettings(n=10, distinct=True))
predicted = time.process_time()
module = import_module("chemspec.review.review")
for first in range(0, 48, 16):
    if first == 16:
        reviewing = time.process_time()
    block = results[first : first + 16]
    if hasattr(module, "review_results"):
        reviews = module.review_results(task, block, checker, heads=8, described=5)
    else:  # e55d0684
        reviews = [module.review_result(task, result, checker, heads=8, described=5) for result in block]
    for review in reviews:  # as in a job: five cards
        review_document(replace(review, suggestions=review.suggestions[:5]))
print(1000 * (predicted - began) / 32, 1000 * (time.process_time() - reviewing) / 32)
"""

# Seconds and megabytes beyond the imports: rows of a stub model written, or read again; a table read.
FILES = """
import resource, sys, time
from pathlib import Path
from types import SimpleNamespace
from chemspec.io.readers import read_queries
from chemspec.io.writers import predict_file
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Hypothesis
what, path = sys.argv[1], Path(sys.argv[2])
tokens = tuple("CC(=O)Nc1ccc(O)cc1CC(C)N")
answer = Hypothesis("".join(tokens), "".join(tokens), True, tokens, (-0.1,) * 25, -2.5, 0.2, 0.2)
def predict(queries, settings, progress=None):
    return [DecodeResult(query, "ok", "", (answer,) * 5) for query in queries]
model = SimpleNamespace(digest="0" * 16, full_digest="0" * 64, dtype="int8", predict=predict, task="retro")
def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
if path.suffix == ".parquet":
    import pyarrow.parquet
if what == "cells":
    lines = ["smiles,note", *100 * ["CCO," + 1_000_000 * "x"]]
if what == "columns":
    names = [f"{column}.{column % 9}" for column in range(1, 1_000)]
    lines = [",".join(["smiles", *names]), *2_000 * [",".join(["CCO", *names])]]
if what != "rows":
    with path.open("w") as file:
        file.writelines(line + "\\n" for line in lines)
began, before = time.process_time(), megabytes()
try:
    if what in ("cells", "columns"):
        read_queries(path)
    else:
        queries = [f"C{number}" for number in range(20_000)]
        predict_file(model, queries, path, DecodeSettings(n=5))
except ValueError as error:
    print("refused:", str(error)[-60:])
else:
    seconds, size = time.process_time() - began, path.stat().st_size / 1e6
    print(f"{seconds:.2f} s, {megabytes() - before:.0f} MB for a file of {size:.1f} MB")
"""


class Cost(NamedTuple):
    """What a process has cost."""

    seconds: float
    megabytes: float
    printed: str  # its last line


def run(command: list[str], tree: Path, home: Path) -> Cost:
    """Run a command in a version; returns user and system seconds, the most memory, and its last line."""
    folders = {name: str(home / tree.name / name) for name in ("CHEMSPEC_HOME", "CHEMSPEC_CACHE")}
    native = "prebuilt" if tree == ROOT else ""  # a kernel compiled in the background would count too
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "CHEMSPEC_NATIVE": native, **folders}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=tree, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        output.seek(0)
        lines = output.read().decode().strip().splitlines()
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"{' '.join(command)[:200]} ended with status {status} in {tree}: {lines[-1:]}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000, lines[-1] if lines else "")


def make_inputs(home: Path, trees: Sequence[Path]) -> None:
    """Write a small random model for each version, a file of 2,000 rows, and reactions of the index of precedents."""

    def run_with_tests(tree: Path, *command: str) -> str:
        paths = os.pathsep.join(map(str, (tree, tree / "tests", tree / "tests" / "programs")))
        environment = {**os.environ, "PYTHONPATH": paths}
        return subprocess.run(
            [sys.executable, "-c", *command], check=True, cwd=tree, env=environment, stdout=-1, text=True
        ).stdout

    for tree in trees:
        run_with_tests(tree, MAKE_MODEL, str(home / tree.name / "model"))
    (home / "rows.smi").write_text(run_with_tests(ROOT, MAKE_ROWS))
    (home / "reactions.txt").write_text(run_with_tests(ROOT, MAKE_REACTIONS))


def cases(home: Path) -> dict[str, list[str]]:
    """Return the command of each case, by its name; `OUT` stands for a file of its own."""
    examples = ROOT / "assets" / "examples"
    molecules = (examples / "bench_retro.smi").read_text().split()
    for name, queries in {"different": molecules[:100], "repeated": 10 * molecules[:10]}.items():
        (home / f"{name}.smi").write_text("\n".join(queries))
    tiny = ["-m", "MODEL", "-n", "2", "--max-len", "16", "--task", "retro", "--threads", "1"]
    shipped = ["--task", "retro", "--dtype", "int8", "--threads", "1", "-n", "5"]
    predict = ["-m", "chemspec.cli", "predict"]
    files = {
        f"rows.{kind}{again}": ["-c", FILES, "rows", f"{'SAME' if again else 'OUT'}.{kind}"]
        for kind, again in (("csv", ""), ("csv", " again"), ("jsonl", ""), ("jsonl", " again"), ("parquet", ""))
    }
    files |= {what: ["-c", FILES, what, "OUT.csv"] for what in ("cells", "columns")}
    return files | {
        "help": ["-m", "chemspec.cli", "--help"],
        "answer": [*predict, "CCO", "--task", "forward", "--threads", "1"],
        "different": [*predict, f"{home}/different.smi", *shipped, "-o", "OUT.csv"],
        "repeated": [*predict, f"{home}/repeated.smi", *shipped, "-o", "OUT.csv"],
        "jsonl": [*predict, f"{home}/rows.smi", *tiny, "-o", "OUT.jsonl"],
        "jsonl again": [*predict, f"{home}/rows.smi", *tiny, "-o", "SAME.jsonl"],
        "parquet": [*predict, f"{home}/rows.smi", *tiny, "-o", "OUT.parquet"],
        "plan": ["-c", PLAN],
        "precursors": ["-c", REVIEW, "retro", str(examples / "bench_retro.smi")],
        "products": ["-c", REVIEW, "forward", str(examples / "bench_forward.smi")],
        "long": [str(CASES / "long_queries.py")],
        "requests": [str(CASES / "service_requests.py"), str(examples)],
        "jobs": [str(CASES / "batch_jobs.py"), str(examples)],
        "plan growth": [str(CASES / "plan_growth.py")],
        "index": [str(CASES / "precedent_index.py"), str(home / "reactions.txt")],
        "page": [str(CASES / "first_page.py")],
    }


def measure(name: str, command: Sequence[str], trees: Sequence[Path], home: Path, turns: int) -> dict[Path, list[Cost]]:
    """Run a case in each version in turn; returns what each turn has cost."""
    costs: dict[Path, list[Cost]] = {tree: [] for tree in trees}
    for turn in range(turns):
        for tree, list_of_costs in costs.items():
            out = home / f"{tree.parent.name}-{tree.name}-{name.split()[0]}"
            target = {f"OUT{end}": f"{out}-{turn}{end}" for end in (".csv", ".jsonl", ".parquet")}
            target |= {f"SAME{end}": f"{out}-0{end}" for end in (".csv", ".jsonl")}
            target |= {"MODEL": str(home / tree.name / "model")}
            list_of_costs.append(run([target.get(word, word) for word in command], tree, home))
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, required=True, help="a checkout of the other version")
    parser.add_argument("--cases", nargs="+", help="names of cases; default: all")
    parser.add_argument("--turns", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        make_inputs(home, (given.other.resolve(), ROOT))
        for name, command in cases(home).items():
            if given.cases and name not in given.cases:
                continue
            try:
                costs = measure(name, command, (given.other.resolve(), ROOT), home, given.turns)
            except RuntimeError as error:  # which must not cost the other cases
                print(f"{name}: {error}", flush=True)
                continue
            for tree, list_of_costs in costs.items():
                least = min(list_of_costs)
                printed = "" if command[0] == "-m" else least.printed
                print(f"{name}: {tree.name}: {least.seconds:.2f} s, {least.megabytes:.0f} MB {printed}", flush=True)


if __name__ == "__main__":
    main()
