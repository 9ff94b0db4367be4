"""The facade: order, isolation of bad queries, batches, threads, devices, memory."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.small import BAD, QUERIES, tiny_folder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chemspec import asset_files, chem
from chemspec.engine.engine import Engine, installed_models, model_folder
from chemspec.engine.queries import MAX_CHARS, MAX_TOKENS, QueryReader
from chemspec.model.checkpoint import CheckpointError
from chemspec.settings import DecodeSettings
from chemspec.tasks import TASKS
from chemspec.tokenizer import SPECIALS, Tokenizer, split_smiles
from chemspec.types import DecodeResult, Pass, result_from_json, to_json

GREEDY = DecodeSettings(decoder="greedy", n=1, max_len=30)
BEAM = DecodeSettings(decoder="beam", n=4, max_len=30)
SAMPLE = DecodeSettings(decoder="sample", n=3, max_len=30, seed=7)
DECODERS = pytest.mark.parametrize("how", [GREEDY, BEAM, SAMPLE], ids=lambda how: how.decoder)


def told(results: Sequence[DecodeResult]) -> list[tuple[Any, ...]]:
    """What must not depend on circumstances: everything but times and arithmetic noise."""
    return [
        (
            result.query,
            result.status,
            result.message,
            [(h.tokens, h.smiles, h.canonical, h.ended) for h in result.hypotheses],
        )
        for result in results
    ]


def close(one: Sequence[DecodeResult], other: Sequence[DecodeResult], tolerance: float) -> None:
    assert told(one) == told(other)
    for a, b in zip(one, other, strict=True):
        for left, right in zip(a.hypotheses, b.hypotheses, strict=True):
            assert left.token_log_probs == pytest.approx(right.token_log_probs, abs=tolerance)


# --- predict -------------------------------------------------------------------------------------


@DECODERS
@given(order=st.permutations(QUERIES), batch=st.integers(1, 8))
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_else_is_in_the_batch_never_changes_an_answer(
    engine: Engine, how: DecodeSettings, order: list[str], batch: int
) -> None:
    alone = engine.predict(order, replace(how, batch_size=1))
    close(engine.predict(order, replace(how, batch_size=batch)), alone, 1e-3)


def test_bad_queries_never_harm_the_others(engine: Engine) -> None:
    bad = list(BAD)
    mixed = [query for pair in zip(bad, QUERIES, strict=False) for query in pair] + bad[len(QUERIES) :]
    results = dict(zip(mixed, engine.predict(mixed, BEAM), strict=True))
    for query, status in BAD.items():
        result = results[query]
        assert (result.status, result.hypotheses) == (status, ())
        assert result.message
        assert result_from_json(to_json(result)) == result
    close([results[query] for query in QUERIES], engine.predict(QUERIES, BEAM), 1e-3)


@given(st.text(max_size=40) | st.text(alphabet="CNOcn()[]=#123.>%@+-/\\ ", max_size=40))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_makes_prepare_raise(engine: Engine, text: str) -> None:
    ready = engine.prepare(text)
    assert bool(ready.ids) != bool(ready.refusal)


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("", "SMILES"),
        ("CC(", "character 3"),
        ("c1ccccc", "ring 1"),
        ("C(C)(C)(C)(C)C", "more than it can form"),
        ("[Ir]", "never seen '[Ir]'"),
        ("C" * 2000, f"limit is {MAX_CHARS}"),
        ("C" * (MAX_TOKENS + 1), f"at most {MAX_TOKENS}"),
        ("CCO>>", "no product"),
    ],
)
def test_refusals_say_what_is_wrong_and_where(engine: Engine, query: str, part: str) -> None:
    assert part in engine.predict([query])[0].message


@pytest.mark.parametrize(
    ("query", "read"),
    [("CO.[NaH]", "CO.[H-].[Na+]"), ("[LiH].[KH]", "[H-].[H-].[K+].[Li+]"), ("[CaH2]", "[Ca+2].[H-].[H-]")],
)
def test_a_hydride_is_asked_about_as_ions_where_the_model_knows_these_alone(query: str, read: str) -> None:
    ions = tuple(dict.fromkeys(split_smiles("CO.[H-].[Na+][Li+][K+][Ca+2]")))
    asked = QueryReader("forward", Tokenizer((*SPECIALS, *ions)), 40, (), None).read(query)
    assert (asked.text, asked.refusal) == (query, None)
    assert sorted(asked.smiles.split(".")) == sorted(read.split("."))
    assert "written as ions" in asked.notes[0]
    all_known = Tokenizer((*SPECIALS, *ions, "[NaH]", "[LiH]", "[KH]", "[CaH2]"))
    kept = QueryReader("forward", all_known, 40, (), None).read(query)
    assert "H-" not in kept.smiles and not kept.notes
    unread = QueryReader("forward", Tokenizer((*SPECIALS, "C", "O", ".")), 40, (), None).read(query)
    assert unread.refusal is not None and "never seen" in unread.refusal.message
    assert unread.refusal.query == query and unread.refusal.notes == unread.notes == asked.notes


def test_maps_and_arrows_and_blanks_are_tidied_and_noted(engine: Engine, tmp_path: Path) -> None:
    plain = engine.predict(["CC(=O)O"], BEAM)[0]
    for text in ("[CH3:1][C:2](=[O:3])[OH:4]", "CCO.O>>CC(=O)O", "  CC(=O)O\n", "CC(=O)O acetic acid"):
        result = engine.predict([text], BEAM)[0]
        assert (result.status, result.query) == ("ok", text)
        assert result.notes
        assert [h.tokens for h in result.hypotheses] == [h.tokens for h in plain.hypotheses]
    forward = Engine.load(tiny_folder(tmp_path / "forward", task="forward"), threads=1)
    assert "".join(forward.predict(["CCO.O>>CC(=O)O"], BEAM)[0].trace.query) == "CCO.O"


# --- what a hypothesis carries -------------------------------------------------------------------


@DECODERS
def test_every_number_of_a_hypothesis_fits_the_others(engine: Engine, how: DecodeSettings) -> None:
    for result in engine.predict(QUERIES, how):
        ranks = [item.log_prob for item in result.hypotheses if item.ended == "eos"]
        assert ranks == sorted(ranks, reverse=True)
        for item in result.hypotheses:
            assert "".join(item.tokens) == item.smiles
            assert item.log_prob == pytest.approx(sum(item.token_log_probs))
            assert 0 <= item.probability <= 1
            assert item.valid == bool(item.canonical)
            assert len(item.token_log_probs) == len(item.tokens) + (item.ended == "eos")
            if item.ended == "eos":
                assert item.canonical == (chem.canonical(item.smiles) or "")
            else:
                assert not item.valid


# --- stream, compare, threads --------------------------------------------------------------------


@DECODERS
def test_stream_ends_with_what_predict_returns(engine: Engine, how: DecodeSettings) -> None:
    for query in (*QUERIES[:3], "CC("):
        *events, last = engine.stream(query, how)
        assert all(isinstance(event, Pass) for event in events)
        assert isinstance(last, DecodeResult)
        assert last.trace.passes == tuple(events)
        close([last], engine.predict([query], how), 1e-4)


@pytest.mark.parametrize("runtime", ["auto", "torch"])
def test_threads_do_not_disturb_each_other(tiny_retro: Path, runtime: str) -> None:
    """Eight threads, one engine, different queries at once: a shared buffer would mix them up."""
    engine = Engine.load(tiny_retro, threads=1, runtime=runtime)
    jobs = [QUERIES[i : i + 3] for i in range(len(QUERIES) - 2)] * 2
    alone = [told(engine.predict(job, BEAM)) for job in jobs]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda job: told(engine.predict(job, BEAM)), jobs))
    assert together == alone


@pytest.mark.parametrize("runtime", ["auto", "torch"])
def test_torch_keeps_its_threads(tiny_retro: Path, runtime: str) -> None:
    """Neither loading nor answering changes what belongs to the whole process; between passes nothing is changed."""
    before = torch.get_num_threads()
    engine = Engine.load(tiny_retro, threads=before + 1, runtime=runtime)
    few = replace(GREEDY, max_len=2, drafter="none")  # threads that wait for each other on a busy machine take long
    engine.predict(QUERIES[0], few)
    for _ in engine.stream(QUERIES[0], few):
        assert torch.get_num_threads() == before
    with engine.runtime_config.torch_scope():
        assert torch.get_num_threads() == (1 if engine.runtime == "native" else before + 1)
    assert torch.get_num_threads() == before


def test_sampling_repeats_with_its_seed_and_differs_with_another(engine: Engine) -> None:
    first, again = (told(engine.predict(QUERIES, SAMPLE)) for _ in range(2))
    assert first == again
    assert told(engine.predict(QUERIES, replace(SAMPLE, seed=8))) != first


# --- runtimes, precisions, devices ---------------------------------------------------------------


@DECODERS
def test_the_runtimes_agree(engine: Engine, how: DecodeSettings) -> None:
    assert engine.runtime == "native"
    other = Engine.load(engine.folder, runtime="torch", threads=1)
    assert other.runtime == "torch"
    close(engine.predict(QUERIES[:5], how), other.predict(QUERIES[:5], how), 1e-3)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_half_precision_runs_on_a_cpu(tiny_retro: Path, engine: Engine, dtype: str) -> None:
    half = Engine.load(tiny_retro, dtype=dtype, threads=1)
    assert (half.runtime, half.dtype) == ("torch", dtype)
    for one, other in zip(half.predict(QUERIES, GREEDY), engine.predict(QUERIES, GREEDY), strict=True):
        a, b = one.hypotheses[0].token_log_probs[0], other.hypotheses[0].token_log_probs[0]
        assert a == pytest.approx(b, abs=0.15)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"device": "abacus"}, "abacus"),
        ({"dtype": "fp8"}, "fp8"),
        ({"runtime": "steam"}, "steam"),
        ({"runtime": "native", "dtype": "bf16"}, "bf16 is not computed by the native runtime on cpu"),
        ({"runtime": "onnx"}, "onnx runtime has been removed; use auto, native"),
        *(
            ({"device": device}, "no device .*; use auto, cpu, cuda or")
            for device in ("cpu:0", "cpu:", "cuda:\u0663", None)
        ),
        *(({"threads": count}, "threads is -?[0-9]+; it must be between 0 and 1024") for count in (-1, 10**9)),
        *(({"threads": count}, "threads is .*; it must be a whole number") for count in (1.5, "2")),
    ],
)
def test_what_cannot_be_had_is_refused_by_name(tiny_retro: Path, options: dict[str, Any], part: str) -> None:
    with pytest.raises(ValueError, match=part):
        Engine.load(tiny_retro, **options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused(tiny_retro: Path) -> None:
    with pytest.raises(ValueError, match="no usable GPU"):
        Engine.load(tiny_retro, device="cuda")


# --- memory --------------------------------------------------------------------------------------


class Cramped:
    """A backend whose memory suffices for two queries."""

    def __init__(self, backend: Any, most: int = 2, error: type[Exception] = torch.cuda.OutOfMemoryError) -> None:
        self.backend, self.most, self.error = backend, most, error
        self.opened: list[int] = []

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int) -> Any:
        if len(sources) > self.most:
            raise self.error("out of memory")
        self.opened.append(len(sources))
        return self.backend.open(sources, top_k=top_k)


@pytest.mark.parametrize("error", [MemoryError, torch.cuda.OutOfMemoryError])
def test_a_batch_that_does_not_fit_is_split(engine: Engine, error: type[Exception]) -> None:
    roomy = engine.predict(QUERIES, BEAM)
    cramped = Cramped(engine.backend, error=error)
    close(replace(engine, backend=cramped).predict(QUERIES, BEAM), roomy, 1e-3)
    assert cramped.opened == [1], "not seven, not three; then each joins when the one before has finished"


def test_a_query_that_does_not_fit_alone_fails_alone(engine: Engine) -> None:
    results = replace(engine, backend=Cramped(engine.backend, most=0)).predict([*QUERIES[:2], "CC("], BEAM)
    assert [result.status for result in results] == ["failed", "failed", "invalid"]
    assert "memory" in results[0].message


# --- finding models ------------------------------------------------------------------------------


def test_an_incomplete_model_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path))
    (tmp_path / "half").mkdir()
    assert model_folder("half") == tmp_path / "half"
    with pytest.raises(CheckpointError, match=r"half is no model folder: config\.json is missing"):
        Engine.load("half")


def test_models_are_found_by_name_and_by_folder(tiny_retro: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tiny_retro.parent))
    assert [folder.name for folder in installed_models()] == ["retro"]
    assert model_folder("retro") == model_folder(tiny_retro) == tiny_retro
    with pytest.raises(CheckpointError, match=r"'other'.*retro"):
        model_folder("other")


@pytest.mark.parametrize("task", TASKS)
def test_the_built_in_queries_can_be_read(task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_MODELS", "/nowhere")  # they do not belong to the models
    queries = asset_files.bench_queries.__wrapped__(task)
    assert len(set(queries)) == 200
    sides = [side for text in queries for side in text.split(chem.ARROW)]
    assert all(isinstance(chem.read_query(side), chem.Query) for side in sides)


@pytest.mark.parametrize("queries", [None, 5, b"CCO", {"CCO": None}, [3]])
def test_what_is_no_text_is_refused(engine: Engine, queries: Any) -> None:
    with pytest.raises(TypeError, match="give a SMILES, or a list or column of them"):
        engine.predict(queries)
    for call in (engine.prepare, engine.stream):
        with pytest.raises(TypeError, match="give a SMILES, or a list or column of them"):
            call(queries)
    with pytest.raises(TypeError, match="no settings; give chemspec"):
        engine.predict("CCO", {"n": 3})  # type: ignore[call-overload]


@pytest.mark.parametrize("ids", [(), (-1,), (4, 10**6), (4,) * 2000])
@pytest.mark.parametrize("runtime", ["auto", "torch"])
def test_ids_that_the_model_cannot_read_are_refused(tiny_retro: Path, runtime: str, ids: tuple[int, ...]) -> None:
    """Compiled code would read beyond its tables of embeddings and positions."""
    engine = Engine.load(tiny_retro, runtime=runtime, threads=1)
    with pytest.raises(ValueError, match="it must have 1 to 1022 token ids, each from 1 to"):
        engine.generate_ids([(4, 5), ids], GREEDY)


def test_a_refused_query_cannot_be_decoded(engine: Engine) -> None:
    with pytest.raises(ValueError, match=r"a query is \(\); it must have"):
        engine.decode([engine.prepare("CC(")], GREEDY)


def test_continuous_batching_refuses_what_takes_several_rows(engine: Engine) -> None:
    with pytest.raises(ValueError, match="does not go with augment"):
        next(engine.decode_continuously(lambda _: [], engine.prepare, replace(BEAM, augment=3)))


def test_continuous_batching_lists_distinct_molecules_as_predict_does(engine: Engine) -> None:
    settings = replace(BEAM, distinct=True, max_len=20, batch_size=2)
    waiting = [query for query in QUERIES if engine.prepare(query).refusal is None] * 2
    expected = {query: engine.predict(query, settings) for query in waiting}
    assert any(result.distinct and len(result.distinct.widths) > 1 for result in expected.values())

    def take(count: int) -> list[str]:
        return [waiting.pop() for _ in range(min(count, len(waiting)))]

    for query, result in engine.decode_continuously(take, engine.prepare, settings):
        assert (result.hypotheses, result.distinct) == (expected[query].hypotheses, expected[query].distinct)
    assert not waiting


def test_without_settings_a_list_is_of_distinct_molecules(engine: Engine) -> None:
    options: Any = {"n": 3, "max_len": 20}
    assert engine.predict("CCO", **options).distinct is not None
    assert engine.predict("CCO", **options, distinct=False).distinct is None
    assert engine.predict("CCO", DecodeSettings(n=3, max_len=20)).distinct is None
    assert engine.predict("CCO", **options, rules="onmt").distinct is None, "merging would undo its ranking"
    assert engine.predict("CCO", n=1, decoder="greedy", max_len=20).distinct is None


def test_a_model_with_few_positions_refuses_what_it_cannot_hold(tmp_path: Path) -> None:
    engine = Engine.load(tiny_folder(tmp_path / "short", max_positions=64), threads=1)
    long, short = engine.predict(["C" * 80, "CCO"], replace(GREEDY, max_len=200))
    assert long.status == "too_long"
    assert short.status == "ok"


def test_the_default_limit_of_answers_fits_long_queries(tmp_path: Path) -> None:
    engine = Engine.load(tiny_folder(tmp_path / "model"), device="cpu")
    limits = [engine._batch_decoder._limit_length(DecodeSettings(max_len=n), 240).max_len for n in (199, 200, 201)]
    assert limits == [199, 360, 201]
    short, long = engine.predict(["CCO", "C" * 240], n=1, decoder="greedy")
    assert len(short.hypotheses[0].tokens) <= 200 and len(long.hypotheses[0].tokens) <= 360
    alone = engine.predict("C" * 240, n=1, decoder="greedy", drafter="none")
    assert alone.hypotheses == long.hypotheses
