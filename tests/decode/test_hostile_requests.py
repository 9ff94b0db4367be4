"""What plug-ins ask of compiled code is checked before: requested prefixes, kernels' token ids, padding in sources."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from helpers.compilers import needs_compiler, skip_without_compiler
from helpers.table import Table, TableRunner
from helpers.tiny import tiny_model

from chemspec.decode.beam import beam_search, greedy_search
from chemspec.decode.draft_history import DraftHistories
from chemspec.decode.generate import BatchDecoder, continuous_batching, open_decoding
from chemspec.decode.protocol import ConfiguredDecoder, LoopOptions, ScoreRequest, finish_sequence
from chemspec.draft.base import NoDrafts
from chemspec.model.runner import KernelPass, NodeBatch
from chemspec.model.runners.native.runner import NativeBackend
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.session import ScoresError, Session
from chemspec.settings import DecodeSettings
from chemspec.tokenizer import BOS, PAD
from chemspec.types import PluginError, Scores

VOCAB, POSITIONS = 20, 64
BACKENDS: dict[str, Callable[[Any], Any]] = {"torch": TorchBackend, "native": lambda model: native(model)}
BAD: dict[str, tuple[Any, str]] = {
    "unknown": ((BOS, 10**8), "from 0 to 19"),
    "first unknown": ((BOS, VOCAB), "from 0 to 19"),
    "beyond 32 bits": ((BOS, 2**40), "from 0 to 19"),
    "negative": ((BOS, -5), "from 0 to 19"),
    "negative inside": ((BOS, -1, 5), "from 0 to 19"),
    "very negative": ((BOS, -(2**31)), "from 0 to 19"),
    "too long": ((BOS, *[5] * POSITIONS), "65 tokens, the model at most 64"),
    "far too long": ((BOS, *[5] * 5000), "5001 tokens"),
    "float": ((BOS, 5.5), "integers"),
    "text": ((BOS, "5"), "integers"),
    "none": ((BOS, None), "integers"),
    "no bos": ((5, 6), "begins with bos"),
    "empty prefix": ((), "begins with bos"),
    "list": ([BOS, 5], "begins with bos"),
}
REQUESTS: dict[str, Callable[[tuple[Any, ...]], Any]] = {"tuple": tuple, "request": ScoreRequest}


def native(model: Any) -> NativeBackend:
    skip_without_compiler()
    return NativeBackend(model, threads=1)


def bad_decoder(prefix: Any, kind: str, later: bool) -> Iterator[Any]:
    """Asks for a bad prefix beside a good one, at once or later."""
    if later:
        yield ((BOS,),)
    scores = yield REQUESTS[kind](((BOS,), prefix) if later else (prefix,))
    return [finish_sequence((BOS, 5), [scores[0].log_probs[0]])]


def looking_ahead(prefix: Any) -> Iterator[Any]:
    """Asks for good prefixes, but its look-ahead for a bad one."""
    scores: list[Scores] = yield ScoreRequest.of([(BOS,)], lambda *_: iter([prefix]))
    return [finish_sequence((BOS, 5), [scores[0].log_probs[0]])]


@cache
def backend_of(runtime: str) -> Any:
    return BACKENDS[runtime](tiny_model(0, VOCAB, d_model=32, heads=4, max_positions=POSITIONS).float())


def decode(runtime: str, decoder: Any, drafter: Any = NoDrafts(), **options: Any) -> Any:
    limits = LoopOptions(vocab_size=VOCAB, max_positions=POSITIONS, max_len=30, **options)
    return open_decoding(backend_of(runtime), [[5, 6]], [decoder], limits, drafter, top_k=3).run_to_end()


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("runtime", BACKENDS)
def test_a_request_that_no_model_can_score_is_refused_with_the_decoder_s_name(
    runtime: str, name: str, kind: str, later: bool
) -> None:
    prefix, fault = BAD[name]
    with pytest.raises(PluginError, match=f"'bad_decoder' requested .*{fault}"):
        decode(runtime, bad_decoder(prefix, kind, later))
    with pytest.raises(PluginError, match="'bad_decoder' requested"):  # also within several searches
        decode(runtime, ConfiguredDecoder(bad_decoder(prefix, kind, later), None))  # type: ignore[arg-type]


def test_the_longest_prefix_and_numpy_s_integers_are_scored() -> None:
    for prefix in ((BOS, *[5] * (POSITIONS - 1)), (BOS, np.int64(5)), (BOS, VOCAB - 1)):
        assert decode("native", bad_decoder(prefix, "tuple", True))


@pytest.mark.parametrize("prefix", [BAD["unknown"][0], BAD["negative"][0], BAD["too long"][0]])
def test_a_look_ahead_is_checked_too(prefix: Any) -> None:
    class Guesses(NoDrafts):
        name = "guesses"

        def propose(self, *_: Any) -> list[Any]:
            return []

    with pytest.raises(PluginError, match="looking_ahead"):
        decode("native", looking_ahead(prefix), drafter=Guesses(), budget=8)


@pytest.mark.parametrize("column", [{"tokens": [10**8]}, {"tokens": [-5]}, {"depths": [5000]}])
def test_the_kernel_is_given_no_node_that_it_has_no_numbers_for(column: dict[str, list[int]]) -> None:
    model = tiny_model(0, VOCAB, d_model=32, heads=4, max_positions=POSITIONS).float()
    runner = native(model).open([[5, 6]], top_k=3)
    nodes = NodeBatch(**{"queries": [0], "tokens": [BOS], "depths": [0], "parents": [-1], **column})
    with pytest.raises(PluginError, match="token ids beyond 19 or too long"):
        runner.run(nodes)


# --- kernels and runners of plug-ins ----------------------------------------------------------------


def run_compiled(table: Table, kernel: KernelPass | None = None) -> Any:
    session = Session(table, [[5, 6]], top_k=3)
    session.runner.kernel_pass = kernel
    from chemspec.decode.decoding import Decoding

    options = LoopOptions(max_len=9, vocab_size=VOCAB, compiled=True)
    return Decoding([[5, 6]], [beam_search(width=2, max_len=9)], session, NoDrafts(), options).run_to_end()


@needs_compiler
@pytest.mark.parametrize("token", [VOCAB, -1, 2**31 - 1, -(2**31)])
def test_a_kernel_s_token_ids_are_checked(token: int) -> None:
    number, pointer = ctypes.c_int, ctypes.c_void_p
    outputs = ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(ctypes.c_float), pointer
    signature = ctypes.CFUNCTYPE(number, pointer, number, *[pointer] * 5, number, *outputs)

    @signature
    def kernel(_: Any, rows: int, *rest: Any) -> int:
        count, ids, log_probs = rest[5], rest[6], rest[7]
        for at in range(rows * count):
            ids[at], log_probs[at] = (token if at == 1 else 5 + at % 3), -1.0
        return 1

    address = ctypes.cast(kernel, ctypes.c_void_p).value or 0
    with pytest.raises(PluginError, match="'TableRunner' returned a token id outside of the vocabulary"):
        run_compiled(Table(), KernelPass(address, 0, 3))
    for faulty in (KernelPass(0, 0, 3), KernelPass(address, 0, 0), KernelPass(address, 0, -2)):
        with pytest.raises(PluginError, match="without a function, or without candidates"):
            run_compiled(Table(), faulty)


@needs_compiler
@pytest.mark.parametrize(
    "change",
    [lambda a: a[:-1], lambda a: a[:, :0], lambda a: a.ravel(), lambda a: a[:, :2]],
    ids=["rows", "none", "flat", "columns"],
)
@pytest.mark.parametrize("which", [0, 1])
def test_a_runner_s_arrays_are_checked(
    change: Callable[[Any], Any], which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = TableRunner.run

    def faulty(self: TableRunner, nodes: NodeBatch) -> Any:
        arrays = [np.asarray(array) for array in run(self, nodes)]
        arrays[which] = change(arrays[which])
        return tuple(arrays)

    monkeypatch.setattr(TableRunner, "run", faulty)
    with pytest.raises(PluginError, match=re.escape("'TableRunner' returned arrays")):
        run_compiled(Table())


# --- padding, and queries without scores ------------------------------------------------------------


class Query:
    def __init__(self, *ids: int) -> None:
        self.ids = ids


def batch_decoder(table: Any) -> BatchDecoder:
    return BatchDecoder(table, 10, 1000, None, DraftHistories(), build_drafter=lambda *_: NoDrafts())  # type: ignore[arg-type]


@pytest.mark.parametrize("ids", [(PAD,), (5, PAD, 6), (PAD, 5), (5, PAD), (), (-1,), (5, 10), (5,) * 999])
def test_a_source_with_padding_is_refused_by_every_runtime(ids: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"must have 1 to 998 token ids, each from 1 to 9 \(0 is padding\)"):
        batch_decoder(Table()).start([Query(*ids)], [DecodeSettings(decoder="greedy", n=1, max_len=9)])


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_compiler)])
@pytest.mark.parametrize("bad", [{0}, {17}, {40, 41}, {3, 63}, set(range(20, 64))])
def test_queries_without_scores_are_named_and_cost_their_batch_one_start(
    compiled: bool, bad: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 64 queries in one batch; halving the batch until one is left took seven."""

    class Faulty(Table):
        def _log_probs(self, source: Any, prefix: Any) -> Any:
            scores = super()._log_probs(source, prefix)
            number = (source[0] - 4) + 6 * (source[1] - 4) + 36 * (source[2] - 4)
            return tuple(float("nan") for _ in scores) if number in bad and len(prefix) == 3 else scores

    table = Faulty()
    opened: list[int] = []
    table.open = lambda sources, **how: opened.append(len(sources)) or Table.open(table, sources, **how)  # type: ignore[method-assign, func-returns-value]
    queries = [Query(4 + n % 6, 4 + n // 6 % 6, 4 + n // 36) for n in range(64)]
    finished: list[int] = []
    decoder = batch_decoder(table)
    monkeypatch.setattr("chemspec.decode.decoding.can_run_compiled", lambda *_: compiled)
    search = DecodeSettings(decoder="beam", n=3, max_len=9, drafter="none")
    outcomes = decoder.generate([[query] for query in queries], [search], size=64, finished=lambda: finished.append(1))
    assert {number for number, outcome in enumerate(outcomes) if isinstance(outcome, ScoresError)} == bad
    assert len(finished) == 64
    assert len(opened) == 2, "begun once more without them"
    sound = decoder.generate([[queries[1]]], [search], size=1)[0]
    if 1 not in bad:
        assert [answer.answers for answer in outcomes[1]] == [answer.answers for answer in sound]  # type: ignore[union-attr]


def test_a_stream_of_queries_goes_on_after_one_without_scores() -> None:
    class Faulty(Table):
        def _log_probs(self, source: Any, prefix: Any) -> Any:
            scores = super()._log_probs(source, prefix)
            return tuple(float("inf") for _ in scores) if source == (7, 7) and len(prefix) == 2 else scores

    waiting = [Query(5, 6), Query(7, 7), Query(6, 5), Query(7, 7), Query(8, 8)]
    table = Faulty()

    def begin(queries: Any) -> Any:
        decoders = [greedy_search(max_len=9) for _ in queries]
        sources, options = [query.ids for query in queries], LoopOptions(max_len=9)
        decoding = open_decoding(table, sources, decoders, options, top_k=2)
        return decoding, lambda rows: decoding.add_queries(
            [row.ids for row in rows], [greedy_search(max_len=9) for _ in rows]
        )

    def more(count: int) -> list[Query]:
        taken = waiting[:count]
        del waiting[:count]
        return taken

    done = list(continuous_batching(more, lambda row: row, begin, size=2))
    assert len(done) == 5 and not waiting
    assert [query.ids for query, result in done if isinstance(result, ScoresError)] == [(7, 7), (7, 7)]
