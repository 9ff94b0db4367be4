"""Mutation testing: change one thing of the program at a time, and see whether the nearest tests notice.

    python tests/programs/mutants.py --sample 300            # the seed is the date; another sample every night
    python tests/programs/mutants.py --sample 40 --only chemspec/plan --seed 7
    python tests/programs/mutants.py --folder FOLDER --again     # what survived there, with the tests written since

Mutants of Python are made from its syntax tree, those of C++ from its text. Which tests run which line is recorded
once; each mutant runs those of its lines, first of its own folder, in a copy of the program. A mutant that no test
notices survives; who has read it writes a test, or a line of `equivalent_mutants.jsonl` if nobody could notice it.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import date
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from helpers.copies import copy_program
from helpers.paths import ROOT
from mutant_tests import SLOWER, SPARE, Covered, Warm, compile_all, record

FOLDERS = (
    "decode",
    "draft",
    "engine",
    "plan",
    "review",
    "stock",
    "io",
    "jobs",
    "service",
    "chem",
    "system",
    "precedents",
)
RESULTS = "results.jsonl"
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.jsonl")
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


def described(mutant: Mutant) -> tuple[str, str, str]:
    """A mutant as people read it: file, line before and after; lines outlive edits elsewhere in the file."""
    source = source_of(ROOT / mutant.file)
    begin = source.rfind("\n", 0, mutant.start) + 1
    end = source.find("\n", mutant.end)
    after = source[begin : mutant.start] + mutant.text + source[mutant.end : end]
    return mutant.file, " ".join(source[begin:end].split()), " ".join(after.split())


def all_mutants(only: str = "") -> list[Mutant]:
    """Every mutant that somebody could notice, of the folders and their C++."""
    equivalent = {tuple(line[:3]) for line in read_lines(EQUIVALENT)}
    files = [
        file
        for name in FOLDERS
        for file in (ROOT / "chemspec" / name).rglob("*")
        if file.suffix in (".py", ".h", ".cpp")
    ]
    chosen = [file for file in sorted(files) if str(file.relative_to(ROOT)).startswith(only)]
    return [mutant for file in chosen for mutant in mutants_of(file) if described(mutant) not in equivalent]


def read_lines(file: Path) -> list[list[Any]]:
    """Read lines of JSON; none where there is no file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def run_before(folder: Path, everything: Sequence[Mutant]) -> list[Mutant]:
    """Return the mutants of a folder's results that the program still has, and take out those that survived."""
    lines, now = read_lines(folder / RESULTS), {described(mutant): mutant for mutant in everything}
    kept = "".join(json.dumps(line) + "\n" for line in lines if line[3])
    (folder / RESULTS).write_text(kept, encoding="utf-8")
    return [now[key] for line in lines if (key := tuple(line[:3])) in now]


def run(sample: Sequence[Mutant], folder: Path) -> list[list[Any]]:
    """Run a sample in a copy of the program, and add a line for each mutant to `results.jsonl`, which may have some.

    Returns the lines: file, line before and after, the test that failed (or nothing), the number of tests, seconds.
    """
    results, covered = folder / RESULTS, folder / "covered"
    lines = read_lines(results)
    done = {tuple(line[:3]) for line in lines}
    with tempfile.TemporaryDirectory() as temporary:
        (tree := Path(temporary, "tree")).mkdir()
        copy_program(tree)
        record(tree, covered)
        compile_all(tree)
        tests = Covered.read(covered)
        with Warm(tree, Path(temporary)) as warm, results.open("a", encoding="utf-8") as out:
            for mutant in sample:
                if described(mutant) not in done:
                    lines.append(judged(mutant, tree, tests, warm))
                    print(json.dumps(lines[-1]), file=out, flush=True)
            noticing = sorted({line[3] for line in lines if "::" in line[3]})
            unsound = set(warm.run(noticing, SPARE + SLOWER * tests.cost(noticing), whole=True)) if noticing else set()
    return [[*line[:3], "" if line[3] in unsound else line[3], *line[4:]] for line in lines]


def judged(mutant: Mutant, tree: Path, tests: Covered, warm: Warm) -> list[Any]:
    """Run the tests of a mutant; returns its line of the results."""
    path, source, began = tree / mutant.file, source_of(ROOT / mutant.file), time.monotonic()
    times = path.stat()
    chosen = tests.of(mutant.file, source, mutant.start, mutant.end)
    failed: list[str] = []
    path.write_text(source[: mutant.start] + mutant.text + source[mutant.end :], encoding="utf-8")
    try:
        for names in filter(None, chosen):
            failed = failed or warm.run(names, SPARE + SLOWER * tests.cost(names))
    finally:
        path.write_text(source, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # what is compiled of it stays valid
    noticed = failed[0] if failed else ""
    return [*described(mutant), noticed, sum(map(len, chosen)), round(time.monotonic() - began)]


def main() -> None:
    """Run a sample; prints the survivors and the score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=300, help="number of mutants")
    parser.add_argument("--seed", type=int, default=date.today().toordinal(), help="default: the date")
    parser.add_argument("--only", default="", help="beginning of the files' names")
    parser.add_argument("--folder", type=Path, help="for what is recorded and found; the same one goes on there")
    parser.add_argument("--goal", type=float, default=0.0, help="share to be noticed; exit code 1 below it")
    parser.add_argument("--again", action="store_true", help="those that survived in the folder, on the present code")
    given = parser.parse_args()
    everything = all_mutants(given.only)
    if given.again and given.folder is None:
        parser.error("--again needs --folder")
    if given.again:
        sample = run_before(given.folder, everything)
    else:
        sample = Random(given.seed).sample(everything, min(given.sample, len(everything)))
    print(f"{len(sample)} of {len(everything)} mutants, seed {given.seed}", flush=True)
    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        lines = run(sample, folder)
    wanted = set(map(described, sample))
    survivors = [line for line in lines if not line[3] and tuple(line[:3]) in wanted]
    share = 1 - len(survivors) / max(1, len(sample))
    print(*("\n  ".join(line[:3]) for line in survivors), f"{share:.1%} noticed", sep="\n")
    sys.exit(share < given.goal)


if __name__ == "__main__":
    main()
