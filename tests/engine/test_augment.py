"""Test-time augmentation: every spelling is decoded as if alone, and the merged list follows its published rule."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from helpers.recompute import recompute
from helpers.small import QUERIES, tiny_folder

from chemspec import chem
from chemspec.chem.reactions.root_align import smiles_variants_of_query
from chemspec.engine.engine import Engine, augment
from chemspec.evaluation.accuracy import KnownReaction, score_predictions
from chemspec.io import writers
from chemspec.metrics import speed_numbers
from chemspec.model import checkpoint
from chemspec.replay.trace_view import view_trace
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Hypothesis, Pass, Trace, result_from_json, to_json

HOW = DecodeSettings(n=3, max_len=20, augment=4)


def answer(canonical: str, log_prob: float = -1.0, written: str = "") -> Hypothesis:
    valid = not canonical.startswith("!")
    return Hypothesis(written or canonical, canonical * valid, valid, (), (), log_prob, 0.5, 0.5)


def names(found: list[Hypothesis]) -> list[str]:
    return [one.canonical for one in found]


# --- the vote ------------------------------------------------------------------------------------


def test_the_score_sums_one_over_one_plus_rank() -> None:
    found = augment.rank_by_votes([[answer("A"), answer("B")], [answer("B"), answer("C"), answer("A")]])
    scores = {one.canonical: one.vote for one in found}
    assert [scores[name].score for name in "ABC"] == pytest.approx([1 + 1 / 3, 1 / 2 + 1, 1 / 2])
    assert names(found) == ["B", "A", "C"]
    assert [scores[name].variants for name in "ABC"] == [2, 2, 1]
    assert [scores[name].best_rank for name in "ABC"] == [1, 1, 2]


def test_text_and_log_prob_are_of_the_spelling_that_ranked_it_best() -> None:
    lists = [
        [answer("B", -0.1), answer("A", -0.2, "first")],
        [answer("A", -5.0, "second")],
        [answer("A", -4.0, "third")],
    ]
    best = augment.rank_by_votes(lists)[0]
    assert (best.canonical, best.smiles, best.log_prob) == ("A", "third", -4.0)
    assert best.vote is not None and (best.vote.variant, best.vote.best_rank) == (2, 1)
    first, _ = augment.rank_by_votes([[answer("B")], [answer("A", -1.0, "one")], [answer("A", -1.0, "other")]])
    assert first.smiles == "one", "of equals the first"


def result(*answers: Hypothesis) -> DecodeResult:
    return DecodeResult("C", "ok", "", answers, Trace(("C",), {}))


def test_invalid_answers_are_dropped_but_counted() -> None:
    found = augment.merge_variants(
        "C", [result(answer("!"), answer("A")), result(answer("!"))], requested=2, n=5, trace=Trace((), {})
    )
    assert names(list(found.hypotheses)) == ["A"]
    assert found.merged is not None and (found.merged.answers, found.merged.invalid) == (3, 2)
    assert found.notes == ("merged from 2 SMILES variants of the query; 2 of their 3 answers are no valid SMILES",)
    told = score_predictions([KnownReaction("C", "A")], [writers.result_document(found)])
    assert (told["invalid"]["value"], told["top"]["1"]["value"]) == (2 / 3, 1)


def test_where_nothing_is_valid_the_canonical_spelling_speaks_without_votes() -> None:
    found = augment.merge_variants(
        "C", [result(answer("!a")), result(answer("!b"))], requested=9, n=5, trace=Trace((), {})
    )
    assert [(one.smiles, one.vote) for one in found.hypotheses] == [("!a", None)]
    assert "merged from 2 SMILES variants of the query (9 requested)" in found.notes[0]


# --- spellings -----------------------------------------------------------------------------------

MOLECULES = [
    "CC(C)(C)OC(=O)N1CCC(C(=O)O)CC1",
    "C[C@H](N)C(=O)O.O=C(O)/C=C/c1ccccc1",
    "C1CC2CCC1C2.[Na+].[OH-]",
    "F/C=C\\Cl",
]


@pytest.mark.parametrize("smiles", MOLECULES)
def test_spellings_are_different_texts_of_the_same_molecules(smiles: str) -> None:
    smiles = chem.canonical(smiles) or ""
    found = smiles_variants_of_query(smiles, 10, Random(0))
    assert found[0] == smiles
    assert len(set(found)) == len(found) > 1
    assert {chem.canonical(text) for text in found} == {smiles}
    assert smiles_variants_of_query(smiles, 10, Random(0)) == found
    assert smiles_variants_of_query(smiles, 1, Random(0)) == [smiles]


def test_both_sides_of_a_reaction_are_spelled_anew() -> None:
    smiles = "CC(=O)Cl.Nc1ccccc1>>CC(=O)Nc1ccccc1"
    found = smiles_variants_of_query(smiles, 8, Random(0))
    assert len(set(found)) == 8 and found[0] == smiles
    assert all([chem.canonical(side) for side in text.split(">>")] == smiles.split(">>") for text in found)
    for texts in zip(*(text.split(">>") for text in found), strict=True):
        assert len(set(texts)) > 3


# --- the engine ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine.load(tiny_folder(tmp_path_factory.mktemp("m") / "forward", task="forward"), threads=1)


def texts(found: DecodeResult) -> list[tuple[str, str, bool]]:
    return [(one.smiles, one.canonical, one.valid) for one in found.hypotheses]


@pytest.mark.parametrize("how", [HOW, replace(HOW, drafter="copy"), replace(HOW, decoder="greedy", n=1)], ids=str)
def test_every_spelling_is_decoded_exactly(engine: Engine, how: DecodeSettings) -> None:
    model = checkpoint.load(engine.folder).model
    for found in engine.predict([*QUERIES, "CCO.CC(=O)Cl"], how):
        assert found.merged is not None and found.merged.variants == len(found.variants)
        for one in found.variants:
            ids = engine.tokenizer.encode(one.query)
            wanted = [engine.tokenizer.decode(answer.tokens) for answer in recompute(model, ids, how)]
            assert [answer.smiles for answer in one.hypotheses] == wanted
            assert "".join(one.trace.query) == one.query
            assert one.trace.settings["augment"] == 1 and one.trace.settings["exact"]


@pytest.mark.parametrize("size", [1, 3, 16])
def test_the_batch_changes_nothing(engine: Engine, size: int) -> None:
    alone = [texts(engine.predict([query], HOW)[0]) for query in QUERIES]
    mixed = engine.predict([*QUERIES, "CC("], replace(HOW, batch_size=size))
    assert [texts(found) for found in mixed[:-1]] == alone
    assert mixed[-1].status == "invalid" and mixed[-1].merged is None


def test_the_seed_chooses_the_spellings(engine: Engine) -> None:
    query = "CC(C)(C)OC(=O)NCc1ccccc1"
    asked = [engine.predict([query], replace(HOW, seed=seed))[0] for seed in (0, 0, 1)]
    first, again, other = ([one.query for one in found.variants] for found in asked)
    assert first == again != other


def test_the_trace_counts_model_calls_and_everything_in_them(engine: Engine) -> None:
    found = engine.predict(QUERIES, replace(HOW, batch_size=3))
    for one in found:
        own = [spelling.trace for spelling in one.variants]
        assert len(one.trace.passes) == max(len(trace.passes) for trace in own)
        assert speed_numbers([one.trace]).emitted == speed_numbers(own).emitted
        assert speed_numbers([one.trace]).computed == speed_numbers(own).computed
        assert all(1 <= call.width <= 3 for call in one.trace.passes)
        assert one.trace.settings["augment"] == HOW.augment
    # Three queries share a call: each is charged a third of it, not a third for every spelling.
    call = found[0].trace.passes[0]
    rows = found[0].variants[0].trace.passes[0].width
    assert rows > call.width


def test_a_stream_of_several_spellings_yields_calls_and_the_merged_result(engine: Engine) -> None:
    *passes, found = engine.stream(QUERIES[1], HOW)
    assert isinstance(found, DecodeResult) and all(isinstance(one, Pass) for one in passes)
    assert [one.emitted for one in passes if isinstance(one, Pass)] == [one.emitted for one in found.trace.passes]
    assert texts(found) == texts(engine.predict([QUERIES[1]], HOW)[0])


def test_spellings_that_the_model_cannot_read_are_left_out(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = ["CCO", "C%12CC%12O", "OCC", "C" * 5000]
    monkeypatch.setattr("chemspec.chem.reactions.root_align.smiles_variants_of_query", lambda *_: odd)
    (found,) = engine.predict(["CCO"], HOW)
    assert [one.query for one in found.variants] == ["CCO", "OCC"]
    assert found.merged is not None and (found.merged.requested, found.merged.variants) == (4, 2)


# --- files, traces -------------------------------------------------------------------------------


def test_merged_results_go_through_json_and_are_no_single_trace(engine: Engine) -> None:
    (found,) = engine.predict([QUERIES[1]], replace(HOW, record=True))
    assert result_from_json(to_json(found)) == found
    with pytest.raises(ValueError, match="several SMILES variants"):
        view_trace(found)
    assert view_trace(found.variants[0]).passes


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_files_hold_votes(engine: Engine, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"a.{ending}"
    writers.predict_file(engine, QUERIES, out, HOW)
    if ending == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        rows = parquet.read_table(out).to_pylist()
    elif ending == "jsonl":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
    else:
        head, first, *_ = csv.reader(out.read_text().splitlines())
        assert head[3:6] == ["smiles_1", "log_prob_1", "votes_1"]
        assert len(head) == len(first) and "merged from" in first[2]
        for row, found in zip(csv.DictReader(out.read_text().splitlines()), engine.predict(QUERIES, HOW), strict=True):
            for rank, one in enumerate(found.hypotheses, 1):
                assert row[f"smiles_{rank}"] == one.smiles
                assert row[f"votes_{rank}"] == (str(one.vote.variants) if one.vote else "")
        return
    for row, found in zip(rows, engine.predict(QUERIES, HOW), strict=True):
        assert row["merged"]["variants"] == len(found.variants)
        votes = [one.vote.variants if one.vote else None for one in found.hypotheses]
        assert [one["votes"] for one in row["hypotheses"]] == votes
