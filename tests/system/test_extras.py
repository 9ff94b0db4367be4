"""The core alone predicts; what needs an extra says which one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.compilers import needs_compiler
from helpers.paths import ROOT

from chemspec.engine.registry import installed_models
from chemspec.system import extras, gpu
from chemspec.system.cache import cache_dir

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Runs the command line in forks of a process that cannot import some packages, and has imported what commands need,
# also pydantic, which Typer imports when it runs one.
# Passes cost there what they cost in other tests (`conftest.py`); how much is drafted depends on it.
SERVER = """
import contextlib, gc, json, os, sys, tempfile
for name in {names!r}:
    sys.modules[name] = None
import chemspec.review.reaction_check, chemspec.engine.engine, chemspec.model.runtime
import chemspec.model.runners.native.runner, chemspec.io.writers, chemspec.draft.tree.table_file
import chemspec.bench.sweep, chemspec.evaluation.accuracy
with contextlib.suppress(ImportError):
    import pydantic.type_adapter
from chemspec.model.cost import CostCurve
chemspec.model.runtime.measure_cost_curve = lambda *_, **__: CostCurve((1, 16, 128), (1e-3, 1.1e-3, 2e-3))
from chemspec.cli.__main__ import main
gc.freeze()
for line in sys.stdin:
    words, environment = json.loads(line)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        if not (child := os.fork()):
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            os.environ.update(environment)
            sys.argv = ["chemspec", *words]
            main()
            os._exit(99)  # it ends by SystemExit
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = [file.seek(0) or file.read() for file in (out, err)]
    print(json.dumps([code, *texts]), flush=True)
"""
Result = subprocess.CompletedProcess[str]


@contextmanager
def command_line(blocked: Iterable[str]) -> Iterator[Callable[..., Result]]:
    """A function that runs the command line where some packages are missing."""
    command = [sys.executable, "-c", SERVER.format(names=[*blocked])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:

        def run(*words: str, **environment: str) -> Result:
            assert server.stdin and server.stdout
            server.stdin.write(json.dumps([words, {**os.environ, **environment}]) + "\n")
            server.stdin.flush()
            return subprocess.CompletedProcess([*words], *json.loads(server.stdout.readline()))

        yield run


@pytest.fixture(scope="module")
def chemspec() -> Iterator[Callable[..., Result]]:
    """The command line with the core alone."""
    with command_line(sorted(extras.EXTRAS)) as run:
        yield run


@pytest.fixture(scope="module")
def complete() -> Iterator[Callable[..., Result]]:
    """The command line with all that is installed."""
    with command_line(()) as run:
        yield run


def test_each_extra_lists_the_packages_that_messages_name() -> None:
    listed = PROJECT["optional-dependencies"]
    for package, extra in extras.EXTRAS.items():
        names = {re.split(r"[<>\[]", word)[0] for word in listed[extra]}
        names |= {name.removesuffix("-python").replace("-", "_") for name in names}
        assert package in names, f"{package} is not in the extra {extra}"
    core = {word.split(">")[0] for word in PROJECT["dependencies"]}
    assert core == {"numpy", "rdkit", "safetensors", "typer", "rich", "pillow", "msgspec", "urllib3", "selfies"}
    assert not core & set(extras.EXTRAS)


def test_a_missing_package_is_told_with_the_command_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    extras.require_packages("json", "csv", what="nothing")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match=r"x\.pq: .* pip install 'chemspec-smiles\[files\]'"):
        extras.require_packages("pyarrow", what="x.pq")


needs_models = pytest.mark.skipif(not installed_models(), reason="no model in assets/models")
SLOW = pytest.mark.slow  # a search and a review of `check` do what these do
AMIDE = "CC(=O)Cl.Nc1ccccc1>>CC(=O)Nc1ccccc1"


@needs_models
@needs_compiler
@pytest.mark.smoke  # several processes
@pytest.mark.parametrize(
    "words",
    [
        ("predict", "CC(=O)Nc1ccccc1", "--task", "retro", "--dtype", "int8", "--no-distinct", "--drafter", "windows"),
        pytest.param(("predict", "CC(=O)Nc1ccccc1", "--task", "retro", "--review", "-n", "2"), marks=SLOW),
        pytest.param(
            ("predict", "CC(=O)Nc1ccccc1", "--task", "retro", "--within", "20s", "--threads", "1"), marks=SLOW
        ),
        ("check", AMIDE),
        ("models",),
        ("train", "--list"),
    ],
    ids=" ".join,
)
def test_the_core_without_torch_gives_the_answers_that_it_gives_with_torch(
    words: tuple[str, ...], tmp_path: Path, chemspec: Callable[..., Result], complete: Callable[..., Result]
) -> None:
    for name in ("without", "with"):  # whether drafts pay is learned from run to run, so both begin with one cache
        shutil.copytree(cache_dir() / "compiled", tmp_path / name / "compiled")
    done = chemspec(*words, CHEMSPEC_CACHE=str(tmp_path / "without"))
    assert done.returncode == 0, done.stderr
    assert not re.search("torch", done.stderr)
    with_torch = complete(*words, CHEMSPEC_CACHE=str(tmp_path / "with"))
    assert with_torch.returncode == 0, with_torch.stderr
    timed = r"\d+(\.\d+)? m?s\b|\d+\.\d+ times|\d+ (of|forward)"
    assert re.sub(timed, "", done.stdout) == re.sub(timed, "", with_torch.stdout)


@needs_models
@pytest.mark.parametrize(
    "words",
    [
        ("predict", "CCO", "--task", "retro", "--dtype", "bf16"),
        ("predict", "CCO", "--task", "retro", "--dtype", "fp16"),
        ("predict", "CCO", "--task", "retro", "--runtime", "torch"),
        ("predict", "CCO", "--task", "retro", "--device", "cuda"),
        ("predict", "CCO", "--task", "retro", "--device", "cuda:1"),
        ("predict", "CCO", "--model", "{pickle}", "--task", "retro"),
        ("predict", "CCO", "--model", "someone/some-model", "--task", "retro"),
        ("predict", "CCO", "--task", "retro", "--drafter", "medusa", "--drafting", "fixed"),
        ("predict", "CCO", "--task", "retro", "--drafter", "spec_drafter", "--drafting", "fixed"),
        ("import", "{pickle}", "--out", "{out}", "--task", "retro"),
        ("train", "average", "retro", "--out", "{out}"),
        ("bench", "--limit", "1", "--dtype", "bf16"),
    ],
    ids=" ".join,
)
def test_what_needs_torch_names_the_extra(
    words: tuple[str, ...], tmp_path: Path, chemspec: Callable[..., Result]
) -> None:
    (tmp_path / "model.pt").write_bytes(b"PK")
    done = chemspec(*[word.format(pickle=tmp_path / "model.pt", out=tmp_path / "out") for word in words])
    assert done.returncode == 2, done.stdout
    assert "extra torch" in done.stderr and "pip install 'chemspec-smiles[torch]'" in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 1


@needs_models
def test_numpy_computes_where_nothing_else_can(tmp_path: Path, chemspec: Callable[..., Result]) -> None:
    table, out = tmp_path / "queries.csv", tmp_path / "answers.csv"
    table.write_text("name,smiles\nanilide,CC(=O)Cl.Nc1ccccc1\n")
    options = ["--task", "forward", "-n", "1", "--drafter", "copy", "--threads", "1"]
    words = ("predict", str(table), "-o", str(out), *options)
    done = chemspec(*words, CHEMSPEC_NATIVE="0")
    assert done.returncode == 0, done.stderr
    rows = out.read_text().splitlines()
    assert len(rows) == 2 and "CC(=O)Nc1ccccc1" in rows[1]
    notes = [line for line in done.stderr.splitlines() if line.startswith("note:")]
    assert len(notes) == 1 and "C++ compiler" in notes[0] and "chemspec-smiles[compiler]" in notes[0]


@pytest.mark.parametrize(("torch", "words"), [(False, "extra torch only"), (True, "a build for CPUs")])
def test_a_gpu_that_is_not_used_is_told_once(
    torch: bool, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path))
    monkeypatch.setattr(gpu, "device_count", lambda: 1)
    monkeypatch.setattr(gpu, "gpu_count", lambda: 0)
    monkeypatch.setattr(extras, "is_installed", lambda _: torch)
    assert words in gpu.unused_gpu_message()
    assert gpu.first_gpu_notice() == gpu.unused_gpu_message()
    assert gpu.first_gpu_notice() == ""
    monkeypatch.setattr(gpu, "gpu_count", lambda: 1)
    assert gpu.unused_gpu_message() == ""


@pytest.mark.parametrize(
    ("words", "extra"), [(("app", "--headless"), "app"), (("predict", "x.parquet", "--task", "forward"), "files")]
)
def test_commands_say_which_extra_they_need(
    words: tuple[str, ...], extra: str, tmp_path: Path, chemspec: Callable[..., Result]
) -> None:
    (tmp_path / "x.parquet").write_bytes(b"")
    done = chemspec(*[str(tmp_path / word) if word == "x.parquet" else word for word in words])
    assert done.returncode == 2
    assert f"pip install 'chemspec-smiles[{extra}]'" in done.stderr and "Traceback" not in done.stderr
