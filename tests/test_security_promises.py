"""What SECURITY.md promises, and says of login and supply, has tests; its numbers are those of the program."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache

import pytest
from helpers.case_tables import table
from helpers.paths import ROOT, TESTS

SECTIONS = ("What is promised", "A login", "Supply")
# The tests of a sentence, by how it begins; of one that only warns, none.
PROMISES: dict[str, tuple[str, ...]] = dict(table("security_promises"))


def promised() -> list[str]:
    """The sentences of the sections, each in one line."""
    whole = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    texts = [whole.partition(f"\n## {title}\n")[2].partition("\n## ")[0] for title in SECTIONS]
    assert all(texts)
    text = re.sub(r"^```.*?^```$", "", "\n\n".join(texts), flags=re.MULTILINE | re.DOTALL)
    points = [" ".join(point.split()) for point in re.split(r"^- |\n\n", text, flags=re.MULTILINE) if point.strip()]
    return [sentence for point in points for sentence in re.split(r"(?<=[.)])\s+(?=[A-Z(`])", point)]


@cache
def names_in(file: str) -> set[str]:
    """The names of the tests of a file."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_sentence_has_tests_that_are_there() -> None:
    sentences = promised()
    assert len(sentences) > 30
    beginnings = [[begin for begin in PROMISES if sentence.startswith(begin)] for sentence in sentences]
    assert [sentence for sentence, found in zip(sentences, beginnings, strict=True) if len(found) != 1] == []
    assert set(PROMISES) - {found for one in beginnings for found in one} == set(), "no such sentence any more"
    named = [one.split("::") for tests in PROMISES.values() for one in tests]
    assert [f"{file}::{name}" for file, name in named if name not in names_in(file)] == []


def test_its_numbers_are_those_of_the_program() -> None:
    pytest.importorskip("streamlit")
    pytest.importorskip("fastapi")
    from chemspec.chem.molecules import conformer, parsing, rdkit_tasks
    from chemspec.jobs import jobs
    from chemspec.service import guard, plans, server, service
    from chemspec.service.limits import Limits
    from chemspec.system import connections, fair_queue, forked
    from chemspec.ui.launch import middleware, previews

    whole, mega = " ".join(promised()), 1_000_000
    settings = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    headers = f"headers are bounded in size ({connections.HEADER_BYTES // 1024} kB) and time"
    limits = Limits()
    for part in (
        f"more than {parsing.MAX_RINGS}, or many that share their atoms",
        f"a molecule of more than {parsing.FEW_RINGS} is read by another process",
        f"may take {rdkit_tasks.SECONDS:g} s of computing and {forked.MEMORY_BYTES // mega} MB",
        f"for {conformer.MAX_SECONDS:g} s at most",
        f"{headers} ({connections.HEADER_SECONDS:g} s)",
        f"bodies of the service in size and time ({limits.body // mega} MB, {guard.BODY_TIMEOUT:g} s)",
        f"at most {settings['server']['maxUploadSize']} MB, of one visit at most {middleware.VISIT_FILES}, "
        f"of all {middleware.ALL_BYTES // mega} MB",
        f"hold {guard.BODIES} times the size of one body ({guard.BODIES * limits.body // mega} MB), of one client half",
        f"a body of at most {guard.SMALL_BODY // 1024} kB always has room",
        f"up to {guard.DRAIN_FACTOR} times as much is read and dropped",
        f"a byte for {middleware.SILENT_SECONDS:g} s, or not whole in {middleware.WHOLE_SECONDS:g} s",
        f"a message in its first {middleware.FIRST_SECONDS:g} s",
        f"a message from a browser has at most {connections.MESSAGE_BYTES // mega} MB",
        f"of {service.REVIEWS} reviews and {plans.MAX_PLANS} plans half",
        f"of {plans.MAX_FOLLOWED} connections that follow plans a quarter",
        f"at most {previews.MAX_BYTES:,} bytes, one request at a time",
        f"at most {service.HARD_TEXTS} structures may be hard to read",
        f"at most {jobs.MAX_TARGETS:,} targets, {jobs.MAX_WITHIN:g} s for each and {jobs.MAX_PLANNING:,.0f} s for all",
        f"within its grace (`--grace`) and {server.LAST_RESORT:g} s",
        f"at most {fair_queue.MAX_OF_ONE_VISITOR} questions wait, of all together {fair_queue.MAX_WAITING};",
    ):
        assert part in whole
    assert limits.per_client == limits.queue // 2  # "half of its queue"
