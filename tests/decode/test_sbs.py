"""Speculative beam search: beam search where no draft is accepted, relaxed where one is, honest about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from helpers.adversaries import EmptyDrafts, EosInside, Oracle, RandomDrafts, TooLong
from helpers.small import QUERIES, tiny_folder
from helpers.table import Table, assert_same, run
from hypothesis import given
from hypothesis import strategies as st

import chemspec.decode.relaxed.sbs as sbs_module
from chemspec.decode.beam import Hyp, beam_search
from chemspec.decode.protocol import Decoder
from chemspec.decode.relaxed.sbs import NUCLEUS, speculative_beam_search
from chemspec.draft.registry import Copy, Drafter, NoDrafts, Smart, Windows
from chemspec.engine.engine import Engine, installed_models
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings
from chemspec.testing import Target, naive_beam, naive_log_probs
from chemspec.tokenizer import BOS, EOS
from chemspec.types import Draft, FinishedSequence, Pass, Prefix, Scores

VOCAB = 10
queries = st.lists(st.integers(3, VOCAB - 1), min_size=1, max_size=10)
batches = st.lists(queries, min_size=1, max_size=5)


def sbs(
    batch: list[list[int]], backend: Target, drafter: Drafter, *, width: int, max_len: int, top_k: int = 10**6
) -> tuple[list[list[FinishedSequence]], list[list[Pass]]]:
    """The search on a model or a table, with its drafts from a drafter."""

    def decoder(query: int) -> Decoder:
        def drafts(prefix: Prefix) -> Sequence[Draft]:
            return drafter.propose(batch[query], prefix, max_len - len(prefix))

        return speculative_beam_search(width=width, max_len=max_len, drafts=drafts)

    session_on = TorchBackend(backend) if isinstance(backend, Transformer) else backend
    return run(decoder, batch, session_on, NoDrafts(), max_len=max_len, budget=0, top_k=top_k)


def keeping_beam(model: Target, source: Sequence[int], width: int, max_len: int) -> list[FinishedSequence]:
    """Plain beam search in which what is finished keeps its place; over the whole vocabulary, nothing cached."""
    beam: list[tuple[float, tuple[int, ...], tuple[float, ...]]] = [(0.0, (), ())]
    for _ in range(max_len):
        grown = []
        for total, tokens, gains in beam:
            if tokens[-1:] == (EOS,):
                grown.append((total, tokens, gains))
                continue
            every = naive_log_probs(model, source, [BOS, *tokens]).tolist()
            for token, gain in enumerate(every):
                if gain > -math.inf:
                    grown.append((total + gain, (*tokens, token), (*gains, gain)))
        beam = sorted(grown, key=lambda text: (-text[0], text[1]))[:width]
    return [FinishedSequence(tokens, gains, "eos" if tokens[-1] == EOS else "length") for _, tokens, gains in beam]


def check_answers(
    model: Target, source: Sequence[int], answers: Sequence[FinishedSequence], *, width: int, max_len: int
) -> None:
    """Whatever was drafted: the log-probs are the model's, the order is theirs, limits hold, nothing comes twice."""
    assert 1 <= len(answers) <= width
    assert len({answer.tokens for answer in answers}) == len(answers)
    totals = [answer.log_prob for answer in answers]
    assert all(high >= low - 1e-9 for high, low in pairwise(totals))
    for answer in answers:
        assert 1 <= len(answer.tokens) <= max_len
        assert EOS not in answer.tokens[:-1]
        assert answer.ended == ("eos" if answer.tokens[-1] == EOS else "length")
        assert answer.ended == "eos" or len(answer.tokens) == max_len
        expected = [
            float(naive_log_probs(model, source, (BOS, *answer.tokens[:place]))[token])
            for place, token in enumerate(answer.tokens)
        ]
        assert answer.log_probs == pytest.approx(expected, rel=0, abs=1e-9)


DRAFTERS: dict[str, Callable[[Target], Drafter]] = {
    "windows": lambda _: Windows(length=4),
    "dilated": lambda _: Windows(length=3, dilation=1),
    "smart": lambda _: Smart(length=5),
    "copy": lambda _: Copy(count=3),
    "random": lambda _: RandomDrafts(1, vocab_size=VOCAB, count=8),
    "too long": lambda _: TooLong(),
    "eos inside": lambda _: EosInside(VOCAB),
    "empty": lambda _: EmptyDrafts(),
    "oracle": lambda target: Oracle(target),
}
drafters = st.sampled_from(sorted(DRAFTERS))


# Without drafts ----------------------------------------------------------------------------------


@given(
    batches, st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 8), st.booleans(), st.sampled_from((0, 0, 1, 2))
)
def test_without_drafts_it_is_a_beam_search_that_keeps_what_is_finished(
    batch: list[list[int]], seed: int, width: int, max_len: int, narrow: bool, levels: int
) -> None:
    """Also where scores tie, and where no more are known than the engine asks for."""
    table = Table(seed, vocab_size=VOCAB, copying=0.0 if levels else 2.0, levels=levels)
    top_k = width + 1 if narrow else 10**6
    answers, passes = sbs(batch, table, NoDrafts(), width=width, max_len=max_len, top_k=top_k)
    assert_same(answers, [keeping_beam(table, source, width, max_len) for source in batch])
    for own, steps in zip(answers, passes, strict=True):
        assert len(steps) == max(len(answer.tokens) for answer in own)
        assert all(step.requested == step.computed <= width for step in steps)


# With drafts -------------------------------------------------------------------------------------


@given(
    batches, st.integers(0, 10**6), st.sampled_from([0.0, 3.0, 8.0]), drafters, st.integers(1, 6), st.integers(1, 12)
)
def test_with_drafts_the_scores_are_the_models_own(
    batch: list[list[int]], seed: int, copying: float, drafter: str, width: int, max_len: int
) -> None:
    table = Table(seed, vocab_size=VOCAB, copying=copying)
    top_k = max(2, width + 1)
    answers, passes = sbs(batch, table, DRAFTERS[drafter](table), width=width, max_len=max_len, top_k=top_k)
    for source, own, steps in zip(batch, answers, passes, strict=True):
        check_answers(table, source, own, width=width, max_len=max_len)
        assert len(steps) <= max_len
        assert all(step.requested <= width for step in steps)  # the live hypotheses; what is along drafts is drafted
        assert all(step.accepted <= step.emitted for step in steps)


@given(batches, st.integers(0, 10**6), st.integers(1, 12), drafters)
def test_a_width_of_one_is_greedy_whatever_is_drafted(
    batch: list[list[int]], seed: int, max_len: int, drafter: str
) -> None:
    """Only the best token of a place is then accepted, so nothing is relaxed."""
    table = Table(seed, vocab_size=VOCAB, copying=3.0)
    answers, _ = sbs(batch, table, DRAFTERS[drafter](table), width=1, max_len=max_len)
    assert_same(answers, [naive_beam(table, source, 1, max_len) for source in batch])


# By hand -----------------------------------------------------------------------------------------

Chances = dict[Prefix, dict[int, float]]  # by the tokens after bos


def scores_of(chances: Chances, prefix: Prefix) -> Scores:
    own = sorted(chances[prefix[1:]].items(), key=lambda item: (-item[1], item[0]))
    return Scores([token for token, _ in own], [math.log(chance) for _, chance in own])


def play(decoder: Decoder, chances: Chances) -> tuple[list[FinishedSequence], list[list[Prefix]]]:
    """The answers, and what was asked in each pass, without bos."""
    asked, passes = next(decoder), []
    while True:
        passes.append([prefix[1:] for prefix in asked])
        try:
            asked = decoder.send([scores_of(chances, prefix) for prefix in asked])
        except StopIteration as stop:
            return stop.value, passes


def after(wanted: dict[Prefix, list[tuple[int, ...]]]) -> Callable[[Prefix], list[Draft]]:
    return lambda prefix: [Draft(tokens, "by hand") for tokens in wanted.get(prefix[1:], [])]


def test_two_iterations_by_hand() -> None:
    """As in the paper's figure 3: the best two of the first pass have different lengths."""
    chances: Chances = {
        (): {4: 0.9, 7: 0.1},
        (4,): {5: 0.8, 7: 0.2},
        (4, 5): {6: 0.6, 7: 0.4},
        (4, 5, 6): {7: 0.7, EOS: 0.3},
        (5,): {4: 0.5, 6: 0.5},  # the other draft; its first token is not among the best two
        (5, 4): {4: 0.5, 6: 0.5},
        # Candidates: 7 (.1), 4 7 (.18), 4 5 7 (.288), 4 5 6 7 (.3024), 4 5 6 eos (.1296).
        (4, 5, 6, 7): {EOS: 0.6, 5: 0.4},
        (4, 5, 6, 7, 5): {EOS: 0.9, 4: 0.1},
        (4, 5, 6, 7, 5, 4): {EOS: 0.8, 4: 0.2},
        (4, 5, 6, 7, 4): {EOS: 1.0},
        (4, 5, 6, 7, 4, 5): {EOS: 1.0},
        (4, 5, 6, 7, 4, 5, 6): {EOS: 1.0},
        # Candidates: .3024 times .6 (eos), .4 .9 (5 eos), .4 .1 .8 (5 4 eos), .4 .1 .2 (5 4 4).
        (4, 5, 7): {4: 0.95, EOS: 0.05},
        (4, 5, 7, 4): {5: 0.9, 6: 0.1},
        (4, 5, 7, 4, 5): {EOS: 0.7, 7: 0.3},  # 6, drafted, is not among them
        (4, 5, 7, 4, 5, 6): {EOS: 1.0},
        (4, 5, 7, 5): {EOS: 1.0},
        (4, 5, 7, 5, 4): {EOS: 1.0},
        # Candidates: .288 times .05 (eos), .95 .1 (4 6), .95 .9 .7 (4 5 eos), .95 .9 .3 (4 5 7).
    }
    decoder = speculative_beam_search(
        width=2, max_len=20, drafts=lambda _: [Draft((5, 4, EOS, 9), "one"), Draft((4, 5, 6), "other")]
    )
    answers, passes = play(decoder, chances)
    assert [answer.tokens for answer in answers] == [(4, 5, 6, 7, EOS), (4, 5, 7, 4, 5, EOS)]
    assert [math.exp(answer.log_prob) for answer in answers] == pytest.approx([0.18144, 0.172368])
    expected = [(0.9, 0.8, 0.6, 0.7, 0.6), (0.9, 0.8, 0.4, 0.95, 0.9, 0.7)]
    for answer, each in zip(answers, expected, strict=True):
        assert [math.exp(gain) for gain in answer.log_probs] == pytest.approx(each)
    assert passes[0] == [(), (5,), (5, 4), (4,), (4, 5), (4, 5, 6)]
    start, other = (4, 5, 6, 7), (4, 5, 7)
    assert sorted(passes[1]) == sorted(
        prefix
        for hyp in (start, other)
        for prefix in (hyp, (*hyp, 5), (*hyp, 5, 4), (*hyp, 4), (*hyp, 4, 5), (*hyp, 4, 5, 6))
    )
    assert len(passes) == 2


def flat(*tokens: int) -> dict[int, float]:
    return {token: 1 / len(tokens) for token in tokens}


RELAXED: Chances = {
    (): {4: 0.6, 5: 0.4},
    (4,): {6: 0.51, 7: 0.49},
    (5,): flat(4, 5, 6, 7, 8),
    (4, 6): flat(4, 5, 6, 7, 8),
    (4, 7): {EOS: 1.0},
}
for _before in ((5,), (4, 6)):
    RELAXED |= {(*_before, token): {EOS: 1.0} for token in range(4, 9)}


def test_answers_of_unequal_lengths_compete_so_that_drafts_can_change_the_answer() -> None:
    """After the draft 4 is accepted, 5 (.4) and 4 6 (.306) are kept; 4 7 (.294), the best in the end, is not."""
    exact, _ = play(beam_search(width=2, max_len=3), RELAXED)
    assert [answer.tokens for answer in exact] == [(4, 7, EOS), (4, 6, 4)]
    undrafted, _ = play(speculative_beam_search(width=2, max_len=3, drafts=after({})), RELAXED)
    assert [answer.tokens for answer in undrafted] == [(4, 7, EOS), (4, 6, 4)]
    relaxed, passes = play(speculative_beam_search(width=2, max_len=3, drafts=after({(): [(4,)]})), RELAXED)
    assert passes[:2] == [[(), (4,)], [(5,), (4, 6)]]
    assert [answer.tokens for answer in relaxed] == [(5, 4, EOS), (5, 5, EOS)]
    assert relaxed[0].log_prob < exact[0].log_prob


def test_the_draft_of_which_most_is_accepted_is_followed_and_of_equals_the_first() -> None:
    chances: Chances = {
        (): {4: 0.5, 5: 0.35, 6: 0.15},
        (4,): {4: 0.6, 5: 0.4},
        (4, 4): {EOS: 1.0},
        (5,): {EOS: 1.0},
        (6,): {6: 1.0},
        (6, 6): {EOS: 1.0},
    }

    def kept(*drafts: tuple[int, ...]) -> list[Prefix]:
        """The unfinished ones of the best two after the first pass."""
        decoder = speculative_beam_search(width=2, max_len=9, drafts=after({(): list(drafts)}))
        return play(decoder, chances)[1][1]

    assert kept((4,), (5,)) == [(5,), (4, 4)]
    assert kept((5,), (4,)) == [(4,)]  # 5 has gone on to its end
    assert kept((5,), (4, 4)) == [(5,)]  # 4 4 has
    assert kept((6, 6), (4,)) == [(5,), (4, 4)]  # 6 is not among the best two


def test_a_draft_is_accepted_only_inside_the_nucleus() -> None:
    """A token beyond 99.75 % of the probability is not, though it is the second best."""

    def asked(second: float) -> list[Prefix]:
        chances: Chances = {(): {4: 1 - second, 5: second}, (4,): {EOS: 1.0}, (5,): {6: 1.0}, (5, 6): {EOS: 1.0}}
        decoder = speculative_beam_search(width=2, max_len=9, drafts=after({(): [(5,)]}))
        _, passes = play(decoder, chances)
        assert passes[0] == [(), (5,)]
        return passes[1]

    assert asked(second=0.002) == [(4,), (5,)]  # not accepted: 5 stands as a candidate
    assert asked(second=0.003) == [(4,), (5, 6)]
    assert NUCLEUS == 0.9975


# Through the engine ------------------------------------------------------------------------------

SBS = DecodeSettings(decoder="sbs", n=4, max_len=20)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tiny_folder(tmp_path_factory.mktemp("models") / "tiny")
    return Engine.load(folder, threads=1, runtime="torch", device="cpu")


def test_the_engine_gives_it_its_drafts_and_its_limit(engine: Engine) -> None:
    """The same as the search itself on the same model, drafts and all."""
    ids = [list(engine.prepare(query).ids) for query in QUERIES]
    for drafter, name in (
        (Windows(length=4, count=6), "windows"),
        (Copy(length=4, count=6), "copy"),
        (Smart(length=4, count=6), "smart"),
        (NoDrafts(), "none"),
    ):
        settings = DecodeSettings(decoder="sbs", n=3, max_len=15, drafter=name, draft_length=4, draft_count=6)
        found = engine.predict(QUERIES, settings)

        def decoder(query: int, drafter: Drafter = drafter) -> Decoder:
            return speculative_beam_search(
                width=3, max_len=15, drafts=lambda prefix: drafter.propose(ids[query], prefix, 15 - len(prefix))
            )

        expected, passes = run(decoder, ids, engine.backend, NoDrafts(), max_len=15, budget=0, top_k=4)
        for result, own, steps in zip(found, expected, passes, strict=True):
            assert [answer.tokens for answer in result.hypotheses] == [
                tuple(engine.tokenizer.token_texts(answer.tokens)) for answer in own
            ]
            assert [answer.log_prob for answer in result.hypotheses] == pytest.approx(
                [answer.log_prob for answer in own], abs=1e-3
            )
            assert len(result.trace.passes) == len(steps)


def test_auto_means_windows(engine: Engine) -> None:
    """No machine is measured for it."""
    assert SBS.drafter == "auto"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "cost", None)
        auto, windows = (engine.predict(QUERIES[:3], settings) for settings in (SBS, replace(SBS, drafter="windows")))
    for one, other in zip(auto, windows, strict=True):
        assert [answer.tokens for answer in one.hypotheses] == [answer.tokens for answer in other.hypotheses]


@pytest.mark.weights
@pytest.mark.skipif("forward" not in [folder.name for folder in installed_models()], reason="no forward model here")
def test_figure_3_of_the_paper_with_the_shipped_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of assets/docs/papers.md: 12 candidates in the first iteration, as in the paper, 6 in the next."""
    counted, make = [], sbs_module.expand_along

    def candidates(hyp: Hyp, path: list[Prefix], known: dict[Prefix, Scores], width: int) -> list[Hyp]:
        made = make(hyp, path, known, width)
        counted.append((len(path) - 1, len(made)))
        return made

    monkeypatch.setattr(sbs_module, "expand_along", candidates)
    query = "c1c[nH]c2ccc(C(C)=O)cc12.C(=O)(OC(=O)OC(C)(C)C)OC(C)(C)C"
    settings = DecodeSettings(decoder="sbs", n=2, draft_length=10)
    result = Engine.load("forward", threads=1).predict(query, settings)
    assert counted[:3] == [(10, 12), (1, 3), (1, 3)]
    assert len(result.trace.passes) == 7 and sum(step.emitted for step in result.trace.passes) == 36
