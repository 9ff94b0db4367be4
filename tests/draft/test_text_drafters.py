"""What drafters promise, what each of them proposes, and that none of them changes an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from adversaries import Oracle
from hypothesis import given
from hypothesis import strategies as st
from small import TOKENIZER

from chemspec.decode.beam import beam_search
from chemspec.decode.draft_tree import DraftTree
from chemspec.decode.greedy import greedy
from chemspec.decode.protocol import Decoder
from chemspec.decode.sample import sample
from chemspec.draft.auto import AcceptanceRecord
from chemspec.draft.base import Speculation
from chemspec.draft.calibration import REACH
from chemspec.draft.copy import TokenClasses, align_pointer
from chemspec.draft.registry import (
    DRAFTERS,
    AdaptiveDrafter,
    Attention,
    Auto,
    Copy,
    Drafter,
    DrafterInputs,
    Mixed,
    NoDrafts,
    Smart,
    Windows,
    build,
)
from chemspec.draft.tree.edit_ngrams import COPY_ONLY
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings
from chemspec.testing import Table, naive_beam, naive_greedy, run, tiny_model
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import Draft, FinishedSequence, Pass, Prefix

VOCAB = 10
NAMES = sorted(
    name for name, spec in DRAFTERS.items() if not spec.companions
)  # those with models of their own: tests/draft/test_ar.py, tests/model/test_drafter_checkpoints.py
DEFAULTS = {
    "windows": (10, 25),
    "smart": (10, 10),
    "copy": (12, 1),
    "attention": (12, 1),
    "mixed": (32, 16),
    "auto": (24, 3),
}  # those that copy from the query: most tokens and drafts by default. Of others only the contract is asked
COSTS: dict[str, Callable[[float], float]] = {
    "free": lambda _: 1.0,
    "cheap": lambda nodes: 1.0 + 0.01 * nodes,
    "a CPU": lambda nodes: 0.55 + 0.085 * nodes,
    "dear": lambda nodes: nodes,
}

queries = st.lists(st.integers(3, VOCAB - 1), min_size=1, max_size=20)
texts = st.lists(st.integers(3, VOCAB - 1), max_size=20)


def settings_of(name: str, *, length: int = 0, count: int = 0, dilation: int = 0) -> DecodeSettings:
    return DecodeSettings(drafter=name, draft_length=length, draft_count=count, dilation=dilation, decoder="greedy")


def made(name: str, *, cost: str = "cheap", **options: int) -> Drafter:
    return build(settings_of(name, **options), DrafterInputs(lambda: COSTS[cost]))


def tokens_of(drafter: Drafter, source: list[int], text: list[int], max_new_tokens: int = 99) -> list[Prefix]:
    return [draft.tokens for draft in drafter.propose(source, (BOS, *text), max_new_tokens)]


def mixed_of(**options: int) -> Mixed:
    return Mixed(COPY_ONLY, **options)


def attention_of(**options: int) -> Attention:
    return Attention(None, **options)


# What all promise --------------------------------------------------------------------------------


def test_the_settings_name_the_drafters_that_there_are() -> None:
    assert all(DecodeSettings(drafter=name).drafter == name == spec.name for name, spec in DRAFTERS.items())
    assert all(spec.label and spec.reference for spec in DRAFTERS.values())
    with pytest.raises(ValueError, match=f"no drafter 'nobody'; there are {', '.join(DRAFTERS)}"):
        DecodeSettings(drafter="nobody")
    kinds = {
        "none": NoDrafts,
        "windows": Windows,
        "smart": Smart,
        "copy": Copy,
        "attention": Attention,
        "mixed": Mixed,
        "auto": Auto,
    }
    assert {name: type(made(name)) for name in kinds} == kinds


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data(), source=queries, text=texts)
def test_a_drafter_keeps_its_promises(name: str, data: st.DataObject, source: list[int], text: list[int]) -> None:
    """No bos, no pad, nothing empty, nothing too long or too many; spans are where the tokens come from."""
    max_new_tokens, length, count = (data.draw(st.integers(low, high)) for low, high in ((1, 25), (0, 15), (0, 8)))
    dilation = data.draw(st.integers(0, 2)) if name == "windows" else 0
    drafter = made(name, length=length, count=count, dilation=dilation)
    prefix = (BOS, *text)
    drafts = drafter.propose(source, prefix, max_new_tokens)
    again = made(name, length=length, count=count, dilation=dilation)
    assert (
        list(drafts)
        == list(drafter.propose(source, prefix, max_new_tokens))
        == list(again.propose(tuple(source), prefix, max_new_tokens))
    )
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
        assert draft.drafter == ("copy" if name == "auto" else name)
        copied = [token for token in draft.tokens if token != EOS]
        assert (draft.span is not None) == (not dilation) or name not in DEFAULTS
        if draft.span is None:
            continue
        start, end = draft.span
        assert 0 <= start <= end <= len(source)
        assert source[start:end] == copied
        assert draft.tokens[-1] != EOS or end == len(source)


@pytest.mark.parametrize("name", sorted({*DEFAULTS} - {"auto"}))
@given(source=queries, text=texts, max_new_tokens=st.integers(1, 25))
def test_there_is_always_something_to_draft(name: str, source: list[int], text: list[int], max_new_tokens: int) -> None:
    assert made(name).propose(source, (BOS, *text), max_new_tokens)


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_a_query_of_one_token_is_drafted_whole(name: str) -> None:
    drafter = made(name, cost="free")
    assert tokens_of(drafter, [5], []) == [(5, EOS)]
    assert tokens_of(drafter, [5], [], max_new_tokens=1) == [(5,)]


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_a_query_shorter_than_the_draft_is_drafted_whole(name: str) -> None:
    (draft,) = made(name, cost="free", length=30, count=1).propose([4, 5, 6], (BOS,), 99)
    assert draft.tokens == (4, 5, 6, EOS)
    assert draft.span == (0, 3)


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_with_room_for_one_every_draft_has_one_token(name: str) -> None:
    drafts = made(name, cost="free").propose([4, 5, 6, 7, 4, 5], (BOS, 4), 1)
    assert drafts
    assert all(len(draft.tokens) == 1 for draft in drafts)


@pytest.mark.parametrize("make", [Windows, Smart, Copy, mixed_of, attention_of])
@pytest.mark.parametrize("options", [{"length": 0}, {"length": -3}, {"count": 0}, {"count": -1}])
def test_a_drafter_refuses_options_out_of_range(make: Callable[..., Drafter], options: dict[str, int]) -> None:
    (value,) = options.values()
    with pytest.raises(ValueError, match=f"{value}.*at least 1"):
        make(**options)


def test_windows_and_auto_refuse_their_own_options_out_of_range() -> None:
    with pytest.raises(ValueError, match="dilation -1"):
        Windows(dilation=-1)
    with pytest.raises(ValueError, match="draft length -1"):
        Auto(COSTS["free"], length=-1)
    with pytest.raises(ValueError, match="0 drafts"):
        Auto(COSTS["free"], places=0)


@pytest.mark.parametrize("field", ["draft_length", "draft_count", "dilation"])
@pytest.mark.parametrize("value", [-1, 1001])
def test_the_settings_refuse_options_out_of_range(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{field} is {value}"):
        replace(DecodeSettings(), **{field: value})
    replace(DecodeSettings(), **{field: 1000})


@pytest.mark.parametrize("name", ["none", *DEFAULTS])
def test_the_settings_reach_the_drafter(name: str) -> None:
    drafter = made(name, length=7, count=2, dilation=1)
    if isinstance(drafter, Windows):
        assert (drafter.length, drafter.count, drafter.dilation) == (7, 2, 1)
    elif isinstance(drafter, Smart | Copy):
        assert (drafter.length, drafter.count) == (7, 2)
    elif isinstance(drafter, Mixed):
        assert (drafter.limits.max_length, drafter.limits.max_paths) == (7, 2)
    elif isinstance(drafter, Auto | Attention):
        assert (drafter.copy.length, drafter.copy.count) == (7, 2)
    else:
        assert drafter == NoDrafts()


def test_the_machine_is_measured_only_for_those_who_want_to_know() -> None:
    def cost() -> Callable[[float], float]:
        raise AssertionError("measured")

    for name in sorted({"none", *DEFAULTS} - {"auto"}):
        build(settings_of(name), DrafterInputs(cost))
    with pytest.raises(AssertionError, match="measured"):
        build(settings_of("auto"), DrafterInputs(cost))
    for_sbs = build(DecodeSettings(decoder="sbs", drafter="auto", draft_length=4), DrafterInputs(cost))
    assert for_sbs == Windows(length=4)


def test_only_auto_adapts() -> None:
    assert [name for name in DEFAULTS if isinstance(made(name), AdaptiveDrafter)] == ["auto"]


# Windows -----------------------------------------------------------------------------------------

TWENTY = list(range(10, 30))


def starts(drafter: Windows, source: list[int]) -> list[int]:
    return [source.index(tokens[0]) for tokens in tokens_of(drafter, source, [])]


def test_windows_are_all_pieces_of_the_query_at_stride_one() -> None:
    assert tokens_of(Windows(length=3), [4, 5, 6, 7], [9, 9]) == [(4, 5, 6), (5, 6, 7), (6, 7, EOS)]
    assert starts(Windows(length=5), TWENTY) == list(range(17))
    assert starts(Windows(length=5, end=False), TWENTY) == list(range(16))


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, [0]),
        (2, [0, 16]),
        (4, [0, 5, 10, 16]),  # 16 i / 3 = 0, 5.33, 10.67, 16
        (7, [0, 2, 5, 8, 10, 13, 16]),  # 16 i / 6 = 0, 2.67, 5.33, 8, 10.67, 13.33, 16
        (16, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16]),  # 16 i / 15
        (17, list(range(17))),
        (25, list(range(17))),
    ],
)
def test_too_many_windows_are_thinned_out_evenly(count: int, expected: list[int]) -> None:
    """Twenty tokens and eos in windows of five: the last begins at 16."""
    assert starts(Windows(length=5, count=count), TWENTY) == expected


def test_windows_with_dilation_leave_tokens_out() -> None:
    assert tokens_of(Windows(length=3, dilation=1), [4, 5, 6, 7, 8, 9], []) == [(4, 6, 8), (5, 7, 9), (6, 8, EOS)]
    assert tokens_of(Windows(length=3, dilation=2, end=False), TWENTY[:8], []) == [(10, 13, 16), (11, 14, 17)]
    assert tokens_of(Windows(length=9, dilation=1), [4, 5, 6, 7], []) == [(4, 6, EOS)]


@given(queries, st.integers(1, 12), st.integers(1, 8), st.integers(0, 2))
def test_only_the_last_window_ends_the_answer(source: list[int], length: int, count: int, dilation: int) -> None:
    drafts = tokens_of(Windows(length, count, dilation), source, [])
    assert not any(EOS in tokens for tokens in drafts[:-1])
    assert EOS not in {
        token for tokens in tokens_of(Windows(length, count, dilation, end=False), source, []) for token in tokens
    }
    if not dilation and count > 1:
        assert drafts[-1][-1] == EOS


def test_a_span_covers_no_more_than_was_drafted() -> None:
    """Not even where the room cuts the window short."""
    drafts = Windows(length=4).propose([4, 5, 6, 7, 8], (BOS,), 2)
    assert [(draft.tokens, draft.span) for draft in drafts] == [((4, 5), (0, 2)), ((5, 6), (1, 3)), ((6, 7), (2, 4))]


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
        "".join(TOKENIZER.pieces([token for token in draft.tokens if token != EOS])) + end
        for draft, end in zip(drafts, ends, strict=True)
    ]


@pytest.mark.parametrize(
    ("query", "written", "expected"),
    [
        ("CC(=O)Nc1ccccc1", "", "CC(=O)Nc1ccc"),
        ("CC(=O)Nc1ccccc1", "CC(=O)N", "c1ccccc1!"),
        ("CC(=O)Nc1ccccc1", "Nc1c", "cccc1!"),
        ("CC(=O)Nc1ccccc1", "CC(=O)Nc1ccccc1", "!"),
        ("CC(=O)Nc1ccccc1", "CC(=O)O.", "Nc1ccccc1!"),  # no full stop: where the copying stood
        ("CC(=O)Nc1ccccc1", "Br", "CC(=O)Nc1ccc"),
        ("O=C(O)c1ccc(Br)cc1", "Brc1ccc(", "Br)cc1!"),  # (Br), not (O)
        ("COC(=O)CN", "C", "OC(=O)CN!"),  # of three equal matches the aligned one
        ("COC(=O)CN", "CC", "(=O)CN!"),  # an O was left out
    ],
)
def test_copy_goes_on_copying(query: str, written: str, expected: str) -> None:
    assert smiles_after(query, written) == [expected]


def test_copy_prefers_the_longest_match() -> None:
    assert smiles_after("CNCOCNS", "OCN", count=5) == ["S!", "COCNS!"]
    assert smiles_after("CNSOCNC", "OCN", count=5) == ["C!", "SOCNC!"]
    assert smiles_after("OCNCCNS", "OCN", count=5) == ["CCNS!", "S!"]


def test_copy_then_prefers_the_place_nearest_to_the_aligned_one() -> None:
    assert smiles_after("CNOCNS", "CN", count=5) == ["OCNS!", "S!"]
    # Compared by one token all matches are equal, and the copying stands at 5.
    assert smiles_after("CNOCNS", "CNOCN", count=5, context=1) == ["S!", "OCNS!"]
    assert smiles_after("CNOCNSCN", "CNOCN", count=5, context=1) == ["SCN!", "OCNSCN!", "!"]


def test_copy_tries_no_more_places_than_it_may() -> None:
    assert [len(smiles_after("CCCCCCCC", "C", count=count)) for count in (1, 3, 8, 20)] == [1, 3, 8, 8]


def test_copy_says_how_long_its_match_is() -> None:
    source = [4, 5, 6, 7, 8, 4, 5]
    copy = Copy(count=9, context=3)
    assert copy.ranked(source, (BOS, 4, 5)) == [(2, 2), (7, 2)]
    assert copy.ranked(source, (BOS, 9, 5)) == [(2, 1), (7, 1)]
    assert copy.ranked(source, (BOS, 4, 5, 6, 7)) == [(4, 3)]
    assert copy.ranked(source, (BOS, 4, 9)) == [(1, 0)]
    assert copy.ranked(source, (BOS,)) == [(0, 0)]
    drafts = copy.propose(source, (BOS, 4, 5), 3)
    assert drafts == [Draft((6, 7, 8), "copy", (2, 5), 2), Draft((EOS,), "copy", (7, 7), 2)]


@given(queries, st.data())
def test_what_copies_the_query_goes_on_copying_it(source: list[int], data: st.DataObject) -> None:
    done, length = data.draw(st.integers(0, len(source))), data.draw(st.integers(1, 25))
    (draft,) = Copy(length=length).propose(source, (BOS, *source[:done]), 99)
    assert draft.tokens == (*source, EOS)[done : done + length]
    assert draft.span == (done, min(done + length, len(source)))
    assert draft.match == min(done, 12)


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


SMILES = st.lists(st.sampled_from(("C", "c", "1", "2", "3", ".", "(", "N")), min_size=1, max_size=15)


@given(SMILES, SMILES, st.integers(1, 20), st.integers(1, 4), st.integers(1, 20))
def test_with_marks_drafts_are_the_query_but_for_ring_labels(
    query: list[str], text: list[str], length: int, count: int, max_new_tokens: int
) -> None:
    source, written = (list(TOKENIZER.encode("".join(part))) for part in (query, text))
    copy, prefix = Copy(length=length, count=count, token_classes=MARKS), (BOS, *written)
    drafts = copy.propose(source, prefix, max_new_tokens)
    assert drafts == copy.propose(source, prefix, max_new_tokens)
    assert 1 <= len(drafts) <= count
    for draft in drafts:
        assert 1 <= len(draft.tokens) <= min(length, max_new_tokens)
        assert draft.span is not None
        copied = source[slice(*draft.span)]
        if draft.tokens[-1] == EOS:
            assert draft.span[1] == len(source)
            copied = [*copied, EOS]
        for one, other in zip(draft.tokens, copied, strict=True):
            assert one == other or {one, other} <= set(MARKS.rings)


@given(queries, texts, st.integers(1, 8))
def test_every_match_is_one_and_the_longest_come_first(source: list[int], text: list[int], context: int) -> None:
    found = Copy(context=context).ranked(source, (BOS, *text))
    ends = {
        end: max(
            length
            for length in range(min(end, len(text), context) + 1)
            if length == 0 or source[end - length : end] == text[-length:]
        )
        for end in range(1, len(source) + 1)
    }
    expected = {(end, length) for end, length in ends.items() if length}
    aligned = align_pointer(source, text)
    assert set(found) == (expected or {(aligned, 0)})
    keys = [(-length, abs(end - aligned), end) for end, length in found]
    assert keys == sorted(keys)


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ([], 0),
        ([4, 5], 2),
        ([4, 5, 6, 7, 8, 9], 6),
        ([9, 4, 5], 2),  # an insertion: 9 lies too far ahead
        ([4, 6], 3),  # small deletions
        ([4, 7], 4),
        ([4, 8], 5),
        ([4, 9], 1),  # too large a one
        ([4, 4, 5], 2),
        ([5, 4, 6], 3),
        ([4, 5, 6, 7, 8, 9, 4, 5], 6),  # never back, never beyond the end
    ],
)
def test_the_pointer_follows_the_copying(written: list[int], place: int) -> None:
    assert align_pointer([4, 5, 6, 7, 8, 9], written) == place


# Auto: what pays ---------------------------------------------------------------------------------

SOURCE = [4, 5, 6, 7, 8, 9, 5, 4, 7, 6, 9, 8]


def test_where_nodes_are_free_auto_drafts_long() -> None:
    auto = Auto(COSTS["free"], length=24)
    auto.plan_pass(1, 1, waiting=1)
    drafts = auto.propose(SOURCE, (BOS, 4, 5, 6), 99)
    assert drafts[0].tokens == (*SOURCE[3:], EOS)
    assert tokens_of(auto, SOURCE, [4, 5, 6], max_new_tokens=4)[0] == tuple(SOURCE[3:7])
    assert len(tokens_of(auto, SOURCE, [4])) == 2  # 4 stands in two places


@pytest.mark.parametrize("load", [1, 3, 16])
def test_where_nodes_cost_as_much_as_passes_auto_drafts_nothing(load: int) -> None:
    auto = Auto(COSTS["dear"])
    assert auto.plan_pass(load, load, waiting=load) is Speculation.OFF
    assert not auto.propose(SOURCE, (BOS, 4, 5, 6, 7), 99)
    assert not auto.propose(SOURCE, (BOS,), 99)


def chances_of(record: AcceptanceRecord, match: int, length: int) -> list[float]:
    chances = [record.chance(match)]
    while len(chances) < length:
        chances.append(chances[-1] * record.chance(match + len(chances)))
    return chances


@pytest.mark.parametrize("load", [1, 4])
@pytest.mark.parametrize("node", [0.001, 0.03, 0.085, 0.2, 0.5])
@pytest.mark.parametrize("text", [[], [4], [4, 5, 6], [4, 5, 6, 7, 8]])
def test_a_draft_is_as_long_as_makes_the_most_tokens_a_second(load: int, node: float, text: list[int]) -> None:
    def cost(nodes: float) -> float:
        return 0.5 + node * nodes

    auto = Auto(cost, places=1, length=8)
    auto.plan_pass(load, load, waiting=load)
    (place, match), *_ = auto.copy.ranked(SOURCE, (BOS, *text))
    chances = chances_of(auto.by_match, match, min(8, len(SOURCE) + 1 - place))
    rates = [(1 + sum(chances[:length])) / cost(load + load * length) for length in range(len(chances) + 1)]
    best = rates.index(max(rates))
    expected = [(*SOURCE, EOS)[place : place + best]] if best else []
    assert tokens_of(auto, SOURCE, text) == expected


def test_costlier_nodes_never_make_longer_drafts() -> None:
    lengths = []
    for node in (0.0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6):
        auto = Auto(lambda nodes, node=node: 0.5 + node * nodes)
        auto.plan_pass(1, 1, waiting=1)
        lengths.append(sum(map(len, tokens_of(auto, SOURCE, [4, 5]))))
    assert all(longer >= shorter for longer, shorter in pairwise(lengths))
    assert lengths[0] > lengths[3] > lengths[-1] == 0


@given(queries, texts, st.sampled_from(sorted(COSTS)), st.integers(1, 25), st.integers(1, 4))
def test_auto_proposes_beginnings_of_what_copy_proposes(
    source: list[int], text: list[int], cost: str, max_new_tokens: int, places: int
) -> None:
    auto, prefix = Auto(COSTS[cost], places=places), (BOS, *text)
    whole = list(Copy(length=24, count=places).propose(source, prefix, max_new_tokens))
    for draft in auto.propose(source, prefix, max_new_tokens):
        found = [
            other
            for other in whole
            if other.tokens[: len(draft.tokens)] == draft.tokens
            and other.span is not None
            and draft.span is not None
            and (other.span[0], other.match) == (draft.span[0], draft.match)
        ]
        assert len(found) == 1
        whole = whole[whole.index(found[0]) + 1 :]  # in copy's order


def test_a_busier_pass_gets_no_more_drafts_a_query() -> None:
    """A curve with a free beginning: up to 32 nodes cost what one does."""
    auto = Auto(lambda nodes: max(1.0, nodes / 32))
    drafted = []
    for load in (1, 2, 4, 8, 16, 32):
        auto.plan_pass(load, load, waiting=load)
        drafted.append(sum(map(len, tokens_of(auto, SOURCE, [4, 5, 6]))))
    assert drafted == sorted(drafted, reverse=True)
    assert drafted[0] > 5
    assert drafted[-1] == 0


# Auto: what it learns ----------------------------------------------------------------------------


def rates(record: AcceptanceRecord) -> list[float]:
    return [record.chance(match) for match in range(REACH + 1)]


def test_at_first_longer_matches_are_trusted_more() -> None:
    start = rates(AcceptanceRecord())
    assert start == sorted(start)
    assert 0 < start[0] < 0.5
    assert 0.9 < start[-1] < 1
    assert AcceptanceRecord().chance(REACH + 5) == AcceptanceRecord().chance(REACH)


def test_a_record_counts_hits_and_tries() -> None:
    record = AcceptanceRecord([0.5] * (REACH + 1), weight=10)
    assert record.chance(0) == 0.5
    record.add(0, True)
    assert record.chance(0) == 6 / 11
    record.add(0, False)
    assert record.chance(0) == 0.5
    before = record.chance(REACH)
    record.add(REACH + 7, False)
    assert record.chance(REACH) == before * 10 / 11


@pytest.mark.parametrize(
    ("accepted", "better", "worse"), [(0, [], [2]), (1, [2], [3]), (3, [2, 3, 4], [5]), (4, [2, 3, 4, 5], [])]
)
def test_auto_learns_from_each_token_up_to_the_first_wrong_one(
    accepted: int, better: list[int], worse: list[int]
) -> None:
    auto, start = Auto(COSTS["cheap"]), rates(AcceptanceRecord())
    auto.observe(Draft((4, 5, 6, 7), "copy", (0, 4), match=2), accepted)
    found = rates(auto.by_match)
    assert [match for match in range(REACH + 1) if found[match] > start[match]] == better
    assert [match for match in range(REACH + 1) if found[match] < start[match]] == worse


def test_misses_silence_auto_and_hits_bring_it_back() -> None:
    auto, prefix = Auto(lambda nodes: 0.4 + 0.2 * nodes, places=1), (BOS, 4, 5, 6)
    auto.plan_pass(1, 1, waiting=1)
    first = auto.propose(SOURCE, prefix, 99)
    assert first
    for _ in range(300):
        auto.observe(first[0], 0)
    assert not auto.propose(SOURCE, prefix, 99)
    whole = Draft(tuple(SOURCE[3:]), "copy", (3, 12), match=3)
    for _ in range(3000):
        auto.observe(whole, len(whole.tokens))
    longer = auto.propose(SOURCE, prefix, 99)
    assert len(longer[0].tokens) > len(first[0].tokens)


@pytest.mark.parametrize(("copying", "rises"), [(40.0, True), (-12.0, False)])
def test_auto_learns_while_it_runs(copying: float, rises: bool) -> None:
    """From a table that copies its source, and from one that never does."""
    table, auto = Table(0, vocab_size=VOCAB, copying=copying), Auto(COSTS["cheap"])
    random = Random(0)
    batch = [[random.randrange(4, VOCAB) for _ in range(25)] for _ in range(6)]
    run(lambda _: greedy(max_len=25), batch, table, auto, max_len=25)
    tried = [match for match in range(REACH + 1) if auto.by_match.tries[match] > 30]
    assert 0 in tried
    if rises:
        assert all(auto.by_match.chance(match) > AcceptanceRecord().chance(match) for match in tried)
    else:
        assert all(auto.by_match.chance(match) < AcceptanceRecord().chance(match) for match in (0, 1))


# Auto: looking ahead -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cost", "asked", "expected"),
    [
        ("free", 1, True),
        ("free", 200, True),
        ("cheap", 5, True),
        ("cheap", 100, False),
        ("a CPU", 1, False),
        ("a CPU", 5, False),
        ("a CPU", 50, False),
        ("dear", 1, False),
    ],
)
def test_auto_looks_ahead_only_where_nodes_are_cheap(cost: str, asked: int, expected: bool) -> None:
    pays = Auto(COSTS[cost]).plan_pass(asked, 1, waiting=asked)
    assert (pays is Speculation.LOOKAHEAD) is expected


def test_a_beam_drafts_only_to_look_ahead() -> None:
    """Its own prefixes fill a pass where nodes are dear."""
    auto = Auto(COSTS["a CPU"])
    assert auto.plan_pass(5, 1, waiting=5) is Speculation.OFF
    assert not auto.propose(SOURCE, (BOS, 4, 5), 99)
    assert auto.plan_pass(1, 1, waiting=1) is Speculation.DRAFT
    assert auto.propose(SOURCE, (BOS, 4, 5), 99)
    auto = Auto(COSTS["free"])
    auto.plan_pass(5, 1, waiting=5)
    assert tokens_of(auto, SOURCE, [4, 5]) == [(6, 7, 8, 9)]


def beams(drafter: Drafter, table: Table, batch: list[list[int]], *, width: int, budget: int = 256) -> list[list[Pass]]:
    """Passes of a beam search whose answers are the naive ones."""
    answers, passes = run(
        lambda _: beam_search(width=width, max_len=20), batch, table, drafter, max_len=20, budget=budget
    )
    same(answers, [naive_beam(table, source, width, 20) for source in batch])
    return passes


def test_auto_saves_a_beam_passes_where_nodes_are_free_and_nodes_where_they_are_dear() -> None:
    table, batch = Table(3, vocab_size=VOCAB, copying=12.0), [SOURCE]
    plain, free, dear = (
        beams(drafter, table, batch, width=4)[0] for drafter in (NoDrafts(), Auto(COSTS["free"]), Auto(COSTS["dear"]))
    )
    assert 2 * len(free) <= len(plain)
    assert len(dear) == len(plain)
    assert sum(step.drafted for step in dear) == 0


# Lossless ----------------------------------------------------------------------------------------


def same(found: list[list[FinishedSequence]], expected: list[list[FinishedSequence]]) -> None:
    for some, others in zip(found, expected, strict=True):
        assert [(one.tokens, one.ended) for one in some] == [(one.tokens, one.ended) for one in others]
        for one, other in zip(some, others, strict=True):
            assert one.log_probs == pytest.approx(other.log_probs, rel=0, abs=1e-9)


@cache
def model_of(seed: int) -> Transformer:
    return tiny_model(seed, VOCAB)


DECODERS: dict[str, Callable[[int], Callable[[int], Decoder]]] = {
    "greedy": lambda max_len: lambda _: greedy(max_len=max_len),
    "beam": lambda max_len: lambda _: beam_search(width=4, max_len=max_len),
    "sample": lambda max_len: lambda query: sample(count=3, max_len=max_len, rng=Random(query), top_p=0.95),
}
EVERY = [(name, "cheap") for name in NAMES if name != "auto"]
EVERY += [("auto", cost) for cost in COSTS]


@pytest.mark.parametrize("decoder", sorted(DECODERS))
@pytest.mark.parametrize(("name", "cost"), EVERY)
def test_no_drafter_changes_an_answer(name: str, cost: str, decoder: str) -> None:
    """On tables that copy, in batches of 1 to 8, with limits and budgets that bind and that do not."""
    random = Random(f"{name} {cost} {decoder}")
    for size, max_len in zip(range(1, 9), (18, 1, 25, 2, 12, 6, 3, 9), strict=True):
        table = Table(size, vocab_size=VOCAB, copying=random.choice((0.0, 3.0, 8.0)))
        batch = [[random.randrange(3, VOCAB) for _ in range(random.randint(1, 14))] for _ in range(size)]
        make, budget = DECODERS[decoder](max_len), random.choice((0, 1, 5, 64, 300))
        plain, plain_passes = run(make, batch, table, NoDrafts(), max_len=max_len)
        options = {"length": random.randint(0, 12), "count": random.randint(0, 6)}
        drafter = made(name, cost=cost, dilation=random.randint(0, 1), **options)
        found, passes = run(make, batch, table, drafter, max_len=max_len, budget=budget)
        assert found == plain
        for own, others in zip(passes, plain_passes, strict=True):
            assert len(own) <= len(others)
            assert max(step.drafted for step in own) <= budget


@given(
    st.lists(queries, min_size=1, max_size=8),
    st.integers(0, 3),
    st.sampled_from(EVERY),
    st.sampled_from(sorted(DECODERS)),
    st.integers(1, 14),
    st.integers(0, 64),
)
def test_no_drafter_changes_an_answer_of_a_model(
    batch: list[list[int]], seed: int, drafter: tuple[str, str], decoder: str, max_len: int, budget: int
) -> None:
    model, (name, cost) = model_of(seed), drafter
    make = DECODERS[decoder](max_len)
    found, _ = run(make, batch, TorchBackend(model), made(name, cost=cost), max_len=max_len, budget=budget)
    if decoder == "greedy":
        expected = [[naive_greedy(model, source, max_len)] for source in batch]
    else:
        expected, _ = run(make, batch, TorchBackend(model), NoDrafts(), max_len=max_len)
    same(found, expected)


@pytest.mark.parametrize("name", ["windows", "copy", "attention", "mixed", "auto"])
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


# Looking ahead -----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", range(1, 13))
def test_look_ahead_returns_the_naive_beam(width: int) -> None:
    """Answers, order and scores, with good and with poor drafts, with every budget, which holds."""
    random = Random(width)
    for budget in (0, 1, width, 40, 300):
        table = Table(random.randrange(99), vocab_size=VOCAB, copying=random.choice((0.0, 4.0)))
        source = [random.randrange(3, VOCAB) for _ in range(random.randint(1, 9))]
        max_len = random.randint(1, 12)
        expected = naive_beam(table, source, width, max_len)
        for drafter in (Oracle(table), Copy(), Mixed(COPY_ONLY), Auto(COSTS["free"])):
            (found,), (passes,) = run(
                lambda _, max_len=max_len: beam_search(width=width, max_len=max_len),
                [source],
                table,
                drafter,
                max_len=max_len,
                budget=budget,
                top_k=width + 1,
            )
            same([found], [expected])
            assert all(step.drafted <= budget for step in passes)
            assert all(step.computed == step.asked + step.drafted for step in passes)
            assert budget or all(step.emitted == 1 for step in passes)


@pytest.mark.parametrize("width", [1, 3, 8])
def test_look_ahead_returns_the_naive_beam_of_a_peaked_model_in_fewer_passes(width: int) -> None:
    model = tiny_model(4, VOCAB, sharpness=8.0)
    source, max_len = [4, 5, 6, 7, 8, 9], 16
    expected = naive_beam(model, source, width, max_len)
    lengths = []
    for budget in (0, 20, 300):
        (found,), (passes,) = run(
            lambda _: beam_search(width=width, max_len=max_len),
            [source],
            TorchBackend(model),
            Oracle(model),
            max_len=max_len,
            budget=budget,
        )
        same([found], [expected])
        assert all(step.drafted <= budget for step in passes)
        lengths.append(len(passes))
    assert lengths[0] > lengths[1] >= lengths[2]
    assert 2 * lengths[2] <= lengths[0]


@pytest.mark.parametrize("width", [2, 5, 12])
def test_look_ahead_saves_passes_where_drafts_alone_do_not(width: int) -> None:
    """Some hypothesis nearly always leaves its draft, so that drafts for each save little."""
    table, batch = Table(7, vocab_size=VOCAB, copying=12.0), [SOURCE, SOURCE[::-1]]
    plain = beams(NoDrafts(), table, batch, width=width)
    oracle = beams(Oracle(table), table, batch, width=width, budget=300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DraftTree, "follow", lambda self, _, asked: self.extend(asked))
        alone = beams(Oracle(table), table, batch, width=width, budget=300)
    for own, without, others in zip(oracle, alone, plain, strict=True):
        assert 2 * len(own) <= len(others)
        assert len(own) <= len(without)
    assert sum(map(len, oracle)) < sum(map(len, alone))
