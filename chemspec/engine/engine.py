"""Engine: loads a model and predicts; the library's main interface."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import count, islice
from math import exp
from pathlib import Path
from random import Random
from typing import Any, TypeVar, overload

import chemspec.chem as chem
from chemspec.chem import root_align
from chemspec.decode import registry as decoders
from chemspec.decode.compiled.build import loop_library as loop_library
from chemspec.decode.continuous import SPLIT_BATCH_FROM, continuous_batching, should_split_batch
from chemspec.decode.decoding import Decoded, Decoding
from chemspec.decode.planner import Planner
from chemspec.decode.protocol import ConfiguredDecoder, Decoder
from chemspec.draft.base import Drafter, SessionReader, required_outputs
from chemspec.draft.registry import DrafterInputs, NoDrafts, build_drafter
from chemspec.engine import augment, confidence, distinct, familiarity
from chemspec.engine.drafter_resources import DrafterResources
from chemspec.engine.molecules import Job, MoleculePool, Molecules
from chemspec.engine.registry import installed_models, model_folder, models_dir, usable_drafters
from chemspec.importers import registry as importers
from chemspec.importers.base import LoadedModel, LoadOptions, TextTokenizer
from chemspec.model.cost import CostCurve
from chemspec.model.runtime import RuntimeConfig
from chemspec.model.session import Backend, ScoresError, Session
from chemspec.settings import DecodeSettings, ModelConfig, ModelDims, Task
from chemspec.system import gpu
from chemspec.tokenizer import TokenError
from chemspec.types import Continued, DecodeResult, FinishedSequence, Hypothesis, Pass, Trace

Row = TypeVar("Row")
Searches = Sequence[DecodeSettings]  # searches of one query with increasing width; each reuses the one before
Join = Callable[[Sequence["PreparedQuery"]], Sequence[int]]  # adds queries to a session; returns their numbers

MAX_CHARS = 1000
MAX_TOKENS = 400  # maximum query length; models are trained on up to 200, and time grows quadratically
ROUNDED = "computed in half precision: exact up to rounding, so drafts and batches may change an answer"
BATCHES_PER_GROUP = 16  # `predict` post-processes the results of this many batches together
OUT_OF_MEMORY = "memory does not suffice for this query; ask for fewer answers, or on a GPU use the CPU"


@dataclass(frozen=True)
class PreparedQuery:
    """A tokenised query, or the result that explains why it is invalid.

    Attributes:
        text: the query as entered.
        ids, tokens: input of the model.
        notes: notes for the result.
        lead: the model's special tokens entered before the SMILES, such as a reaction class.
        smiles: canonical SMILES.
        refusal: the result, if the query is invalid.
    """

    text: str
    ids: tuple[int, ...] = ()
    tokens: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    lead: str = ""
    smiles: str = ""
    refusal: DecodeResult | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Engine:
    """A loaded model on a device; immutable and thread-safe.

    Attributes:
        name: name of the model.
        task: "forward" (reactants to product), "retro" (product to reactants) or another of `chemspec.tasks`.
        tokenizer: SMILES to token ids and back.
        config: dimensions of the model.
        caveats: notes that are added to every result.
        digest: digest of the weights.
        folder: folder of the model.
        backend: runs the model.
        runtime_config: device, precision, runtime and CPU threads.
        resources: cost curve, calibration and learned drafters, loaded on first use.
        confidence: calibration of the probabilities; None if it has not been measured.
        confidence_problem: why the calibration file cannot be used, if there is one.
        familiarity: statistics of the training data; None if they have not been computed.
        build_drafter: creates the drafter of a run.
        molecules: parses queries and canonicalises predictions, in this process or in workers.
    """

    name: str
    task: Task
    tokenizer: TextTokenizer
    config: ModelConfig | ModelDims
    caveats: tuple[str, ...]
    digest: str
    folder: Path
    backend: Backend
    runtime_config: RuntimeConfig
    resources: DrafterResources
    confidence: confidence.Confidence | None = None
    confidence_problem: str = ""
    familiarity: familiarity.Familiarity | None = None
    build_drafter: Callable[[DecodeSettings, DrafterInputs], Drafter] = build_drafter
    molecules: Molecules = field(default_factory=Molecules)

    def __repr__(self) -> str:
        return f"<Engine {self.name}: {self.task}, {self.dtype} on {self.device}, {self.runtime}>"

    @classmethod
    def load(
        cls,
        name: str | Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        threads: int = 0,
        runtime: str = "auto",
        task: Task | None = None,
        template: str = "",
        vocab: str | Path = "",
        workers: int = 0,
    ) -> Engine:
        """Load a model of any format that `chemspec.importers.registry.IMPORTERS` knows.

        Args:
            name: a folder or file, or the name of an installed model ("forward", "retro").
            device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", ...
            dtype: "auto" (fp32), "fp32", "int8" (quantised linear layers in the compiled kernel on a CPU: faster, and
                bit-identical on every machine), "bf16", "fp16".
            threads: CPU threads of the model; 0 for all cores.
            runtime: "auto" (for fp32 on a CPU the compiled kernel, or ONNX Runtime where it cannot be compiled; else
                torch; on a GPU recorded graphs), "native", "onnx", "torch", "graphs" (torch with
                recorded CUDA graphs), or "triton" (batch-invariant kernels).
            task: "forward" or "retro", for models of other programs.
            template: prompt format of a model of another program, see `importers.base.LoadOptions`.
            vocab: its vocabulary file, if separate.
            workers: number of worker processes that parse queries and canonicalise predictions; 0 for none.

        Raises:
            checkpoint.CheckpointError: if the folder does not contain a usable model.
            ValueError: if the device, precision or runtime is not available.
        """
        folder = model_folder(name)
        requested = RuntimeConfig.find(device=device, dtype=dtype, runtime=runtime, threads=threads)
        given_name = "" if Path(name).exists() else str(name)
        loaded = importers.load(folder, LoadOptions(task, template, given_name, Path(vocab) if vocab else None))
        backend, runtime = loaded.backend(requested)
        config = replace(requested, runtime=runtime)
        loop_library()  # compiled or loaded now rather than during the first prediction
        measured, problem = _load_confidence(loaded)
        return cls(
            name=loaded.name,
            task=loaded.task,
            tokenizer=loaded.tokenizer,
            config=loaded.config,
            caveats=(*loaded.notes, *([ROUNDED] if config.exactness == "up to rounding" else [])),
            digest=loaded.digest,
            folder=loaded.folder,
            backend=backend,
            runtime_config=config,
            resources=DrafterResources(loaded, backend, config),
            confidence=measured,
            confidence_problem=problem,
            familiarity=familiarity.load_familiarity(loaded.folder, loaded.digest) if loaded.folder.is_dir() else None,
            molecules=MoleculePool(workers) if workers else Molecules(),
        )

    @property
    def device(self) -> str:
        """Device of the model: "cpu", "cuda", ..."""
        return self.runtime_config.device

    @property
    def dtype(self) -> str:
        """Precision of the model: "fp32", "bf16", ..."""
        return self.runtime_config.dtype

    @property
    def runtime(self) -> str:
        """Runtime of the model: "native", "onnx", "torch" or "graphs"."""
        return self.runtime_config.runtime

    @property
    def threads(self) -> int:
        """CPU threads of the model."""
        return self.runtime_config.threads

    @property
    def longest_query(self) -> int:
        """Maximum query length in tokens; two positions are reserved for bos and eos, which some models read."""
        return min(MAX_TOKENS, self.config.max_positions - 2)

    @overload
    def predict(  # type: ignore[overload-overlap]  # a string is a sequence of strings, but not here
        self,
        queries: str,
        settings: DecodeSettings | None = None,
        *,
        progress: Callable[[int], None] = ...,
        **overrides: Any,
    ) -> DecodeResult: ...

    @overload
    def predict(
        self,
        queries: Sequence[str],
        settings: DecodeSettings | None = None,
        *,
        progress: Callable[[int], None] = ...,
        **overrides: Any,
    ) -> list[DecodeResult]: ...

    def predict(
        self,
        queries: str | Sequence[str],
        settings: DecodeSettings | None = None,
        *,
        progress: Callable[[int], None] = lambda _: None,
        **overrides: Any,
    ) -> DecodeResult | list[DecodeResult]:
        """Predict: `engine.predict("CCO")`, `engine.predict(["CCO", "CCN"], n=10, decoder="beam")`.

        An invalid query gets a result with a status and a message and does not affect the others. With
        `settings.augment` several variants of every query are decoded and their predictions merged.

        Args:
            queries: SMILES or reaction SMILES, one or several.
            settings: decoding settings, by default those of `DecodeSettings`.
            progress: called with the number of finished queries.
            overrides: fields of `DecodeSettings` that differ from `settings`.

        Returns:
            One result for a string, a list in the order of the queries for a sequence.

        Raises:
            ValueError: for invalid settings, or a drafter that the model does not have.
            TypeError: if a query is not a string.
        """
        settings = _with_overrides(settings, overrides)
        if isinstance(queries, str):
            return self.predict([queries], settings, progress=progress)[0]
        check_queries(queries)
        self.prefetch(queries)
        prepared = [self.prepare(query) for query in queries]
        results: dict[int, DecodeResult] = {i: query.refusal for i, query in enumerate(prepared) if query.refusal}
        progress(len(results))
        # Sorted by length: without continuous batching, a batch takes as many passes as its longest output.
        order = sorted((i for i in range(len(queries)) if i not in results), key=lambda i: len(prepared[i].ids))
        size = BATCHES_PER_GROUP * settings.batch_size
        groups = [order[start : start + size] for start in range(0, len(order), size)]
        done = count(len(results) + 1)

        def decode(group: list[int]) -> list[DecodeResult]:
            return self.decode([prepared[i] for i in group], settings, finished=lambda: progress(next(done)))

        for group, group_results in zip(groups, self.molecules.map_in_order(decode, groups), strict=True):
            results.update(zip(group, group_results, strict=True))
        return [results[i] for i in range(len(queries))]

    def prefetch(self, queries: Sequence[str]) -> None:
        """Start parsing the next queries in worker processes, if there are any."""
        self.molecules.prefetch(self._read_job(self.tokenizer.split_prompt(query)[1]) for query in queries)

    def _read_job(self, text: str) -> Job:
        return "read", text, self.task, MAX_CHARS

    def stream(
        self, query: str, settings: DecodeSettings | None = None, **overrides: Any
    ) -> Iterator[Pass | DecodeResult]:
        """Predict for one query; yields the record of every forward pass, and the result at the end.

        With augmentation a pass is one forward pass with all variants, as in the result's trace.

        Args:
            query: SMILES or reaction SMILES.
            settings: decoding settings.
            overrides: as for `predict`.
        """
        settings = _with_overrides(settings, overrides)
        ready = self.prepare(query)
        if ready.refusal:
            yield ready.refusal
            return
        searched = []
        for searches in self._search_rounds(settings):
            for event in self._stream_searches(ready, searches):
                if isinstance(event, DecodeResult):
                    searched.append(event)
                else:
                    yield event
            if self._has_enough(searched[-1], ready, settings):
                break
        yield self._select_result(searched, ready, settings)

    def _stream_searches(self, ready: PreparedQuery, searches: Searches) -> Iterator[Pass | DecodeResult]:
        """Run searches that reuse each other's scores; yields all passes, then the result of each search."""
        settings = searches[0]
        rows = self._query_variants(ready, settings)
        try:
            with self.runtime_config.torch_scope():
                decoding, _ = self._start_decoding(rows, searches)
            calls = iter(decoding)
            while True:
                with self.runtime_config.torch_scope():  # the caller's code runs outside of it
                    events = next(calls, None)
                if events is None:
                    break
                passes = [event for _, event in events]
                yield augment.combine_passes(passes, 1) if settings.augment > 1 else passes[0]
        except gpu.memory_errors(ScoresError) as error:
            yield _failed_result(ready, error)
            return
        yield from self._search_results(
            ready, rows, [decoding.take_result(number) for number in range(len(rows))], searches
        )

    def generate_ids(
        self, sources: Sequence[tuple[int, ...]], settings: DecodeSettings
    ) -> list[list[FinishedSequence]]:
        """Decode token ids to token ids, best first, without SMILES processing."""
        order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
        answers: dict[int, list[FinishedSequence]] = {}
        for start in range(0, len(order), settings.batch_size):
            batch = order[start : start + settings.batch_size]
            with self.runtime_config.torch_scope():
                decoding, _ = self._start_decoding([PreparedQuery("", sources[index]) for index in batch], [settings])
                answers.update(zip(batch, decoding.run_to_end(), strict=True))
        return [answers[index] for index in range(len(sources))]

    def compare(self, query: str, settings: Sequence[DecodeSettings]) -> list[DecodeResult]:
        """Predict for one query with each of several settings in turn."""
        return [self.predict(query, setting) for setting in settings]

    def prepare(self, text: str) -> PreparedQuery:
        """Parse, canonicalise and tokenise one query; an invalid one gets a `refusal`."""
        text = text.encode("utf-8", "replace").decode()  # lone surrogates cannot be encoded
        lead, bare = self.tokenizer.split_prompt(text)
        query = self.molecules.job_result(*self._read_job(bare))
        if isinstance(query, chem.Fault):
            status = "too_long" if query.kind == "length" else "invalid"
            return PreparedQuery(text, refusal=DecodeResult(text, status, str(query)))  # type: ignore[arg-type]
        try:
            ids = self.tokenizer.encode(lead + query.smiles)
        except TokenError as error:
            return PreparedQuery(
                text,
                refusal=DecodeResult(
                    text, "invalid", f"{error} in {query.smiles}", notes=query.notes, smiles=query.smiles
                ),
            )
        if len(ids) > self.longest_query:
            message = f"{len(ids)} tokens; queries may have at most {self.longest_query}"
            refusal = DecodeResult(text, "too_long", message, notes=query.notes, smiles=query.smiles)
            return PreparedQuery(text, refusal=refusal)
        tokens = tuple(self.tokenizer.token_texts(ids))
        likeness = self.familiarity.nearest_similarity(query.smiles) if self.familiarity else None
        unlike = self.familiarity.unfamiliarity_notes(tokens, likeness) if self.familiarity else ()
        return PreparedQuery(text, ids, tokens, (*query.notes, *self.caveats, *unlike), lead, query.smiles)

    def _answer_queries(
        self,
        ready: Sequence[PreparedQuery],
        settings: DecodeSettings,
        before_pass: Callable[[], None],
        finished: Callable[[], None],
    ) -> list[DecodeResult]:
        """Predict for prepared queries; with `distinct`, those with too few predictions are searched again, wider."""
        searched: list[list[DecodeResult]] = [[] for _ in ready]
        lacking, rounds = list(range(len(ready))), self._search_rounds(settings)
        for searches in rounds:
            last = searches is rounds[-1]
            done = finished if last else lambda: None
            answered = self._decode_rows([ready[i] for i in lacking], searches, before_pass, done)
            for i, results in zip(lacking, answered, strict=True):
                searched[i] += results
            if last:
                break
            before, lacking = lacking, [i for i in lacking if not self._has_enough(searched[i][-1], ready[i], settings)]
            for _ in range(len(before) - len(lacking)):
                finished()
        return [self._select_result(results, query, settings) for results, query in zip(searched, ready, strict=True)]

    def _search_rounds(self, settings: DecodeSettings) -> list[Searches]:
        """Return the rounds of searches of a query, to be run until there are enough predictions.

        Searches of one round reuse each other's scores and KV cache. Each is a separate round if deciding takes several
        rows (`augment`), or worker processes for which decoding would have to wait.
        """
        widths = distinct.search_widths(settings) if settings.distinct else (settings.n,)
        searches = [replace(settings, n=width) for width in widths]
        apart = settings.augment > 1 or isinstance(self.molecules, MoleculePool)
        return [[search] for search in searches] if apart else [searches]

    def _has_enough(self, result: DecodeResult, ready: PreparedQuery, settings: DecodeSettings) -> bool:
        """Return whether no wider search is needed."""
        return not settings.distinct or distinct.has_enough_answers(
            result, ready.smiles, self.task, settings.n, settings.guide
        )

    def _select_result(
        self, searched: list[DecodeResult], ready: PreparedQuery, settings: DecodeSettings
    ) -> DecodeResult:
        """Return the result of a query, given the results of its searches."""
        if not settings.distinct:
            return searched[-1]
        return distinct.select_distinct(searched, ready.smiles, self.task, settings.n, settings.guide)

    def decode(
        self,
        ready: Sequence[PreparedQuery],
        settings: DecodeSettings,
        *,
        before_pass: Callable[[], None] = lambda: None,
        finished: Callable[[], None] = lambda: None,
    ) -> list[DecodeResult]:
        """Predict for prepared queries, at most `settings.batch_size` at a time; returns results in the same order.

        Args:
            ready: valid queries from `prepare`.
            settings: decoding settings.
            before_pass: called before every forward pass; its exceptions end the run.
            finished: called when a query is finished.
        """
        with self.runtime_config.torch_scope():
            return self._answer_queries(ready, settings, before_pass, finished)

    def decode_continuously(
        self,
        more: Callable[[int], Sequence[Row]],
        ready: Callable[[Row], PreparedQuery],
        settings: DecodeSettings,
        *,
        before_pass: Callable[[], None] = lambda: None,
    ) -> Iterator[tuple[Row, DecodeResult]]:
        """Predict for a stream of queries with continuous batching; yields each result when it is finished.

        Args:
            more: takes a number and returns up to that many waiting queries; decoding ends when it returns none and no
                query is unfinished.
            ready: returns the prepared, valid query.
            settings: decoding settings, without `distinct` and `augment`.
            before_pass: called before every forward pass; its exceptions end the run.

        Raises:
            ScoresError: if the model's scores for a query are undefined; unfinished queries are lost.
        """

        def begin(rows: Sequence[Row]) -> tuple[Decoding, Callable[[Sequence[Row]], Sequence[int]]]:
            # Queries may come one at a time, which drafts speed up even where they do not pay in this first batch.
            decoding, join = self._start_decoding(list(map(ready, rows)), [settings], queries=1)
            return decoding, lambda others: join(list(map(ready, others)))

        running = continuous_batching(
            more,
            begin,
            size=settings.batch_size,
            parts=self._batch_parts(settings.batch_size, settings),
            before_pass=before_pass,
        )
        while True:
            with self.runtime_config.torch_scope():  # the caller's code runs outside of it
                item = next(running, None)
            if item is None:
                return
            row, decoded = item
            yield row, self._write_results([ready(row)], [decoded], settings)[0]

    def _decode_rows(
        self,
        ready: Sequence[PreparedQuery],
        searches: Searches,
        before_pass: Callable[[], None],
        finished: Callable[[], None],
    ) -> list[list[DecodeResult]]:
        """Decode queries, with smaller batches after running out of memory; returns the results of all searches."""
        settings = searches[0]
        spelled = [self._query_variants(query, settings) for query in ready]
        rows = [row for spellings in spelled for row in spellings]
        query_of = [number for number, spellings in enumerate(spelled) for _ in spellings]
        missing = [len(spellings) for spellings in spelled]
        decoded: dict[int, Decoded] = {}
        failed: dict[int, DecodeResult] = {}
        size = most = settings.batch_size * settings.augment
        while left := [row for row in range(len(rows)) if row not in decoded and query_of[row] not in failed]:
            try:
                for row, result in self._run_batches(rows, left, searches, size, before_pass):
                    decoded[row] = result
                    self._prefetch_canonical(result)
                    missing[query_of[row]] -= 1
                    if not missing[query_of[row]]:
                        finished()
                break
            except gpu.memory_errors(ScoresError) as error:
                if size == 1:  # at batch size 1 the first unfinished query caused it
                    cause = query_of[next(row for row in left if row not in decoded)]
                    failed[cause] = _failed_result(ready[cause], error)
                    finished()
                    size = most
                else:
                    size = max(1, min(size, len(left)) // 2)
            gpu.empty_gpu_cache()  # after the exception, which keeps the tensors alive, is cleared
        results = []
        numbers = iter(range(len(rows)))
        for number, spellings in enumerate(spelled):
            row_numbers = list(islice(numbers, len(spellings)))
            if number in failed:
                results.append([failed[number]])
            else:
                results.append(
                    self._search_results(ready[number], spellings, [decoded[row] for row in row_numbers], searches)
                )
        return results

    def _search_results(
        self, ready: PreparedQuery, rows: Sequence[PreparedQuery], decoded: Sequence[Decoded], searches: Searches
    ) -> list[DecodeResult]:
        """Return the results of all searches of a query, from the decoded rows of its variants."""
        made = zip(*((*row.earlier, row) for row in decoded), strict=True)
        return [
            self._merge_variants([ready], [self._write_results(rows, search, settings)], settings)[0]
            for search, settings in zip(made, searches, strict=False)
        ]

    def _run_batches(
        self,
        rows: Sequence[PreparedQuery],
        numbers: Sequence[int],
        searches: Searches,
        size: int,
        before_pass: Callable[[], None],
    ) -> Iterator[tuple[int, Decoded]]:
        """Decode the rows with these numbers, `size` at a time; yields each when it is finished."""
        waiting, size = iter(numbers), min(size, len(numbers))

        def begin(chosen: Sequence[int]) -> tuple[Decoding, Callable[[Sequence[int]], Sequence[int]]]:
            decoding, join = self._start_decoding([rows[number] for number in chosen], searches)
            return decoding, lambda others: join([rows[number] for number in others])

        return continuous_batching(
            lambda room: list(islice(waiting, room)),
            begin,
            size=size,
            parts=self._batch_parts(size, searches[0]),
            before_pass=before_pass,
        )

    def _query_variants(self, ready: PreparedQuery, settings: DecodeSettings) -> list[PreparedQuery]:
        """Return the variants of a query that the model can read, the canonical one first."""
        if settings.augment == 1:
            return [ready]
        smiles = ready.smiles
        rng = Random(f"{settings.seed}/{smiles}")  # independent of other queries
        rows = [replace(ready, text=smiles, notes=())]
        for text in root_align.smiles_variants_of_query(smiles, settings.augment, rng)[1:]:
            try:
                ids = self.tokenizer.encode(ready.lead + text)
            except TokenError:  # for example if the vocabulary has too few ring labels
                continue
            if len(ids) <= self.longest_query:
                rows.append(PreparedQuery(text, ids, tuple(self.tokenizer.token_texts(ids))))
        return rows

    def _merge_variants(
        self, ready: Sequence[PreparedQuery], spelled: Sequence[Sequence[DecodeResult]], settings: DecodeSettings
    ) -> list[DecodeResult]:
        """Return one result per query, merged from the results of its variants."""
        if settings.augment == 1:
            return [results[0] for results in spelled]
        called = augment.passes_per_call([[variant.trace for variant in results] for results in spelled])
        return [
            augment.merge_variants(
                item.text,
                results,
                requested=settings.augment,
                n=settings.n,
                trace=self._build_trace(item, settings, passes, max(variant.trace.seconds for variant in results)),
                notes=item.notes,
            )
            for item, results, passes in zip(ready, spelled, called, strict=True)
        ]

    def _batch_parts(self, size: int, settings: DecodeSettings) -> int:
        """Return the number of alternating parts of a batch: two for large batches on an asynchronous device."""
        if size < SPLIT_BATCH_FROM:
            return 1
        drafter = self._build_drafter(settings)
        return (
            2 if should_split_batch(size, self.backend, decoders.build_decoder((), settings, drafter), drafter) else 1
        )

    def _build_drafter(self, settings: DecodeSettings) -> Drafter:
        """Create the drafter of a run; may measure the cost curve first."""
        resources = self.resources
        inputs = DrafterInputs(
            resources.cost_curve,
            self.tokenizer.smiles_tokens,
            resources.calibration,
            resources.learned_drafter,
            self.tokenizer.prompt_length,
        )
        return self.build_drafter(settings, inputs)

    def _start_decoding(
        self, rows: Sequence[PreparedQuery], searches: Searches, *, queries: int = 0
    ) -> tuple[Decoding, Join]:
        """Open a session and start the decoders and the clock; also returns a function that adds queries.

        Args:
            rows: the first queries.
            searches: settings of the searches of each, which reuse each other's KV cache.
            queries: expected number of queries in a forward pass; 0: as many as there are rows.
        """
        queries = queries or len(rows)
        settings, resources = searches[0], self.resources
        width = decoders.hypothesis_count(settings) if settings.drafting == "planned" else 0
        undrafted = (settings.drafts_by, width, queries) in resources.undrafted
        drafter = NoDrafts() if undrafted else self._build_drafter(settings)
        in_loop = decoders.loop_drafter(settings, drafter)
        planner = self._build_planner(settings, in_loop)  # may measure the cost curve, so before the clock starts
        if width and planner is not None and not planner.may_speed_up(width, queries):
            resources.undrafted.add((settings.drafts_by, width, queries))
            in_loop, planner = NoDrafts(), None
        began = time.perf_counter()
        # The output length is limited by the model's positions.
        if settings.max_len >= self.config.max_positions:
            searches = [replace(search, max_len=self.config.max_positions - 1) for search in searches]
            settings = searches[0]
        sources = [row.ids for row in rows]
        needs = required_outputs(drafter)
        session = Session(
            resources.watchable_backend() if any(needs) else self.backend,
            sources,
            top_k=max(decoders.required_top_k(search, self.config.vocab_size) for search in searches),
            states=needs.hidden_states,
        )
        if hasattr(drafter, "watch") and isinstance(drafter, SessionReader):  # see `required_outputs`
            drafter.watch(session)

        decoding = Decoding(
            sources,
            [self._build_decoder(row, searches, drafter) for row in rows],
            session,
            in_loop,
            max_len=settings.max_len,
            budget=0 if isinstance(in_loop, NoDrafts) else settings.node_budget,
            clock=lambda: time.perf_counter() - began,
            record=settings.record,
            vocab_size=self.config.vocab_size,
            planner=planner,
            threads=self.threads,
        )

        def join(rows: Sequence[PreparedQuery]) -> Sequence[int]:
            return decoding.add_queries(
                [row.ids for row in rows], [self._build_decoder(row, searches, drafter) for row in rows]
            )

        return decoding, join

    def _build_decoder(self, row: PreparedQuery, searches: Searches, drafter: Drafter, number: int = 0) -> Decoder:
        """Create the decoder of search `number`, which continues with the next searches if predictions are missing."""
        decoder = decoders.build_decoder(row.ids, searches[number], drafter)
        if number + 1 == len(searches):
            return decoder

        def next_search(answers: list[FinishedSequence]) -> Decoder | None:
            result = self._build_result(row, answers, self._build_trace(row, searches[number], (), 0.0))
            if self._has_enough(result, row, searches[0]):
                return None
            return self._build_decoder(row, searches, drafter, number + 1)

        return ConfiguredDecoder(decoder, getattr(decoder, "config", None), next_search)

    def _build_planner(self, settings: DecodeSettings, drafter: Drafter) -> Planner | None:
        """Create the planner of a run, if drafts are planned; may measure the cost curve first."""
        fixed = settings.drafting == "fixed" and settings.drafts_by != "auto"
        if fixed or isinstance(drafter, NoDrafts) or not settings.node_budget or decoders.is_draft_aware(settings):
            return None
        return Planner.for_drafter(drafter, self.resources.cost_curve())

    def _prefetch_canonical(self, decoded: Decoded) -> None:
        """Start canonicalising output sequences in worker processes, if there are any."""
        ended = (answer for answer in decoded.answers if answer.ended == "eos")
        self.molecules.prefetch(("canonical", self.tokenizer.decode(answer.tokens)) for answer in ended)

    def _write_results(
        self, rows: Sequence[PreparedQuery], decoded: Sequence[Decoded], settings: DecodeSettings
    ) -> list[DecodeResult]:
        """Return the results of decoded rows."""
        # The trace of a row is the same as without augmentation.
        alone = replace(settings, augment=1) if settings.augment > 1 else settings
        return [
            self._build_result(
                row, search.answers, self._build_trace(row, alone, search.passes, search.seconds, search.continued)
            )
            for row, search in zip(rows, decoded, strict=True)
        ]

    def cost(self) -> CostCurve:
        """Return the cost curve of a forward pass; measured on first use and cached on disk."""
        return self.resources.cost_curve()

    def fastest_batch(self, settings: DecodeSettings) -> int:
        """Return the fastest `batch_size` on this machine; measured on first use and cached on disk."""
        hypotheses = decoders.hypothesis_count(settings) or settings.n
        return self.resources.fastest_batch(hypotheses * settings.augment)

    def _build_trace(
        self,
        ready: PreparedQuery,
        settings: DecodeSettings,
        passes: Sequence[Pass],
        seconds: float,
        continued: Continued | None = None,
    ) -> Trace:
        where = {
            "model": self.name,
            "task": self.task,
            "device": self.device,
            "dtype": self.dtype,
            "runtime": self.runtime,
        }
        return Trace(
            ready.tokens,
            {
                **where,
                **_settings_fields(settings),
                "drafter": settings.drafts_by,
                "exact": settings.exact,
                "exactness": settings.exactness(self.runtime_config.exactness),
            },
            tuple(passes),
            seconds,
            self.tokenizer.tokens if settings.record and settings.augment == 1 else (),
            continued,
        )

    def _build_result(self, ready: PreparedQuery, answers: Sequence[FinishedSequence], trace: Trace) -> DecodeResult:
        hypotheses = tuple(self._build_hypothesis(answer) for answer in answers)
        if self.confidence is not None:
            hypotheses = self.confidence.add_confidence(hypotheses)
        return DecodeResult(ready.text, "ok", "", hypotheses, trace, ready.notes, smiles=ready.smiles)

    def _build_hypothesis(self, answer: FinishedSequence) -> Hypothesis:
        smiles = self.tokenizer.decode(answer.tokens)
        canonical = self.molecules.job_result("canonical", smiles) if answer.ended == "eos" else None
        return Hypothesis(
            smiles=smiles,
            canonical=canonical or "",
            valid=canonical is not None,
            tokens=tuple(self.tokenizer.token_texts(answer.tokens)),
            token_log_probs=answer.log_probs,
            log_prob=answer.log_prob,
            probability=exp(answer.log_prob),
            ended=answer.ended,
        )


def check_queries(queries: object) -> None:
    """Raise TypeError for anything but a sequence of strings."""
    advice = "give a SMILES, or a sequence of them"
    if not isinstance(queries, Sized) or not isinstance(queries, Iterable) or isinstance(queries, bytes):
        raise TypeError(f"{queries!r:.50} is not a query; {advice}")
    for number, query in enumerate(queries):
        if not isinstance(query, str):
            raise TypeError(f"query {number} is {query!r:.50}, no text; {advice}")


def _failed_result(ready: PreparedQuery, error: Exception) -> DecodeResult:
    message = str(error) if isinstance(error, ScoresError) else OUT_OF_MEMORY
    return DecodeResult(ready.text, "failed", message, smiles=ready.smiles)


def _with_overrides(settings: DecodeSettings | None, overrides: dict[str, Any]) -> DecodeSettings:
    settings = DecodeSettings() if settings is None else settings
    return replace(settings, **overrides) if overrides else settings


@lru_cache(maxsize=64)  # of immutable values, so that traces can share them
def _settings_fields(settings: DecodeSettings) -> dict[str, Any]:
    return asdict(settings)


def _load_confidence(loaded: LoadedModel) -> tuple[confidence.Confidence | None, str]:
    """Return the confidence calibration, or None and the reason."""
    if not loaded.folder.is_dir():  # checkpoint of another program
        return None, ""
    try:
        return confidence.load_confidence(loaded.folder, loaded.digest), ""
    except confidence.ConfidenceError as error:
        return None, str(error)


__all__ = ["Engine", "PreparedQuery", "installed_models", "model_folder", "models_dir", "usable_drafters"]
