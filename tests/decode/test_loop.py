"""The loop is lossless: with any drafter an exact decoder answers as without it, and no later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

import pytest
from helpers.adversaries import AlwaysWrong, EmptyDrafts, EosInside, Oracle, RandomDrafts, TooLong
from helpers.table import Table, TableRunner, assert_same, run
from helpers.thinned import every
from helpers.tiny import tiny_model
from hypothesis import given
from hypothesis import strategies as st

from chemspec.decode.beam import beam_search, greedy_search
from chemspec.decode.decoding import Decoding
from chemspec.decode.protocol import START, Decoder, LoopOptions, ScoreRequest
from chemspec.decode.sample import sample_sequences
from chemspec.draft.base import Drafter, NoDrafts
from chemspec.model.runner import DENSE, Backend, CompactionThreshold
from chemspec.model.runners.torch_runner import TorchBackend, TorchRunner
from chemspec.model.session import Session
from chemspec.model.transformer import Transformer
from chemspec.testing import Target, naive_greedy
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import Draft, FinishedSequence, Pass, Prefix, Scores

VOCAB = 10
EAGER = CompactionThreshold(0.0, -(10**6), 0)  # removes every unreachable node at once


@dataclass(frozen=True)
class Several:
    """All that some drafters propose."""

    drafters: tuple[Drafter, ...]

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        return [draft for drafter in self.drafters for draft in drafter.propose(source, prefix, max_new_tokens)]


@dataclass(frozen=True)
class Illegal:
    """A drafter that proposes a token id that none should propose, after one that it may."""

    token: int

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        return [Draft((source[0],), "illegal"), Draft((source[0], self.token), "illegal")]


DECODERS: dict[str, Callable[[int], Callable[[int], Decoder]]] = {
    "greedy": lambda max_len: lambda _: greedy_search(max_len=max_len),
    "beam of 1": lambda max_len: lambda _: beam_search(width=1, max_len=max_len),
    "beam of 2": lambda max_len: lambda _: beam_search(width=2, max_len=max_len),
    "beam of 5": lambda max_len: lambda _: beam_search(width=5, max_len=max_len, length_penalty=0.6),
    "one sample": lambda max_len: lambda query: sample_sequences(count=1, max_len=max_len, rng=Random(query)),
    "samples": lambda max_len: lambda query: sample_sequences(count=4, max_len=max_len, rng=Random(query), top_p=0.95),
}

DRAFTERS: dict[str, Callable[[Target], Drafter]] = {
    "random": lambda _: RandomDrafts(1, vocab_size=VOCAB),
    "bushy": lambda _: RandomDrafts(2, vocab_size=VOCAB, count=12, length=9),
    "empty": lambda _: EmptyDrafts(),
    "eos inside": lambda _: EosInside(VOCAB),
    "too long": lambda _: TooLong(),
    "pad": lambda _: Illegal(PAD),
    "bos": lambda _: Illegal(BOS),
    "wrong": lambda target: AlwaysWrong(target),
    "oracle": lambda target: Oracle(target),
    "all": lambda target: Several(
        (AlwaysWrong(target), EosInside(VOCAB), EmptyDrafts(), TooLong(), RandomDrafts(3), Oracle(target))
    ),
}

sources = st.lists(st.integers(3, VOCAB - 1), min_size=1, max_size=9)
batches = st.lists(sources, min_size=1, max_size=8)
decoders, drafters = st.sampled_from(sorted(DECODERS)), st.sampled_from(sorted(DRAFTERS))


@cache
def model_of(seed: int) -> Transformer:
    return tiny_model(seed, VOCAB)


def check(
    batch: list[list[int]],
    backend: Backend,
    target: Target,
    decoder: str,
    drafter: str,
    *,
    max_len: int,
    budget: int = 64,
    within: float = 1e-9,
) -> list[list[Pass]]:
    """The law: with drafts as without them, in no more passes; and the counters add up."""
    make = DECODERS[decoder](max_len)
    plain, plain_passes = run(make, batch, backend, NoDrafts(), max_len=max_len)
    answers, passes = run(make, batch, backend, DRAFTERS[drafter](target), max_len=max_len, budget=budget)
    assert_same(answers, plain, within=within)
    for query, source in enumerate(batch):
        assert 1 <= len(passes[query]) <= len(plain_passes[query])
        check_counters(source, answers[query], passes[query], budget=budget, decoder=decoder, max_len=max_len)
        check_counters(source, plain[query], plain_passes[query], budget=0, decoder=decoder, max_len=max_len)
        # The decoder went through the same states: as many steps, the same narrowest choice.
        steps, plain_steps = (sum(step.emitted for step in each[query]) for each in (passes, plain_passes))
        assert steps == plain_steps
        margin, plain_margin = (min(step.margin for step in each[query]) for each in (passes, plain_passes))
        assert margin == pytest.approx(plain_margin, rel=0, abs=10 * within)
    for each in (passes, plain_passes):
        widths = [sum(len(steps) > call for steps in each) for call in range(max(map(len, each)))]
        assert all([step.width for step in steps] == widths[: len(steps)] for steps in each)
    return passes


def check_counters(
    source: list[int], answers: list[FinishedSequence], passes: list[Pass], *, budget: int, decoder: str, max_len: int
) -> None:
    """What the docstring of `Pass` promises."""
    for step in passes:
        assert step.requested >= 1
        assert step.computed == step.requested + step.drafted
        assert step.drafted <= budget
        assert step.emitted >= 1
        assert 0 <= step.accepted == sum(span.length for span in step.spans) < step.emitted
        assert step.margin >= 0
        assert step.draft_seconds > 0
        assert step.model_seconds > 0
        for span in step.spans:
            assert span.length >= 1
            assert 0 <= span.start <= span.start + span.length < max_len
            if span.span is not None:
                assert 0 <= span.span[0] < span.span[1] <= len(source)
                assert span.span[1] - span.span[0] == span.length
    assert sum(step.accepted for step in passes) <= sum(step.drafted for step in passes)
    places = Counter(
        place for step in passes for span in step.spans for place in range(span.start, span.start + span.length)
    )
    assert not places or max(places.values()) == 1  # no place of the answer is accepted twice
    if decoder in ("greedy", "one sample"):
        (answer,) = answers
        assert sum(step.emitted for step in passes) == len(answer.tokens)
        assert sum(step.emitted - step.accepted for step in passes) == len(
            passes
        )  # one token a pass is the model's own
        for step in passes:
            for span in step.spans:
                assert span.start + span.length <= len(answer.tokens)
                if span.span is not None:
                    copied = tuple(source[slice(*span.span)])
                    assert copied == answer.tokens[span.start : span.start + span.length]


# Losslessness ------------------------------------------------------------------------------------


# Of every drafter half of the decoders by default, the other half of the next one.
CASES = [(name, each) for row, name in enumerate(sorted(DRAFTERS)) for each in sorted(DECODERS, reverse=row % 2 > 0)]


@pytest.mark.parametrize("case", every(2, CASES), ids=" ".join)
def test_drafts_never_change_an_answer(case: tuple[str, str]) -> None:
    """Every decoder with every drafter, batches of all sizes, limits that bind or do not, and scores that tie."""
    drafter, decoder = case
    random = Random(f"{decoder} {drafter}")
    for size, max_len, levels in ((1, 25, 0), (2, 1, 0), (4, 9, 0), (3, 8, 1), (4, 6, 2), (3, 8, 3)):
        table = Table(size, vocab_size=VOCAB, copying=1.0 if levels else 3.0, levels=levels)
        batch = [[random.randrange(3, VOCAB) for _ in range(random.randint(1, 14))] for _ in range(size)]
        budget = random.choice((0, 1, 3, 20, 64))
        check(batch, table, table, decoder, drafter, max_len=max_len, budget=budget, within=0)


@given(batches, st.integers(0, 5), decoders, drafters, st.integers(1, 14), st.integers(0, 40), st.booleans())
def test_drafts_never_change_an_answer_of_a_model(
    batch: list[list[int]], seed: int, decoder: str, drafter: str, max_len: int, budget: int, tight: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if tight:  # compact the cache at every opportunity
            patch.setattr(TorchRunner, "compaction_threshold", EAGER)
        model = model_of(seed)
        check(batch, TorchBackend(model), model, decoder, drafter, max_len=max_len, budget=budget)


# Speed in passes and nodes -----------------------------------------------------------------------


@given(batches, st.integers(0, 99), st.integers(1, 20), st.integers(1, 5) | st.just(64))
def test_a_budget_bounds_what_the_oracle_gains(batch: list[list[int]], seed: int, max_len: int, budget: int) -> None:
    table = Table(seed, vocab_size=VOCAB)
    passes = check(batch, table, table, "greedy", "oracle", max_len=max_len, budget=budget, within=0)
    for steps in passes:
        tokens = sum(step.emitted for step in steps)
        assert len(steps) == -(-tokens // (budget + 1))
        assert sum(step.accepted for step in steps) == tokens - len(steps)


@given(batches, st.integers(0, 99), decoders, drafters, st.integers(1, 14), st.booleans())
def test_nothing_is_computed_twice(
    batch: list[list[int]], seed: int, decoder: str, drafter: str, max_len: int, tight: bool
) -> None:
    """Not even with pruning: what lies below the prefixes asked stays; no decoder goes back."""
    table = Table(seed, vocab_size=VOCAB, copying=3.0)
    batch = [list(source) for source in dict.fromkeys(map(tuple, batch))]  # the table tells queries by their sources
    with pytest.MonkeyPatch.context() as patch:
        if tight:
            patch.setattr(TableRunner, "compaction_threshold", EAGER)
        _, passes = run(DECODERS[decoder](max_len), batch, table, DRAFTERS[drafter](table), max_len=max_len)
    assert max(Counter(table.nodes).values()) == 1
    assert len(table.nodes) == sum(step.computed for steps in passes for step in steps)
    assert len(table.calls) == max(map(len, passes))
    assert all(len(prefix) <= max_len and prefix[-1] != EOS for _, prefix in table.nodes)


def test_a_long_decode_keeps_its_tree_small() -> None:
    """Dead drafts are thrown out of the cache; otherwise it would grow with every pass."""
    table, sizes = Table(4, vocab_size=VOCAB, sharpness=0.5), []
    source, room = [4, 5, 6, 7], 60

    def watched() -> Generator[ScoreRequest, Sequence[Scores], list[FinishedSequence]]:
        prefix = START
        for step in range(room):
            yield (prefix,)
            prefix = (*prefix, 4 + step % 5)
        return [FinishedSequence(prefix[1:], (0.0,) * room, "length")]

    session = Session(table, [source], top_k=2)
    options = LoopOptions(max_len=room, budget=64)
    loop = Decoding([source], [watched()], session, DRAFTERS["bushy"](table), options)
    sizes = [len(tree.slots) for _ in loop for tree in session.trees.values()]
    assert len(sizes) > 10
    assert len(table.nodes) > 300
    assert max(sizes) < 2 * (room + 1) + DENSE.fixed


# Corners -----------------------------------------------------------------------------------------


def test_a_decoder_that_asks_nothing_is_done() -> None:
    def silent() -> Generator[ScoreRequest, Sequence[Scores], list[FinishedSequence]]:
        return [FinishedSequence((EOS,), (0.0,), "eos")]
        yield

    table = Table(0)
    makes = [silent, lambda: greedy_search(max_len=5), silent]
    answers, passes = run(lambda query: makes[query](), [[4], [5], [6]], table, NoDrafts(), max_len=5)
    assert answers[0] == answers[2] == [FinishedSequence((EOS,), (0.0,), "eos")]
    assert answers[1] == [naive_greedy(table, [5], 5)]
    assert [bool(steps) for steps in passes] == [False, True, False]
    answers, passes = run(lambda _: silent(), [[4], [5]], table, NoDrafts(), max_len=5)
    assert (len(answers), passes) == (2, [[], []])


def test_a_decoder_may_ask_for_prefixes_of_any_length_and_ask_again() -> None:
    """Ancestors that the cache lacks are computed on the way; known answers need no pass."""

    def leaps() -> Generator[ScoreRequest, Sequence[Scores], list[FinishedSequence]]:
        first = yield ((BOS, 4, 5, 6), (BOS,))
        second = yield ((BOS, 4), (BOS, 4, 5, 6))
        third = yield ((BOS, 7, 8),)
        return [
            FinishedSequence((), tuple(float(scores.log_probs[0]) for scores in (*first, *second, *third)), "length")
        ]

    table = Table(0, vocab_size=VOCAB)
    (answers,), (passes,) = run(lambda _: leaps(), [[4, 5]], table, NoDrafts(), max_len=9)
    expected = [(BOS, 4, 5, 6), (BOS,), (BOS, 4), (BOS, 4, 5, 6), (BOS, 7, 8)]
    assert answers[0].log_probs == tuple(max(table.log_probs((4, 5), prefix)) for prefix in expected)
    assert [step.computed for step in passes] == [4, 2]


class Prepared(Drafter):
    """Proposes one token after what it was told of, and notes what it was not told of."""

    has_hooks = True

    def __init__(self) -> None:
        self.told: set[Prefix] = set()
        self.untold: list[Prefix] = []

    def prepare(self, asked: Sequence[tuple[Sequence[int], Prefix, int]]) -> None:
        self.told |= {prefix for _, prefix, max_new_tokens in asked if max_new_tokens > 0}

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        if prefix not in self.told:
            self.untold.append(prefix)
            return ()
        return [Draft((5,), "prepared")]


def test_a_drafter_with_a_model_hears_of_all_prefixes_of_a_pass_before_it_proposes() -> None:
    sources = [(4, 5, 6), (5, 4)]
    drafter = Prepared()

    def answers(drafter: Drafter) -> list[list[FinishedSequence]]:
        return run(lambda _: greedy_search(max_len=6), sources, Table(3), drafter, max_len=6)[0]

    assert answers(drafter) == answers(NoDrafts())
    assert len(drafter.told) > len(sources)
    assert not drafter.untold


class Thrifty(Drafter):
    """Says whether drafts pay, and notes what it is asked and told."""

    has_hooks = True

    def __init__(self, pays: bool, tokens: tuple[int, ...] = (5,)) -> None:
        self.pays, self.tokens = pays, tokens
        self.asked = 0
        self.heard: list[tuple[int, int]] = []

    def plan_pass(self, asked: int, queries: int, *, waiting: int) -> bool:
        return self.pays

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        self.asked += 1
        return [Draft(self.tokens, "thrifty")]

    def observe(self, draft: Draft, accepted: int) -> None:
        self.heard.append((len(draft.tokens), accepted))


@pytest.mark.parametrize("decoder", ["greedy", "beam of 2"])
@pytest.mark.parametrize("pays", [False, True])
def test_a_drafter_is_asked_for_what_pays_by_its_own_word(decoder: str, pays: bool) -> None:
    drafter = Thrifty(pays)
    answers = run(DECODERS[decoder](8), [[4, 5, 6]], Table(3), drafter, max_len=8)[0]
    assert answers == run(DECODERS[decoder](8), [[4, 5, 6]], Table(3), NoDrafts(), max_len=8)[0]
    assert bool(drafter.asked) is bool(drafter.heard) is pays


def test_of_a_draft_longer_than_the_answer_only_what_is_known_is_told() -> None:
    table = Table(3)
    (whole,) = run(lambda _: greedy_search(max_len=4), [[4, 5, 6]], table, NoDrafts(), max_len=4)[0][0]
    first, second, *_ = whole.tokens
    assert len(whole.tokens) == 4
    right = Thrifty(True, whole.tokens)
    wrong = Thrifty(True, (first, 5 if second != 5 else 6, 5))
    for drafter in (right, wrong):
        run(lambda _: greedy_search(max_len=2), [[4, 5, 6]], table, drafter, max_len=2)
    assert right.heard == [(2, 2)]  # of four tokens; of the others nobody knows
    assert wrong.heard[0] == (3, 1)  # the second was refused
