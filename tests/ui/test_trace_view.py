"""What the trace player shows is what happened: origins by position, fates of drafts and of branches."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chemspec.types import (
    DRAFTED,
    REQUESTED,
    AcceptedSpan,
    DecodeResult,
    Draft,
    Hypothesis,
    Pass,
    Trace,
    TreeDelta,
    result_from_json,
    to_json,
)

pytest.importorskip("streamlit")

from helpers.pages import weights

from chemspec.engine.engine import Engine
from chemspec.replay.prefix_tree import NEVER, build_tree, lay_out_tree
from chemspec.replay.trace_view import view_trace
from chemspec.settings import DecodeSettings
from chemspec.ui.step import trace_player

WORDS = ("<pad>", "<bos>", "<eos>", "<unk>", "C", "N", "O", "c", "1", "2", "(", ")")
ID = {word: number for number, word in enumerate(WORDS)}


def step(emitted: int, accepted: int = 0, **parts: object) -> Pass:
    return Pass(1, 1 + accepted, accepted, emitted, accepted, 1.0, 1, 1e-4, 1e-3, **parts)  # type: ignore[arg-type]


def answer(text: str, ended: str = "eos") -> Hypothesis:
    tokens = tuple(text)
    zeros = (0.0,) * (len(tokens) + (ended == "eos"))
    return Hypothesis(text, text, True, tokens, zeros, 0.0, 1.0, 1.0, ended)  # type: ignore[arg-type]


def draft(text: str, start: int, end: bool = False) -> Draft:
    ids = tuple(ID[char] for char in text) + ((2,) if end else ())
    return Draft(ids, "copy", (start, start + len(text)))


def greedy(query: str, text: str, passes: list[Pass], **more: object) -> DecodeResult:
    trace = Trace(tuple(query), {"decoder": "greedy"}, tuple(passes), 0.01, WORDS)
    return DecodeResult(query, "ok", "", (answer(text),), replace(trace, **more))


RELABELLED = greedy(
    "CC2CCCC2O",
    "NC1CCCC1",
    [
        step(1, drafts=(draft("CC", 0),)),
        step(8, 7, spans=(AcceptedSpan(1, 7, "copy", (1, 8)),), drafts=(draft("C1CCCC1O", 1),)),
    ],
)


@pytest.mark.parametrize("words", [WORDS, ()])
def test_a_relabelled_ring_comes_from_its_place_in_the_query(words: tuple[str, ...]) -> None:
    view = view_trace(replace(RELABELLED, trace=replace(RELABELLED.trace, vocabulary=words)))
    pieces = view.answers[0].tokens
    assert [piece.source for piece in pieces] == [None, 1, 2, 3, 4, 5, 6, 7, None]
    assert [piece.origin for piece in pieces] == ["own", *["copied"] * 7, "own"]
    assert [piece.pass_number for piece in pieces] == [1, *[2] * 8]
    assert {piece.run for piece in pieces} == {None, 0}
    assert pieces[-1].text == "end"
    # C-C2-C: the atoms of the query, and those of the answer, in the order written
    assert view.atoms == (0, 1, None, 2, 3, 4, 5, None, 6)
    assert [piece.atom for piece in pieces] == [0, 1, None, 2, 3, 4, 5, None, None]
    assert (view.passes[1].drafts[0].accepted, len(view.passes[1].drafts[0].tokens)) == (7, 8)


def test_a_draft_is_rejected_from_its_first_wrong_token_on_and_says_what_the_model_wrote() -> None:
    passes = [step(3, 2, spans=(AcceptedSpan(0, 2, "copy", (0, 2)),), drafts=(draft("CO", 0), draft("CCOC", 1)))]
    view = view_trace(greedy("CCOC", "CC", passes))
    best, other = view.passes[0].drafts
    assert (best.start, best.accepted, best.right) == (1, 2, 2)
    assert (other.start, other.accepted) == (0, 1)
    assert other.correction == ("C", 1.0, None)
    odds = [{"C": 1.0}, {"C": 0.7, "O": 0.3}, {"end": 1.0}]
    best, other = view_trace(greedy("CCOC", "CC", passes), odds).passes[0].drafts
    assert other.correction == ("C", 1.0, 0.3)
    assert best.correction == ("end", 1.0, 0.0)  # the O is not among the best
    (accepted,) = view_trace(greedy("CC", "CC", [step(3, 2, drafts=(draft("CC", 0, end=True),))])).passes[0].drafts
    assert accepted.correction is None


def test_a_drafted_end_does_not_count_and_the_answers_is_the_models_own() -> None:
    passes = [step(3, 2, spans=(AcceptedSpan(0, 2, "copy", (0, 2)),), drafts=(draft("CC", 0, end=True),))]
    view = view_trace(greedy("CC", "CC", passes))
    (one,) = view.passes[0].drafts
    assert (one.tokens, one.accepted, one.right) == (("C", "C"), 2, 2)
    assert view.answers[0].tokens[-1].origin == "own"
    assert view.passes[0].summary.startswith(
        "Pass 1 of 1. A draft of 2 tokens copied from query token 1 on; 2 accepted."
    )
    (alone,) = view_trace(greedy("", "CC", [step(1, drafts=(draft("", 2, end=True),))])).passes
    assert "Nothing was drafted" in alone.summary


def test_copied_runs_end_where_the_place_in_the_query_jumps() -> None:
    spans = (AcceptedSpan(0, 2, "copy", (0, 2)), AcceptedSpan(2, 1, "copy", (4, 5)))
    view = view_trace(greedy("CCOCC", "CCCN", [step(5, 3, spans=spans)]))
    assert [piece.run for piece in view.answers[0].tokens] == [0, 0, 1, None, None]


def test_a_span_of_another_hypothesis_is_not_taken_for_an_origin() -> None:
    passes = [step(3, 2, spans=(AcceptedSpan(0, 2, "copy", (0, 2)),))]
    result = greedy("CC", "NO", passes, settings={"decoder": "beam"})
    assert {piece.origin for piece in view_trace(result).answers[0].tokens} == {"own"}


# Trees ---------------------------------------------------------------------------------------------

# Numbers of the nodes:  0 bos, 1 C, 2 CC, 3 CCO, 4 N, 5 NN, 6 O
GROWN = (
    TreeDelta((0,), (-1, 0, 1, 2), (1, ID["C"], ID["C"], ID["O"]), (REQUESTED, 0, 1, 2)),
    TreeDelta((1, 4), (0, 4), (ID["N"], ID["N"]), (REQUESTED, DRAFTED)),
    TreeDelta((2, 6), (4,), (ID["O"],), (REQUESTED,)),
)
BEAM = DecodeResult(
    "CCO",
    "ok",
    "",
    (answer("CC"), answer("N")),
    Trace(
        ("C", "C", "O"),
        {"decoder": "beam", "drafter": "copy"},
        tuple(replace(step(1), drafted=2, grown=one) for one in GROWN),
        0.01,
        WORDS,
    ),
)


def test_nodes_are_born_kept_and_die_and_drawn_are_those_needed_or_all() -> None:
    tree = build_tree(BEAM.trace, [item.tokens for item in BEAM.hypotheses])
    assert tree is not None
    assert tree.parents == [-1, 0, 1, 2, 0, 4, 4]
    assert tree.depths == [0, 1, 2, 3, 1, 2, 2]
    assert tree.born == [1, 1, 1, 1, 2, 2, 3]
    # After step 1 the beam stands at C and N, after step 2 at CC and NO, after step 3 all is over.
    assert tree.accepted == [1, 1, 2, NEVER, 1, NEVER, 2]
    assert tree.dies == [NEVER, NEVER, NEVER, 3, NEVER, 2, 3]
    assert tree.answers == ((0, 1, 2), (0, 4))

    some, everything = lay_out_tree(tree), lay_out_tree(tree, spare=True)
    assert (len(some["nodes"]), some["left_out"], len(everything["nodes"]), everything["left_out"]) == (4, 2, 6, 0)
    assert [(leaf["rank"], leaf["column"], leaf["step"]) for leaf in some["leaves"]] == [(1, 2, 3), (2, 1, 2)]
    assert len(lay_out_tree(tree, spare=True, most=3)["nodes"]) == 2
    assert {(node["column"], node["row"]): node["text"] for node in everything["nodes"]} == {
        (1, 0): "C",
        (2, 0): "C",
        (3, 0): "O",
        (1, 1): "N",
        (2, 1): "O",
        (2, 2): "N",
    }


def test_origins_in_a_beam_come_from_its_tree() -> None:
    view = view_trace(BEAM)
    first, second = view.answers
    assert [(piece.origin, piece.source) for piece in first.tokens] == [("copied", 0), ("copied", 1), ("own", None)]
    assert [piece.origin for piece in second.tokens] == ["own", "own"]
    (chain,) = view.passes[0].drafts
    assert (chain.tokens, chain.start, chain.accepted, chain.waiting) == (("C", "C", "O"), 0, 1, 3)


# Hypotheses of different lengths: after the first pass one of CC, a draft that was kept to its end, and one of N.
# Numbers of the nodes: 0 bos, 1 C, 2 CC, 3 O, 4 CCO, 5 CCOC, 6 N
UNEVEN = replace(
    BEAM,
    hypotheses=(answer("CCO"), answer("N")),
    trace=replace(
        BEAM.trace,
        settings={"decoder": "sbs", "drafter": "windows", "exact": False},
        passes=tuple(
            step(emitted, accepted, grown=grown)
            for emitted, accepted, grown in (
                (3, 2, TreeDelta((0,), (-1, 0, 1, 0), (1, ID["C"], ID["C"], ID["O"]), (REQUESTED, 0, 1, 2))),
                (1, 0, TreeDelta((4, 6), (2, 4, 0), (ID["O"], ID["C"], ID["N"]), (REQUESTED, 0, REQUESTED))),
            )
        ),
    ),
)


def test_texts_of_different_lengths_are_kept_and_die_by_what_is_live() -> None:
    view = view_trace(UNEVEN)
    tree = view.tree
    assert tree is not None and view.uneven and view.relaxed
    assert tree.accepted == [1, 1, 1, NEVER, 1, NEVER, 1]
    assert tree.dies == [NEVER, NEVER, NEVER, 1, NEVER, 2, NEVER]  # O at once, CCOC with its hypothesis
    first, second = view.answers
    assert [token.pass_number for token in first.tokens] == [1, 1, 1, 2]
    assert [token.pass_number for token in second.tokens] == [1, 2]  # though the longest was further by then
    assert [token.origin for token in first.tokens] == ["copied", "copied", "own", "own"]
    kept, rejected = view.passes[0].drafts
    assert (kept.tokens, kept.accepted, kept.waiting) == (("C", "C"), 2, 2)
    assert (rejected.tokens, rejected.accepted, rejected.waiting) == (("O",), 0, 0)
    assert "The longest text grew by 3 tokens" in view.passes[0].summary


def test_a_token_that_a_relaxed_search_let_stand_names_the_models_first_choice() -> None:
    passes = [step(3, 2, spans=(AcceptedSpan(0, 2, "copy", (0, 2)),), drafts=(draft("CC", 0),))]
    odds = [{"C": 1.0}, {"N": 0.6, "C": 0.4}, {"end": 1.0}]
    relaxed = greedy("CC", "CC", passes, settings={"decoder": "greedy", "beta": 3, "exact": False})
    view = view_trace(relaxed, odds)
    assert [token.instead for token in view.answers[0].tokens] == [None, ("N", 0.6), None]
    assert "1 token not the model's first choice" in view.passes[0].summary
    exact = view_trace(greedy("CC", "CC", passes), odds)  # a tie that rounding turned
    assert {token.instead for token in exact.answers[0].tokens} == {None}


@given(st.data())
def test_branches_of_any_tree_share_no_place(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 60))
    parents = (-1, *(data.draw(st.integers(0, node - 1)) for node in range(1, size)))
    ids = tuple(4 + node % 8 for node in range(size))
    grown = TreeDelta((0,), parents, (1, *ids[1:]), (REQUESTED,) * size)
    tree = build_tree(replace(BEAM.trace, passes=(replace(step(1), grown=grown),)), [("C",)])
    assert tree is not None
    plan = lay_out_tree(tree, spare=True)
    places = [(node["column"], node["row"]) for node in plan["nodes"]]
    assert len(places) == len(set(places)) == size - 1
    assert max((row for _, row in places), default=0) == plan["rows"] - 1


def test_hostile_text_stays_text() -> None:
    """It reaches the browser as data, which puts it in by textContent; no drawing is made of it."""
    bad = "<img src=x onerror=alert(1)>"
    trace = replace(BEAM.trace, query=(bad, "C", "O"))
    answer = replace(BEAM.hypotheses[0], tokens=(bad,), smiles=bad)
    scene = trace_player.scene_data(view_trace(replace(BEAM, trace=trace, hypotheses=(answer,))), dark=False)
    assert scene["query"]["svg"] == scene["answers"][0]["svg"] == ""
    assert scene["query"]["tokens"][0] == bad
    json.dumps(scene)


# The shipped models ----------------------------------------------------------------------------------


@weights
@pytest.mark.weights
@pytest.mark.parametrize(("decoder", "drafter"), [("greedy", "copy"), ("beam", "copy"), ("sbs", "windows")])
def test_the_view_of_a_real_answer_holds_together(decoder: str, drafter: str) -> None:
    engine = Engine.load("forward", threads=1)
    plain = DecodeSettings(decoder=decoder, n=1 if decoder == "greedy" else 4, drafter=drafter, drafting="fixed")
    query = "CC(C)(C)OC(=O)N1CCC(CC1)C(=O)O.Nc1ccc(F)cc1"
    bare, result = (engine.predict(query, plain, record=record) for record in (False, True))
    assert [one.tokens for one in bare.hypotheses] == [one.tokens for one in result.hypotheses]
    assert bare.trace.passes[0].grown is None
    assert not bare.trace.vocabulary
    assert result_from_json(to_json(result)) == result
    view = view_trace(result)
    assert sum(len(item.grown.tokens) for item in result.trace.passes if item.grown) == sum(
        item.computed for item in result.trace.passes
    )
    pieces = view.answers[0].tokens
    copied = [piece for piece in pieces if piece.origin == "copied"]
    assert len(copied) > len(pieces) / 2
    for piece in copied:  # the same text, or another label for the ring
        there = view.query[piece.source or 0]
        assert there == piece.text or (there.isdigit() and piece.text.isdigit())
    if decoder == "greedy":
        assert len(copied) == sum(item.accepted for item in result.trace.passes)
        assert sum(piece.origin == "own" for piece in pieces) == len(result.trace.passes)
    for one, other in pairwise(piece.pass_number for piece in pieces):
        assert one <= other
    tree = view.tree
    assert tree is not None
    for path, item in zip(tree.answers, result.hypotheses, strict=True):
        assert len(path) == len(item.tokens) + 1
        assert all(tree.dies[node] == NEVER for node in path)
    for number, beam in enumerate(tree.beams[:-1]):
        for node in beam:
            assert tree.accepted[node] <= max(number, 1)
            assert tree.dies[node] > number
