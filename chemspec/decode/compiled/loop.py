"""Run the compiled loop: two calls per forward pass, or one for several passes; records are read on demand."""

from array import array
from collections.abc import Sequence
from ctypes import byref, c_int32, c_void_p
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chemspec.decode.beam import BeamConfig
from chemspec.decode.compiled import drafters
from chemspec.decode.compiled.build import loop_library
from chemspec.decode.compiled.records import QueryRecords
from chemspec.decode.compiled.structures import (
    BeamConfigStruct,
    LoopOptionsStruct,
    PassState,
    ProposeCallback,
    RecordView,
    array_address,
    copy_array,
    read_array,
)
from chemspec.decode.protocol import (
    ConfiguredDecoder,
    Decoder,
    FinishedSearch,
    LoopOptions,
    finish_sequence,
    next_search_of,
)
from chemspec.draft.base import Drafter
from chemspec.model.runner import NodeBatch
from chemspec.model.session import EncodedQueries, ScoresError
from chemspec.tokenizer import BOS
from chemspec.types import FinishedSequence, Pass, PluginError

FINE, CALL_FAILED, BAD_SCORES, BAD_IDS = 1, -1, -2, -3
MAX_NATIVE_SECONDS = 0.005  # return to Python at least this often, for signals and other threads


def native_configs(decoders: Sequence[Decoder]) -> list[BeamConfigStruct] | None:
    """Return the native search parameters, or None if a decoder is unsupported or has started."""
    configs = []
    for decoder in decoders:
        config = decoder.config if isinstance(decoder, ConfiguredDecoder) and not decoder.started else None
        if not isinstance(config, BeamConfig):
            return None
        configs.append(BeamConfigStruct(*config, next_search_of(decoder) is not None))
    return configs


def can_run_compiled(decoders: Sequence[Decoder], drafter: Drafter) -> bool:
    """Return whether the compiled loop is available and supports these decoders and this drafter."""
    supported = native_configs(decoders) is not None and (type(drafter) in drafters.KINDS or not drafter.has_hooks)
    return supported and loop_library() is not None


class CompiledLoop:
    """Decodes a batch of queries in compiled code, with the same results as `python_loop.PythonLoop`."""

    def __init__(self, queries: EncodedQueries, drafter: Drafter, options: LoopOptions) -> None:
        """Start without queries; the loop must be available (`can_run_compiled`)."""
        code, limits = loop_library(), queries.compaction_threshold
        assert code is not None
        self._code, self._encoded, self._clock = code, queries, options.clock
        self._kernel = queries.runner.kernel_pass
        if self._kernel is not None and not (self._kernel.function and self._kernel.top_k > 0):
            raise PluginError(f"{self._runner_name()} has a kernel pass without a function, or without candidates")
        self._proposals = proposals = drafters.CompiledDrafter(code, drafter, options)
        if proposals.kind == drafters.OTHER:
            self._callback = proposals.args.propose = ProposeCallback(proposals.propose)
        spec = LoopOptionsStruct(
            max_len=options.max_len,
            budget=options.budget,
            record=options.record,
            vocab_size=min(options.vocab_size, 2**31 - 1),
            threads=options.threads,
            fixed=limits.fixed,
            per_root=limits.per_root,
            factor=limits.factor,
        )
        self._planner = planner = options.planner
        described: tuple[Any, Any] = None, None
        if planner is not None:
            self._history = planner.history.copy()
            self._history.factors = planner.seconds_of_pass.factors[:]
            described = byref(drafters.describe_planner(planner)), byref(drafters.describe_history(self._history))
        self._loop = c_void_p(code.chemspec_loop(byref(spec), byref(proposals.args), *described))
        _check_memory(self._loop.value)
        self._state = PassState.from_address(code.chemspec_loop_state(self._loop))
        self._times: list[tuple[float, float, float]] = []  # per pass: seconds of drafting and of the model, end time
        self._queries: dict[int, QueryRecords] = {}  # records kept until `take_searches`

    def __del__(self) -> None:
        if getattr(self, "_loop", None):
            self._code.chemspec_loop_free(self._loop)

    def add_queries(
        self, numbers: Sequence[int], sources: Sequence[Sequence[int]], decoders: Sequence[Decoder]
    ) -> None:
        """Start the decoders of the next queries, with these numbers; ValueError if one is not supported."""
        configs = native_configs(decoders)
        if configs is None:
            raise ValueError("the compiled loop does not support these decoders")
        code, tokens = self._code, [tuple(source) for source in sources]
        flat, lengths = array("i", chain.from_iterable(tokens)), array("i", map(len, tokens))
        columns = array_address(flat), array_address(lengths), (BeamConfigStruct * len(configs))(*configs)
        _check_memory(code.chemspec_loop_add_queries(self._loop, len(tokens), *columns))
        self._proposals.sources += tokens
        for number, decoder, config in zip(numbers, decoders, configs, strict=True):
            self._queries[number] = QueryRecords(len(self._times), next_search_of(decoder), not config.width)
        _check_memory(code.chemspec_loop_schedule_pass(self._loop))
        self._release_and_compact()

    def run_pass(self) -> None:
        """Run one forward pass: draft, score and advance the decoders."""
        began = self._clock()
        if (done := self._code.chemspec_loop_draft(self._loop)) != FINE:
            self._raise_error(done)
        drafted, count = self._clock(), self._state.rows
        flat = copy_array("i", self._state.columns, 4 * count)
        nodes = NodeBatch(*(flat[at : at + count] for at in range(0, 4 * count, count)))
        ids, log_probs = self._encoded.runner.run(nodes)
        if ids.shape != log_probs.shape or ids.ndim != 2 or len(ids) != count or not ids.shape[1]:
            shapes = f"{ids.shape} and {log_probs.shape}"
            raise PluginError(f"{self._runner_name()} returned arrays {shapes} for {count} nodes")
        scores = _array_addresses(ids, log_probs)
        scored = self._clock()
        if (done := self._code.chemspec_loop_store_scores(self._loop, *scores[:4])) != FINE:
            self._raise_error(done)
        self._times.append((drafted - began, scored - drafted, self._clock()))
        if self._state.released or self._state.compacted:
            self._release_and_compact()

    def run_passes(self) -> None:
        """Run one forward pass, or several in a row for some milliseconds if the model is compiled code too."""
        if self._kernel is None:
            self.run_pass()
            return
        state, began = self._state, self._clock()
        if (done := self._code.chemspec_loop_run(self._loop, *self._kernel, MAX_NATIVE_SECONDS)) != FINE:
            self._raise_error(done)
        times = read_array("d", state.times, 3 * state.passes)
        self._times += zip(times[::3], times[1::3], [began + end for end in times[2::3]], strict=True)
        if state.released or state.compacted:
            self._release_and_compact()

    def _release_and_compact(self) -> None:
        code, state = self._code, self._state
        queries = read_array("i", state.queries, state.released + state.compacted)
        ended, compacted = queries[: state.released], queries[state.released :]
        continued = [query for query in ended if self._start_next_search(query)]
        self._encoded.release([query for query in ended if query not in continued])
        if ended:
            self._store_history()
        for query in compacted:
            count = c_int32()
            slots = code.chemspec_loop_kept_slots(self._loop, query, byref(count))
            self._encoded.runner.compact(query, np.array(read_array("i", slots, count.value), dtype=np.int64))
        if continued:
            _check_memory(code.chemspec_loop_schedule_pass(self._loop))
            self._release_and_compact()

    def _store_history(self) -> None:
        """Add what this run has learned since the last call to the planner's history."""
        if self._planner is not None:
            learned = drafters.describe_history(self._history)
            self._code.chemspec_loop_history(self._loop, byref(learned))
            before, self._history = self._history, drafters.read_history(learned, len(self._history.factors))
            self._planner.history.add_run(before, self._history)

    def _start_next_search(self, query: int) -> bool:
        """Start the next search of a query whose search has finished; returns whether the query is unfinished."""
        records = self._queries[query]
        while (view := self._record_view(query)).done:
            following = records.next_search(self._output_sequences(query)) if records.next_search else None
            if following is None:
                return False
            configs = native_configs([following])
            if configs is None:
                raise ValueError("the compiled loop does not support the next search's decoder")
            records.earlier.append(self._summarise_search(query, view))
            self.recorded_passes(query)  # reads those of the search that has finished, before its nodes count as reused
            records.start_next_search(next_search_of(following), is_greedy=not configs[0].width)
            _check_memory(self._code.chemspec_loop_start_next_search(self._loop, query, byref(configs[0])))
        return True

    def _runner_name(self) -> str:
        return f"the runner {type(self._encoded.runner).__name__!r}"

    def _raise_error(self, done: int) -> None:
        error = self._proposals.error
        if done == CALL_FAILED and error is not None:
            self._proposals.error = None
            raise error
        if done == BAD_SCORES:
            raise ScoresError(read_array("i", self._state.queries, self._state.released))
        if done == BAD_IDS:
            raise PluginError(f"{self._runner_name()} returned a token id outside of the vocabulary")
        _check_memory(done)

    # Results -----------------------------------------------------------------------------------------

    def take_searches(self, query: int) -> list[FinishedSearch]:
        """Return the searches of a finished query in order and delete its records."""
        searches = [*self._queries[query].earlier, self._summarise_search(query, self._record_view(query))]
        self._code.chemspec_loop_discard_query(self._loop, query)
        del self._queries[query]
        return searches

    def _summarise_search(self, query: int, view: RecordView) -> FinishedSearch:
        end = self._times[self._queries[query].began + view.passes - 1][2] if view.passes else 0.0
        return FinishedSearch(self._output_sequences(query), view.passes, end, view.written, view.standard)

    def recorded_passes(self, query: int) -> list[Pass]:
        """Return the records of a query's forward passes so far."""
        records = self._queries[query]
        records.read_passes(self._record_view(query), self._proposals.names, self._times)
        return records.passes

    def _record_view(self, query: int) -> RecordView:
        self._queries[query]  # KeyError for an unknown query
        view = RecordView()
        self._code.chemspec_loop_record(self._loop, query, byref(view))
        return view

    def _output_sequences(self, query: int) -> list[FinishedSequence]:
        """Return a query's output sequences, best first."""
        sequences, read = [], self._code.chemspec_loop_output_sequence
        for which in range(self._record_view(query).answers):
            length = read(self._loop, query, which, None, None)
            tokens, log_probs = array("i", bytes(4 * length)), array("d", bytes(8 * length))
            read(self._loop, query, which, array_address(tokens), array_address(log_probs))
            sequences.append(finish_sequence((BOS, *tokens), log_probs))
        return sequences


def _array_addresses(ids: NDArray[Any], log_probs: NDArray[Any]) -> tuple[Any, ...]:
    """Return addresses of ids and log-probs, the candidates per node, whether log-probs are doubles, and the arrays."""
    ids = np.ascontiguousarray(ids, dtype=np.int32)
    log_probs = np.ascontiguousarray(log_probs, dtype=np.float32 if log_probs.dtype == np.float32 else np.float64)
    return ids.ctypes.data, log_probs.ctypes.data, ids.shape[1], log_probs.itemsize == 8, ids, log_probs


def _check_memory(done: int | None) -> None:
    if not done or done < 0:
        raise MemoryError("there is not enough memory to decode this batch; make it smaller")
