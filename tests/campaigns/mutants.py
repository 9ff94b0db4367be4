"""Mutation testing: change one thing of the program at a time, and see whether the nearest tests notice.

    python tests/campaigns/mutants.py --sample 300            # the seed is the date; another sample every night
    python tests/campaigns/mutants.py --sample 40 --only chemspec/plan --seed 7

Mutants of Python are made from its syntax tree, those of C++ from its text. Each runs the test files that are nearest:
those named like the module, else those of its folder that import it, then those of its users, in a copy of the program.
A mutant that no test notices survives; who has read it writes a test, or a line of `equivalent_mutants.jsonl` if nobody
could notice it.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from copies import copy_program
from groups import DEFAULT
from paths import ROOT, TESTS

FOLDERS = ("decode", "draft", "engine", "plan", "review", "io", "jobs", "service", "chem", "system", "precedents")
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.jsonl")
SECONDS = 240.0  # for the tests of one mutant; what takes longer is noticed, as it would be by a person
NEAREST, FURTHER = 3, 5  # test files at most
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "True": "False", "False": "True"}
CPP = {
    " < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ", " != ": " == ", " && ": " || ",
    " || ": " && ", " + ": " - ", " - ": " + ", " * ": " / ", " / ": " * ", "std::min": "std::max",
    "std::max": "std::min", "true": "false", "false": "true", "++": "--", "if (!": "if (", "if (": "if (!",
}  # fmt: skip


class Mutant(NamedTuple):
    """A place of a file, from and to in characters, and what stands there instead."""

    file: str
    start: int
    end: int
    text: str


def changed(node: ast.expr | ast.stmt) -> Iterator[ast.AST]:
    """What may stand in the place of a node of the syntax tree."""
    match node:
        case ast.Compare(left, [op], [right]) if type(op) in SWAPS:
            yield ast.Compare(left, [SWAPS[type(op)]()], [right])
        case ast.BoolOp(op, values):
            yield ast.BoolOp(SWAPS[type(op)](), values)
        case ast.BinOp(left, op, right) if type(op) in SWAPS:
            yield ast.BinOp(left, SWAPS[type(op)](), right)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.Name(name) if name in NAMES:
            yield ast.Name(NAMES[name])
        case ast.Return(value) if value is not None and not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(ast.Call()) | ast.AugAssign():
            yield ast.Pass()
        case ast.If(test, [ast.Continue() | ast.Break() | ast.Return() | ast.Raise()], []):
            yield ast.Pass()


@cache
def source_of(file: Path) -> str:
    """A source file as it was when the run began."""
    return file.read_text(encoding="utf-8")


def mutants_of(file: Path) -> list[Mutant]:
    """Every mutant of a source file."""
    source, name = source_of(file), str(file.relative_to(ROOT))
    if file.suffix != ".py":
        code = re.sub(r"//.*|/\*.*?\*/|#.*|\"[^\"\n]*\"", lambda found: " " * len(found[0]), source)
        places = [(found.start(), old) for old in CPP for found in re.finditer(re.escape(old), code)]
        return [Mutant(name, at, at + len(old), CPP[old]) for at, old in sorted(places)]
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def place(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    tree, found = ast.parse(source), []
    skipped = {id(inner) for node in ast.walk(tree) for part in _without_effect(node) for inner in ast.walk(part)}
    for node in ast.walk(tree):
        if id(node) not in skipped and isinstance(node, ast.expr | ast.stmt):
            for new in changed(node):
                text = ast.unparse(ast.fix_missing_locations(new))
                text = text if isinstance(node, ast.stmt) else f"({text})"
                end = place(node.end_lineno or 0, node.end_col_offset or 0)
                found.append(Mutant(name, place(node.lineno, node.col_offset), end, text))
    return sorted(found)


def _without_effect(node: ast.AST) -> Iterator[ast.AST]:
    """Parts that change nothing when they run: annotations, decorators, texts, blocks for type checkers."""
    yield from filter(None, (getattr(node, "annotation", None), getattr(node, "returns", None)))
    yield from (*getattr(node, "decorator_list", ()), *(node.keywords if isinstance(node, ast.ClassDef) else ()))
    if isinstance(node, ast.JoinedStr):
        yield from node.values
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        yield from node.exc.args
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        yield node


@cache
def nearest_tests(file: str) -> list[str]:
    """The test files nearest to a source file: named like it, else of its folder that import it, else all of these."""
    path = Path(file)
    folder = TESTS.joinpath(*path.parts[1:2])
    tests = {test: test.read_text(encoding="utf-8") for test in sorted(folder.glob("test_*.py"))}
    module = path.stem if path.suffix == ".py" else path.parent.name
    dotted = ".".join(path.with_suffix("").parts)
    marks = (f"test_{module}.py", dotted, f"from {dotted.rpartition('.')[0]} import", f".{module}", module)

    def distance(test: Path) -> tuple[bool, bool, int]:
        return test.name != marks[0], dotted not in tests[test], -tests[test].count(module)

    mention = [test for test in tests if test.name == marks[0] or module in tests[test]] or list(tests)
    return [str(test.relative_to(TESTS)) for test in sorted(mention, key=distance)[:NEAREST]]


@cache
def sources() -> dict[str, str]:
    """The text of every module of the program, by its file."""
    return {str(file.relative_to(ROOT)): source_of(file) for file in (ROOT / "chemspec").rglob("*.py")}


@cache
def further_tests(file: str) -> list[str]:
    """The test files nearest to the modules that import this one, without its own: what it breaks shows there."""
    package, _, module = ".".join(Path(file).with_suffix("").parts).rpartition(".")
    uses = re.compile(rf"{re.escape(package)}\.{module}\b|from {re.escape(package)} import [^\n]*\b{module}\b")
    users = [name for name, text in sources().items() if name != file and uses.search(text)]
    counts = Counter(test for name in users for test in nearest_tests(name)[:1])
    own = nearest_tests(file)
    return [test for test, _ in counts.most_common() if test not in own][:FURTHER]


def is_noticed(mutant: Mutant, tree: Path) -> str:
    """Run the nearest tests against a mutant, then those of its users; returns the one that failed, or nothing."""
    return _run_tests(mutant, tree, nearest_tests(mutant.file)) or (
        _run_tests(mutant, tree, further) if (further := further_tests(mutant.file)) else ""
    )


def _run_tests(mutant: Mutant, tree: Path, files: list[str]) -> str:
    path = tree / mutant.file
    source = path.read_text(encoding="utf-8")
    path.write_text(source[: mutant.start] + mutant.text + source[mutant.end :], encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", DEFAULT]
    tests = [str(tree / "tests" / test) for test in files]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTEST_ADDOPTS": "", "HYPOTHESIS_PROFILE": "seeded"}
    environment["CHEMSPEC_TEST_SECONDS"] = str(SECONDS)
    try:
        done = subprocess.run(
            [*words, *tests], cwd=tree, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return "time"
    finally:
        path.write_text(source, encoding="utf-8")
    if done.returncode in (0, 5):
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed[1].partition("/tests/")[2] or failed[1] if failed else f"exit code {done.returncode}"


def described(mutant: Mutant) -> tuple[str, str, str]:
    """A mutant as people read it: file, line before and after; lines outlive edits elsewhere in the file."""
    source = source_of(ROOT / mutant.file)
    begin = source.rfind("\n", 0, mutant.start) + 1
    end = source.find("\n", mutant.end)
    after = source[begin : mutant.start] + mutant.text + source[mutant.end : end]
    return mutant.file, " ".join(source[begin:end].split()), " ".join(after.split())


def all_mutants(only: str = "") -> list[Mutant]:
    """Every mutant that somebody could notice, of the folders and their C++."""
    equivalent = {tuple(json.loads(line)[:3]) for line in EQUIVALENT.read_text(encoding="utf-8").splitlines()}
    files = [
        file
        for name in FOLDERS
        for file in (ROOT / "chemspec" / name).rglob("*")
        if file.suffix in (".py", ".h", ".cpp")
    ]
    chosen = [file for file in sorted(files) if str(file.relative_to(ROOT)).startswith(only)]
    return [mutant for file in chosen for mutant in mutants_of(file) if described(mutant) not in equivalent]


def main() -> None:
    """Run a sample; prints a line a mutant, the survivors and the score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=300, help="number of mutants")
    parser.add_argument("--seed", type=int, default=date.today().toordinal(), help="default: the date")
    parser.add_argument("--only", default="", help="beginning of the files' names")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at once")
    parser.add_argument("--goal", type=float, default=0.0, help="share to be noticed; exit code 1 below it")
    given = parser.parse_args()
    everything = all_mutants(given.only)
    sample = Random(given.seed).sample(everything, min(given.sample, len(everything)))
    print(f"{len(sample)} of {len(everything)} mutants, seed {given.seed}", flush=True)
    survivors: list[Mutant] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(given.jobs):
            trees.put(copy_program(Path(folder, str(number))))

        def run(mutant: Mutant) -> None:
            tree, began = trees.get(), time.monotonic()
            noticed = is_noticed(mutant, tree)
            trees.put(tree)
            print(json.dumps([*described(mutant), noticed, round(time.monotonic() - began)]), flush=True)
            if not noticed:
                survivors.append(mutant)

        list(pool.map(run, sample))
    share = 1 - len(survivors) / max(1, len(sample))
    print(*("\n  ".join(described(mutant)) for mutant in survivors), f"{share:.1%} noticed", sep="\n")
    sys.exit(share < given.goal)


if __name__ == "__main__":
    main()
