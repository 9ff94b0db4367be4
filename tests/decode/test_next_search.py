"""A search that goes on from a narrower one finds what it finds alone, bit for bit, and computes no node twice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest
from compilers import needs_compiler
from hypothesis import given
from hypothesis import strategies as st
from table import Table, TableRunner
from test_compiled_loop import Case, batches, cases, tables
from test_loop import EAGER, VOCAB

from chemspec.decode.beam import beam_search
from chemspec.decode.decoding import Decoded, Decoding
from chemspec.decode.protocol import ConfiguredDecoder, Decoder
from chemspec.draft.base import Drafter, NoDrafts
from chemspec.model.runner import Backend
from chemspec.model.session import Session
from chemspec.types import FinishedSequence, Pass

LOOPS = [False, pytest.param(True, marks=needs_compiler)]
Plan = Sequence[tuple[int, int]]  # of the searches of a query, one after the other: width, and most tokens

plans = st.lists(st.tuples(st.integers(1, 7), st.integers(1, 12)), min_size=1, max_size=3)


def chain(plan: Plan) -> Decoder:
    """Return a decoder for each of the searches, each of which the one before names."""
    (width, max_len), *others = plan
    decoder = beam_search(width=width, max_len=max_len)
    following = (lambda answers: chain(others) if answers else None) if others else None
    return ConfiguredDecoder(decoder, getattr(decoder, "config", None), following)


def decoding(
    compiled: bool,
    backend: Backend,
    drafter: Drafter,
    queries: Sequence[tuple[Sequence[int], Decoder]],
    *,
    case: Case | None = None,
    budget: int = 64,
    record: bool = False,
    top_k: int = 9,
) -> Decoding:
    sources, ticks = [source for source, _ in queries], count()
    return Decoding(
        sources,
        [decoder for _, decoder in queries],
        Session(backend, sources, top_k=top_k),
        drafter,
        max_len=12,
        budget=0 if isinstance(drafter, NoDrafts) else budget,  # as an engine does
        clock=lambda: float(next(ticks)),
        record=record,
        vocab_size=VOCAB,
        planner=case.planner(drafter) if case else None,
        compiled=compiled,
    )


def bits(answers: Sequence[FinishedSequence]) -> list[tuple[tuple[int, ...], list[str], str]]:
    return [(one.tokens, [value.hex() for value in one.log_probs], one.ended) for one in answers]


def counted(steps: Sequence[Pass]) -> list[object]:
    return [
        (one.asked, one.computed, one.drafted, one.emitted, one.accepted, one.margin, one.spans, one.drafts, one.grown)
        for one in steps
    ]


def searched(found: Decoded) -> list[Decoded]:
    return [*found.earlier, found]


def run_all(made: Decoding, queries: int) -> list[list[Decoded]]:
    made.run_to_end()
    assert made.finished_queries() == list(range(queries))
    return [searched(made.take_result(query)) for query in range(queries)]


def fresh(backend: Backend, source: Sequence[int], width: int, max_len: int) -> Decoded:
    """Search from scratch, with no more scores of a prefix than that width needs."""
    queries = [(source, beam_search(width=width, max_len=max_len))]
    return run_all(decoding(False, backend, NoDrafts(), queries, top_k=max(2, width + 1)), 1)[0][0]


@needs_compiler
@given(batches, tables, cases, st.lists(plans, min_size=5, max_size=5), st.data())
def test_every_search_finds_what_it_finds_alone_and_no_node_is_computed_twice(
    batch: list[list[int]], table: Table, case: Case, planned: list[Plan], data: st.DataObject
) -> None:
    """In both loops, whatever is drafted; what the last search needs no more may be cleared away."""
    budget, record = data.draw(st.sampled_from((0, 3, 64))), data.draw(st.booleans())
    outcomes = []
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):
            patch.setattr(TableRunner, "compaction_threshold", EAGER)
        for compiled in (False, True):
            table.calls.clear()
            queries = [(source, chain(plan)) for source, plan in zip(batch, planned, strict=False)]
            options = {"case": case, "budget": budget, "record": record}
            found = run_all(decoding(compiled, table, case.build(table), queries, **options), len(batch))
            computed = [(tuple(source), prefix) for source, prefix in table.nodes]
            outcomes.append((found, list(table.calls)))
            if len({tuple(source) for source in batch}) == len(batch):
                assert (
                    len(set(computed))
                    == len(computed)
                    == sum(step.computed for searches in found for search in searches for step in search.passes)
                )
            for source, plan, searches in zip(batch, planned, found, strict=False):
                assert len(searches) == len(plan)
                for search, alone in zip(searches, plan, strict=True):
                    assert bits(search.answers) == bits(fresh(table, source, *alone).answers)
    (python, calls), (compiled_, other_calls) = outcomes
    assert calls == other_calls
    for one_query, other in zip(python, compiled_, strict=True):
        assert [(s.answers, s.continued, counted(s.passes)) for s in one_query] == [
            (s.answers, s.continued, counted(s.passes)) for s in other
        ]


@pytest.mark.parametrize("compiled", LOOPS)
def test_what_raises_over_the_answers_comes_through(compiled: bool) -> None:
    def refuse(_: list[FinishedSequence]) -> Decoder | None:
        raise KeyboardInterrupt

    decoder = beam_search(width=2, max_len=4)
    assert isinstance(decoder, ConfiguredDecoder)
    decoder.next_search = refuse
    with pytest.raises(KeyboardInterrupt):
        decoding(compiled, Table(0, vocab_size=VOCAB), NoDrafts(), [([4], decoder)]).run_to_end()
