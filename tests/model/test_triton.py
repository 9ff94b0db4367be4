"""The flat runner for GPUs: its bookkeeping by the kernels' twins in torch, its kernels in Triton's interpreter.

The interpreter has to be chosen before Triton is imported, so what needs it runs in a process of its own
(`interpret_kernels.py`); what needs the compiler compiles for GPUs that are not here.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton_reference as reference
from chemspec.model.runners.triton import runner
from chemspec.model.runners.triton.pool import Pool, Ranges, Space
from chemspec.model.runners.triton.runner import TritonBackend, UnsupportedError
from chemspec.model.runners.triton.weights import split_bf16
from hypothesis import given
from hypothesis import strategies as st
from paths import ROOT, TESTS
from test_session import VARIANTS, VOCAB, Round, check, scripts
from tiny import tiny_model

from chemspec.decode import registry as decoders
from chemspec.decode.decoding import Decoding
from chemspec.draft.copy import Copy
from chemspec.draft.registry import NoDrafts
from chemspec.model.checkpoint import Checkpoint
from chemspec.model.probe import probe as check_backend
from chemspec.model.runner import NodeBatch
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.runtime import RuntimeConfig
from chemspec.model.session import Session
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings, ModelConfig, preset_config
from chemspec.tokenizer import BOS, SPECIALS, Tokenizer

CPU = torch.device("cpu")
SHAPE = {"d_model": 32, "heads": 4, "feedforward": 64}
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed here")


@cache
def model_of(variant: str) -> Transformer:
    width = {"head_width": 16} if "head_width" in VARIANTS[variant] else {}  # 4 heads wider than the model
    return tiny_model(0, VOCAB, **{**VARIANTS[variant], **SHAPE, **width}).float()


@cache
def backend_of(variant: str) -> TritonBackend:
    """One for all examples, so that its pool has been used by others."""
    return TritonBackend(model_of(variant), CPU, operations=reference)


# --- the runner, by the twins ------------------------------------------------------------------------


@pytest.mark.slow  # the twins compute row by row
@given(scripts(), st.sampled_from(sorted(VARIANTS)))
def test_the_flat_runner_gives_the_scores_of_the_model(
    script: tuple[list[list[int]], list[Round]], variant: str
) -> None:
    check(backend_of(variant), model_of(variant), *script, within=5e-4)


def test_a_session_that_grows_shrinks_and_is_compacted() -> None:
    rounds = [
        Round((((BOS, 4, 5), (BOS, 4, 3)), ((BOS, 5),)), ((BOS, 4),), frozenset()),
        Round((((BOS, 4, 5, 5), (BOS, 4, 4, 4)), ((BOS, 5, 4),)), ((BOS, 4, 4),), frozenset([1])),
        Round((((BOS, 4, 4, 5), (BOS, 3, 3)), ()), None, frozenset()),
    ]
    for variant in ("pre", "post", "source-specials", "bart", "t5"):
        check(backend_of(variant), model_of(variant), [[4, 5, 6], [7]], rounds, within=5e-4)


def test_wide_models_are_computed_in_one_piece_but_for_what_adds_pieces() -> None:
    shape = {"d_model": 512, "heads": 8, "feedforward": 1024, "encoder_layers": 1, "decoder_layers": 1}
    model = tiny_model(0, VOCAB, **shape).float()
    backend = TritonBackend(model, CPU, operations=reference)
    assert backend.weights.stacks[1][0].down.slices == 4 and backend.weights.stacks[1][0].qkv.slices == 1
    rounds = [Round((((BOS, 4, 5), (BOS, 4, 3)),), ((BOS, 4),), frozenset())]
    check(backend, model, [[4, 5, 6]], rounds, within=5e-4)


def test_all_slots_come_back() -> None:
    backend = TritonBackend(model_of("pre"), CPU, operations=reference)
    free = backend.pool.slots.free
    for count in (1, 3):
        session = Session(backend, [[4, 5]] * count, top_k=3)
        session.score([[(BOS, *range(4, 12), *range(4, 12))]] * count)
        session.release([0])
    del session
    gc.collect()
    backend.pool._collect()
    assert backend.pool.slots.free == free + backend.pool.slots.size - 64
    assert sorted(backend.pool.slots._free[: backend.pool.slots.free]) == list(range(1, backend.pool.slots.size))
    assert not backend.pool.ranges._taken


def test_masks_of_a_block_are_refused() -> None:
    runner = backend_of("pre").open([[4, 5]], top_k=3)
    with pytest.raises(AssertionError, match="torch"):
        runner.run(NodeBatch([0], [BOS], [0], [-1], [0]))


@pytest.mark.parametrize("variant", ["pre", "source-specials"])
def test_states_are_the_models(variant: str) -> None:
    model, sources = model_of(variant), [[4, 5, 6, 7], [8, 9]]
    session = Session(backend_of(variant), sources, top_k=3, states=True)
    plain = Session(TorchBackend(model), sources, top_k=3, states=True)
    paths = [[(BOS, 4, 5)], [(BOS, 6)]]
    for one in (session, plain):
        one.score(paths)
    for source, (path,) in zip(map(tuple, sources), paths, strict=True):
        states = session.hidden_state(source, path), plain.hidden_state(source, path)
        torch.testing.assert_close(*states, rtol=0, atol=1e-4)


def test_states_have_the_precision_of_the_networks_that_read_them() -> None:
    for dtype, kind in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        backend = TritonBackend(model_of("pre"), CPU, dtype=dtype, operations=reference)
        session = Session(backend, [[4, 5]], top_k=3, states=True)
        session.score([[(BOS, 4)]])
        state = session.hidden_state((4, 5), (BOS, 4))
        assert state is not None and state.dtype == kind


def bits(backend: Any, drafter: Any, sources: list[tuple[int, ...]], settings: DecodeSettings) -> list[Any]:
    session = Session(backend, sources, top_k=decoders.required_top_k(settings, VOCAB))
    built = [decoders.build_decoder(source, settings, drafter) for source in sources]
    budget = 0 if isinstance(drafter, NoDrafts) else 64
    run = Decoding(sources, built, session, drafter, max_len=20, budget=budget, clock=lambda: 0.0)
    return [[(one.tokens, np.array(one.log_probs).tobytes()) for one in own] for own in run.run_to_end()]


@pytest.mark.parametrize("decoder", ["greedy", "beam"])
def test_drafts_and_batches_change_no_bit(decoder: str) -> None:
    settings = DecodeSettings(decoder=decoder, n=1 if decoder == "greedy" else 3, max_len=20)
    sources = [(4, 5, 6, 7, 8, 9), (7, 7, 4), (10, 4, 5, 6, 11)]
    backend = backend_of("pre")
    expected = [bits(backend, NoDrafts(), [source], settings)[0] for source in sources]
    assert bits(backend, NoDrafts(), sources, settings) == expected
    assert bits(backend, Copy(length=6, count=2), sources, settings) == expected


class Counter:
    """Stands in for CUDA graphs."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def __call__(self, function: Any, _: torch.device) -> Any:
        self.recorded += 1

        def again() -> None:
            self.replayed += 1
            function()

        return again


def test_a_size_is_recorded_when_it_comes_again_and_anew_when_the_pool_has_moved() -> None:
    record = Counter()
    backend = TritonBackend(model_of("pre"), CPU, operations=reference, record=record)
    for count in range(1, 5):
        Session(backend, [[4, 5, 6]], top_k=3).score([[(BOS, 4, 5)]])  # of four rows each: encoder and decoder
        assert (record.recorded, record.replayed) == (2 * (count > 1), 2 * (count - 1))
    version = backend.pool.version  # of a table of eight depths
    session = Session(backend, [[4, 5, 6]], top_k=3)
    session.score([[(BOS, *[4, 5, 6, 7] * 15)]])
    assert backend.pool.version > version
    before = record.recorded
    for _ in range(3):  # for want of slots the pool moves once more
        Session(backend, [[4, 5, 6]], top_k=3).score([[(BOS, 4, 5)]])
    assert record.recorded == before + 2
    assert len(backend._passes) == 2


def test_passes_of_so_many_kinds_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "KEPT", 3)
    record = Counter()
    backend = TritonBackend(model_of("pre"), CPU, operations=reference, record=record)
    for top_k in (1, 2, 3, 4, 4, 3):
        Session(backend, [[4, 5, 6]], top_k=top_k).score([[(BOS, 4, 5)]])
    assert len(backend._passes) == 3
    assert record.recorded == 3  # the encoder, and the two that came again
    Session(backend, [[4, 5, 6]], top_k=1).score([[(BOS, 4, 5)]])
    assert record.recorded == 3  # forgotten, so it is new


# --- the pool --------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 12), max_size=20), st.data())
def test_no_two_have_the_same_slot(sizes: list[int], data: st.DataObject) -> None:
    space = Space(16)
    held: list[Any] = []
    for size in sizes:
        while space.free < size:
            space.grow(2 * space.size)
        held.append(space.take(size))
        if data.draw(st.booleans()):
            space.give(held.pop(data.draw(st.integers(0, len(held) - 1))))
        numbers = [int(one) for own in held for one in own]
        assert len(set(numbers)) == len(numbers)
        assert all(0 < one < space.size for one in numbers)
    for own in held:
        space.give(own)
    assert sorted(space._free[: space.free]) == list(range(1, space.size))


@given(st.lists(st.integers(1, 9), max_size=20), st.data())
def test_no_two_ranges_overlap(sizes: list[int], data: st.DataObject) -> None:
    ranges, held = Ranges(30), {}
    for size in sizes:
        start = ranges.find(size, ranges.size)
        if start is None:  # then no gap is long enough
            ends = sorted([(0, 1), *((at, at + long) for at, long in held.items()), (30, 30)])
            assert all(begin - stop < size for (_, stop), (begin, _) in pairwise(ends))
            continue
        ranges.take(start, size)
        held[start] = size
        numbers = [one for start, size in held.items() for one in range(start, start + size)]
        assert len(set(numbers)) == len(numbers) and min(numbers) > 0 and max(numbers) < 30
        if data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(sorted(held)))
            ranges.give(gone)
            del held[gone]


def test_a_pool_that_cannot_grow_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(2, 4, CPU, slots=4, sources=4, depths=2)

    def fail(*_: object) -> None:
        raise torch.cuda.OutOfMemoryError

    with monkeypatch.context() as patch:
        patch.setattr("chemspec.model.runners.triton.pool._grown", fail)
        for ask in (lambda: pool.take_slots(9, 6), lambda: pool.take_sources(40)):
            with pytest.raises(torch.cuda.OutOfMemoryError):
                ask()
    assert (pool.slots.size, pool.slots.free, pool.ranges.size, pool.version) == (4, 3, 4, 0)
    assert len(pool.take_slots(3, 1)) == 3 and pool.take_sources(3) == 1
    assert len(pool.take_slots(9, 6)) == 9 and pool.take_sources(40) == 4


def test_a_pool_keeps_what_it_holds_when_it_grows() -> None:
    pool = Pool(2, 4, CPU, slots=4, sources=4, depths=2)
    slots, start = pool.take_slots(2, 1), pool.take_sources(2)
    pool.cache[:, :, slots] = 1.0
    pool.source[:, :, start : start + 2] = 2.0
    pool.table[slots] = 3
    more, other = pool.take_slots(9, 6), pool.take_sources(40)
    assert (pool.cache.shape[2], pool.table.shape, pool.version) == (16, (16, 8), 2)
    assert not set(slots) & set(more) and other >= start + 2
    assert (pool.cache[:, :, slots] == 1).all() and (pool.source[:, :, start : start + 2] == 2).all()
    assert (pool.table[slots, :2] == 3).all() and not pool.table[more].any()


# --- weights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "count"), [(torch.bfloat16, 1), (torch.float16, 2), (torch.float32, 3)])
def test_matrices_are_sums_of_bf16_parts_to_the_last_bit(kind: torch.dtype, count: int) -> None:
    weight = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)).to(kind).float()
    parts = split_bf16(weight)
    assert len(parts) == count
    assert torch.equal(parts.bfloat16().float(), parts)
    assert torch.equal(parts.double().sum(0).float(), weight)


# --- what takes its place where it cannot be had ----------------------------------------------------


def test_a_runner_that_computes_something_else_is_found_out() -> None:
    model = model_of("pre")

    def probe(model: Transformer, operations: Any = reference) -> None:
        backend = TritonBackend(model, CPU, operations=operations)
        check_backend(backend, model.config, reference=TorchBackend(model))

    class Wrong:
        def __getattr__(self, name: str) -> Any:
            return getattr(reference, name)

        def add_norm(self, *_: Any, **__: Any) -> None: ...

        def attend(self, q: Any, cache: Any, starts: Any, counts: Any, y: Any, **options: Any) -> None:
            reference.attend(q, cache, starts, torch.ones_like(counts), y, **options)

    with pytest.raises(UnsupportedError, match=r"differ from torch's by"):
        probe(model, Wrong())
    with pytest.raises(UnsupportedError, match="fp16"):
        TritonBackend(model, CPU, dtype="fp16")
    for variant in ("pre", "bart", "t5"):
        probe(model_of(variant))
    with pytest.raises(UnsupportedError, match="multiples of 32"):
        probe(tiny_model(0, VOCAB, d_model=48, heads=4).float())


def test_torch_takes_its_place_with_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(0, 12)
    monkeypatch.setattr(type(model), "to", lambda self, **_: self)
    loaded = Checkpoint("tiny", "retro", model.weights, Tokenizer((*SPECIALS, *"CNOSFPIB")), tmp_path, "0")
    with pytest.warns(UserWarning, match="torch replaces the triton runtime: "):
        assert RuntimeConfig("cuda", "fp32", "triton", 1).backend(loaded)[1] == "torch"
    for runtime in ("auto", "triton"):
        with pytest.raises(ValueError, match="on a CPU, not on cuda; use fp32 or bf16 there"):
            RuntimeConfig("cuda", "int8", runtime, 1).backend(loaded)
    with pytest.raises(ValueError, match="needs a GPU"):
        RuntimeConfig("cpu", "fp32", "triton", 1).backend(loaded)


# --- the kernels -----------------------------------------------------------------------------------


def interpreted(part: str) -> None:
    paths = os.pathsep.join(map(str, (ROOT, TESTS, TESTS / "model")))
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": paths}
    file = TESTS / "model" / "interpret_kernels.py"
    done = subprocess.run([sys.executable, file, part], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_triton
@pytest.mark.slow  # the interpreter takes some milliseconds for each program of a kernel
@pytest.mark.parametrize(
    "part",
    [
        "linear",
        "attend",
        "others",
        "company",
        "session",
        pytest.param("engine", marks=pytest.mark.nightly),
    ],  # 40 seconds
)
def test_each_kernel_equals_its_twin_in_the_interpreter(part: str) -> None:
    interpreted(part)


@needs_triton
@pytest.mark.smoke
def test_products_and_attention_equal_their_twins_in_the_interpreter() -> None:
    interpreted("smoke")


def usages(config: ModelConfig, architecture: int, *names: str) -> list[Any]:
    from triton_resources import compiled, launches

    both = *launches(config, 16), *launches(config, 64, encoder=True)
    found = {one.variant: one for one in both}
    return [compiled(one, architecture) for one in found.values() if not names or one.kernel in names]


@needs_triton
@pytest.mark.slow  # compiles fourteen kernels for each of three GPUs
@pytest.mark.parametrize("architecture", [90] + [pytest.param(other, marks=pytest.mark.nightly) for other in (80, 100)])
def test_every_kernel_compiles_for_a_gpu_and_spills_nothing(
    architecture: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest models use the most: registers for four blocks a multiprocessor, no memory in place of registers."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    found = usages(preset_config("mt-6x6", vocab_size=279), architecture)
    own = ["linear", "attend", "best_tokens", "add_norm"]
    assert {one.kernel for one in found} == {f"{name}_kernel" for name in (*own, "embed", "write_paths")}
    for one in found:
        assert one.registers <= 128 and one.spilled <= 16 and one.shared <= 48 * 1024, one


@needs_triton
@pytest.mark.slow  # compiles fourteen kernels
def test_the_kernels_of_t5_compile_for_a_gpu_and_spill_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    shape = {"d_model": 768, "heads": 12, "feedforward": 2048, "encoder_layers": 2, "decoder_layers": 2}
    found = usages(ModelConfig(vocab_size=279, **{**VARIANTS["t5"], **shape, "head_width": 64}), 90)
    own = ["linear", "attend", "best_tokens", "add_norm", "gate", "embed", "write_paths"]
    assert {one.kernel for one in found} == {f"{name}_kernel" for name in own}
    for one in found:
        assert one.registers <= 144 and one.spilled <= 16 and one.shared <= 48 * 1024, one


@needs_triton
@pytest.mark.smoke
def test_attention_compiles_for_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    found = usages(preset_config("tiny", vocab_size=60), 90, "attend_kernel")
    assert len(found) == 2
    assert all(one.registers <= 128 and not one.spilled for one in found)


@needs_triton
def test_a_pass_is_a_few_dozen_launches_whose_kernels_do_not_depend_on_its_size() -> None:
    """What differed between sizes would be compiled anew, and might add in another order."""
    from triton_resources import launches

    config = preset_config("mt-4x4", vocab_size=279)
    passes = [launches(config, rows) for rows in (1, 16, 4096)]
    assert [len(one) for one in passes] == [41] * 3  # with the hidden states
    assert len({tuple(launch.variant for launch in one) for one in passes}) == 1
    assert len(launches(config, 64, encoder=True)) == 29


@needs_triton
@pytest.mark.nightly
@pytest.mark.slow  # compiles fourteen kernels
def test_no_size_of_a_pass_has_machine_code_of_its_own(tmp_path: Path) -> None:
    """One row or thousands, aligned or not, whatever is asked for: the code of the first pass serves all."""
    environment = {
        **os.environ,
        "TRITON_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, TESTS))),
    }
    command = [sys.executable, TESTS / "model" / "compile_passes.py"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    counts = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(counts) == 5 and sum(counts[0].values()) == 14
    assert all(one == counts[0] for one in counts)
