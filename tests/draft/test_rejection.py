"""The rule of speculative sampling, played out in full: every answer keeps the target's probability exactly."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product, takewhile
from typing import Any

import numpy as np
import pytest
from helpers.adversaries import enumerate_samples
from helpers.table import Table, run
from hypothesis import given
from hypothesis import strategies as st

from chemspec.decode.protocol import Decoder
from chemspec.decode.sample import block_sample, sampled_beam, speculative_sample
from chemspec.draft.learned.gamma import AdaptiveGamma, FixedGamma, Gamma
from chemspec.draft.learned.sampled import Sampled, SampleRequest, SamplingDraftGenerator
from chemspec.draft.learned.small import DraftModel, DraftModelSession
from chemspec.draft.rejection import (
    DraftedToken,
    Nucleus,
    Probs,
    Seeded,
    accept_or_resample,
    accept_probability,
    residual_distribution,
    verify_block,
)
from chemspec.types import FinishedSequence, Scores

VOCAB = 5  # pad and bos are impossible in a table, which leaves three
SOURCE = [3, 4]
TARGET, SMALL, MEDIUM = (Table(seed, vocab_size=VOCAB, sharpness=1.0) for seed in (1, 2, 3))
Tokens = tuple[int, ...]


class Played:
    """Choices that a script makes, then the first possibility; `chance` is the probability of it all."""

    def __init__(self, script: list[int]) -> None:
        self.script, self.open = script, [0] * len(script)
        self.thrown, self.chance = 0, 1.0

    def pick_token(self, probs: Probs) -> int:
        possible = [int(token) for token in np.flatnonzero(probs)]
        weights = [float(probs[token]) for token in possible]
        weights[-1] += 1 - sum(weights)  # what is lacking falls to the last token, as with `Seeded`
        place = self._choose([weight > 0 for weight in weights])
        self.chance *= weights[place]
        return possible[place]

    def flip_coin(self, chance: float) -> bool:
        came = bool(self._choose([chance < 1, chance > 0]))
        self.chance *= chance if came else 1 - chance
        return came

    def _choose(self, possible: list[bool]) -> int:
        places = [place for place, is_possible in enumerate(possible) if is_possible]
        if self.thrown == len(self.script):
            self.script.append(0)
            self.open.append(0)
        which = self.script[self.thrown]
        self.open[self.thrown] = len(places) - 1 - which
        self.thrown += 1
        return places[which]


def every_game() -> Iterator[Played]:
    """Choices for every course that sampling can take."""
    script: list[int] = []
    while True:
        rng = Played(script)
        yield rng
        script = rng.script[: rng.thrown]
        while script and not rng.open[len(script) - 1]:
            script.pop()
        if not script:
            return
        script[-1] += 1


def drawer(kind: str, nucleus: Nucleus) -> SamplingDraftGenerator:
    def small(table: Table) -> DraftModelSession:
        return DraftModelSession(DraftModel(table, 64, VOCAB, lambda: lambda _: 1.0), top_k=VOCAB)

    first = SamplingDraftGenerator(small(SMALL), nucleus)
    if kind == "hierarchy":
        second = SamplingDraftGenerator(small(MEDIUM), nucleus, helper=first)
        second.stride = 2
        return second
    return first


GAMMAS: dict[str, Callable[[], Gamma]] = {
    "1": lambda: FixedGamma(1),
    "2": lambda: FixedGamma(2),
    "5": lambda: FixedGamma(5),
    "adaptive": lambda: AdaptiveGamma(0.4, longest=3),
}


def answers(
    kind: str,
    gamma: str,
    rng: Seeded,
    *,
    max_len: int,
    count: int = 1,
    drafts: Seeded | None = None,
    budget: int = 64,
    nucleus: Nucleus = Nucleus(),
    sources: tuple[list[int], ...] = (SOURCE,),
    sampler: Callable[..., Decoder] = speculative_sample,
) -> list[list[FinishedSequence]]:
    drafter = Sampled(drawer(kind, nucleus), GAMMAS[gamma], name="ar")

    def decoder(query: int):  # type: ignore[no-untyped-def]
        request = drafter.open_request(sources[query], drafts or rng)
        return sampler(count=count, max_len=max_len, request=request, rng=rng, nucleus=nucleus)

    return run(decoder, sources, TARGET, drafter, max_len=max_len, budget=budget)[0]


def probs(kind: str, gamma: str, *, max_len: int, **options: object) -> dict[tuple[Tokens, ...], float]:
    """The probability of every outcome of the whole sampler, by playing every game."""
    found: dict[tuple[Tokens, ...], float] = {}
    for rng in every_game():
        ((*texts,),) = answers(kind, gamma, rng, max_len=max_len, **options)  # type: ignore[arg-type]
        outcome = tuple(sorted(text.tokens for text in texts))
        found[outcome] = found.get(outcome, 0.0) + rng.chance
    return found


def exact(max_len: int, nucleus: Nucleus = Nucleus()) -> dict[Tokens, float]:
    return enumerate_samples(TARGET, SOURCE, max_len=max_len, temperature=nucleus.temperature, top_p=nucleus.top_p)


def same(found: dict[tuple[Tokens, ...], float], expected: dict[Tokens, float]) -> bool:
    return set(found) == {(tokens,) for tokens in expected} and all(
        math.isclose(found[tokens,], chance, abs_tol=1e-12) for tokens, chance in expected.items()
    )


# One place ---------------------------------------------------------------------------------------


simplex = st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4).filter(lambda some: sum(some) > 0.1)


@given(simplex, simplex)
def test_the_rule_gives_every_token_the_targets_probability(some: list[float], other: list[float]) -> None:
    p, q = (np.array(weights) / sum(weights) for weights in (some, other))
    found = np.zeros(4)
    for token in np.flatnonzero(q):
        keep = accept_probability(int(token), p, q)
        found[token] += q[token] * keep
        found += q[token] * (1 - keep) * residual_distribution(p, q)
    assert found == pytest.approx(p, abs=1e-12)
    chance = np.minimum(p, q).sum()  # of acceptance: the beta of Leviathan et al.
    assert chance == pytest.approx(sum(q[t] * accept_probability(t, p, q) for t in range(4) if q[t]))


def test_temperature_and_top_p_by_token_id() -> None:
    scores = Scores((2, 0, 1), tuple(map(math.log, (0.5, 0.3, 0.2))))
    assert Nucleus()(scores) == pytest.approx([0.3, 0.2, 0.5])
    assert Nucleus(top_p=0.7)(scores) == pytest.approx([0.375, 0.0, 0.625])
    assert Nucleus(temperature=0.5)(scores) == pytest.approx(np.array([9, 4, 25]) / 38)
    never_written = Scores((3, 0), (math.log(0.6), math.log(0.4)))  # 1 and 2 are not among the scores
    assert Nucleus()(never_written) == pytest.approx([0.4, 0, 0, 0.6])


def test_seeded_dice_follow_the_probabilities_and_reach_no_impossible_token() -> None:
    rng, p = Seeded("dice"), np.array([0.0, 0.2, 0.5, 0.3, 0.0])
    seen = Counter(rng.pick_token(p) for _ in range(4000))
    assert set(seen) == {1, 2, 3}
    assert all(abs(seen[token] / 4000 - p[token]) < 0.04 for token in seen)
    assert abs(sum(rng.flip_coin(0.3) for _ in range(4000)) / 4000 - 0.3) < 0.04
    assert not Seeded("a").flip_coin(0.0)
    assert Seeded("a").flip_coin(1.0)
    short = np.array([0.0, 1e-9, 0.0])  # a sum below 1 falls to the last possible token
    assert Seeded("a").pick_token(short) == 1
    assert accept_or_resample(DraftedToken(1, p), p, Seeded("b")).token == 1


# The whole sampler -------------------------------------------------------------------------------


SAMPLERS = pytest.mark.parametrize("sampler", [speculative_sample, block_sample])


@SAMPLERS
@pytest.mark.parametrize("gamma", sorted(GAMMAS))
@pytest.mark.parametrize("kind", ["ar", "hierarchy"])
def test_the_sampler_keeps_the_targets_distribution(kind: str, gamma: str, sampler: Any) -> None:
    """Every choice of small, medium and large model is played, and the probabilities add up."""
    assert same(probs(kind, gamma, max_len=3, sampler=sampler), exact(3))


@SAMPLERS
@pytest.mark.parametrize("nucleus", [Nucleus(0.5), Nucleus(top_p=0.7), Nucleus(1.7, 0.6)])
@pytest.mark.parametrize("kind", ["ar", "hierarchy"])
def test_temperature_and_top_p_change_both_models(kind: str, nucleus: Nucleus, sampler: Any) -> None:
    assert same(probs(kind, "2", max_len=2, nucleus=nucleus, sampler=sampler), exact(2, nucleus))


@SAMPLERS
@pytest.mark.parametrize("budget", [0, 1])
def test_drafts_that_do_not_fit_into_the_pass_change_nothing(budget: int, sampler: Any) -> None:
    assert same(probs("ar", "2", max_len=3, budget=budget, sampler=sampler), exact(3))


def accepted_on_average(tables: tuple[list[Probs], list[Probs]], verify: Callable[..., int]) -> float:
    """Return how many tokens of a draft are accepted, over every draft and every course of its verification."""
    targets, smalls = tables
    total = 0.0
    for tokens in product(range(len(targets[0])), repeat=len(smalls)):
        chance = math.prod(float(q[token]) for q, token in zip(smalls, tokens, strict=True))
        drafted = [DraftedToken(token, q) for token, q in zip(tokens, smalls, strict=True)]
        for rng in every_game() if chance else ():
            accepted = verify(drafted, targets, rng)
            total += chance * rng.chance * accepted
    return total


def one_by_one(drafted: list[DraftedToken], targets: list[Probs], rng: Played) -> int:
    coins = (rng.flip_coin(accept_probability(each.token, p, each.probs)) for each, p in zip(drafted, targets))  # noqa: B905
    return sum(1 for _ in takewhile(bool, coins))


def by_block(drafted: list[DraftedToken], targets: list[Probs], rng: Played) -> int:
    accepted, _ = verify_block(drafted, targets, rng)  # type: ignore[arg-type]
    return accepted


three = st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3).map(lambda some: np.array(some) / sum(some))
two_places = st.lists(three, min_size=2, max_size=2)


@given(two_places, two_places)
def test_blocks_accept_at_least_as_many_tokens(targets: list[Probs], smalls: list[Probs]) -> None:
    tables = targets, smalls
    assert accepted_on_average(tables, by_block) >= accepted_on_average(tables, one_by_one) - 1e-9


def test_blocks_accept_more_where_likelier_tokens_make_up_for_others() -> None:
    """The example of Sun et al.: p = (1/3, 2/3), q = (2/3, 1/3) twice; 11/9 instead of 10/9 accepted tokens."""
    tables = [np.array([1, 2]) / 3] * 2, [np.array([2, 1]) / 3] * 2
    assert accepted_on_average(tables, one_by_one) == pytest.approx(10 / 9)
    assert accepted_on_average(tables, by_block) == pytest.approx(11 / 9)


@pytest.mark.parametrize(("max_len", "budget"), [(1, 64), (2, 2)])
def test_draws_are_independent_of_each_other(max_len: int, budget: int) -> None:
    single = exact(max_len)
    expected = {
        tuple(sorted({one, other})): (1 if one == other else 2) * single[one] * single[other]
        for one, other in product(single, repeat=2)
    }
    assert probs("ar", "1", max_len=max_len, count=2, budget=budget) == pytest.approx(expected, abs=1e-12)


@SAMPLERS
def test_good_guesses_save_passes(sampler: Any) -> None:
    """A small model that is the target itself: every guess is kept, and a pass yields gamma + 1 tokens."""
    same_model = DraftModelSession(DraftModel(TARGET, 64, VOCAB, lambda: lambda _: 1.0), top_k=VOCAB)
    drafter = Sampled(SamplingDraftGenerator(same_model, Nucleus()), lambda: FixedGamma(4), name="ar")
    request = drafter.open_request(SOURCE, Seeded("a"))
    found, (passes,) = run(
        lambda _: sampler(count=1, max_len=30, request=request, rng=Seeded("b")), [SOURCE], TARGET, drafter, max_len=30
    )
    ((text,),) = found
    assert len(passes) == -(-len(text.tokens) // 5)
    assert sum(step.emitted for step in passes) == len(text.tokens)
    assert sum(step.accepted for step in passes) >= len(text.tokens) - len(passes)


def test_algorithm_2_ranks_by_the_tokens_that_were_not_drafted() -> None:
    drafter = Sampled(drawer("ar", Nucleus()), lambda: FixedGamma(3), name="ar")
    request: SampleRequest = drafter.open_request(SOURCE, Seeded("a"))
    ((*beams,),), _ = run(
        lambda _: sampled_beam(count=5, max_len=8, request=request, rng=Seeded("b")),
        [SOURCE],
        TARGET,
        drafter,
        max_len=8,
    )
    assert 1 < len(beams) <= 5
    assert len({beam.tokens for beam in beams}) == len(beams)
    for beam in beams:  # the log-probs told are the target's, whatever ranks them
        for place, (token, told) in enumerate(zip(beam.tokens, beam.log_probs, strict=True)):
            assert told == pytest.approx(TARGET.log_probs(tuple(SOURCE), (1, *beam.tokens[:place]))[token])
