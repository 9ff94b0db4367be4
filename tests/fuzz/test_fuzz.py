"""The ways in hold against cases that nobody would write, and the campaign notices those that do not."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from chemspec.fuzz import campaign
from chemspec.fuzz.ways import ROW, Tools, Way, ways


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHEMSPEC_HOME", os.environ.get("CHEMSPEC_HOME", ""))
        yield Tools(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("way", ways(), ids=lambda way: way.name)
def test_a_few_cases_of_every_way(way: Way, tools: Tools) -> None:
    for number in range(12):
        case = way.make(Random(number))
        assert campaign.try_case(way, case, tools) is None, case
        assert way.make(Random(number)) == case, "the same number gives the same case"


# What a campaign found, by way in: each was a defect once.
FOUND = {
    "query": [b"CCO\xed\xa0\x80"],  # half a surrogate pair
    "history": [b'{"model": ' + b"[" * 20_000 + b"]" * 20_000 + b"}\n"],
    "job": [
        json.dumps({"job.json": "{}", "input.jsonl": "", "rows.jsonl": "{\n"}).encode(),
        json.dumps({"rows.jsonl": '{"status": "ok"}\n'}).encode(),
        json.dumps({"rows.jsonl": '{"status": "ok", "query": 3, "message": "", "hypotheses": 1.5}\n'}).encode(),
        json.dumps({"input.jsonl": '["\u00e2"]\n'}).encode(),
        json.dumps({"rows.jsonl": json.dumps(ROW).replace("0.5", "1" * 400) + "\n"}).encode(),
        json.dumps({"rows.jsonl": json.dumps({**ROW, "passes": "\ud800"}) + "\n"}).encode(),
    ],
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_is_mended(name: str, tools: Tools) -> None:
    way = next(way for way in ways() if way.name == name)
    parts = json.loads(next(one for one in ways() if one.name == "job").make(Random(1)))
    for case in FOUND[name]:
        whole = json.dumps({**parts, **json.loads(case)}).encode() if name == "job" else case
        assert campaign.try_case(way, whole, tools) is None


def _raise() -> None:
    raise KeyError("undocumented")


@pytest.mark.parametrize(
    ("does", "told"),
    [(_raise, "KeyError"), (lambda: time.sleep(0), ""), (lambda: sum(n for n in range(3_000_000)), "takes")],
    ids=["raises", "is fine", "takes long"],
)
def test_the_campaign_notices(
    does: Callable[[], object], told: str, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "SECONDS", 0.02)
    found = campaign.try_case(Way("x", lambda _: b"", lambda *_: does() and None, (ValueError,)), b"", tools)
    assert (found is None) if not told else (found is not None and told in found["what"])


@pytest.mark.slow  # 2,000 cases in processes of their own
def test_two_thousand_fixed_cases(tmp_path: Path) -> None:
    found = campaign.campaign(2000, seed=7, out=tmp_path / "defects")
    assert found["cases"] == 2000 and set(found["by_way"]) == set(campaign.names())
    assert found["defects"] == []
