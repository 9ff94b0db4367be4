"""Tests of scoring.py and of engines that are pickled, closed and used with options and tables."""

from __future__ import annotations

import pickle
from dataclasses import fields
from math import isclose, nan
from pathlib import Path
from typing import get_type_hints

import pytest

from chemspec.engine.engine import Engine
from chemspec.engine.options import DecodingOptions
from chemspec.engine.scoring import answer_variants
from chemspec.settings import DecodeSettings


@pytest.fixture(scope="module")
def retro() -> Engine:
    return Engine.load("retro", threads=1)


QUERIES = ("CC(=O)Nc1ccc(O)cc1", "O=C(NCc1ccccc1)c1ccccc1", "CCOC(=O)c1ccc(N)cc1")


@pytest.mark.parametrize("query", QUERIES)
def test_a_prediction_is_scored_as_it_was_predicted(retro: Engine, query: str) -> None:
    for answer in retro.predict(query, n=3, distinct=False).hypotheses:
        scored = retro.score(query, answer.smiles)
        assert scored.log_prob >= answer.log_prob - 1e-4  # another SMILES of it may be more probable
        if scored.smiles == answer.smiles:
            assert [token.text for token in scored.tokens[:-1]] == list(answer.tokens)
            assert all(
                isclose(token.log_prob, log_prob, abs_tol=1e-5)
                for token, log_prob in zip(scored.tokens, answer.token_log_probs, strict=True)
            )


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
