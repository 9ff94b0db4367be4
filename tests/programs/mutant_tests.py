"""Which tests run a line of the program, and a process that has imported what they need, to run them in forks of it."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from helpers.groups import DEFAULT
from helpers.paths import TESTS

HERE = Path(__file__).parent
FOLDERS = ("decode", "draft", "engine", "plan", "review", "stock", "io", "jobs", "service", "chem", "system",
           "precedents", "model", "cli", "planners", "ui")  # fmt: skip
PYTEST = ("-q", "-n", "0", "-p", "no:cacheprovider", "-m", DEFAULT)
# Stages: seconds of computing, as recorded, and tests at most; all but the last of tests of the same folder only.
STAGES = ((1.0, 30), (8.0, 300), (10.0, 300))
SLOWER = 6.0  # times the recorded seconds, until a mutant counts as endless
SPARE = 60.0  # seconds besides
HEAVY = ("pytest", "hypothesis", "_hypothesis_pytestplugin", "anyio.pytest_plugin", "pytest_cov.plugin", "xdist.plugin",
         "torch", "numpy", "pandas", "safetensors.numpy", "msgspec", "rdkit.Chem.AllChem", "rdkit.Chem.Draw", "uvicorn",
         "fastapi", "fastapi.testclient", "prometheus_client", "multiprocessing.pool", "xml.etree.ElementTree", "typer",
         "rich.console", "pyarrow", "concurrent.futures", "_pytest.pytester", "statistics", "pdb")  # fmt: skip


def record(tree: Path, folder: Path) -> None:
    """Run the default tests of a copy of the program, and keep which lines each of them runs.

    Where that was done before, only test files that have changed since are run.
    """
    recorded, began = folder / "recorded", time.time()
    before = recorded.stat().st_mtime if recorded.exists() else 0.0
    path = f"{tree}{os.pathsep}{HERE}"
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": "", "HYPOTHESIS_PROFILE": "seeded",
                   "CHEMSPEC_TEST_SECONDS": "300", "COVERING": str(folder)}  # fmt: skip
    for name in FOLDERS:
        files = [file for file in (tree / "tests" / name).glob("test_*.py") if file.stat().st_mtime > before]
        if not files:
            continue
        words = [sys.executable, "-m", "pytest", "-p", "covering", *PYTEST, *map(str, files)]
        subprocess.run(words, cwd=tree, env=environment, stdout=subprocess.DEVNULL, check=False)
    recorded.touch()
    os.utime(recorded, (began, began))


def compile_all(tree: Path) -> None:
    """Compile the program and its tests once, so that forks need not."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTEST_ADDOPTS": ""}
    subprocess.run([sys.executable, "-m", "compileall", "-q", "chemspec"], cwd=tree, env=environment, check=False)
    words = [sys.executable, "-m", "pytest", *PYTEST, "--collect-only", *(f"tests/{name}" for name in FOLDERS)]
    subprocess.run(words, cwd=tree, env=environment, stdout=subprocess.DEVNULL, check=False)


@dataclass(frozen=True)
class Covered:
    """What was recorded.

    Attributes:
        seconds: of computing, by test.
        tests: names of tests by file and line.
    """

    seconds: Mapping[str, float]
    tests: Mapping[str, Mapping[int, frozenset[str]]]

    @classmethod
    def read(cls, folder: Path) -> Covered:
        """Read what `record` has kept."""
        import coverage

        seconds: dict[str, float] = {}
        for file in folder.glob("*.json"):
            seconds |= json.loads(file.read_text(encoding="utf-8"))
        tests: dict[str, dict[int, set[str]]] = {}
        for path in folder.glob("lines.*"):
            data = coverage.CoverageData(str(path))
            data.read()
            for file in data.measured_files():
                lines = tests.setdefault("chemspec" + file.rpartition("/chemspec")[2], {})
                for line, names in data.contexts_by_lineno(file).items():
                    lines.setdefault(line, set()).update(seconds.keys() & names)
        frozen = {file: {line: frozenset(some) for line, some in lines.items()} for file, lines in tests.items()}
        return cls(seconds, frozen)

    def of(self, file: str, source: str, start: int, end: int) -> list[list[str]]:
        """Return the tests of characters `start` to `end` of a source: those of its folder, then others, fastest first.

        Lines that run at import only, or in no process that is measured, have the tests of what stands around them.
        """
        if not file.endswith(".py"):
            names = self._of_compiled(file)
        else:
            lines = self.tests.get(file, {})
            spans = _spans(source, start, end)
            names = next(filter(None, (_union(lines, span) for span in spans)), frozenset())
        folder = "/".join(("tests", *Path(file).parts[1:2], ""))
        ordered = sorted(names, key=self.seconds.__getitem__)
        stages: list[list[str]] = []
        for number, (seconds, most) in enumerate(STAGES, 1):
            done = {name for stage in stages for name in stage}
            near = number < len(STAGES)
            left = [name for name in ordered if name.startswith(folder) == near and name not in done]
            stages.append(self._cheapest(left, seconds, most))
        return stages

    def cost(self, names: Iterable[str]) -> float:
        """Return the seconds of computing of tests."""
        return sum(self.seconds[name] for name in names)

    def _of_compiled(self, file: str) -> frozenset[str]:
        """The tests of the lines of Python that call the compiled code of the same folder."""
        found: set[str] = set()
        for name, lines in self.tests.items():
            if Path(name).parent == Path(file).parent and Path(TESTS.parent, name).is_file():
                source = Path(TESTS.parent, name).read_text(encoding="utf-8").splitlines()
                found |= _union(lines, [n for n, text in enumerate(source, 1) if re.search(r"chemspec_\w+\(", text)])
        return frozenset(found)

    def _cheapest(self, names: Sequence[str], seconds: float, most: int) -> list[str]:
        kept, left = [], seconds
        for name in names[:most]:
            left -= self.seconds[name]
            if left < 0 and kept:
                break
            kept.append(name)
        return kept


def _union(lines: Mapping[int, frozenset[str]], span: Iterable[int]) -> frozenset[str]:
    return frozenset().union(*(lines.get(line, frozenset()) for line in span))


def _spans(source: str, start: int, end: int) -> list[range]:
    """Lines to look for tests of, the nearest first: of the characters, their statement, their function, the file."""
    first, last = source.count("\n", 0, start) + 1, source.count("\n", 0, end) + 1
    around = [
        node
        for node in ast.walk(_parsed(source))
        if isinstance(node, ast.stmt) and node.lineno <= first and last <= (node.end_lineno or 0)
    ]
    around.sort(key=lambda node: (node.end_lineno or 0) - node.lineno)
    own = range(first, last + 1)
    if around and isinstance(around[0], ast.If | ast.While | ast.For | ast.With):
        own = range(first, min(last, around[0].body[0].lineno - 1) + 1) or own
    return [own, *(range(node.lineno, (node.end_lineno or 0) + 1) for node in around), range(1, source.count("\n") + 2)]


@cache
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)


class Warm:
    """A process that has imported everything but the program; each run of tests is a fork of it."""

    def __init__(self, tree: Path, folder: Path) -> None:
        """Start it in a copy of the program."""
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tree, tree / "tests", TESTS))),
            "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": "", "HYPOTHESIS_PROFILE": "seeded",
            "CHEMSPEC_TEST_SECONDS": "300", "CHEMSPEC_CACHE": str(folder / "cache"),
        }  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, __file__], cwd=tree, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def run(self, tests: Sequence[str], seconds: float, *, whole: bool = False) -> list[str]:
        """Run tests, until one fails or all of them if `whole`; returns those that failed.

        It is "time" where the processes compute longer than `seconds`, or need ten times as long on the clock.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"tests": tests, "seconds": seconds, "whole": whole}) + "\n")
        self._process.stdin.flush()
        failed: list[str] = json.loads(self._process.stdout.readline())
        return failed


class Chosen:
    """Keeps tests by their names, in the order of their files, and those that failed."""

    def __init__(self, names: Sequence[str]) -> None:
        files = list(dict.fromkeys(name.partition("::")[0] for name in names))  # whose fixtures are set up once
        ordered = sorted(names, key=lambda name: files.index(name.partition("::")[0]))
        self.order = {name: number for number, name in enumerate(ordered)}
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self.order), key=lambda it: self.order[it.nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid or "import")


def _run_pytest(tests: Sequence[str], seconds: float, whole: bool) -> list[str]:
    import resource

    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
    chosen = Chosen(tests)
    files = sorted({name.partition("::")[0] for name in tests})
    early = "ignore::pytest.PytestAssertRewriteWarning"  # plug-ins of what is imported already
    code = pytest.main([*PYTEST, "-W", early, *(() if whole else ("-x",)), *files], plugins=[chosen])
    if code not in (0, 1, 5) and not chosen.failed:
        chosen.failed.append(f"exit code {int(code)}")
    return chosen.failed


def _fork(tests: Sequence[str], seconds: float, whole: bool) -> list[str]:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        silent = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(silent, number)
        failed = _run_pytest(tests, seconds, whole)
        os.write(writing, json.dumps(failed[:100]).encode() + b"\n")
        os._exit(0)
    os.close(writing)

    def late(*_: object) -> None:
        os.killpg(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, late)
    signal.alarm(int(10 * seconds))
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.readline()
    _, status = os.waitpid(child, 0)
    signal.alarm(0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # processes that the tests have left behind
    if text:
        failed: list[str] = json.loads(text)
        return failed
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
    return ["time" if killed else f"ended with status {status}"]


def _serve() -> None:
    import importlib

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for name in HEAVY:
        with suppress(ImportError):
            importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    for line in sys.stdin:
        print(json.dumps(_fork(**json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
