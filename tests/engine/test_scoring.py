"""Tests of scoring.py and of engines that are pickled, closed and used with options and tables."""

from __future__ import annotations

import pickle
from dataclasses import fields
from math import nan
from pathlib import Path
from typing import get_type_hints

import pytest

from chemspec.engine.engine import Engine
from chemspec.engine.options import DecodingOptions
from chemspec.engine.scoring import answer_variants
from chemspec.model.runners.native.runner import NativeRunner
from chemspec.settings import DecodeSettings


@pytest.fixture(scope="module")
def retro() -> Engine:
    return Engine.load("retro", threads=1)


QUERIES = ("CC(=O)Nc1ccc(O)cc1", "O=C(NCc1ccccc1)c1ccccc1", "CCOC(=O)c1ccc(N)cc1")


@pytest.mark.parametrize("options", [("native", "fp32"), ("native", "int8"), ("torch", "fp32")])
def test_predictions_are_scored_as_they_were_predicted(options: tuple[str, str]) -> None:
    """On the compiled kernel to the last bit, alone and in a batch; with torch up to rounding."""
    runtime, dtype = options
    engine = Engine.load("retro", threads=1, runtime=runtime, dtype=dtype)
    found = [
        (query, answer)
        for query, result in zip(QUERIES, engine.predict(QUERIES, n=3, distinct=False), strict=True)
        for answer in result.hypotheses
    ]
    scored = engine.score([query for query, _ in found], [answer.smiles for _, answer in found])
    compared = 0
    for (query, answer), each in zip(found, scored, strict=True):
        assert each.log_prob >= answer.log_prob - 1e-4  # another SMILES of it may be more probable
        if each.smiles != answer.smiles:
            continue
        compared += 1
        assert [token.text for token in each.tokens] == [*answer.tokens, "end"]
        log_probs = tuple(token.log_prob for token in each.tokens)
        if runtime == "native":
            assert log_probs == answer.token_log_probs
            assert engine.score(query, answer.smiles) == each, "alone as in a batch"
        else:
            assert log_probs == pytest.approx(answer.token_log_probs, abs=1e-4)
    assert compared > len(found) / 2


def test_an_answer_is_scored_in_one_forward_pass_however_many_there_are(
    retro: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = []
    run = NativeRunner.run
    monkeypatch.setattr(NativeRunner, "run", lambda self, nodes: passes.append(len(nodes.tokens)) or run(self, nodes))
    retro.score(QUERIES[0], "CC(=O)O.Nc1ccc(O)cc1")
    assert len(passes) == 1
    retro.score(QUERIES, ["CC(=O)O.Nc1ccc(O)cc1", "O=C(Cl)c1ccccc1.NCc1ccccc1", "CCO.Nc1ccc(C(=O)O)cc1"])
    assert len(passes) == 2


def test_a_list_has_one_answer_for_every_query_and_the_bad_pair_is_named(retro: Engine) -> None:
    with pytest.raises(ValueError, match="one answer to every query"):
        retro.score(QUERIES, ["CCO"])
    with pytest.raises(ValueError, match=r"^pair 2: .*never seen '\[Og\]'"):
        retro.score(QUERIES[:2], ["CC(=O)O.Nc1ccc(O)cc1", "[Og]"])
    assert retro.score([], []) == []


def test_isotope_labels_are_scored_without_as_the_model_reads_them(retro: Engine) -> None:
    labelled = retro.score("[2H]C([2H])([2H])C(=O)Nc1ccccc1", "[2H]C([2H])([2H])C(=O)Cl.Nc1ccccc1")
    assert labelled == retro.score("CC(=O)Nc1ccccc1", "CC(=O)Cl.Nc1ccccc1")


def test_the_greedy_answer_never_departs_and_another_does_where_its_tokens_differ(retro: Engine) -> None:
    greedy = retro.predict(QUERIES[0], n=1, decoder="greedy").hypotheses[0]
    assert retro.score(QUERIES[0], greedy.smiles).departure is None
    other = retro.score(QUERIES[0], "CC(=O)O.Nc1ccc(O)cc1" if "Cl" in greedy.smiles else "CC(=O)Cl.Nc1ccc(O)cc1")
    assert other.departure is not None
    departed = other.tokens[other.departure]
    assert departed.rank > 1 and departed.best != departed.text and departed.best_log_prob > departed.log_prob
    assert all(token.rank == 1 and token.best == token.text for token in other.tokens[: other.departure])


def test_an_answer_is_scored_in_the_atom_order_of_the_query(retro: Engine) -> None:
    """However it is written: the aligned SMILES is the same, and among the variants."""
    scored = {
        retro.score(QUERIES[1], text).log_prob
        for text in ("O=C(Cl)c1ccccc1.NCc1ccccc1", "c1ccc(CN)cc1.ClC(=O)c1ccccc1")
    }
    assert len(scored) == 1
    assert "O=C(Cl)c1ccccc1.NCc1ccccc1" in answer_variants("retro", QUERIES[1], "c1ccc(CN)cc1.ClC(=O)c1ccccc1")
    product = answer_variants("forward", "OB(O)c1ccccc1.Brc1ccncc1", "c1ccc(-c2ccncc2)cc1")
    assert product == ["c1ccc(-c2ccncc2)cc1", "c1(-c2ccncc2)ccccc1"], "the boronic acid's atoms come first"


@pytest.mark.parametrize(
    ("query", "answer", "message"),
    [
        ("C(", "CC", "never closed"),
        ("CCO", "C(", "no valid SMILES"),
        ("CCO", "[Og]", "never seen"),
        ("CCO", "C" * 2000, "tokens"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_words(retro: Engine, query: str, answer: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        retro.score(query, answer)


def test_a_missing_value_or_a_bad_row_harms_no_other(retro: Engine) -> None:
    good, *bad, last = retro.predict([QUERIES[0], None, nan, "C(", QUERIES[0]], n=1)
    assert [row.status for row in bad] == ["invalid"] * 3 and all(row.message for row in bad)
    assert good.hypotheses == last.hypotheses and good.status == "ok"


def test_columns_and_generators_are_lists_of_queries_and_tables_are_refused_in_words(retro: Engine) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"smiles": [*QUERIES[:2], None], "id": [1, 2, 3]})
    statuses = ["ok", "ok", "invalid"]
    assert [row.status for row in retro.predict(table["smiles"], n=1)] == statuses
    assert [row.status for row in retro.predict((text for text in table["smiles"]), n=1)] == statuses
    with pytest.raises(TypeError, match=r"a table is no list of queries.*table\['smiles'\]"):
        retro.predict(table)
    for wrong in (b"CCO", {"CCO": 1}, 3, ["CCO", 3]):
        with pytest.raises(TypeError, match="give a SMILES"):
            retro.predict(wrong)  # type: ignore[call-overload]


def test_a_wrong_option_is_named_with_its_neighbours_and_a_useless_one_is_told(retro: Engine) -> None:
    with pytest.raises(TypeError, match=r"no option 'temprature'; there is temperature"):
        retro.predict("CCO", temprature=1)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"there is augment, batch_size"):
        retro.predict("CCO", qqq=1)  # type: ignore[call-overload]
    with pytest.warns(UserWarning, match="temperature has no effect with the decoder beam"):
        retro.predict("CCO", n=1, temperature=0.5)


def test_options_are_the_fields_of_the_settings() -> None:
    assert get_type_hints(DecodingOptions) == {
        field.name: get_type_hints(DecodeSettings)[field.name] for field in fields(DecodeSettings)
    }


def test_an_engine_is_pickled_by_its_name_and_options(tiny_retro: Path) -> None:
    engine = Engine.load(tiny_retro, threads=1, dtype="int8")
    again = pickle.loads(pickle.dumps(engine))  # what another process gets
    assert again.dtype == "int8" and again.digest == engine.digest
    assert again.predict("CCO", n=2).hypotheses == engine.predict("CCO", n=2).hypotheses


def test_a_closed_engine_says_so(tiny_retro: Path) -> None:
    with Engine.load(tiny_retro, threads=1) as engine:
        assert engine.predict("CCO", n=1).status == "ok"
    for use in (lambda: engine.predict("CCO"), lambda: engine.score("CCO", "CC"), engine.cost):
        with pytest.raises(ValueError, match=r"closed; load the model again"):
            use()
