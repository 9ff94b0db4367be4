"""The decoders are the textbook's: equal to naive ones that remember nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import cache
from random import Random

import pytest
from helpers.adversaries import Oracle, enumerate_samples
from helpers.compilers import COMPILES
from helpers.table import Table, assert_same, run
from helpers.tiny import tiny_model
from hypothesis import example, given
from hypothesis import strategies as st

from chemspec.decode.beam import beam_search, greedy_search
from chemspec.decode.protocol import Decoder
from chemspec.decode.registry import DECODERS, build_decoder, required_top_k
from chemspec.decode.sample import sample_sequences
from chemspec.draft.base import Drafter, NoDrafts
from chemspec.model.runner import Backend
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings
from chemspec.testing import naive_beam, naive_greedy
from chemspec.tokenizer import BOS, EOS
from chemspec.types import FinishedSequence, Prefix

VOCAB = 12
LOOPS = (False, True) if COMPILES else (False,)  # in Python, compiled

sources = st.lists(st.integers(3, VOCAB - 1), min_size=1, max_size=8)
batches = st.lists(sources, min_size=1, max_size=5)
penalties = st.sampled_from([0.0, 0.6])
sharpnesses = st.sampled_from([3.0, 50.0])


@cache
def model_of(seed: int) -> Transformer:
    return tiny_model(seed, VOCAB)


def decode(
    decoder: Callable[[], Decoder],
    batch: list[list[int]],
    backend: Backend,
    max_len: int,
    *,
    top_k: int = VOCAB,
    compiled: bool = False,
) -> list[list[FinishedSequence]]:
    answers, _ = run(lambda _: decoder(), batch, backend, NoDrafts(), max_len=max_len, top_k=top_k, compiled=compiled)
    return answers


def check_beam(
    target: Transformer | Table, source: list[int], width: int, max_len: int, penalty: float
) -> list[FinishedSequence]:
    """By the loop in Python and, where there is a compiler, by the compiled one."""
    backend = target if isinstance(target, Table) else TorchBackend(target)
    expected = naive_beam(target, source, width, max_len, penalty)
    for compiled in LOOPS:
        found = decode(
            lambda: beam_search(width=width, max_len=max_len, length_penalty=penalty),
            [source],
            backend,
            max_len,
            top_k=width + 1,  # all that a beam search needs
            compiled=compiled,
        )
        assert_same(found, [expected])
    return found[0]


# All of the registry -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, spec in DECODERS.items() if spec.guarantee == "exact"])
@given(batches, st.integers(0, 99), st.integers(1, 5), st.integers(1, 12), st.sampled_from([0, 2]))
def test_an_exact_decoder_needs_no_more_than_its_candidates_and_answers_the_same_with_drafts(
    name: str, batch: list[list[int]], seed: int, n: int, max_len: int, levels: int
) -> None:
    """A `top_k` that is too small changes answers, and so does a look-ahead that changes the decoder's state."""
    table = Table(seed, vocab_size=VOCAB, levels=levels)
    settings = DecodeSettings(decoder=name, n=n, max_len=max_len)

    def answers(drafter: Drafter, top_k: int) -> list[list[FinishedSequence]]:
        return run(
            lambda query: build_decoder(tuple(batch[query]), settings, drafter),
            batch,
            table,
            drafter,
            max_len=max_len,
            top_k=top_k,
        )[0]

    assert_same(answers(Oracle(table), required_top_k(settings, VOCAB)), answers(NoDrafts(), VOCAB))


# Greedy and beam search --------------------------------------------------------------------------


@given(batches, st.integers(0, 9), st.integers(1, 14))
def test_greedy_is_naive_greedy(batch: list[list[int]], seed: int, max_len: int) -> None:
    answers = decode(lambda: greedy_search(max_len=max_len), batch, TorchBackend(model_of(seed)), max_len, top_k=2)
    assert_same(answers, [[naive_greedy(model_of(seed), source, max_len)] for source in batch])


@given(
    sources, st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 20), penalties, st.sampled_from([0.5, 1.5, 4.0])
)
def test_beam_search_is_naive_beam_search_on_tables(
    source: list[int], seed: int, width: int, max_len: int, penalty: float, sharpness: float
) -> None:
    check_beam(Table(seed, sharpness=sharpness), source, width, max_len, penalty)


@given(sources, st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 7), penalties, st.integers(1, 3), sharpnesses)
@example([4], 0, 5, 4, 0.0, 1, 3.0)
def test_ties_are_broken_by_token_ids(
    source: list[int], seed: int, width: int, max_len: int, penalty: float, levels: int, sharpness: float
) -> None:
    """With few levels nearly every step has ties, within a hypothesis and between hypotheses.

    The sharpest table has log-probs of exactly 0, as a sharp model has them in fp32: to live on costs nothing.
    """
    table = Table(seed, vocab_size=8, levels=levels, sharpness=sharpness)
    answers = check_beam(table, source, width, max_len, penalty)
    ranked = [(-answer.log_prob / len(answer.tokens) ** penalty, answer.tokens) for answer in answers]
    finished = [rank for rank, answer in zip(ranked, answers, strict=True) if answer.ended == "eos"]
    assert finished == sorted(finished)


class Fixed(Table):
    """Chances of what follows each text; where none are given, eos is certain."""

    def __init__(self, chances: dict[tuple[int, ...], dict[int, float]]) -> None:
        super().__init__(vocab_size=8)
        self.chances = chances

    def _log_probs(self, _: Prefix, prefix: Prefix) -> tuple[float, ...]:
        row = self.chances.get(prefix[1:], {EOS: 1.0})
        return tuple(math.log(row[token]) if token in row else -math.inf for token in range(8))


def test_a_hypothesis_that_ties_with_the_last_finished_one_may_still_win() -> None:
    """(4, 6) ties with the finished (5, eos) and becomes (4, 6, eos), which sorts first."""
    table = Fixed({(): {EOS: 0.4, 4: 0.3, 5: 0.3}, (4,): {6: 1.0}})
    assert [answer.tokens for answer in check_beam(table, [4], 2, 6, 0.0)] == [(EOS,), (4, 6, EOS)]


# Sampling ----------------------------------------------------------------------------------------


def chi_square(seen: Counter[tuple[int, ...]], chances: dict[tuple[int, ...], float]) -> float:
    """Standard deviations of the statistic above its mean; rare texts are taken together."""
    draws = seen.total()
    cells = [(seen[text], chance * draws) for text, chance in chances.items() if chance * draws >= 5]
    rare = draws - sum(count for count, _ in cells), draws - sum(mean for _, mean in cells)
    cells += [rare] if rare[1] >= 5 else []
    statistic = sum((count - mean) ** 2 / mean for count, mean in cells)
    freedom = len(cells) - 1
    return (statistic - freedom) / math.sqrt(2 * freedom)


SAMPLED = [(1.0, 1.0), (0.6, 1.0), (0.7, 0.9)]


@pytest.mark.parametrize(("temperature", "top_p"), SAMPLED)
def test_samples_follow_the_model(temperature: float, top_p: float) -> None:
    """Chi-square of 3000 texts against all there are; for other settings it is huge."""
    table, max_len, draws = Table(3, vocab_size=6, sharpness=1.0), 3, 3000
    seen: Counter[tuple[int, ...]] = Counter()
    for start in range(0, draws, 500):
        answers, _ = run(
            lambda query, start=start: sample_sequences(
                count=1, max_len=max_len, rng=Random(start + query), temperature=temperature, top_p=top_p
            ),
            [[4, 5]] * 500,
            table,
            NoDrafts(),
            max_len=max_len,
        )
        seen.update(answer.tokens for (answer,) in answers)
    exact = enumerate_samples(table, [4, 5], max_len=max_len, temperature=temperature, top_p=top_p)
    assert sum(exact.values()) == pytest.approx(1)
    assert set(seen) <= set(exact)
    assert len(exact) > 7
    assert abs(chi_square(seen, exact)) < 3.5
    for other in set(SAMPLED) - {(temperature, top_p)}:
        wrong = enumerate_samples(table, [4, 5], max_len=max_len, temperature=other[0], top_p=other[1])
        assert not set(seen) <= set(wrong) or chi_square(seen, wrong) > 10


@pytest.mark.parametrize("how", [{"temperature": 1e-7}, {"temperature": 3.0, "top_p": 1e-9}], ids=["cold", "nucleus"])
@given(sources, st.integers(0, 9), st.integers(1, 8), st.integers(0, 99))
def test_a_cold_sample_and_a_nucleus_of_one_token_are_greedy(
    how: dict[str, float], source: list[int], seed: int, max_len: int, draw: int
) -> None:
    answers = decode(
        lambda: sample_sequences(count=3, max_len=max_len, rng=Random(draw), **how),
        [source],
        TorchBackend(model_of(seed)),
        max_len,
    )
    assert_same(answers, [[naive_greedy(model_of(seed), source, max_len)]])


@given(sources, st.integers(0, 99), st.integers(1, 6), st.integers(1, 12))
def test_samples_are_different_and_best_first(source: list[int], seed: int, max_len: int, count: int) -> None:
    table = Table(seed, vocab_size=6, sharpness=1.0)
    (answers,) = decode(
        lambda: sample_sequences(count=count, max_len=max_len, rng=Random(seed), temperature=1.5),
        [source],
        table,
        max_len,
    )
    assert 1 <= len(answers) <= count
    assert len({answer.tokens for answer in answers}) == len(answers)
    totals = [answer.log_prob for answer in answers]
    assert totals == sorted(totals, reverse=True)
    for answer in answers:  # the model's own log-probs, whatever the temperature
        own = [
            table.log_probs(tuple(source), (BOS, *answer.tokens[:place]))[token]
            for place, token in enumerate(answer.tokens)
        ]
        assert answer.log_probs == tuple(own)
