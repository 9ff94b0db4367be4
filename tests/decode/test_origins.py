"""Records of where tokens came from: which draft is credited, and which runs tokens form."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from chemspec.decode.origins import Origin, TreeRecorder, accepted_spans, credit_longest, node_source
from chemspec.types import DRAFTED, REQUESTED, Draft, TreeDelta

token_lists = st.lists(st.integers(4, 6), max_size=6).map(tuple)
positions = st.lists(st.integers(-1, 4), min_size=6, max_size=6).map(tuple)
drafts = st.builds(Draft, token_lists, st.sampled_from(["copy", "mixed"]), positions=positions)


@given(token_lists, st.lists(drafts, min_size=1, max_size=4), st.integers(0, 2))
def test_the_first_of_the_longest_runs_is_credited_with_all_of_it(
    tokens: tuple[int, ...], branches: Sequence[Draft], before: int
) -> None:
    """Whatever stands before the tokens, and only where the pass had these drafts."""

    def matched(draft: Draft) -> int:
        return max(n for n in range(len(tokens) + 1) if draft.tokens[:n] == tokens[:n])

    def first_with(length: int) -> Draft | None:
        return next((draft for draft in branches if matched(draft) >= length), None)

    firsts = [(length - 1, first_with(length)) for length in range(1, len(tokens) + 1)]
    origins: list[Origin | None] = [draft and (draft, index) for index, draft in firsts]
    unchanged, longest = list(origins), max(map(matched, branches))
    credit_longest((1,) * before + tokens, before, origins, {before + 1: branches})
    assert origins == unchanged
    credit_longest((1,) * before + tokens, before, origins, {before: branches})
    best = first_with(longest)
    assert origins == [(best, index) if index < longest else None for index in range(len(tokens))]


@given(st.lists(st.none() | st.tuples(drafts, st.integers(0, 5)), max_size=8), st.integers(0, 3))
def test_spans_have_every_drafted_token_once_and_cannot_be_joined(origins: Sequence[Origin | None], start: int) -> None:
    spans = accepted_spans(start, origins)
    found = {}
    for span in spans:
        for number in range(span.start, span.start + span.length):
            found[number] = span.drafter, None if span.span is None else span.span[0] + number - span.start
        assert span.span is None or span.span[1] - span.span[0] == span.length > 0
    drafted = [(number, origin) for number, origin in enumerate(origins, start) if origin is not None]
    assert found == {number: (draft.drafter, draft.query_position(index)) for number, (draft, index) in drafted}
    assert [*found] == [number for number, _ in drafted]
    for one, two in pairwise(spans):
        adjoining = one.start + one.length == two.start and one.drafter == two.drafter
        assert not adjoining or (one.span and one.span[1]) != (two.span and two.span[0])


def test_a_search_s_first_record_has_the_nodes_that_it_reuses() -> None:
    draft = Draft((5, 6), "copy", (2, 4))
    tree = TreeRecorder[str]()
    sources = {"a": node_source(None, requested=True), "ab": node_source((draft, 1), requested=False)}

    def describe(prefix: str) -> tuple[str, int, int]:
        return prefix[:-1], ord(prefix[-1]), sources.get(prefix, DRAFTED)

    first = TreeDelta((0,), (-1, 0), (97, 98), (REQUESTED, 3))
    assert tree.record(["a", "ab"], ["a"], describe) == first
    assert tree.record(["abc"], ["ab", "abc"], describe) == TreeDelta((1, 2), (1,), (99,), (DRAFTED,))
    tree.start_next_search()
    tree.start_next_search()  # a search without a pass of its own
    again = tree.record(["ad"], ["ad"], describe)
    assert again == TreeDelta((3,), (-1, 0, 1, 0), (97, 98, 99, 100), (REQUESTED, 3, DRAFTED, DRAFTED))
    assert tree.record([], ["a"], describe) == TreeDelta((0,), (), (), ())
