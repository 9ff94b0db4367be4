"""The compiled kernel computes what the model computes, row by row, whatever else is in the pass."""

from __future__ import annotations

import copy
import os
import signal
import sys
import time
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.compilers import needs_compiler
from helpers.kinds import SOME_KINDS, compiled_for
from helpers.thinned import every
from helpers.tiny import tiny_model
from hypothesis import given
from hypothesis import strategies as st
from test_session import VARIANTS, VOCAB, Round, check, scripts

from chemspec.engine.engine import Engine
from chemspec.model import checkpoint
from chemspec.model.runner import MaskedBatch, NodeBatch
from chemspec.model.runners.native import build
from chemspec.model.runners.native.runner import NativeBackend, NativeRunner, NoKernelError, supports_config
from chemspec.model.session import ScoresError, Session
from chemspec.model.transformer import Transformer
from chemspec.settings import ModelConfig
from chemspec.system import compiled
from chemspec.testing import naive_log_probs
from chemspec.tokenizer import BOS, Tokenizer
from chemspec.types import Scores

pytestmark = needs_compiler


FORMATS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@cache
def tiny(variant: str, threads: int = 1, exact: str = "bf16") -> tuple[NativeBackend, Transformer]:
    """A tiny model whose weights are exact in a format."""
    model = tiny_model(0, VOCAB, **VARIANTS[variant]).to(FORMATS[exact]).float()
    return NativeBackend(model, threads=threads), model


@given(scripts(), st.sampled_from(sorted(VARIANTS)), st.sampled_from(sorted(FORMATS)))
def test_the_kernel_gives_the_scores_of_the_model(
    script: tuple[list[list[int]], list[Round]], variant: str, exact: str
) -> None:
    backend, model = tiny(variant, exact=exact)
    check(backend, model, *script, within=5e-4)


@pytest.mark.parametrize("case", every(2, [*product((32, 48, 80, 256), (1, 2, 4, 6, 8, 12, 16))]))
def test_every_width_and_number_of_heads(case: tuple[int, int]) -> None:
    """Widths that fill no whole panel, numbers of heads that divide no vector, sources and drafts of more rows than a
    tile."""
    width, heads = case
    shape = {"d_model": width, "heads": heads, "feedforward": 3 * width + 4}
    if width % heads:
        shape["head_width"] = 5
    model = tiny_model(1, 37, **shape)
    rng = np.random.default_rng(0)
    sources = [rng.integers(4, 37, size).tolist() for size in (1, 7, 31)]
    paths = [(BOS, *rng.integers(4, 37, size).tolist()) for size in (3, 20)]
    for exact, path in product((torch.float32, torch.bfloat16), paths):
        model = model.to(exact).float()
        scored = Session(NativeBackend(model, threads=2), sources, top_k=37).score([[path]] * 3)
        for source, found in zip(sources, scored, strict=True):
            expected = model(torch.tensor([source]), torch.tensor([path]))[0].log_softmax(-1).numpy()
            for prefix, (ids, log_probs) in found.items():
                np.testing.assert_allclose(log_probs, expected[len(prefix) - 1][ids], rtol=0, atol=2e-4)


def paths(seed: int, count: int, longest: int, vocabulary: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    return [(BOS, *rng.integers(4, vocabulary, int(rng.integers(1, longest))).tolist()) for _ in range(count)]


KINDS: list[dict[str, Any]] = [{}, {"encoder_layers": 0, "rotary_base": 100.0}, {"relative_vectors": 4}]


@pytest.mark.parametrize("exact", sorted(FORMATS))
def test_a_score_is_the_same_to_the_last_bit_in_any_company(exact: str) -> None:
    """Alone or among others, whole or token by token, on one thread or three, compacted or not."""

    def bits(scored: dict[tuple[int, ...], Scores]) -> dict[tuple[int, ...], bytes]:
        return {prefix: np.asarray(scores.log_probs).tobytes() for prefix, scores in scored.items()}

    sources = [[5, 6, 7, 8, 9] * 4, [10, 11]]
    wanted = paths(0, 12, 30, 60)
    for kind in KINDS:
        model = tiny_model(3, 60, d_model=64, heads=8, feedforward=200, **kind).to(FORMATS[exact]).float()
        one, three = (NativeBackend(model, threads=threads) for threads in (1, 3))
        alone = {}
        for path in wanted:
            session = Session(one, sources[:1], top_k=60)
            for end in range(1, len(path) + 1):
                alone |= bits(session.score([[path[:end]]])[0])
        assert bits(Session(three, sources[:1], top_k=60).score([wanted])[0]) == alone
        own, _ = Session(three, sources, top_k=60).score([wanted, paths(9, 3, 9, 60)])
        assert bits(own) == alone


@pytest.mark.slow  # compiles the kernel once a kind of processor, and checks everything with each
@pytest.mark.parametrize("kind", SOME_KINDS)
def test_the_kernel_is_right_on_other_processors_too(
    kind: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Narrower and wider vectors, with and without a tile unit."""
    compiled_for(kind, tmp_path_factory, monkeypatch)
    for exact in FORMATS:
        test_a_score_is_the_same_to_the_last_bit_in_any_company(exact)
    for width, heads in ((32, 1), (48, 2), (80, 16), (256, 8)):
        test_every_width_and_number_of_heads((width, heads))
    test_sixteen_bits_cost_no_accuracy()


def test_sixteen_bits_cost_no_accuracy() -> None:
    """Against fp64, a tile unit that adds up pieces is as near as fp32 arithmetic, at small and at large
    activations."""
    model = tiny_model(5, 40, d_model=256, heads=8, feedforward=1024).bfloat16().float()
    with torch.no_grad():
        model.encoder.layers[0].linear1.weight *= 64  # stays exact
    session = Session(NativeBackend(model, threads=1), [[5, 6, 7, 8]], top_k=40)
    exactly = copy.deepcopy(model).double()
    ours, theirs = [], []
    for path in paths(1, 3, 40, 40):
        for prefix, (ids, log_probs) in session.score([[path]])[0].items():
            expected = naive_log_probs(exactly, [5, 6, 7, 8], prefix).numpy()
            single = naive_log_probs(model, [5, 6, 7, 8], prefix).double().numpy()
            ours.append(np.abs(np.asarray(log_probs) - expected[ids]).max())
            theirs.append(np.abs(single - expected).max())
    assert max(ours) < 2 * max(theirs) < 1e-4


def test_masks_see_their_block_and_leave_no_trace() -> None:
    """In any company, to the last bit; what comes after them is as if they had not been."""
    model = tiny_model(3, 60, d_model=64, heads=8, feedforward=200).bfloat16().float()
    mask, k = 59, 5

    def block(parent: int, depth: int, number: int) -> list[tuple[int, int, int, int]]:
        return [(mask, depth + i, parent, number) for i in range(k)]

    def run(runner: NativeRunner, nodes: list[list[tuple[int, int, int, int]]]) -> list[bytes]:
        rows = [row for row, part in enumerate(nodes) for _ in part]
        columns = zip(*(node for part in nodes for node in part), strict=True)
        ids, log_probs = runner.run(MaskedBatch(rows, *map(list, columns)))
        return [one.tobytes() + two.tobytes() for one, two in zip(ids, log_probs, strict=True)]

    path = [(BOS, 0, -1, -1), (7, 1, 0, -1), (8, 2, 1, -1)]
    sources, one = [[5, 6, 7], [8] * 9], NativeBackend(model, threads=1)
    alone = run(one.open(sources[:1], top_k=4), [[*path, *block(2, 3, 0)]])
    three = NativeBackend(model, threads=3).open(sources, top_k=4)
    both = [*path, *block(1, 2, 0), *block(2, 3, 1)]
    other = [(BOS, 0, -1, -1), *block(0, 1, 2)]
    crowd = run(three, [both, other])
    assert crowd[:3] + crowd[3 + k : 3 + 2 * k] == alone
    plain = one.open(sources[:1], top_k=4)
    columns = list(zip(*path, (9, 3, 2, -1), strict=True))
    last = plain.run(NodeBatch([0] * 4, *map(list, columns[:3])))[1][-1]
    assert run(three, [[(9, 3, 2, -1)], []])[0][-last.nbytes :] == last.tobytes()


def test_what_the_kernel_does_not_compute_is_refused() -> None:
    assert supports_config(ModelConfig(vocab_size=9, d_model=48, heads=3))
    assert not supports_config(ModelConfig(vocab_size=9, d_model=64, heads=32))
    with pytest.raises(NoKernelError, match="8 heads in 40 features"):
        NativeBackend(tiny_model(0, d_model=40, heads=8).float(), threads=1)


# --- where there is no kernel ----------------------------------------------------------------------


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> object:
    """Forget the kernel that is loaded, before and after; nothing is prebuilt."""
    compiled.load_library.cache_clear()
    monkeypatch.setattr(build, "load_prebuilt_kernel", lambda: None)
    yield
    compiled.load_library.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_without_a_compiler_the_engine_takes_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = Tokenizer.build(["CCO"])
    model = tiny_model(0, len(tokenizer)).float()
    checkpoint.save(tmp_path / "m", model, tokenizer, task="retro")
    assert Engine.load(tmp_path / "m").runtime == "native"
    compiled.load_library.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ziglang", None)
    with pytest.warns(UserWarning, match=r"chemspec-smiles\[compiler\]"):
        assert Engine.load(tmp_path / "m").runtime == "numpy"
    with pytest.raises(ValueError, match="no C\\+\\+ compiler"):
        Engine.load(tmp_path / "m", runtime="native")
    compiled.load_library.cache_clear()
    monkeypatch.undo()
    monkeypatch.setenv("CHEMSPEC_NATIVE", "0")
    with pytest.raises(ValueError, match="CHEMSPEC_NATIVE"):
        Engine.load(tmp_path / "m", runtime="native")


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads cannot be looked at here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_frees_a_model_and_ends() -> None:
    """It has none of the workers, and must not wait for those of its parent, which sleep."""
    backend = NativeBackend(tiny_model(0, VOCAB).float(), threads=2)
    session = Session(backend, [[4, 5, 6]], top_k=3)
    session.score([[(BOS,)]])
    tasks = [task / "stat" for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]
    while not all(task.read_text().rpartition(")")[2].split()[0] == "S" for task in tasks):
        time.sleep(0.001)  # until the worker sleeps
    child = os.fork()
    if not child:
        signal.alarm(20)
        del session, backend
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_what_is_no_number_stays_none() -> None:
    model = tiny_model(0, VOCAB, activation="relu").float()
    model.get_parameter("decoder.layers.0.linear1.bias").fill_(float("nan"))
    session = Session(NativeBackend(model, threads=1), [[4]], top_k=3)
    with pytest.raises(ScoresError):
        session.score([[(BOS,)]])


@pytest.mark.usefixtures("fresh")
def test_a_compiler_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "c++"
    compiler.write_text("#!/bin/sh\necho 'no such luck' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path / "cache"))
    with pytest.raises(NoKernelError, match="no such luck"):
        build.load_kernel()
    assert not list((tmp_path / "cache" / "compiled").glob("*"))
