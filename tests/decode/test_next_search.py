"""A search that goes on from a narrower one finds what it finds alone, bit for bit, and computes no node twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from random import Random

import pytest
from compilers import needs_compiler
from hypothesis import given
from hypothesis import strategies as st
from table import Table, TableRunner
from test_compiled_loop import Case, batches, cases, tables
from test_loop import EAGER, VOCAB
from tiny import tiny_model

from chemspec.decode.beam import beam_search
from chemspec.decode.decoding import Decoded, Decoding
from chemspec.decode.generate import continuous_batching
from chemspec.decode.peer_rules import ADVANCE, peer_search
from chemspec.decode.protocol import ConfiguredDecoder, Decoder
from chemspec.draft.base import Drafter, NoDrafts
from chemspec.model.runner import Backend
from chemspec.model.runners.native.runner import NativeBackend
from chemspec.model.session import Session
from chemspec.settings import RULES
from chemspec.types import FinishedSequence, Pass

LOOPS = [False, pytest.param(True, marks=needs_compiler)]
Plan = Sequence[tuple[int, int]]  # of the searches of a query, one after the other: width, and most tokens

plans = st.lists(st.tuples(st.integers(1, 7), st.integers(1, 12)), min_size=1, max_size=3)


def one(rules: str, width: int, max_len: int) -> Decoder:
    if rules == RULES[0]:
        return beam_search(width=width, max_len=max_len)
    return peer_search(rules=rules, width=width, max_len=max_len)


def chain(plan: Plan, rules: str = RULES[0]) -> Decoder:
    """Return a decoder for each of the searches, each of which the one before names."""
    first, *others = plan
    decoder = one(rules, *first)
    following = (lambda answers: chain(others, rules) if answers else None) if others else None
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


def fresh(backend: Backend, source: Sequence[int], width: int, max_len: int, rules: str = RULES[0]) -> Decoded:
    """Search from scratch, with no more scores of a prefix than that width needs."""
    queries = [(source, one(rules, width, max_len))]
    return run_all(decoding(False, backend, NoDrafts(), queries, top_k=max(2, width + 1)), 1)[0][0]


@cache
def native(seed: int) -> NativeBackend:
    return NativeBackend(tiny_model(seed, VOCAB).float(), threads=1)  # `float` would change the cached model


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
@pytest.mark.parametrize("seed", range(3))
def test_it_computes_fewer_nodes_in_fewer_passes_than_two_searches(seed: int, compiled: bool) -> None:
    """Without drafts every pass is a step with something new in it, and `standard` counts them."""
    random, backend = Random(seed), native(seed)
    for _ in range(5):
        source = [random.randrange(4, VOCAB) for _ in range(random.randint(4, 12))]
        narrow, wide = run_all(decoding(compiled, backend, NoDrafts(), [(source, chain([(3, 12), (6, 12)]))]), 1)[0]
        alone = fresh(backend, source, 6, 12)
        assert bits(wide.answers) == bits(alone.answers)
        assert narrow.continued is None and wide.continued is not None and alone.continued is None
        assert wide.continued.standard == len(wide.passes) < len(alone.passes) == wide.continued.tokens
        nodes, all_nodes = (sum(step.computed for step in search.passes) for search in (wide, alone))
        assert 0 < nodes < all_nodes
        assert wide.seconds > 0


@pytest.mark.parametrize("compiled", LOOPS)
def test_what_nothing_new_is_asked_of_takes_no_pass(compiled: bool) -> None:
    """At one token a beam of any width asks about bos alone."""
    plan = [(2, 1), (4, 1), (6, 1)]
    first, *others = run_all(decoding(compiled, Table(0, vocab_size=VOCAB), NoDrafts(), [([4], chain(plan))]), 1)[0]
    assert len(first.passes) == 1 and [len(one.answers) for one in (first, *others)] == [2, 4, 6]
    for other in others:
        assert not other.passes and other.seconds == 0.0
        assert other.continued is not None and (other.continued.tokens, other.continued.standard) == (1, 0)


@given(batches, tables, cases, plans)
@pytest.mark.parametrize("compiled", LOOPS)
def test_standard_passes_and_tokens_do_not_depend_on_drafts(
    compiled: bool, batch: list[list[int]], table: Table, case: Case, plan: Plan
) -> None:
    found = []
    for drafter in (NoDrafts(), case.build(table)):
        queries = [(source, chain(plan)) for source in batch]
        found.append(run_all(decoding(compiled, table, drafter, queries, case=case), len(batch)))
    for plain, drafted in zip(*found, strict=True):
        assert [one.continued for one in plain] == [one.continued for one in drafted]
        for one in plain[1:]:
            assert one.continued is not None and one.continued.standard == len(one.passes) <= one.continued.tokens
        for one in drafted:
            assert sum(step.accepted for step in one.passes) <= sum(step.drafted for step in one.passes)


@pytest.mark.parametrize("rules", ADVANCE)
def test_beams_by_the_rules_of_others_go_on_in_python(rules: str) -> None:
    table = Table(3, vocab_size=VOCAB, copying=3.0)
    for source in ([4, 5, 6, 7], [9, 8], [5] * 6):
        table.calls.clear()
        plan = [(2, 12), (4, 12), (7, 10)]
        (found,) = run_all(decoding(False, table, NoDrafts(), [(source, chain(plan, rules))]), 1)
        assert len(set(table.nodes)) == len(table.nodes)
        for search, alone in zip(found, plan, strict=True):
            assert bits(search.answers) == bits(fresh(table, source, *alone, rules).answers)


@pytest.mark.parametrize("compiled", LOOPS)
@pytest.mark.parametrize("parts", [1, 2])
def test_others_join_a_batch_while_queries_search_again(parts: int, compiled: bool) -> None:
    random, backend = Random(5), native(0)
    batch = [[random.randrange(4, VOCAB) for _ in range(random.randint(2, 12))] for _ in range(9)]
    planned = [[(2, 12), (4, 12), (7, 12)][: random.randint(1, 3)] for _ in batch]
    waiting = list(range(len(batch)))

    def more(room: int) -> list[int]:
        return [waiting.pop(0) for _ in range(min(room, len(waiting)))]

    def begin(numbers: Sequence[int]) -> tuple[Decoding, Callable[[Sequence[int]], Sequence[int]]]:
        made = decoding(compiled, backend, NoDrafts(), [(batch[i], chain(planned[i])) for i in numbers])
        return made, lambda new: made.add_queries([batch[i] for i in new], [chain(planned[i]) for i in new])

    found = dict(continuous_batching(more, begin, size=3, parts=parts))
    assert sorted(found) == list(range(len(batch)))
    for number, together in found.items():
        alone = run_all(decoding(compiled, backend, NoDrafts(), [(batch[number], chain(planned[number]))]), 1)[0]
        assert [(bits(s.answers), counted(s.passes), s.continued) for s in searched(together)] == [
            (bits(s.answers), counted(s.passes), s.continued) for s in alone
        ]


@pytest.mark.parametrize("compiled", LOOPS)
def test_each_search_records_a_tree_of_its_own(compiled: bool) -> None:
    """Its first pass lists what it reuses; a parent comes before its children."""
    table = Table(1, vocab_size=VOCAB, copying=3.0)
    made = decoding(compiled, table, NoDrafts(), [([4, 5, 6, 7, 8], chain([(2, 12), (5, 12)]))], record=True)
    (searches,) = run_all(made, 1)
    sizes = []
    for search in searches:
        nodes = 0
        for step in search.passes:
            assert step.grown is not None
            for parent in step.grown.parents:
                assert -1 <= parent < nodes and (parent == -1) == (nodes == 0)
                nodes += 1
            assert all(node < nodes for node in step.grown.beam)
        sizes.append(nodes)
    narrow, wide = (sum(step.computed for step in search.passes) for search in searches)
    assert sizes == [narrow, narrow + wide]


@pytest.mark.parametrize("compiled", LOOPS)
def test_what_raises_over_the_answers_comes_through(compiled: bool) -> None:
    def refuse(_: list[FinishedSequence]) -> Decoder | None:
        raise KeyboardInterrupt

    decoder = beam_search(width=2, max_len=4)
    assert isinstance(decoder, ConfiguredDecoder)
    decoder.next_search = refuse
    with pytest.raises(KeyboardInterrupt):
        decoding(compiled, Table(0, vocab_size=VOCAB), NoDrafts(), [([4], decoder)]).run_to_end()
