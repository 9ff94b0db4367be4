"""Queries that join a running batch: answers, passes and bits of those decoded alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest
from helpers.compilers import skip_without_compiler
from helpers.table import Table
from helpers.thinned import pairwise
from helpers.tiny import tiny_model
from hypothesis import given
from hypothesis import strategies as st

from chemspec.decode import generate
from chemspec.decode import registry as decoders
from chemspec.decode.compiled import build
from chemspec.decode.decoding import Decoded, Decoding
from chemspec.decode.generate import continuous_batching
from chemspec.decode.protocol import Decoder, LoopOptions
from chemspec.draft.base import Drafter, NoDrafts
from chemspec.draft.copy import Copy
from chemspec.draft.windows import Windows
from chemspec.model.runner import Backend
from chemspec.model.runners.native.runner import NativeBackend
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.session import Session
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings

VOCAB = 20
GREEDY = DecodeSettings(decoder="greedy", n=1, max_len=12)
BEAM = DecodeSettings(decoder="beam", n=3, max_len=12)
DRAFTERS: dict[str, Drafter] = {
    "none": NoDrafts(),
    "copy": Copy(length=4, count=2),
    "windows": Windows(length=3, count=4),
}
Batch = Sequence[tuple[int, ...]]


@cache
def model() -> Transformer:
    return tiny_model(0, VOCAB, d_model=32, heads=4, feedforward=64).float()


def native() -> Backend:
    skip_without_compiler()
    return NativeBackend(model(), threads=2)


BACKENDS: dict[str, Callable[[], Backend]] = {
    "native": native,
    "torch": lambda: TorchBackend(model()),  # which cannot be joined
}


def batch_of(count: int, seed: int = 0) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    return [tuple(rng.integers(4, VOCAB, size).tolist()) for size in rng.integers(1, 9, count)]


def decode(
    backend: Backend,
    batch: Batch,
    settings: DecodeSettings,
    drafter: Drafter,
    size: int,
    *,
    compiled: bool | None = None,
    most: Sequence[int] = (),
) -> list[Decoded]:
    """Decode a batch, at most `size` at a time; when they are asked for, at most `most` come, in turn."""
    waiting, come = iter(range(len(batch))), iter(most)

    def begin(sources: Sequence[Any]) -> tuple[Decoding, Callable[[Sequence[Any]], Sequence[int]]]:
        def built(sources: Sequence[Any]) -> list[Decoder]:
            return [decoders.build_decoder(source, settings, drafter) for source in sources]

        session = Session(backend, sources, top_k=decoders.required_top_k(settings, VOCAB))
        decoding = Decoding(
            sources,
            built(sources),
            session,
            drafter,
            LoopOptions(
                max_len=settings.max_len,
                budget=0 if isinstance(drafter, NoDrafts) else 32,
                clock=lambda: 1.0,
                record=True,
                compiled=compiled,
            ),
        )
        return decoding, lambda others: decoding.add_queries(others, built(others))

    def more(room: int) -> list[int]:
        assert room > 0
        return list(islice(waiting, min(room, next(come, room))))

    found = dict(continuous_batching(more, batch.__getitem__, begin, size=size))  # type: ignore[arg-type]
    assert sorted(found) == list(range(len(batch)))
    return [found[number] for number in range(len(batch))]


def bits(decoded: Sequence[Decoded]) -> Any:
    """Answers with the bits of their log-probs, and all that a pass did for each query but its width and times."""
    return [
        (
            [(one.tokens, one.ended, np.array(one.log_probs).tobytes()) for one in own.answers],
            [
                (one.requested, one.computed, one.drafted, one.emitted, one.accepted, one.spans, one.drafts, one.grown)
                for one in own.passes
            ],
        )
        for own in decoded
    ]


@pytest.mark.parametrize(
    ("runner", "name", "settings", "compiled"), pairwise([*BACKENDS], [*DRAFTERS], [GREEDY, BEAM], [False, True])
)  # together 5 s
def test_who_joins_is_decoded_as_if_alone(runner: str, name: str, settings: DecodeSettings, compiled: bool) -> None:
    if compiled:
        skip_without_compiler()
    backend, batch, drafter = BACKENDS[runner](), batch_of(9), DRAFTERS[name]
    alone = [decode(backend, [source], settings, drafter, 1, compiled=compiled)[0] for source in batch]
    together = decode(backend, batch, settings, drafter, 4, compiled=compiled)
    if runner == "torch":  # whose sums depend on the company
        assert [[one.tokens for one in own.answers] for own in together] == [
            [one.tokens for one in own.answers] for own in alone
        ]
    else:
        assert bits(together) == bits(alone)


@given(
    batch=st.lists(st.lists(st.integers(3, VOCAB - 1), min_size=1, max_size=8).map(tuple), min_size=1, max_size=8),
    size=st.integers(1, 5),
    most=st.lists(st.integers(1, 3), max_size=5),
    name=st.sampled_from(sorted(DRAFTERS)),
    settings=st.sampled_from((GREEDY, BEAM)),
    seed=st.integers(0, 20),
)
def test_whenever_they_come(
    batch: Batch, size: int, most: list[int], name: str, settings: DecodeSettings, seed: int
) -> None:
    """Tables check that every node's parent, depth and query are right."""
    expected = bits(decode(Table(seed, vocab_size=VOCAB), batch, settings, DRAFTERS[name], len(batch), compiled=False))
    for compiled in [False, True] if build.loop_library() else [False]:
        table = Table(seed, vocab_size=VOCAB)
        found = decode(table, batch, settings, DRAFTERS[name], size, compiled=compiled, most=most)
        assert bits(found) == expected


def test_a_batch_stays_full() -> None:
    """Without drafts a pass computes a node a query, so that it shows how many queries take part."""
    table = Table(0, vocab_size=VOCAB, sharpness=3.0, copying=6.0)
    batch = batch_of(40, seed=1)
    found = decode(table, batch, GREEDY, NoDrafts(), 8)
    nodes = [len(call) for call in table.calls]
    assert sum(nodes) == sum(len(own.passes) for own in found)
    last = max(len(own.passes) for own in found)  # the end of the run, where nobody waits any more
    assert set(nodes[:-last]) == {8}
    apart = [max(len(own.passes) for own in found[begin : begin + 8]) for begin in range(0, len(batch), 8)]
    assert len(nodes) <= sum(nodes) / 8 + last < sum(apart), "as many passes as batches one after the other"


def test_a_session_ends_before_it_has_seen_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "MAX_QUERIES_PER_SESSION", 4)
    opened: list[int] = []

    class Counted(Table):
        def open(self, sources: Sequence[Sequence[int]], *, top_k: int) -> Any:
            opened.append(len(sources))
            return super().open(sources, top_k=top_k)

    found = decode(Counted(0, vocab_size=VOCAB), batch_of(12), GREEDY, NoDrafts(), 2)
    assert len(found) == 12 and len(opened) >= 3


def test_seconds_count_from_joining() -> None:
    found = decode(Table(0, vocab_size=VOCAB), batch_of(5), GREEDY, NoDrafts(), 2)  # on a clock that stands at 1
    assert [own.seconds for own in found] == [1.0, 1.0, 0.0, 0.0, 0.0]
