"""What drafters promise, what each of them proposes, and that none of them changes an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from helpers.case_tables import table
from helpers.small import TOKENIZER
from helpers.table import Table, run
from helpers.thinned import every
from hypothesis import given
from hypothesis import strategies as st
from test_edit_ngrams import random_table

from chemspec.decode.beam import beam_search, greedy_search
from chemspec.decode.draft_planner import DraftPlanner
from chemspec.decode.protocol import Decoder
from chemspec.decode.sample import sample_sequences
from chemspec.draft.base import read_drafts
from chemspec.draft.copy import TokenClasses
from chemspec.draft.registry import (
    DRAFTERS,
    Copy,
    Drafter,
    DrafterInputs,
    Mixed,
    NoDrafts,
    Smart,
    Windows,
    build_drafter,
    spec_of_function,
)
from chemspec.draft.tree.edit_ngrams import COPY_ONLY
from chemspec.model.cost import CostCurve
from chemspec.settings import DecodeSettings
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import Draft, Prefix

VOCAB = 10
# Those with models of their own: tests/draft/test_ar.py, tests/model/test_drafter_checkpoints.py
NAMES = ["lists", *sorted(name for name, spec in DRAFTERS.items() if not spec.companions)]
DEFAULTS = {
    "windows": (10, 25),
    "first_windows": (10, 25),
    "smart": (10, 10),
    "copy": (12, 1),
    "mixed": (32, 16),
    "auto": (24, 16),
}  # those that copy from the query: most tokens and drafts by default. Of others only the contract is asked
COSTS = {
    "free": CostCurve((1, 128), (1.0, 1.0001)),
    "cheap": CostCurve((1, 128), (1.0, 2.27)),
    "a CPU": CostCurve((1, 128), (0.635, 11.43)),
    "dear": CostCurve((1, 128), (1.0, 128.0)),
}  # of a pass; without one, drafts are not planned

queries = st.lists(st.integers(3, VOCAB - 1), min_size=1, max_size=20)
texts = st.lists(st.integers(3, VOCAB - 1), max_size=20)


def settings_of(name: str, *, length: int = 0, count: int = 0, dilation: int = 0) -> DecodeSettings:
    return DecodeSettings(drafter=name, draft_length=length, draft_count=count, dilation=dilation, decoder="greedy")


def made(name: str, **options: int) -> Drafter:
    return build_drafter(settings_of(name, **options), DrafterInputs(lambda: COSTS["cheap"]))


def planner(drafter: Drafter, cost: str) -> DraftPlanner | None:
    return DraftPlanner.for_drafter(drafter, COSTS[cost]) if cost else None


def propose_lists(source: list[int], prefix: Prefix, max_new_tokens: int) -> list[list[int]]:
    """Propose one slice of the query, maybe empty, as the function in drafters.md does."""
    return [source[len(prefix) - 1 :][:max_new_tokens]]


@pytest.fixture(scope="module", autouse=True)
def drafter_of_lists() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(DRAFTERS._specs, "lists", spec_of_function("lists", propose_lists))
        yield


def drafts_of(drafter: Drafter, *query: Any) -> list[Draft]:
    """What a drafter proposes, lists of token ids as the loop reads them."""
    drafts = list(drafter.propose(*query))
    return drafts if all(isinstance(draft, Draft) for draft in drafts) else read_drafts(drafter, drafts, VOCAB)


def tokens_of(drafter: Drafter, source: list[int], text: list[int], max_new_tokens: int = 99) -> list[Prefix]:
    return [draft.tokens for draft in drafter.propose(source, (BOS, *text), max_new_tokens)]


def mixed_of(**options: int) -> Mixed:
    return Mixed(COPY_ONLY, **options)


# What all promise --------------------------------------------------------------------------------


def test_the_settings_name_the_drafters_that_there_are() -> None:
    assert all(DecodeSettings(drafter=name).drafter == name == spec.name for name, spec in DRAFTERS.items())
    assert all(spec.label and spec.reference for spec in DRAFTERS.values())
    with pytest.raises(ValueError, match=f"no drafter 'nobody'; there are {', '.join(DRAFTERS)}"):
        DecodeSettings(drafter="nobody")
    kinds = {"none": NoDrafts, "windows": Windows, "smart": Smart, "copy": Copy, "mixed": Mixed, "auto": Mixed}
    assert {name: type(made(name)) for name in kinds} == kinds


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data(), source=queries, text=texts)
def test_a_drafter_keeps_its_promises(name: str, data: st.DataObject, source: list[int], text: list[int]) -> None:
    """No bos, no pad, nothing empty, nothing too long or too many; spans are where the tokens come from."""
    max_new_tokens, length, count = (data.draw(st.integers(low, high)) for low, high in ((1, 25), (0, 15), (0, 8)))
    reads = DRAFTERS[name].reads
    length, count = length * ("draft_length" in reads), count * ("draft_count" in reads)
    dilation = data.draw(st.integers(0, 2)) if "dilation" in reads else 0
    drafter = made(name, length=length, count=count, dilation=dilation)
    prefix = (BOS, *text)
    drafts = drafts_of(drafter, source, prefix, max_new_tokens)
    again = made(name, length=length, count=count, dilation=dilation)
    assert drafts == drafts_of(drafter, source, prefix, max_new_tokens)
    assert drafts == drafts_of(again, tuple(source), prefix, max_new_tokens)
    if name == "none":
        assert not drafts
        return
    default_length, default_count = DEFAULTS.get(name, (max_new_tokens, len(drafts)))
    most, many = length or default_length, count or default_count
    assert len(drafts) <= many
    for draft in drafts:
        assert 1 <= len(draft.tokens) <= min(most, max_new_tokens)
        assert not {BOS, PAD} & set(draft.tokens)
        assert EOS not in draft.tokens[:-1]
        assert draft.drafter == ("mixed" if name == "auto" else name)
        copied = [token for token in draft.tokens if token != EOS]
        assert (draft.span is not None) == (not dilation) or name not in DEFAULTS
        if draft.span is None:
            continue
        start, end = draft.span
        assert 0 <= start <= end <= len(source)
        assert source[start:end] == copied
        assert draft.tokens[-1] != EOS or end == len(source)


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_a_query_shorter_than_the_draft_is_drafted_whole(name: str) -> None:
    (draft,) = made(name, length=30, count=1).propose([4, 5, 6], (BOS,), 99)
    assert draft.tokens == (4, 5, 6, EOS)
    assert draft.span == (0, 3)


@pytest.mark.parametrize("make", [Windows, Smart, Copy, mixed_of])
@pytest.mark.parametrize("options", [{"length": 0}, {"length": -3}, {"count": 0}, {"count": -1}])
def test_a_drafter_refuses_options_out_of_range(make: Callable[..., Drafter], options: dict[str, int]) -> None:
    (value,) = options.values()
    with pytest.raises(ValueError, match=f"{value}.*at least 1"):
        make(**options)
    with pytest.raises(ValueError, match="dilation -1"):
        Windows(dilation=-1)


# Windows -----------------------------------------------------------------------------------------

TWENTY = list(range(10, 30))


def starts(drafter: Windows, source: list[int]) -> list[int]:
    return [source.index(tokens[0]) for tokens in tokens_of(drafter, source, [])]


def test_windows_are_all_pieces_of_the_query_at_stride_one() -> None:
    assert tokens_of(Windows(length=3), [4, 5, 6, 7], [9, 9]) == [(4, 5, 6), (5, 6, 7), (6, 7, EOS)]
    assert starts(Windows(length=5), TWENTY) == list(range(17))


@pytest.mark.parametrize("count", [1, 2, 4, 7, 16, 17, 25])
def test_too_many_windows_are_thinned_out_evenly(count: int) -> None:
    """Twenty tokens and eos in windows of five: the last begins at 16."""
    expected = (
        [16 * place // (count - 1) for place in range(count)] if 1 < count < 17 else range(17 if count > 1 else 1)
    )
    assert starts(Windows(length=5, count=count), TWENTY) == list(expected)
    assert starts(Windows(length=5, count=count, first=True), TWENTY) == list(range(min(count, 17)))


def test_windows_with_dilation_leave_tokens_out() -> None:
    assert tokens_of(Windows(length=3, dilation=1), [4, 5, 6, 7, 8, 9], []) == [(4, 6, 8), (5, 7, 9), (6, 8, EOS)]
    dilated = [(10, 13, 16), (11, 14, 17), (12, 15, EOS)]
    assert tokens_of(Windows(length=3, dilation=2), TWENTY[:8], []) == dilated
    assert tokens_of(Windows(length=9, dilation=1), [4, 5, 6, 7], []) == [(4, 6, EOS)]


# Smart -------------------------------------------------------------------------------------------


def test_smart_drafts_follow_the_last_token() -> None:
    source = [4, 5, 6, 4, 7, 8, 4]
    drafts = Smart(length=3).propose(source, (BOS, 9, 4), 99)
    assert [(draft.tokens, draft.span) for draft in drafts] == [
        ((5, 6, 4), (1, 4)),
        ((7, 8, 4), (4, 7)),
        ((EOS,), (7, 7)),
    ]
    assert tokens_of(Smart(length=3, count=1), source, [4]) == [(5, 6, 4)]
    assert tokens_of(Smart(length=3), source, []) == [(4, 5, 6)]  # at the beginning
    assert tokens_of(Smart(length=3), source, [9]) == [(4, 5, 6)]  # the query has none
    assert tokens_of(Smart(length=3), source, [8]) == [(4, EOS)]
    assert tokens_of(Smart(length=3), [4, 5], [5]) == [(EOS,)]


# Copy --------------------------------------------------------------------------------------------


def smiles_after(query: str, written: str, **options: Any) -> list[str]:
    """What copy proposes in SMILES; a full stop at its end stands for eos."""
    source = list(TOKENIZER.encode(query))
    drafts = Copy(**options).propose(source, (BOS, *TOKENIZER.encode(written)), 99)
    ends = ["!" if draft.tokens[-1] == EOS else "" for draft in drafts]
    return [
        "".join(TOKENIZER.token_texts([token for token in draft.tokens if token != EOS])) + end
        for draft, end in zip(drafts, ends, strict=True)
    ]


@pytest.mark.parametrize(("query", "written", "expected"), table("draft/copied_on"))
def test_copy_goes_on_copying(query: str, written: str, expected: str) -> None:
    assert smiles_after(query, written) == [expected]


MARKS = TokenClasses.from_tokens(TOKENIZER.tokens)


def test_marks_are_found_in_the_vocabulary() -> None:
    ids = {token: place for place, token in enumerate(TOKENIZER.tokens)}
    assert TokenClasses(ids["."], (ids["1"], ids["2"], ids["3"])) == MARKS
    assert TokenClasses.from_tokens(("C", "%10", "9", "1", "%11")) == TokenClasses(-1, (3, 2, 1, 4))
    assert TokenClasses.from_tokens(()) == TokenClasses()


@pytest.mark.parametrize(
    ("query", "written", "expected"),
    [
        ("CCO.c1ccccc1", "", "c1ccccc1!"),  # the longest molecule first
        ("c1ccccc1-c2ccccc2", "Nc1ccccc1-", "c1ccccc1!"),  # the lowest free label
        ("c1ccc(c2ccccc2)cc1", "c1ccc(", "c2ccccc2)cc1"),  # 1 is open: 2 is the lowest free
        ("c1ccc(N2CCOCC2)cc1", "N1CCO", "CC1)cc1!"),  # what is open is closed by its own label
        ("C1CCCCC1", "C2CC", "CCC2!"),
    ],
)
def test_copy_labels_rings_as_the_answer_needs_them(query: str, written: str, expected: str) -> None:
    assert smiles_after(query, written, token_classes=MARKS) == [expected]


# Lossless ----------------------------------------------------------------------------------------


DECODERS: dict[str, Callable[[int], Callable[[int], Decoder]]] = {
    "greedy": lambda max_len: lambda _: greedy_search(max_len=max_len),
    "beam": lambda max_len: lambda _: beam_search(width=4, max_len=max_len),
    "sample": lambda max_len: lambda query: sample_sequences(count=3, max_len=max_len, rng=Random(query), top_p=0.95),
}
EVERY = [(name, "") for name in NAMES] + [("auto", cost) for cost in COSTS] + [(name, "cheap") for name in NAMES]
LEARNED = [("learned", ""), ("learned", "a CPU"), ("learned", "free")]  # random tables


@pytest.mark.parametrize(
    "case", every(2, [(*row, decoder) for row in EVERY + LEARNED for decoder in sorted(DECODERS)]), ids=" ".join
)
def test_no_drafter_changes_an_answer(case: tuple[str, str, str]) -> None:
    """On tables that copy, in batches of 1 to 8, with limits and budgets that bind and that do not."""
    name, cost, decoder = case
    random = Random(" ".join(case))
    for size, max_len in ((1, 25), (2, 1), (4, 12), (8, 9)):
        table = Table(size, vocab_size=VOCAB, copying=random.choice((0.0, 3.0, 8.0)))
        batch = [[random.randrange(3, VOCAB) for _ in range(random.randint(1, 14))] for _ in range(size)]
        make, budget = DECODERS[decoder](max_len), random.choice((0, 1, 5, 64, 300))
        plain, plain_passes = run(make, batch, table, NoDrafts(), max_len=max_len)
        options = {"length": random.randint(0, 12), "count": random.randint(0, 6)}
        if name == "learned":
            drafter: Drafter = Mixed(random_table(random))
        else:
            drafter = made(name, dilation=random.randint(0, 1), **options)
        plans = planner(drafter, cost)
        found, passes = run(make, batch, table, drafter, max_len=max_len, budget=budget, planner=plans)
        assert found == plain
        for own, others in zip(passes, plain_passes, strict=True):
            assert len(own) <= len(others)
            assert max(step.drafted for step in own) <= budget


@pytest.mark.parametrize("name", ["windows", "copy", "mixed", "auto"])
def test_drafts_of_a_table_that_copies_save_most_passes(name: str) -> None:
    table, random = Table(1, vocab_size=VOCAB, copying=40.0), Random(1)
    batch = [[random.randrange(4, VOCAB) for _ in range(24)] for _ in range(4)]
    make = DECODERS["greedy"](24)
    _, plain = run(make, batch, table, NoDrafts(), max_len=24)
    found, passes = run(make, batch, table, made(name), max_len=24, budget=300)
    assert [list(answer.tokens) for (answer,) in found] == batch
    for own, others in zip(passes, plain, strict=True):
        assert len(others) == 24
        assert len(own) <= 4
        assert all(span.span is not None for step in own for span in step.spans)


def test_copy_proposes_one_position_unless_asked_for_more() -> None:
    assert len(smiles_after("CCOCCN", "CC")) == 1
    assert len(smiles_after("CCOCCN", "CC", count=2)) == 2
