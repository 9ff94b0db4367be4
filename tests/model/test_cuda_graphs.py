"""Recorded passes: fixed places, padded sizes, keys in path order, and the scores of the plain torch runner.

There may be no GPU here, so a recording is traced instead: like a CUDA graph it repeats tensor operations on the
tensors it has seen and knows nothing of the Python around them. What costs time on a GPU is counted: recordings,
launches, copies, waits, and the operations of a pass.
"""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from helpers.tiny import tiny_model
from hypothesis import given
from hypothesis import strategies as st
from test_session import EAGER, VARIANTS, VOCAB, Round, check, model_of, scripts
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from chemspec.decode import registry as decoders
from chemspec.decode.generate import open_decoding
from chemspec.decode.protocol import LoopOptions
from chemspec.draft.base import NoDrafts
from chemspec.draft.copy import Copy
from chemspec.model import checkpoint
from chemspec.model.runner import CompactionThreshold, MaskedBatch, NodeBatch
from chemspec.model.runners.cuda_graphs import COMMON, Function, GraphBackend, Shape, rows_for
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.runtime import RuntimeConfig
from chemspec.model.session import Session
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings, ModelConfig
from chemspec.testing import naive_log_probs
from chemspec.tokenizer import BOS
from chemspec.types import PluginError

NEVER = CompactionThreshold(1.0, 10**6, 0)
# The second kind of model takes as long again; the property tests draw all of them.
# Those that the graphs compute; the others run in torch.
RECORDED = sorted(name for name, of in VARIANTS.items() if "relative_vectors" not in of and of.get("encoder_layers", 1))
SOME = ["pre", pytest.param("source-specials", marks=[pytest.mark.slow, pytest.mark.nightly])]


class Tracer:
    """Stands in for CUDA graphs; only counts where nothing is to be traced."""

    def __init__(self, *, traces: bool = True) -> None:
        self.traces = traces
        self.recorded = self.replayed = 0

    def __call__(self, function: Function, device: torch.device) -> Function:
        self.recorded += 1
        traced = make_fx(lambda: function())() if self.traces else function

        @torch.inference_mode()
        def again() -> None:
            self.replayed += 1
            traced()

        return again


@cache
def backend_of(seed: int, variant: str) -> GraphBackend:
    """One for all examples, so that sessions find what others have left in the arenas."""
    return GraphBackend(model_of(seed, variant), record=lambda function, _: function)


def compare(found: Session, expected: Session, asked: list[Any]) -> None:
    for ours, theirs in zip(found.score(asked), expected.score(asked), strict=True):
        assert list(ours) == list(theirs)
        for prefix in ours:
            assert ours[prefix][0] == theirs[prefix][0]
            np.testing.assert_allclose(ours[prefix][1], theirs[prefix][1], rtol=0, atol=1e-12)


@given(scripts(), st.integers(0, 2), st.sampled_from(RECORDED))
def test_padded_passes_give_the_scores_of_a_model_without_cache(
    script: tuple[list[list[int]], list[Round]], seed: int, variant: str
) -> None:
    check(backend_of(seed, variant), model_of(seed, variant), *script, within=1e-9)


@pytest.mark.parametrize("variant", SOME)
def test_recordings_follow_a_session_that_grows_shrinks_and_is_compacted(variant: str) -> None:
    model, trace = model_of(0, variant), Tracer()
    backend, plain = GraphBackend(model, record=trace), TorchBackend(model)
    for sources in ([[4, 5, 6], [7], [8, 9, 4, 5]], [[9] * 40, [4], [5, 6]]):
        rng = np.random.default_rng(len(sources[0]))
        sessions = [Session(one, sources, top_k=VOCAB) for one in (backend, plain)]
        for session in sessions:
            session.compaction_threshold = EAGER
        for step in range(14):
            rows = sessions[0].queries
            width = (1, 2, 70)[step % 3] if step < 9 else 1
            asked = [[(BOS, step + 3, *rng.integers(2, VOCAB, 5).tolist()) for _ in range(width)] for _ in rows]
            asked = [[tuple(min(t, VOCAB - 1) for t in one) for one in own] for own in asked]
            known = [set(sessions[0].trees[row].slots) for row in rows]
            if all(set(own) <= held for own, held in zip(asked, known, strict=True)):
                continue
            compare(*sessions, asked)
            for session in sessions:
                if step % 4 == 3:
                    session.compact({row: own[:1] for row, own in zip(rows, asked, strict=True)})
                if step == 10:
                    session.release([1])
    assert trace.replayed > trace.recorded >= 4


def test_a_size_is_recorded_once() -> None:
    trace = Tracer()
    backend = GraphBackend(model_of(0, "pre"), record=trace)
    for count in range(1, 5):
        Session(backend, [[4, 5]], top_k=3).score([[(BOS, 4, 5)]])
        assert (trace.recorded, trace.replayed) == (2, 2 * count)  # the encoder and the pass
    # One node and sixty, two source tokens and sixty, few candidates and many: the same size.
    Session(backend, [[4] * 60], top_k=2).score([[(BOS, *[4] * 59)]])
    assert (trace.recorded, trace.replayed) == (2, 10)


SEARCHES = (DecodeSettings(decoder="greedy", n=1, max_len=12), DecodeSettings(n=3, max_len=12))


def decode(
    backend: TorchBackend, sources: list[tuple[int, ...]], settings: DecodeSettings, drafter: Any, budget: int = 60
) -> Any:
    """Tokens and log-probs of every answer."""
    vocab = backend.model.config.vocab_size
    top_k = decoders.required_top_k(settings, vocab)
    chosen = [decoders.build_decoder(source, settings, drafter) for source in sources]
    options = LoopOptions(max_len=settings.max_len, budget=budget, vocab_size=vocab)
    answers = open_decoding(backend, sources, chosen, options, drafter, top_k=top_k).run_to_end()
    return [[(each.tokens, each.log_probs) for each in query] for query in answers]


def test_common_sizes_are_recorded_at_loading_and_no_query_waits_for_one() -> None:
    """Greedy decoding and beams, drafted or not, of queries of several lengths, one at a time and in batches."""
    trace = Tracer(traces=False)
    backend = GraphBackend(tiny_model(0, VOCAB, **VARIANTS["pre"], max_positions=256), record=trace)
    backend.record_common()
    assert {arena.shape.rows for arena in backend.idle_arenas} == set(COMMON)
    recorded = trace.recorded
    for settings in SEARCHES:
        for drafter in (NoDrafts(), Copy()):
            for length in (1, 12, 100):
                for count, budget in ((1, 60), (5, 30), (40, 12)):
                    sources = [tuple(4 + place % 5 for place in range(length))] * count
                    decode(backend, sources, settings, drafter, budget)
    assert (trace.recorded, trace.replayed > 100) == (recorded, True)


def test_what_does_not_fit_into_memory_is_not_recorded_at_loading() -> None:
    """One query at a time must fit; larger batches are recorded when they come, or halved."""

    def short_of_memory(left: int) -> GraphBackend:
        def record(function: Function, _: torch.device) -> Function:
            nonlocal left
            left -= 1
            if left < 0:
                raise torch.cuda.OutOfMemoryError("out of memory")
            return function

        return GraphBackend(model_of(0, "pre"), record=record)

    backend = short_of_memory(7)
    backend.record_common()
    assert [arena.shape.rows for arena in backend.idle_arenas] == [1]
    with pytest.raises(torch.cuda.OutOfMemoryError):
        short_of_memory(3).record_common()


class Operations(TorchDispatchMode):
    """Counts the operations that a device computes, down to those that are one kernel or nearly; views are free."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, operation: Any, _: Any, given: Any = (), more: Any = None) -> Any:
        with self:
            parts = operation.decompose(*given, **(more or {}))
        if parts is not NotImplemented:
            return parts
        if not operation.is_view:
            self.counts[operation.overloadpacket.__name__] += 1
        return operation(*given, **(more or {}))


def shipped_config() -> ModelConfig:
    return checkpoint.read_config(Path(__file__).parents[2] / "assets" / "models" / "retro")[1]


@pytest.mark.parametrize(("rows", "groups", "nodes"), [(1, 1, 64), (64, 64, 1), (64, 128, 8)])
def test_a_pass_of_the_shipped_architecture_has_at_most_45_operations(rows: int, groups: int, nodes: int) -> None:
    backend = GraphBackend(
        Transformer(shipped_config()).eval().requires_grad_(False), record=lambda function, _: function
    )
    recorded = backend.acquire(Shape.of(rows, 40)).recorded_pass(groups, nodes, 64, 16, False)
    with Operations() as seen:
        recorded.compute()
    assert 0 < seen.counts.total() <= 45


def test_a_pass_is_one_copy_in_one_launch_one_copy_out_and_one_wait() -> None:
    """Counted at the operations of torch, with a replay that computes nothing, as a launch costs the host little."""
    events: list[str] = []

    class Copies(Operations):
        def __torch_dispatch__(self, operation: Any, _: Any, given: Any = (), more: Any = None) -> Any:
            if not operation.is_view:
                events.append(operation.overloadpacket.__name__)
            return operation(*given, **(more or {}))

    backend = GraphBackend(
        model_of(0, "pre"), record=lambda *_: lambda: events.append("launch"), wait=lambda: events.append("wait")
    )
    session = Session(backend, [[4, 5]], top_k=3)
    session.runner.run(NodeBatch([0], [BOS], [0], [-1]))
    for nodes in (NodeBatch([0] * 3, [4, 5, 6], [1, 2, 2], [0, 1, 1]), NodeBatch([0], [4], [1], [0])):
        events.clear()
        with Copies():
            session.runner.run(nodes)
        assert events == ["copy_", "launch", "copy_", "wait"]


SIZES = {"d_model": 32, "heads": 4, "feedforward": 64, "max_positions": 128}


@cache
def single_precision(variant: str) -> Transformer:
    # In heads of 6 the rows of a product depend on their place on a CPU: vectors have 4 or more numbers.
    width = {"head_width": 8} if variant == "t5" else {}
    return tiny_model(0, 30, **SIZES | VARIANTS[variant] | width).float()  # type: ignore[arg-type]


def random_sources(count: int, seed: int = 0) -> list[tuple[int, ...]]:
    random = np.random.default_rng(seed)
    return [tuple(random.integers(4, 30, size).tolist()) for size in random.integers(3, 30, count)]


@pytest.mark.parametrize("variant", ["pre", "t5"])
@pytest.mark.parametrize("settings", [replace(each, max_len=90) for each in SEARCHES], ids=["greedy", "beam"])
def test_drafted_and_standard_decoding_give_the_same_bits(settings: DecodeSettings, variant: str) -> None:
    """In fp32, also of paths that are longer than the shortest padding."""
    backend = GraphBackend(single_precision(variant), record=lambda function, _: function)
    for source in random_sources(6):
        standard = decode(backend, [source], settings, NoDrafts())
        for drafter in (Copy(length=8, count=4), Copy(length=30, count=1)):
            assert decode(backend, [source], settings, drafter) == standard


@given(st.integers(0, 2**32))
def test_scores_are_the_same_bits_wherever_the_pages_lie(seed: int) -> None:
    """Pages in any order; and in a batch, after evictions, too."""
    sources, random = random_sources(3), Random(seed)

    def scores(shuffle: bool) -> list[Any]:
        backend = GraphBackend(single_precision("pre"), record=lambda function, _: function)
        if shuffle:
            backend.free_pages = lambda start, stop: random.sample(range(start, stop), stop - start)  # type: ignore
        session = Session(backend, sources, top_k=30)
        session.compaction_threshold = EAGER
        seen, grown = [], [(BOS, 4, 5)] * 3
        for step in range(4):
            asked = [[(*prefix, 6 + branch, *range(7, 9 + step)) for branch in range(3)] for prefix in grown]
            seen.append(session.score(asked))
            session.compact({query: branches[1:2] for query, branches in enumerate(asked)})
            grown = [branches[1] for branches in asked]
        return seen

    assert scores(True) == scores(False)


def test_eviction_moves_nothing_on_the_device_and_pages_are_used_again() -> None:
    backend = GraphBackend(model_of(0, "pre"), record=lambda function, _: function)
    session = Session(backend, [[4, 5]], top_k=3)
    session.compaction_threshold = EAGER
    (first,) = (arena.shape.pages for arena in [session.runner.arena])  # type: ignore[attr-defined]
    for step in range(80):  # some 1,500 nodes, of which 50 are needed at a time
        asked = [(BOS, 4 + step % 8, 4 + step // 8 % 8, *[5] * end) for end in range(40)]
        session.score([asked])
        with Operations() as seen:
            session.compact({0: [asked[0][:2]]})
        assert not seen.counts
    assert session.runner.arena.shape.pages == first  # type: ignore[attr-defined]


def test_an_arena_that_is_too_small_is_replaced_and_nothing_is_lost() -> None:
    """More pages, wider passes, longer sources, more rows: the prefixes of before go on."""
    model = tiny_model(0, VOCAB, **VARIANTS["pre"], max_positions=256)
    backend = GraphBackend(model, record=lambda function, _: function)
    sessions = [Session(each, [[4, 5, 6]], top_k=VOCAB) for each in (backend, TorchBackend(model))]
    sessions[0].compaction_threshold = sessions[1].compaction_threshold = NEVER
    shapes = {sessions[0].runner.arena.shape}  # type: ignore[attr-defined]
    for step in range(7):
        width = 300 if step == 3 else 40
        tails = [tuple(4 + int(bit) for bit in np.binary_repr(number, 9)) for number in range(width)]
        compare(*sessions, [[(BOS, 4, 5 + step % 3, *[6] * step, *tail) for tail in tails]])
        shapes.add(sessions[0].runner.arena.shape)  # type: ignore[attr-defined]
    assert len(shapes) > 2


def test_queries_join_between_passes_and_take_over_rows() -> None:
    """A batch from which queries vanish and to which others come, also longer ones, and more than there are rows."""
    model, trace = tiny_model(0, VOCAB, **VARIANTS["pre"], max_positions=256), Tracer()
    backend = GraphBackend(model, record=trace)
    sources = [[4, 5, 6], [7], [8, 9, 4, 5], [5] * 100, [6, 7], [4] * 200, [9], [8, 8], [5, 4], [6], [7, 7], [4, 4]]
    session, known = Session(backend, sources[:2], top_k=VOCAB), dict(enumerate(sources[:2]))
    for step, joined in enumerate((1, 2, 0, 1, 6, 0)):
        new = sources[len(known) : len(known) + joined]
        known.update(zip(session.join(new), new, strict=True))
        asked = [[(BOS, 4 + step, 5, number % 8 + 4)] for number in session.queries]
        scored = session.score(asked)
        for number, scores in zip(session.queries, scored, strict=True):
            for prefix, (ids, log_probs) in scores.items():
                expected = naive_log_probs(model, known[number], prefix).numpy()
                np.testing.assert_allclose(log_probs, expected[ids], rtol=0, atol=1e-9)
        session.release([session.queries[0]])
    assert len(known) == len(sources)


@pytest.mark.parametrize("column", [{"tokens": [10**8]}, {"tokens": [-5]}, {"depths": [5000]}, {"parents": [7]}])
def test_nodes_that_cannot_be_computed_are_refused(column: dict[str, list[int]]) -> None:
    backend = GraphBackend(model_of(0, "pre"), record=lambda function, _: function)
    runner = backend.open([[4, 5]], top_k=3)
    nodes = NodeBatch(**{"queries": [0], "tokens": [BOS], "depths": [0], "parents": [-1], **column})
    with pytest.raises(PluginError, match="token ids beyond the vocabulary, or too long a prefix"):
        runner.run(nodes)


@pytest.mark.parametrize("variant", SOME)
def test_the_encoder_is_recorded_for_padded_sizes_up_to_the_models_positions(variant: str) -> None:
    """Sources of many lengths, one after the other in the same arena, also as long as positions go."""
    model, trace = tiny_model(0, VOCAB, **VARIANTS[variant], max_positions=40), Tracer()
    backend, plain = GraphBackend(model, record=trace), TorchBackend(model)
    room = 40 - 2 * int(variant == "source-specials")
    for length in (3, 9, 1, room):
        sources = [[4 + place % 5 for place in range(length)], [5], [6, 7]][: 3 if length > 3 else 2]
        compare(*(Session(one, sources, top_k=VOCAB) for one in (backend, plain)), [[(BOS, 4)]] * len(sources))
        gc.collect()
    assert all(arena.encoder.replay is not None for arena in backend.idle_arenas)


def test_idle_arenas_are_kept_up_to_a_number_of_bytes_the_last_used_longest() -> None:
    """A batch that shrinks goes through many shapes, and none of them may lose its recordings."""
    trace = Tracer(traces=False)
    backend = GraphBackend(model_of(0, "pre"), record=trace)
    for _ in range(3):
        for rows in range(1, 14):
            Session(backend, [[4]] * rows, top_k=3).score([[(BOS, 4)]] * rows)
        gc.collect()
    shapes = len({rows_for(rows) for rows in range(1, 14)})
    assert (trace.recorded, len(backend.idle_arenas)) == (2 * shapes, shapes)
    largest = max(arena.bytes for arena in backend.idle_arenas)
    backend.idle_bytes = largest
    backend.release_arenas([])
    assert [arena.shape.rows for arena in backend.idle_arenas] == [64]
    Session(backend, [[4]], top_k=3).score([[(BOS, 4)]])
    gc.collect()
    assert [arena.shape.rows for arena in backend.idle_arenas] == [1]


def test_a_pass_that_cannot_be_recorded_is_computed_all_the_same() -> None:
    def refuse(function: Function, device: torch.device) -> Function:
        raise RuntimeError("out of streams")

    backend, plain = GraphBackend(model_of(0, "pre"), record=refuse), TorchBackend(model_of(0, "pre"))
    with pytest.warns(UserWarning, match="out of streams"):
        sessions = [Session(one, [[4, 5]], top_k=3) for one in (backend, plain)]
    with pytest.warns(UserWarning, match="out of streams"):
        compare(*sessions, [[(BOS,)]])
    compare(*sessions, [[(BOS, 4)]])
    compare(*sessions, [[(BOS, 4, 5, 6)]])


def test_what_an_earlier_session_left_does_not_matter() -> None:
    """Half precision overflows; what is masked would still turn a sum into NaN."""
    backend = GraphBackend(model_of(0, "pre"), record=lambda function, _: function)
    session = Session(backend, [[4, 5]], top_k=3)
    with torch.inference_mode():
        session.runner.arena.pool.fill_(float("nan"))  # type: ignore[attr-defined]
        arena = session.runner.arena  # type: ignore[attr-defined]
        arena.sources.memory[:, :, :, :-1, : arena.encoder.length].fill_(float("nan"))
    del session
    sessions = [Session(one, [[6]], top_k=3) for one in (backend, TorchBackend(model_of(0, "pre")))]
    compare(*sessions, [[(BOS, 4)]])


@pytest.mark.parametrize("variant", ["pre", "source-specials"])
def test_states_are_those_of_the_plain_runner(variant: str) -> None:
    model, trace = model_of(0, variant), Tracer()
    sources = [[4, 5, 6], [7]]
    found, expected = (
        Session(one, sources, top_k=4, states=True) for one in (GraphBackend(model, record=trace), TorchBackend(model))
    )
    prefixes = [(BOS, 4)[:end] for end in (1, 2)] + [(BOS, 4, 4), (BOS, 4, 4, 5)]
    for prefix in prefixes:
        compare(found, expected, [[prefix], [prefix]])
    assert trace.replayed
    for prefix in prefixes:  # also those of passes long ago
        for source in map(tuple, sources):
            states = found.hidden_state(source, prefix), expected.hidden_state(source, prefix)
            torch.testing.assert_close(*states, rtol=0, atol=1e-12)


def test_graphs_are_refused_without_a_gpu() -> None:
    place = RuntimeConfig.find(device="cpu", dtype="fp32", runtime="graphs", threads=1)
    with pytest.raises(ValueError, match="is not computed by the graphs runtime on cpu"):
        place.backend(None)  # type: ignore[arg-type]


def test_blocks_of_mask_tokens_are_refused_here_too() -> None:
    runner = backend_of(0, "pre").open([[4, 5]], top_k=3)
    with pytest.raises(PluginError, match="no blocks of mask tokens"):
        runner.run(MaskedBatch([0, 0], [BOS, 4], [0, 1], [-1, 0], [-1, 0]))
