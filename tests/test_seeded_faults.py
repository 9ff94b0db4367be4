"""Would the default tests notice? Each fault is seeded into a copy of the program, and a default test must turn red.

A fault is a line of the program and what takes its place; the files named are those that should notice.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from groups import DEFAULT
from paths import ROOT

slow = pytest.mark.slow  # a run of the default tests in a process of its own for every fault


class Fault(NamedTuple):
    """What is wrong, where, and which test files must tell."""

    file: str
    right: str
    wrong: str
    tests: str


FAULTS = {
    "a shard whose engine died is forgotten": Fault(
        "cluster/dispatch.py", "for piece in _pieces_to_retry(event.piece):", "for piece in ():",
        "cluster/test_dispatch.py",
    ),
    "a row that kills is tried for ever": Fault(
        "cluster/dispatch.py", "deaths=piece.deaths + 1", "deaths=piece.deaths", "cluster/test_dispatch.py"
    ),
    "a shard is taken for that of other rows": Fault(
        "cluster/shards.py", "metadata.get(DIGEST) != _digest_queries(piece.queries)", "not metadata",
        "cluster/test_shards.py",
    ),
    "greedy takes the second best token": Fault(
        "decode/greedy.py", "int(scores.ids[0])", "int(scores.ids[-1])", "decode/test_decoders.py"
    ),
    "a beam keeps one hypothesis too many": Fault(
        "decode/beam.py", "len(live) == config.width", "len(live) == config.width + 1", "decode/test_decoders.py"
    ),
    "a beam stops as soon as enough are finished": Fault(
        "decode/beam.py", "if config.best_attainable_score(hyp) >= threshold", "if False", "decode/test_decoders.py"
    ),
    "the compiled beam keeps one hypothesis too many": Fault(
        "decode/compiled/search.h", "next_.size() == width)", "next_.size() == width + 1)",
        "decode/test_compiled_loop.py",
    ),
    "ties among finished answers of the compiled beam are left as they come": Fault(
        "decode/compiled/search.h", "return a != b ? a > b : tree_.before(one.node, other.node);", "return a > b;",
        "decode/test_decoders.py",
    ),
    "a stereoisomer or an isotope is bought for a molecule": Fault(
        "plan/stock.py", "bool(keys[index] == key)", "bool(keys[index][:14] == key[:14])", "plan/test_stock.py"
    ),
    "a step that two branches need counts twice": Fault(
        "plan/routes.py", "for node in self.steps if node.step)", "for node in self.root if node.step)",
        "plan/test_routes.py",
    ),
    "a step into large parts is as good as one into small ones": Fault(
        "plan/expand.py", "* math.exp(-SIZE_COST * min(1.0, size))", "", "plan/test_routes.py"
    ),
    "similar precedents stand before close ones": Fault(
        "precedents/search.py", "close * 2.0 + similarity", "close * 1e-9 + similarity",
        "precedents/test_precedents_search.py",
    ),
    "the very reaction is one among the precedents": Fault(
        "precedents/search.py", "np.isin(np.arange(first, last), exact) * 4.0 + close", "close",
        "precedents/test_precedents_search.py",
    ),
    "the kernel counts distances from the next token": Fault(
        "model/runners/native/model.h", "positions - 1 - position)", "positions - 2 - position)", "model/test_native.py"
    ),
    "by the rules of OpenNMT-py a beam stops once enough have ended": Fault(
        "decode/peer_rules.py", "if led and len(done)", "if len(done)", "decode/test_peer_rules.py"
    ),
    "a node does not see its ancestors": Fault(
        "model/runners/padded.py", "mask[parent] if parent >= 0 else False", "False", "model/test_session.py"
    ),
    "a node sees its siblings": Fault(
        "model/runners/padded.py", "mask[slot, slot] = True", "mask[slot, start:stop] = True", "model/test_session.py"
    ),
    "every drafted token is accepted": Fault(
        "draft/rejection.py", "else float(p[token] / q[token])", "else 1.0", "draft/test_rejection.py"
    ),
    "tau is not heeded": Fault(
        "decode/relaxed/spec_verification.py", "<= self.tau", "<= 99.0", "decode/test_spec_verification.py"
    ),
    "a resumed file repeats its last row": Fault(
        "io/writers.py", "Counter(status for _, status in rows)", "Counter(status for _, status in rows[1:])",
        "io/test_files.py",
    ),
    "a torn last line stays": Fault("io/writers.py", "if len(whole) < len(raw):", "if False:", "io/test_files.py"),
    "Markdown of strangers is not escaped": Fault(
        "ui/common/escaping.py", "return _MARKS.sub(", "return text or _MARKS.sub(", "ui/test_page_models.py"
    ),
    "HTML of strangers is not escaped": Fault(
        "ui/common/tags.py", "else escape(part)", "else part", "ui/test_page_predict.py"
    ),
    "a query that was refused harms the others": Fault(
        "engine/engine.py", "if query.refusal}", "if not query.refusal}", "engine/test_engine.py"
    ),
}  # fmt: skip


def run(tree: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """Run the default tests of some files against the copy; stop at the first that fails."""
    words = [sys.executable, "-m", "pytest", "-x", "-n", "0", "-p", "no:cacheprovider", "-m", DEFAULT]
    return subprocess.run(
        [*words, str(tree / "tests" / tests)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "PYTEST_ADDOPTS": "", "HYPOTHESIS_PROFILE": "seeded"},
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a test run needs."""
    folder = tmp_path_factory.mktemp("tree")
    for name in ("chemspec", "tests", "pages", ".streamlit"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("app.py", "pyproject.toml", "hatch_build.py", "README.md"):
        shutil.copy(ROOT / name, folder)
    (folder / "assets").symlink_to(ROOT / "assets")
    return folder


# Of the decoders, the mask, the acceptance rule, resuming and escaping at every push; the others every night.
AT_EVERY_PUSH = {
    "greedy takes the second best token",
    "a beam keeps one hypothesis too many",
    "the compiled beam keeps one hypothesis too many",
    "a node does not see its ancestors",
    "a node sees its siblings",
    "every drafted token is accepted",
    "a resumed file repeats its last row",
    "HTML of strangers is not escaped",
}


@pytest.mark.nightly
def test_what_faults_replace_is_there() -> None:
    texts = {fault.file: (ROOT / "chemspec" / fault.file).read_text(encoding="utf-8") for fault in FAULTS.values()}
    gone = [name for name, fault in FAULTS.items() if fault.right not in texts[fault.file]]
    assert not gone, "these faults no longer fit the source: write them again"


@slow
@pytest.mark.parametrize(
    "name", [name if name in AT_EVERY_PUSH else pytest.param(name, marks=pytest.mark.nightly) for name in FAULTS]
)
def test_a_default_test_notices(name: str, tree: Path) -> None:
    fault = FAULTS[name]
    path = tree / "chemspec" / fault.file
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")
    try:
        done = run(tree, fault.tests)
    finally:
        path.write_text(text, encoding="utf-8")
    assert done.returncode == 1 and "\nFAILED " in done.stdout, done.stdout[-2000:] + done.stderr[-1000:]


@slow
@pytest.mark.nightly  # .ci/run has just seen the same files pass
@pytest.mark.parametrize("tests", sorted({fault.tests for fault in FAULTS.values()}))
def test_without_a_fault_they_pass(tests: str, tree: Path) -> None:
    done = run(tree, tests)
    assert done.returncode == 0, done.stdout[-2000:]
