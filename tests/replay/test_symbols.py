"""Traces of models with merged tokens are shown in symbols: atoms, bonds, ring labels, and borders of tokens."""

from dataclasses import replace

import pytest

from chemspec import chem
from chemspec.replay.symbols import view_symbols
from chemspec.replay.trace_view import END, view_trace
from chemspec.tokenizer import split_smiles
from chemspec.types import AcceptedSpan, DecodeResult, Draft, Hypothesis, Pass, Trace
from chemspec.ui.step import trace_player

QUERY = "CC(=O)Nc1ccccc1"
VOCABULARY = ("<pad>", "<bos>", "<eos>", "<unk>", "CC", "(=O)", "O", ".", "N", "c1cc", "ccc1", "c1ccc")
ANSWER = ("CC", "(=O)", "O", ".", "N", "c1cc", "ccc1")
STARTS = (0, 2, None, None, 6, 7, 11)  # where the answer's tokens were copied from, in symbols of the query


def step_of(emitted: int, spans: tuple[AcceptedSpan, ...], draft: Draft) -> Pass:
    accepted = sum(span.length for span in spans)
    return Pass(1, 1 + len(draft.tokens), len(draft.tokens), emitted, accepted, 1.0, 1, 0.001, 0.001, spans, (draft,))


def result_of(**settings: object) -> DecodeResult:
    ids = [VOCABULARY.index(text) for text in ANSWER]
    first = Draft((*ids[:2], 8), "copy", positions=(0, 2, 6))
    second = Draft((*ids[4:6], 11), "copy", positions=(6, 7, 11))
    spans = AcceptedSpan(0, 1, "copy", (0, 1)), AcceptedSpan(1, 1, "copy", (2, 3))
    more = AcceptedSpan(4, 1, "copy", (6, 7)), AcceptedSpan(5, 1, "copy", (7, 8))
    passes = step_of(3, spans, first), step_of(1, (), Draft((8,), "copy", (6, 7))), step_of(3, more, second)
    tail = step_of(1, (), Draft((4,), "copy", (0, 1)))
    answer = Hypothesis("".join(ANSWER), "", True, ANSWER, (-0.1,) * 8, -0.8, 0.45, 0.45)
    how = {"decoder": "greedy", "exact": True, "merged": True, **settings}
    trace = Trace(tuple(split_smiles(QUERY)), how, (*passes, tail), 0.1, VOCABULARY)
    return DecodeResult(QUERY, "ok", "", (answer,), trace, smiles=QUERY)


def test_an_answer_is_split_into_symbols_that_link_to_atoms_of_query_and_answer() -> None:
    view = view_symbols(view_trace(result_of()))
    tokens = view.answers[0].tokens
    written = [token.text for token in tokens if token.text != END]
    assert written == split_smiles("".join(ANSWER))
    assert [token.atom for token in tokens[:-1]] == list(chem.atom_tokens(written))
    wholes = [token.whole or token.text for token in tokens]
    assert [
        wholes[index] for index in range(len(tokens)) if not index or tokens[index].number != tokens[index - 1].number
    ] == [*ANSWER, END]
    for token in tokens:
        if token.source is not None:
            assert view.query[token.source] == token.text and token.origin == "copied"
    # The second token of the draft goes on where the first ended, so that both are one run.
    runs = [token.run for token in tokens if token.run is not None]
    assert sorted(set(runs)) == [0, 1]


def test_drafts_are_split_too_and_their_counts_are_of_symbols() -> None:
    plain = view_trace(result_of())
    view = view_symbols(plain)
    (before,), (draft,) = plain.passes[0].drafts, view.passes[0].drafts
    assert (before.accepted, before.start) == (2, 0)
    assert draft.tokens == ("C", "C", "(", "=", "O", ")", "N")
    assert draft.numbers == (0, 0, 1, 1, 1, 1, 2)
    assert (draft.accepted, draft.right) == (6, 6)
    assert view.passes[0].summary == plain.passes[0].summary
    assert "3 tokens copied from query symbol 1 on; 2 accepted" in view.passes[0].summary
    assert view.passes[0].written == 3  # tokens of the model


@pytest.mark.parametrize("settings", [{"merged": None}, {}])
def test_other_traces_are_shown_as_they_are(settings: dict[str, object]) -> None:
    result = result_of(**settings)
    view = view_trace(result)
    assert (view_symbols(view) == view) is (settings != {})
    scene = trace_player.scene_data(view_trace(replace(result)), dark=False)
    assert len(scene["answers"][0]["tokens"]) == (
        1 + len(ANSWER) if settings else 1 + len(split_smiles("".join(ANSWER)))
    )
