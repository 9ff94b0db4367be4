"""The ways in hold against cases that nobody would write, and the campaign notices those that do not."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from helpers.small import JOB_ROW
from programs import fuzz
from programs.fuzzing.tools import Tools, Way
from programs.fuzzing.ways import ways


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CHEMSPEC_HOME", "CHEMSPEC_MODELS", "CHEMSPEC_WARM_UP"):  # which tools and pages set
            patch.setenv(name, os.environ.get(name, ""))
        yield Tools(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("way", ways(), ids=lambda way: way.name)
def test_a_few_cases_of_every_way(way: Way, tools: Tools) -> None:
    for number in range(4 if way.name == "page" else 12):  # a page takes a third of a second
        case = way.make(Random(number))
        assert fuzz.try_case(way, case, tools) is None, case
        assert way.make(Random(number)) == case, "the same number gives the same case"


# What a campaign found, by way in: each was a defect once.
ENTRY = {
    "question": "x", "task": "retro", "model": "m", "query": "CCO", "answer": "CC.O", "label": "", "chance": 0.5,
    "note": "", "status": "idea", "added": 1.0,
}  # fmt: skip
FOUND = {
    "graph": [
        (Path(__file__).parent / "corpus" / "graph.case").read_bytes(),  # 21 fused rings of nitrogen
        (Path(__file__).parent / "corpus" / "overlap.case").read_bytes(),  # RDKit wants gigabytes for its stereo
        b"smi forward\nc1cccc2cc3ccccc(cc1)ccccc-3c2",  # which RDKit refuses to draw
    ],
    "table": [(Path(__file__).parent / "corpus" / "table.case").read_bytes()],  # Parquet with whole numbers of 65 bits
    "prices": [b"prices.csv.gz\n" + gzip.compress(b"CCO\n" * 50, mtime=0)[:10] + b"\x06" * 20],
    "collection": [
        json.dumps({"entries": json.dumps([{**ENTRY, **wrong}]), "places": [], "cut": 1.0}).encode()
        for wrong in ({"added": 2**63}, {"chance": "0.5"}, {"added": "1"}, {"added": 1e300})
    ],
    "query": [b"CCO\xed\xa0\x80"],  # half a surrogate pair
    "job": [
        json.dumps({"job.json": "{}", "input.jsonl": "", "rows.jsonl": "{\n"}).encode(),
        json.dumps({"rows.jsonl": '{"status": "ok"}\n'}).encode(),
        json.dumps({"rows.jsonl": '{"status": "ok", "query": 3, "message": "", "hypotheses": 1.5}\n'}).encode(),
        json.dumps({"input.jsonl": '["\u00e2"]\n'}).encode(),
        json.dumps({"rows.jsonl": json.dumps(JOB_ROW).replace("0.5", "1" * 400) + "\n"}).encode(),
        json.dumps({"rows.jsonl": json.dumps({**JOB_ROW, "passes": "\ud800"}) + "\n"}).encode(),
        json.dumps({"rows.jsonl": json.dumps({**JOB_ROW, "passes": 10**400}) + "\n"}).encode(),
    ],
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_is_mended(name: str, tools: Tools) -> None:
    way = next(way for way in ways() if way.name == name)
    parts = json.loads(next(one for one in ways() if one.name == "job").make(Random(1)))
    for case in FOUND[name]:
        whole = json.dumps({**parts, **json.loads(case)}).encode() if name == "job" else case
        assert fuzz.try_case(way, whole, tools) is None


def _raise() -> None:
    raise KeyError("undocumented")


@pytest.mark.parametrize(
    ("does", "told"),
    [(_raise, "KeyError"), (lambda: time.sleep(0), ""), (lambda: sum(n for n in range(3_000_000)), "takes")],
    ids=["raises", "is fine", "takes long"],
)
def test_the_campaign_notices(does: Callable[[], object], told: str, tools: Tools) -> None:
    way = Way("x", lambda _: b"", lambda *_: does() and None, (ValueError,), seconds=0.02)
    found = fuzz.try_case(way, b"", tools)
    assert (found is None) if not told else (found is not None and told in found["what"])


def test_a_campaign_that_was_ended_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    def a_round(way: str, count: int, seed: int, out: Path) -> tuple[int, list[dict[str, Any]]]:
        if len(ran) == 2 and seed == 2:
            raise KeyboardInterrupt
        ran.append(seed)
        return count, [{"way": way}]

    monkeypatch.setattr(fuzz, "_round", a_round)
    with pytest.raises(KeyboardInterrupt):
        fuzz.campaign(1500, only=("query",), out=tmp_path)
    with next(tmp_path.glob("*.jsonl")).open("a") as torn:
        torn.write('{"seed": 2, "wa')
    ran.clear()
    found = fuzz.campaign(1500, only=("query",), out=tmp_path)
    assert (ran, found["cases"], len(found["defects"])) == ([2], 1500, 3)
    assert fuzz.campaign(1000, seed=1, only=("link",), out=tmp_path)["cases"] == 1000 and len(ran) == 3


@pytest.mark.slow  # in processes of their own
@pytest.mark.nightly  # a few cases of every way run at every push, above
@pytest.mark.parametrize(("count", "seed"), [(300, 7), (10_000, 8)])
def test_fixed_cases(count: int, seed: int, tmp_path: Path) -> None:
    found = fuzz.campaign(count, seed=seed, out=tmp_path / "defects")
    assert found["cases"] == count and set(found["by_way"]) == set(fuzz.names())
    assert found["defects"] == []
