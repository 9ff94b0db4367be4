"""Two half-batches in turn: answers, passes and bits of the undivided batch, and a device that is never idle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
import triton_reference as reference
from compilers import needs_compiler

from chemspec.decode import registry as decoders
from chemspec.decode.decoding import Decoded, Decoding
from chemspec.decode.generate import SPLIT_BATCH_FROM, continuous_batching, should_split_batch
from chemspec.draft.base import Drafter
from chemspec.draft.copy import Copy
from chemspec.draft.registry import NoDrafts
from chemspec.model.runner import Backend, NodeBatch, Runner
from chemspec.model.runners.cuda_graphs import GraphBackend
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.runners.triton.runner import TritonBackend
from chemspec.model.session import Session
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings
from chemspec.testing import tiny_model

VOCAB = 20
GREEDY = DecodeSettings(decoder="greedy", n=1, max_len=12)
BEAM = DecodeSettings(decoder="beam", n=3, max_len=12)


class Device:
    """Stands in for a GPU: computes one pass after the other, while a clock that only it and the host move goes on."""

    overlaps = True
    SECONDS, HOST = 1.0, 0.8  # of a pass, and of what the host does between two passes of all queries

    def __init__(self, backend: Backend) -> None:
        self.backend, self.now, self.free = backend, 0.0, 0.0
        self.under_way = self.passes = self.overlapped = 0

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int) -> Any:
        return Session_(self, self.backend.open(sources, top_k=top_k), len(sources))


class Session_(Runner):  # noqa: N801
    """A runner on the device."""

    def __init__(self, device: Device, runner: Any, share: int) -> None:
        self.device, self.runner, self.share = device, runner, share
        self.compaction_threshold = runner.compaction_threshold

    def start(self, nodes: NodeBatch) -> Callable[[], Any]:
        device = self.device
        device.now += device.HOST * self.share / 16  # drafting, reading
        device.free = ready = max(device.now, device.free) + device.SECONDS
        device.under_way += 1
        device.passes += 1
        finish = self.runner.start(nodes)

        def wait() -> Any:
            device.under_way -= 1
            device.overlapped += device.under_way > 0
            device.now = max(device.now, ready)
            return finish()

        return wait

    def run(self, nodes: NodeBatch) -> Any:
        return self.start(nodes)()

    def release(self, query: int) -> None:
        self.runner.release(query)

    def compact(self, query: int, slots: Any) -> None:
        self.runner.compact(query, slots)


@cache
def model() -> Transformer:
    return tiny_model(0, VOCAB, d_model=32, heads=4, feedforward=64).float()


BACKENDS: dict[str, Callable[[], Backend]] = {
    "triton": lambda: TritonBackend(model(), torch.device("cpu"), operations=reference),
    "graphs": lambda: GraphBackend(model(), record=lambda function, _: function),
    "torch": lambda: TorchBackend(model()),
}


def sources(count: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(0)
    return [tuple(rng.integers(4, VOCAB, size).tolist()) for size in rng.integers(2, 9, count)]


def opened(backend: Any, batch: Sequence[tuple[int, ...]], settings: DecodeSettings, drafter: Drafter) -> Decoding:
    session = Session(backend, batch, top_k=decoders.required_top_k(settings, VOCAB))
    return Decoding(
        batch,
        [decoders.build_decoder(source, settings, drafter) for source in batch],
        session,
        drafter,
        max_len=settings.max_len,
        budget=0 if isinstance(drafter, NoDrafts) else 32,
        clock=lambda: 0.0,
    )


def in_turn(
    backend: Any,
    batch: Sequence[tuple[int, ...]],
    settings: DecodeSettings,
    drafter: Drafter,
    parts: int = 2,
    size: int | None = None,
) -> list[Decoded]:
    """Decode a batch in parts, of at most `size` queries together."""
    waiting = iter(range(len(batch)))

    def begin(numbers: Sequence[int]) -> tuple[Decoding, Callable[[Sequence[int]], Sequence[int]]]:
        decoding = opened(backend, [batch[number] for number in numbers], settings, drafter)

        def join(others: Sequence[int]) -> Sequence[int]:
            own = [batch[number] for number in others]
            return decoding.add_queries(own, [decoders.build_decoder(source, settings, drafter) for source in own])

        return decoding, join

    run = continuous_batching(lambda room: list(islice(waiting, room)), begin, size=size or len(batch), parts=parts)
    found = dict(run)
    assert sorted(found) == list(range(len(batch)))
    return [found[number] for number in range(len(batch))]


def values(decoded: Sequence[Decoded]) -> tuple[Any, Any]:
    """Answers with the bits of their log-probs, and what every pass did for each query."""
    answers = [[(one.tokens, one.ended, np.array(one.log_probs).tobytes()) for one in own.answers] for own in decoded]
    passes = [
        [(one.asked, one.computed, one.drafted, one.emitted, one.accepted, one.spans, one.drafts) for one in own.passes]
        for own in decoded
    ]
    return answers, passes


@needs_compiler
@pytest.mark.parametrize("settings", [GREEDY, BEAM], ids=["greedy", "beam"])
@pytest.mark.parametrize("drafter", [NoDrafts(), Copy(length=4, count=2)], ids=["none", "copy"])
@pytest.mark.parametrize("name", ["triton", "graphs"])
def test_halves_in_turn_are_the_undivided_batch(name: str, drafter: Drafter, settings: DecodeSettings) -> None:
    batch = sources(5)
    backend = BACKENDS[name]()
    answers, passes = values(in_turn(backend, batch, settings, drafter, 1))
    device = Device(backend)
    ours, ours_passes = values(in_turn(device, batch, settings, drafter))
    assert ours_passes == passes
    if name == "triton":  # to the last bit
        assert ours == answers
    else:
        assert [[one[:2] for one in own] for own in ours] == [[one[:2] for one in own] for own in answers]
    # Until one half is done, a pass is under way whenever the host waits for the other's.
    shorter = min(max(map(len, part)) for part in (passes[:3], passes[3:]))
    assert device.overlapped >= 2 * shorter - 1 and not device.under_way


@needs_compiler
def test_the_host_hides_behind_the_device() -> None:
    batch = sources(16)
    whole = Device(TorchBackend(model()))
    in_turn(whole, batch, GREEDY, NoDrafts(), 1)
    halves = Device(TorchBackend(model()))
    in_turn(halves, batch, GREEDY, NoDrafts())
    # Undivided, the device waits for the host after each pass. In halves it computes without a pause but for the first
    # pass; that a half costs as much as the whole here is the worst case.
    assert whole.now == pytest.approx(whole.passes * (whole.SECONDS + whole.HOST))
    assert halves.now == pytest.approx(halves.passes * halves.SECONDS + halves.HOST / 2, abs=halves.HOST)
    assert halves.passes <= 2 * whole.passes


@needs_compiler
def test_only_large_batches_on_a_device_that_the_compiled_loop_knows_are_divided() -> None:
    class Strange(NoDrafts):
        has_hooks = True

    decoder = decoders.build_decoder((4, 5), GREEDY, NoDrafts())
    device = Device(TorchBackend(model()))
    assert should_split_batch(SPLIT_BATCH_FROM, device, decoder, NoDrafts())
    assert not should_split_batch(SPLIT_BATCH_FROM - 1, device, decoder, NoDrafts())
    assert not should_split_batch(SPLIT_BATCH_FROM, TorchBackend(model()), decoder, NoDrafts())
    assert not should_split_batch(SPLIT_BATCH_FROM, device, decoder, Strange())
    sampled = decoders.build_decoder((4, 5), DecodeSettings(decoder="sample", n=2), NoDrafts())
    assert not should_split_batch(SPLIT_BATCH_FROM, device, sampled, NoDrafts())
    assert not GraphBackend(model(), record=lambda function, _: function).overlaps  # on a CPU


def test_what_the_python_loop_runs_may_be_divided_too() -> None:
    batch, settings = sources(5), DecodeSettings(decoder="sample", n=2, max_len=8)
    answers, _ = values(in_turn(TorchBackend(model()), batch, settings, NoDrafts(), 1))
    ours, _ = values(in_turn(TorchBackend(model()), batch, settings, NoDrafts()))
    assert [[one[:2] for one in own] for own in ours] == [[one[:2] for one in own] for own in answers]
