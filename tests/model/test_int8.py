"""int8 gives the same bits everywhere: in kernel and torch, on any processor, with any threads, batches and trees."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.compilers import needs_compiler
from helpers.kinds import SOME_KINDS, compiled_for
from helpers.tiny import tiny_model
from hypothesis import given
from hypothesis import strategies as st
from programs import int8_reference as int8
from test_session import VARIANTS, VOCAB, Round, check, scripts

from chemspec.engine.engine import Engine, installed_models
from chemspec.model import checkpoint
from chemspec.model.runner import Backend
from chemspec.model.runners.native.runner import NativeBackend
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.session import Session
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings
from chemspec.system import compiled
from chemspec.testing import naive_beam, naive_greedy
from chemspec.tokenizer import BOS, EOS, Tokenizer
from chemspec.types import FinishedSequence, Prefix


@cache
def tiny(variant: str) -> tuple[Transformer, Transformer]:
    """A model and the same in int8."""
    model = tiny_model(0, VOCAB, **VARIANTS[variant]).float()
    return model, int8.quantised(model)


@cache
def native(variant: str, threads: int) -> NativeBackend:
    """The kernel on that model."""
    return NativeBackend(tiny(variant)[0], threads=threads, int8=True)


@pytest.mark.slow  # loops over keys, half a minute; below, the kernel is compared with the same reference
@pytest.mark.nightly
@given(scripts(), st.sampled_from(sorted(VARIANTS)))
def test_a_session_in_torch_gives_the_bits_of_the_decoder_without_cache(
    script: tuple[list[list[int]], list[Round]], variant: str
) -> None:
    _, reference = tiny(variant)
    check(TorchBackend(reference), reference, *script, within=0)


@needs_compiler
@given(scripts(), st.sampled_from(sorted(VARIANTS)), st.sampled_from([1, 3]))
def test_a_session_in_the_kernel_gives_the_bits_of_the_decoder_without_cache(
    script: tuple[list[list[int]], list[Round]], variant: str, threads: int
) -> None:
    check(native(variant, threads), tiny(variant)[1], *script, within=0)


def scores(backend: Backend, sources: list[list[int]], paths: list[Prefix], vocabulary: int) -> list[bytes]:
    """The log-probs of every node, in the order of their prefixes."""
    scored = Session(backend, sources, top_k=vocabulary).score([paths] * len(sources))
    return [
        np.array([*ids, *map(float, log_probs)]).tobytes()
        for part in scored
        for _, (ids, log_probs) in sorted(part.items())
    ]


SHAPES = [(32, 1, 100), (48, 2, 146), (80, 16, 1100), (256, 8, 1024)]


def equals_torch(width: int, heads: int, wide: int) -> None:
    model = tiny_model(1, 83, d_model=width, heads=heads, feedforward=wide).float()
    rng = np.random.default_rng(0)
    sources = [rng.integers(4, 83, size).tolist() for size in (1, 7, 31)]
    paths = [(BOS, *rng.integers(4, 83, size).tolist()) for size in (0, 4, 20)]
    expected = scores(TorchBackend(int8.quantised(model)), sources, paths, 83)
    assert scores(NativeBackend(model, threads=2, int8=True), sources, paths, 83) == expected


@needs_compiler
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_gives_the_bits_of_torch(shape: tuple[int, int, int]) -> None:
    """Of one row and of many, where outputs fill no panel and inputs no group, and where sums exceed 24 bits."""
    equals_torch(*shape)


@needs_compiler
@pytest.mark.slow  # compiles the kernel once a kind of processor
@pytest.mark.parametrize("kind", SOME_KINDS)
def test_other_processors_give_the_same_bits(
    kind: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled_for(kind, tmp_path_factory, monkeypatch)
    for shape in SHAPES:
        equals_torch(*shape)


@needs_compiler
def test_the_largest_sums_are_exact() -> None:
    """Weights and activations at the ends of their range: a product that saturates would show."""
    model = tiny_model(2, 83, d_model=64, heads=4, feedforward=1500).float()
    for layer in (*model.encoder, *model.decoder):
        for linear in (layer.linear1, layer.linear2):
            linear.weight.copy_(linear.weight.sign())
        layer.linear1.weight.copy_(layer.linear1.weight[:1].abs().expand_as(layer.linear1.weight))
    backend = NativeBackend(model, threads=1, int8=True)
    paths = [(BOS, 5, 6, 7)]
    assert scores(backend, [[4, 5, 6]], paths, 83) == scores(
        TorchBackend(int8.quantised(model)), [[4, 5, 6]], paths, 83
    )


def test_int8_is_near_the_model_and_not_the_model() -> None:
    model = tiny_model(4, 30, d_model=64, heads=4, feedforward=128).float()
    source, target = torch.randint(4, 30, (2, 9)), torch.randint(4, 30, (2, 7))
    exact, rounded = model(source, target), int8.quantised(model)(source, target)
    error = (exact - rounded).abs().mean() / exact.std()
    assert 1e-4 < error < 0.1


# --- engines -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("int8") / "m"
    tokenizer = Tokenizer.build(["CCO", "c1ccccc1N=O"])
    checkpoint.save(path, tiny_model(0, len(tokenizer), d_model=32).float(), tokenizer, task="retro")
    return path


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CHEMSPEC_NATIVE", "0")
    compiled.load_library.cache_clear()
    yield
    compiled.load_library.cache_clear()


@pytest.mark.usefixtures("no_kernel")
def test_without_a_kernel_int8_is_refused_with_a_remedy(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"int8 needs the compiled kernel.*use fp32, install a C\+\+ compiler, or pip"):
        Engine.load(folder, dtype="int8", device="cpu", threads=1)


@pytest.mark.parametrize("runtime", ["torch", "graphs"])
def test_other_runtimes_refuse_it(folder: Path, runtime: str) -> None:
    with pytest.raises(
        ValueError, match=f"not computed by the {runtime} runtime on cpu: native computes fp32 and int8"
    ):
        Engine.load(folder, dtype="int8", device="cpu", runtime=runtime)


QUERIES = ["O=C(NCc1ccccc1)c1ccccc1", "COC(=O)c1ccc(Br)cc1", "CC(C)(C)OC(=O)NCc1ccccc1"]


@needs_compiler
@pytest.mark.weights
@pytest.mark.skipif(not installed_models(), reason="no model in assets/models")
@pytest.mark.parametrize("how", [{"decoder": "greedy", "n": 1}, {"decoder": "beam", "n": 4}], ids=["greedy", "beam"])
@pytest.mark.parametrize(("task", "dtype"), [("forward", "int8"), ("retro", "int8"), ("retro", "fp32")])
def test_on_real_weights_nothing_changes_a_bit(task: str, dtype: str, how: dict[str, object]) -> None:
    """Tokens, scores and passes: 1 and 2 threads, batch 1 and 32, with and without drafts."""
    queries = [f"{query}.CO" if task == "forward" else query for query in QUERIES]
    standard = Engine.load(task, device="cpu", dtype=dtype, runtime="native", threads=1).predict(
        queries,
        DecodeSettings(drafter="none", batch_size=1, **how),  # type: ignore[arg-type]
    )
    passes: dict[str, list[int]] = {}
    for threads in (1, 2):
        engine = Engine.load(task, device="cpu", dtype=dtype, runtime="native", threads=threads)
        for drafter in ("none", "copy", "windows"):
            changed = DecodeSettings(drafter=drafter, drafting="fixed", batch_size=32, **how)  # type: ignore[arg-type]
            found = engine.predict(queries, changed)
            assert [one.hypotheses for one in found] == [one.hypotheses for one in standard]
            counted = [len(one.trace.passes) for one in found]
            assert passes.setdefault(drafter, counted) == counted
            assert bool(sum(step.drafted for one in found for step in one.trace.passes)) is (drafter != "none")
    assert passes["none"] == [len(one.trace.passes) for one in standard]


@pytest.mark.weights
@pytest.mark.skipif(not installed_models(), reason="no model in assets/models")
def test_on_real_weights_the_engine_equals_the_naive_decoder() -> None:
    engine = Engine.load("retro", device="cpu", dtype="int8", threads=1)
    reference = int8.quantised(checkpoint.load(engine.folder).model)
    query = QUERIES[1]
    source = engine.prepare(query).ids
    assert written(engine, query, DecodeSettings(decoder="greedy", n=1, drafter="copy")) == [
        naive_greedy(reference, source, 200)
    ]
    assert written(engine, query, DecodeSettings(decoder="beam", n=2)) == naive_beam(reference, source, 2, 200)


def written(engine: Engine, query: str, how: DecodeSettings) -> list[FinishedSequence]:
    ids = {token: number for number, token in enumerate(engine.tokenizer.tokens)}
    return [
        FinishedSequence((*(ids[token] for token in one.tokens), EOS), one.token_log_probs, one.ended)
        for one in engine.predict(query, how).hypotheses
    ]
