"""An explained answer: what drafts of other lengths would have gained, its page, its film, and the counts in it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from helpers.paths import ROOT
from PIL import Image

from chemspec.engine.engine import Engine, installed_models
from chemspec.engine.forks import score_drafts
from chemspec.replay import picture
from chemspec.replay.explained_page import choose_slow_pass, explanation_film, explanation_page
from chemspec.replay.explanation import MAX_DRAFT, SETTINGS, drafts_of, explain_answer, replay_lengths
from chemspec.types import DecodeResult, result_from_json

weights = pytest.mark.skipif("forward" not in {folder.name for folder in installed_models()}, reason="no model forward")
EXAMPLE = json.loads((ROOT / "assets" / "examples" / "learn" / "amide.json").read_text(encoding="utf-8"))
SCRIPT = ROOT / "assets" / "web" / "explain.js"
SUZUKI = "OB(O)c1ccccc1.Brc1ccc(cc1)C(=O)OC"


@cache
def forward() -> Engine:
    return Engine.load("forward")


def recorded() -> DecodeResult:
    return result_from_json(json.dumps(EXAMPLE["result"]))


def explained(**changes: Any) -> dict[str, Any]:
    return explain_answer(replace(recorded(), **changes), "forward", choices=EXAMPLE["choices"])


@weights
@pytest.mark.parametrize("query", [EXAMPLE["result"]["query"], SUZUKI])
def test_drafts_of_any_length_fare_as_the_record_of_one_says(query: str) -> None:
    """No model runs again: what is accepted follows from the answer, because decoding is exact."""
    (result,) = forward().predict([query], SETTINGS)
    replayed = replay_lengths(result)
    assert len(replayed) == MAX_DRAFT + 1
    for length in (0, 1, 3, 8, 13, MAX_DRAFT):
        drafts = {"draft_length": length} if length else {"drafter": "none", "draft_length": 0}
        (again,) = forward().predict([query], replace(SETTINGS, **drafts))
        passes = [(step.drafted, step.accepted, step.emitted) for step in again.trace.passes]
        assert replayed[length] == passes, length


def test_a_replay_that_does_not_give_the_record_is_not_shown() -> None:
    result = recorded()
    assert replay_lengths(result)
    passes = result.trace.passes
    other = (replace(passes[0], drafted=passes[0].drafted + 1), *passes[1:])
    assert replay_lengths(replace(result, trace=replace(result.trace, passes=other))) == []
    assert replay_lengths(replace(result, trace=replace(result.trace, vocabulary=()))) == []


@weights
def test_the_recorded_example_is_what_the_model_says_today() -> None:
    """Other weights make it stale; `assets/examples/record.py` writes it anew."""
    before = recorded()
    (now,) = forward().predict([before.query], SETTINGS)
    assert [answer.tokens for answer in now.hypotheses] == [answer.tokens for answer in before.hypotheses]
    assert drafts_of(now) == drafts_of(before)
    scored = score_drafts(forward(), before.query, now.hypotheses[0], drafts_of(now))
    for along, kept in zip(scored, EXAMPLE["choices"], strict=True):
        for after, expected in zip(along, kept, strict=True):
            assert len(after) == 3
            assert next(iter(after)) == next(iter(expected))
            assert dict(after) == pytest.approx(expected, abs=2e-3)


def test_along_a_draft_the_model_wants_the_answer_up_to_the_first_wrong_token() -> None:
    data = explained()
    tokens = data["answer"]["tokens"]
    for step in data["passes"]:
        assert len(step["choices"]) == len(step["draft"]) + 1
        for k in range(step["accepted"] + 1):
            assert step["choices"][k][0][0] == tokens[step["done"] + k]["text"]
    assert data["lead"] == "The model chose 7 of 42 tokens itself, among them N where the reaction takes place"
    assert sum(step["written"] for step in data["passes"]) == len(tokens) == 42
    assert len(data["passes"]) == 7


def test_reactants_are_drawn_apart_and_every_atom_once() -> None:
    data = explained()
    for side, count in (("left", 24), ("right", 23)):
        drawn = [
            part["first"] + int(k) for part in data[side] for k in re.findall(r"selector atom-(\d+)'", part["svg"])
        ]
        assert sorted(drawn) == list(range(count))
    assert [part["smiles"] for part in data["left"]] == data["query"]["smiles"].split(".")


def test_only_exact_greedy_answers_are_explained() -> None:
    result = recorded()
    trace = replace(result.trace, settings={**result.trace.settings, "decoder": "beam"})
    with pytest.raises(ValueError, match="greedy"):
        explain_answer(replace(result, trace=trace), "forward")


# --- files -----------------------------------------------------------------------------------------


def test_the_page_needs_nothing_and_allows_nothing_but_itself() -> None:
    page = explanation_page(explained())
    (script,), (style,) = (
        re.findall(r'<script type="module">(.*?)</script>', page, re.S),
        re.findall(r"<style>(.*?)</style>", page, re.S),
    )
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    for text in (script, style):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy[1]
    assert policy[1].startswith("default-src 'none'") and "unsafe" not in policy[1]
    known = ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink", "http://www.rdkit.org/xml")
    assert set(re.findall(r"https?://[\w./-]+", page)) <= set(known)  # names of namespaces
    assert not re.search(r"\bsrc=|@import|url\(", page)
    assert len(page) < 150_000


def test_texts_of_an_answer_cannot_leave_their_place_in_the_page() -> None:
    hostile = '</script><img src=x onerror="alert(1)">'
    page = explanation_page({**explained(), "lead": hostile, "answer": {**explained()["answer"], "smiles": hostile}})
    assert "<img" not in page and "</script><" not in page.replace("</script>\n<", "")
    data = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert data is not None
    assert json.loads(data[1])["lead"] == hostile


def test_the_film_lasts_six_seconds() -> None:
    film = Image.open(BytesIO(explanation_film(recorded(), explained(), "gif")))
    length = 0
    for frame in range(film.n_frames):  # type: ignore[attr-defined]
        film.seek(frame)
        length += film.info["duration"]
    assert length == pytest.approx(6000, abs=100)


def test_the_film_slows_the_pass_that_accepts_most_of_a_draft_and_rejects_its_rest() -> None:
    told = explained()
    shown = choose_slow_pass(told)
    assert shown is not None
    assert (shown.number, "".join(shown.draft), shown.accepted, shown.own) == (3, "C(C(=O)O", 7, "N")
    items = list(picture.draw_slow_pass(shown, 0, 1.0, picture.LIGHT))
    marks = [item.at for item in items if item.corners]
    own = next(item.at for item in items if item.text == "the model's own token")
    assert (
        len(marks) == 8 and marks == sorted(marks) and marks[-1] < own < 1 + picture.PLAY_SECONDS - picture.RACE_SECONDS
    )
    accepted = {**told, "passes": [{**row, "accepted": len(row["draft"])} for row in told["passes"]]}
    assert choose_slow_pass(accepted) is None and explanation_film(recorded(), accepted, "gif")


# --- the script ------------------------------------------------------------------------------------


def test_the_script_counts_as_the_record_does(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node.js")
    (tmp_path / "explain.mjs").write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "data.json").write_text(json.dumps(explained()), encoding="utf-8")
    (tmp_path / "test.mjs").write_text(
        """
        import { readFileSync } from "node:fs";
        import { costOf, countPasses, expectedTokens, passesOf } from "./explain.mjs";
        const data = JSON.parse(readFileSync("data.json", "utf8")), known = countPasses(data);
        const over = data.answer.tokens.flatMap((token, k) => (known.isOver(k) ? [token.text] : []));
        const all = passesOf(data, data.answer.tokens.keys());
        console.log(JSON.stringify({
          total: known.total, copied: known.copied, over,
          all: all.map(([pass, drafted, own]) => [pass, drafted.length, own.length]),
          cost: data.clocks.map((clock) => costOf(clock, [0, 3, 49])),
          tokens: [expectedTokens(0.8, 5), expectedTokens(1, 5)],
        }));
        """,
        encoding="utf-8",
    )
    ran = subprocess.run([node, "test.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True)
    said, trace = json.loads(ran.stdout), recorded().trace
    assert (said["total"], said["copied"], said["over"]) == (42, 35, ["N", "c", "end"])
    assert said["all"] == [[k, p.accepted, p.emitted - p.accepted] for k, p in enumerate(trace.passes, 1)]
    assert said["cost"] == pytest.approx([3, 1 + 1 + 0.18 * 3 / 49 + 1.18, 1 + 2.7 + 1 + 1.7 / 3 * 49])
    assert said["tokens"] == pytest.approx([(1 - 0.8**6) / 0.2, 6])
