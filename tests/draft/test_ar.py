"""Small autoregressive models as drafters: whatever they write, answers stay; and what an engine needs to use one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
from helpers.small import BAD, QUERIES, TOKENIZER, tiny_folder
from helpers.table import Table, assert_same, run
from helpers.tiny import tiny_model
from hypothesis import given
from hypothesis import strategies as st

from chemspec.decode.beam import greedy_search
from chemspec.draft.inputs import DrafterInputs
from chemspec.draft.learned.ar import Autoregressive, GreedyDraftGenerator
from chemspec.draft.learned.gamma import MAX_DRAFT, AdaptiveGamma, FixedGamma
from chemspec.draft.learned.small import DraftModel, DraftModelSession, DraftText
from chemspec.draft.registry import build_drafter
from chemspec.engine.engine import Engine
from chemspec.metrics import speed_numbers
from chemspec.model.runner import Backend
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.settings import DecodeSettings
from chemspec.testing import naive_greedy
from chemspec.tokenizer import BOS, PAD, SPECIALS, Tokenizer
from chemspec.types import Draft

VOCAB = 10
Batch = list[list[int]]
TARGET = tiny_model(1, VOCAB)
# Another depth and width; and one that agrees with the target now and then.
MODELS = {"other": tiny_model(2, VOCAB, d_model=8, encoder_layers=1, decoder_layers=1), "same": TARGET}
BACKENDS = {name: TorchBackend(model) for name, model in MODELS.items()}


def companion(backend: Backend, *, positions: int = 64, seconds: float = 0.1) -> DraftModel:
    return DraftModel(backend, positions, VOCAB, lambda: lambda nodes: seconds * (1 + 0.01 * nodes))


def made(
    small: Backend, medium: Backend | None = None, *, length: int = 0, floor: float = 0.0, positions: int = 64
) -> Autoregressive:
    """The drafter around these models; length 0 adapts."""
    writer = GreedyDraftGenerator(DraftModelSession(companion(small, positions=positions), top_k=1), floor=floor)
    if medium is not None:
        model = DraftModelSession(companion(medium, positions=positions), top_k=1)
        writer = GreedyDraftGenerator(model, helper=writer, floor=floor)
    gamma = FixedGamma(length) if length else AdaptiveGamma(0.2)
    return Autoregressive(writer, gamma, name="ar", cost=lambda nodes: 1 + 0.02 * nodes)


queries = st.lists(st.integers(3, VOCAB - 1), min_size=1, max_size=9)


@given(st.lists(queries, min_size=1, max_size=4), st.integers(1, 8))
def test_a_helped_model_writes_what_it_writes_alone(batch: Batch, length: int) -> None:
    alone = GreedyDraftGenerator(DraftModelSession(companion(BACKENDS["same"]), top_k=1))
    small = GreedyDraftGenerator(DraftModelSession(companion(BACKENDS["other"]), top_k=1))
    helped = GreedyDraftGenerator(DraftModelSession(companion(BACKENDS["same"]), top_k=1), helper=small)
    written = []
    for writer in (alone, helped):
        written.append([DraftText(tuple(source), (BOS,), length) for source in batch])
        writer.write(written[-1])
    for found, expected in zip(*written, strict=True):
        assert found.tokens == expected.tokens
        assert found.probs == pytest.approx(expected.probs, rel=1e-9)
    assert helped.model.calls <= alone.model.calls
    assert (alone.calls, helped.calls) == (alone.model.calls, helped.model.calls + small.calls)


def test_a_helped_model_takes_the_time_of_both() -> None:
    small = GreedyDraftGenerator(DraftModelSession(companion(BACKENDS["other"]), top_k=1))
    helped = GreedyDraftGenerator(DraftModelSession(companion(BACKENDS["same"]), top_k=1), helper=small)
    assert small.seconds_per_token(4) == pytest.approx(0.104)
    of_round = helped.stride * 0.104 + 0.1 + 0.004 * (helped.stride + 1)
    assert helped.seconds_per_token(4) == pytest.approx(of_round * helped.rounds / helped.written)


def proposed(drafter: Autoregressive, source: list[int], room: int) -> Sequence[Draft]:
    """What a drafter says of the first prefix in a pass of its own."""
    assert drafter.plan_pass(1, 1, waiting=1)
    drafter.prepare([(source, (BOS,), room)])
    return drafter.propose(source, (BOS,), room)


def test_the_floor_ends_a_draft() -> None:
    drafts = proposed(made(BACKENDS["other"], length=9, floor=0.5), [7, 8], 20)
    assert drafts
    assert all(math.prod(draft.probabilities) >= 0.5 for draft in drafts)
    (free,) = proposed(made(BACKENDS["other"], length=9), [7, 8], 20)
    assert len(free.tokens) > len(drafts[0].tokens)


def test_the_small_model_runs_gamma_times_a_pass_and_keeps_its_cache() -> None:
    """One call a drafted token for the whole batch, and never a prefix twice."""
    table, small = Table(1, vocab_size=VOCAB), Table(1, vocab_size=VOCAB)
    drafter = made(small, length=3)
    batch = [[4, 5, 6, 7], [5, 6], [7]]
    _, passes = run(lambda _: greedy_search(max_len=12), batch, table, drafter, max_len=12)
    assert drafter.writer.model.calls <= 3 * max(map(len, passes))
    assert drafter.writer.model.calls == len(small.calls)
    nodes = small.nodes
    assert len(set(nodes)) == len(nodes)


def test_an_agreeing_model_saves_all_it_can() -> None:
    """The target as its own drafter: gamma + 1 tokens a pass."""
    source = [4, 5, 6, 7, 8, 9]
    for length in (1, 3, 6):
        drafter = made(Table(1, vocab_size=VOCAB), length=length)
        ((answer,),), (passes,) = run(
            lambda _: greedy_search(max_len=30), [source], Table(1, vocab_size=VOCAB), drafter, max_len=30
        )
        assert len(passes) == -(-len(answer.tokens) // (length + 1))


def test_a_model_with_few_positions_drafts_as_far_as_it_reads() -> None:
    short = TorchBackend(tiny_model(3, VOCAB, max_positions=12))
    batch = [[4, 5, 6], [4] * 11, [5] * 12]  # the last two are too long for it
    found, _ = run(
        lambda _: greedy_search(max_len=25),
        batch,
        TorchBackend(TARGET),
        made(short, length=8, positions=12),
        max_len=25,
    )
    assert_same(found, [[naive_greedy(TARGET, source, 25)] for source in batch])


def test_no_bos_or_pad_is_drafted() -> None:
    class Odd(Table):
        def _log_probs(self, source, prefix):  # type: ignore[no-untyped-def]
            return tuple(0.0 if token == (PAD, BOS)[len(prefix) % 2] else -50.0 for token in range(VOCAB))

    assert not proposed(made(Odd(), length=4), [4], 9)


# In an engine ------------------------------------------------------------------------------------

SMALL = {"d_model": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
GREEDY = DecodeSettings(decoder="greedy", n=1, drafter="none", max_len=20)
BEAM = DecodeSettings(decoder="beam", n=3, drafter="none", max_len=15)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with drafters ar and medium."""
    home = tiny_folder(tmp_path_factory.mktemp("models") / "retro")
    tiny_folder(home / "drafters" / "ar", seed=3, **SMALL)
    tiny_folder(home / "drafters" / "medium", seed=4, decoder_layers=1)
    return home


@pytest.fixture(scope="module")
def engine(folder: Path) -> Engine:
    return Engine.load(folder, device="cpu", threads=1, runtime="torch", dtype="fp64")


@pytest.mark.parametrize("settings", [GREEDY, BEAM], ids=["greedy", "beam"])
@pytest.mark.parametrize("drafter", ["ar", "medium", "hierarchy"])
@pytest.mark.parametrize("length", [0, 4])
def test_an_engine_answers_as_without(engine: Engine, settings: DecodeSettings, drafter: str, length: int) -> None:
    batch = [*QUERIES[:3], next(iter(BAD)), *QUERIES[3:]]
    plain = engine.predict(batch, settings)
    found = engine.predict(batch, replace(settings, drafter=drafter, draft_length=length))
    for one, other in zip(found, plain, strict=True):
        assert one.status == other.status
        assert [answer.tokens for answer in one.hypotheses] == [a.tokens for a in other.hypotheses]
        for answer, expected in zip(one.hypotheses, other.hypotheses, strict=True):
            assert answer.token_log_probs == pytest.approx(expected.token_log_probs, abs=1e-9)


@pytest.mark.parametrize("decoder", ["speculative-sample", "block-sample", "sampled-beam"])
@pytest.mark.parametrize("drafter", ["auto", "ar", "medium", "hierarchy", "none"])
def test_an_engine_draws_by_its_seed(engine: Engine, decoder: str, drafter: str) -> None:
    settings = DecodeSettings(decoder=decoder, n=3, drafter=drafter, max_len=12, draft_length=3, seed=5)
    together = engine.predict(QUERIES[1:3], settings)
    alone = [engine.predict([query], settings)[0] for query in QUERIES[1:3]]
    for one, other in zip(together, alone, strict=True):
        assert [answer.smiles for answer in one.hypotheses] == [a.smiles for a in other.hypotheses]
    other = engine.predict(QUERIES[1:3], replace(settings, seed=6))
    assert [one.hypotheses for one in other] != [one.hypotheses for one in together]
    drafted = speed_numbers([one.trace for one in together]).drafted
    assert bool(drafted) == (drafter != "none")


def test_bad_settings_are_told() -> None:
    with pytest.raises(ValueError, match=r"speculative-sample draws its drafts from a small model.*choose"):
        DecodeSettings(decoder="speculative-sample", drafter="copy")
    with pytest.raises(ValueError, match="draft_length is -1"):
        DecodeSettings(drafter="ar", draft_length=-1)
    for decoder in ("greedy", "speculative-sample"):
        settings = DecodeSettings(decoder=decoder, drafter="ar", draft_length=MAX_DRAFT + 1)
        means = DrafterInputs(lambda: lambda _: 1.0, companion=lambda _: companion(BACKENDS["other"]))
        with pytest.raises(ValueError, match=f"draft length {MAX_DRAFT + 1}.*1 to {MAX_DRAFT}"):
            build_drafter(settings, means)
    with pytest.raises(ValueError, match="the drafter ar needs a model"):
        build_drafter(DecodeSettings(drafter="ar"), DrafterInputs(lambda: lambda _: 1.0))


def test_a_drafter_with_another_vocabulary(folder: Path, tmp_path: Path) -> None:
    copytree(folder, tmp_path / "retro")
    other = Tokenizer((*SPECIALS, *TOKENIZER.tokens[:3:-1]))
    other.save(tmp_path / "retro" / "drafters" / "ar" / "vocab.json")
    engine = Engine.load(tmp_path / "retro", device="cpu", threads=1, runtime="torch")
    with pytest.raises(ValueError, match=r"drafters/ar has another vocabulary than model retro"):
        engine.predict(QUERIES, replace(GREEDY, drafter="ar"))
