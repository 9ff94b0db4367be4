"""Engine: loads a model and predicts; the library's main interface."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

from chemspec.decode.compiled.build import loop_library as loop_library
from chemspec.decode.generate import BatchDecoder, continuous_batching
from chemspec.draft.base import Drafter
from chemspec.draft.inputs import DrafterInputs
from chemspec.draft.registry import build_drafter
from chemspec.engine import augment, confidence, deadline, familiarity
from chemspec.engine.drafter_resources import ClosedEngine, DrafterResources
from chemspec.engine.inspection import Inspection
from chemspec.engine.options import DecodingOptions, LoadingOptions, apply_options
from chemspec.engine.queries import MAX_TOKENS, PreparedQuery, QueryReader, list_queries
from chemspec.engine.registry import installed_models, model_folder, models_dir, usable_drafters
from chemspec.engine.results import ResultWriter, failed_result
from chemspec.engine.rounds import Judge, Outcome, Rounds, search_rounds
from chemspec.engine.scoring import ScoredAnswer, score_pairs
from chemspec.importers import model_formats as importers
from chemspec.importers.base import LoadOptions, TextTokenizer
from chemspec.model.cost import CostCurve
from chemspec.model.manifest import join_digests
from chemspec.model.runner import Backend
from chemspec.model.runtime import RuntimeConfig
from chemspec.model.session import ScoresError
from chemspec.settings import DecodeSettings, ModelConfig, ModelDims, Task
from chemspec.system import gpu
from chemspec.types import DecodeResult, FinishedSequence, Pass

Row = TypeVar("Row")

ROUNDED = "computed in half precision: exact up to rounding, so drafts and batches may change an answer"


@dataclass(frozen=True, eq=False, repr=False)
class Engine(Inspection):
    """A loaded model on a device; immutable and thread-safe.

    Attributes:
        name: name of the model.
        task: "forward" (reactants to product), "retro" (product to reactants) or another of `chemspec.tasks`.
        tokenizer: SMILES to token ids and back.
        config: dimensions of the model.
        caveats: notes that are added to every result.
        digest: digest of the weights.
        full_digest: digest of weights and vocabulary, for receipts and to resume; see `manifest.join_digests`.
        folder: folder of the model.
        backend: runs the model.
        runtime_config: device, precision, runtime and CPU threads.
        resources: cost curve, calibration and learned drafters, loaded on first use.
        confidence: calibration of the probabilities; None if it has not been measured.
        confidence_problem: why the calibration file cannot be used, if there is one.
        familiarity: statistics of the training data; None if they have not been computed.
        loaded_from: name and options with which the model was loaded, for copies in other processes.
        build_drafter: creates the drafter of a run.
    """

    name: str
    task: Task
    tokenizer: TextTokenizer
    config: ModelConfig | ModelDims
    caveats: tuple[str, ...]
    digest: str
    full_digest: str
    folder: Path
    backend: Backend
    runtime_config: RuntimeConfig
    resources: DrafterResources
    confidence: confidence.Confidence | None = None
    confidence_problem: str = ""
    familiarity: familiarity.Familiarity | None = None
    loaded_from: tuple[str | Path, LoadingOptions] | None = None
    build_drafter: Callable[[DecodeSettings, DrafterInputs], Drafter] = build_drafter

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
    ) -> Engine:
        """Load a model of any format that `chemspec.importers.model_formats.IMPORTERS` knows.

        Args:
            name: a folder or file, or the name of an installed model ("forward", "retro").
            device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", ...
            dtype: "auto" (fp32), "fp32", "int8" (on a CPU: faster, and bit-identical on every machine), "bf16", "fp16".
            threads: CPU threads of the model; 0 for all cores.
            runtime: "auto" (on a GPU "graphs"; for fp32 and int8 on a CPU "native", without a kernel "numpy"), "native"
                (the compiled kernel), "numpy", "torch" or "graphs" (torch with CUDA graphs, or alone if they disagree).
            task: "forward" or "retro", for models of other programs; one of chemspec must have been trained for it.
            template: prompt format of a model of another program, see `importers.base.LoadOptions`.
            vocab: its vocabulary file, if separate.

        Raises:
            checkpoint.CheckpointError: if the folder does not contain a usable model.
            ValueError: if the device, precision or runtime is not available, or the model is for another task.
        """
        folder = model_folder(name)
        options = LoadingOptions(
            device=device, dtype=dtype, threads=threads, runtime=runtime, task=task, template=template, vocab=vocab
        )
        requested = RuntimeConfig.find(device=device, dtype=dtype, runtime=runtime, threads=threads)
        given_name = "" if Path(name).exists() else str(name)
        loaded = importers.load(folder, LoadOptions(task, template, given_name, Path(vocab) if vocab else None))
        if task and loaded.task != task:
            raise ValueError(f"model {loaded.name!r} is a {loaded.task} model, not one for {task}; choose another")
        backend, runtime = loaded.backend(requested)
        config = replace(requested, runtime=runtime)
        loop_library()  # compiled or loaded now rather than during the first prediction
        measured, problem = confidence.load_confidence(loaded.folder, loaded.digest)
        return cls(
            name=loaded.name,
            task=loaded.task,
            tokenizer=loaded.tokenizer,
            config=loaded.config,
            caveats=(*loaded.notes, *([ROUNDED] if config.exactness == "up to rounding" else [])),
            digest=loaded.digest,
            full_digest=join_digests(loaded.digest, loaded.vocabulary),
            folder=loaded.folder,
            backend=backend,
            runtime_config=config,
            resources=DrafterResources(loaded, backend, config),
            confidence=measured,
            confidence_problem=problem,
            familiarity=familiarity.load_familiarity(loaded.folder, loaded.digest) if loaded.folder.is_dir() else None,
            loaded_from=(name, options),
        )

    def __reduce__(self) -> Any:
        """Pickle the name and options of the model, which another process loads again."""
        if self.loaded_from is None:
            raise TypeError(f"{self!r} was not loaded by Engine.load, so it cannot be loaded again elsewhere")
        return _load_again, self.loaded_from

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the model; the engine raises ValueError if it is used again. Runs of other threads end first."""
        self.__dict__.pop("_in_numpy", None)
        for name in ("backend", "resources"):
            object.__setattr__(self, name, ClosedEngine(self.name))

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
        """Runtime of the model: "native", "numpy", "torch" or "graphs"."""
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
        within: float | None = ...,
        **overrides: Unpack[DecodingOptions],
    ) -> DecodeResult: ...

    @overload
    def predict(
        self,
        queries: Iterable[str | None],
        settings: DecodeSettings | None = None,
        *,
        progress: Callable[[int], None] = ...,
        within: float | None = ...,
        **overrides: Unpack[DecodingOptions],
    ) -> list[DecodeResult]: ...

    def predict(
        self,
        queries: str | Iterable[str | None],
        settings: DecodeSettings | None = None,
        *,
        progress: Callable[[int], None] = lambda _: None,
        within: float | None = None,
        **overrides: Unpack[DecodingOptions],
    ) -> DecodeResult | list[DecodeResult]:
        """Predict: `engine.predict("CCO")`, `engine.predict(["CCO", "CCN"], n=10, decoder="beam")`.

        Returns one result for a string, a list in the order of the queries otherwise. An invalid query gets a result
        with a status and a message and does not affect the others; so does a missing value (None or NaN). With
        `settings.augment` several variants of every query are decoded and their predictions merged.

        Args:
            queries: SMILES or reaction SMILES: one, or a list, a column of a table or anything else that yields them.
            settings: decoding settings. Without them a list is of distinct molecules, as on the command line and in the
                app (`distinct=False`: the plain beam); other fields are those of `DecodeSettings`.
            progress: called with the number of finished queries.
            within: seconds for each query, which are then decoded in turn: the greedy answer, then the widest exact
                beam for which the time is enough (`chemspec.engine.deadline`).
            overrides: fields of `DecodeSettings` that differ from `settings`.

        Raises:
            ValueError: for invalid settings, or a drafter that the model does not have.
            TypeError: if a query is not a string, or for an unknown option.
        """
        settings = apply_options(settings, overrides)
        if isinstance(queries, str):
            return self.predict([queries], settings, progress=progress, within=within)[0]
        queries = list_queries(queries)
        if within is not None:
            in_time = []
            for query in queries:
                in_time.append(deadline.predict_within(self, query, within, settings))
                progress(len(in_time))
            return in_time
        prepared = [self.prepare(query) for query in queries]
        results: dict[int, DecodeResult] = {i: query.refusal for i, query in enumerate(prepared) if query.refusal}
        progress(len(results))
        # Sorted by length: without continuous batching, a batch takes as many passes as its longest output.
        order = sorted((i for i in range(len(queries)) if i not in results), key=lambda i: len(prepared[i].ids))
        done = count(len(results) + 1)
        decoded = self.decode([prepared[i] for i in order], settings, finished=lambda: progress(next(done)))
        results.update(zip(order, decoded, strict=True))
        return [results[i] for i in range(len(queries))]

    def stream(
        self, query: str | PreparedQuery, settings: DecodeSettings | None = None, **overrides: Unpack[DecodingOptions]
    ) -> Iterator[Pass | DecodeResult]:
        """Predict for one query; yields the record of every forward pass, and the result at the end.

        With augmentation a pass is one forward pass with all variants, as in the result's trace.
        """
        ready = query if isinstance(query, PreparedQuery) else self.prepare(query)
        return self._predict_events(ready, apply_options(settings, overrides))

    def _predict_events(self, ready: PreparedQuery, settings: DecodeSettings) -> Iterator[Pass | DecodeResult]:
        if ready.refusal:
            yield ready.refusal
            return
        rounds = Rounds([ready], self._reader, self._judge(settings))
        while not rounds.is_over:
            (rows,), searches = rounds.groups, rounds.searches
            outcome: Outcome
            try:
                with self.runtime_config.torch_scope():
                    decoding, _ = self._batch_decoder.start(rows, searches, self._judge(settings).ends_search)
                calls = iter(decoding)
                while not decoding.is_finished:
                    with self.runtime_config.torch_scope():  # the caller's code runs outside of it
                        passes = [event for _, event in next(calls)]
                    yield augment.combine_passes(passes) if settings.augment > 1 else passes[0]
                outcome = list(map(decoding.take_result, range(len(rows))))
            except gpu.memory_errors(ScoresError) as error:
                outcome = error.with_traceback(None)  # a traceback would keep tensors
            rounds.add([outcome])
        yield rounds.results()[0]

    @overload
    def score(self, query: str, answer: str) -> ScoredAnswer: ...  # type: ignore[overload-overlap]

    @overload
    def score(self, query: Sequence[str], answer: Sequence[str]) -> list[ScoredAnswer]: ...

    def score(self, query: str | Sequence[str], answer: str | Sequence[str]) -> ScoredAnswer | list[ScoredAnswer]:
        """Return how probable the model finds an answer, token by token, from one forward pass; of lists, each pair.

        The answer is scored as given, as canonical SMILES and in the atom order of the query, in which the models
        write; the most probable counts. Raises ValueError if a query or an answer cannot be read.
        """
        scored = score_pairs(self, query, answer)
        return scored[0] if isinstance(query, str) else scored

    def generate_ids(
        self, sources: Sequence[tuple[int, ...]], settings: DecodeSettings
    ) -> list[list[FinishedSequence]]:
        """Decode token ids to token ids, best first, without SMILES processing."""
        order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
        rows = [[PreparedQuery("", sources[index])] for index in order]
        answers: dict[int, list[FinishedSequence]] = {}
        with self.runtime_config.torch_scope():
            outcomes = self._batch_decoder.generate(rows, [settings], size=settings.batch_size)
        for index, outcome in zip(order, outcomes, strict=True):
            if isinstance(outcome, Exception):
                raise outcome
            answers[index] = outcome[0].answers
        return [answers[index] for index in range(len(sources))]

    def prepare(self, text: str) -> PreparedQuery:
        """Parse, canonicalise and tokenise one query; an invalid one gets a `refusal`."""
        return self._reader.read(text)

    def decode(
        self,
        ready: Sequence[PreparedQuery],
        settings: DecodeSettings,
        *,
        before_pass: Callable[[], None] = lambda: None,
        finished: Callable[[], None] = lambda: None,
    ) -> list[DecodeResult]:
        """Predict for valid queries from `prepare`, at most `settings.batch_size` at a time, in the same order.

        With `distinct`, queries with too few predictions are searched again, wider. `before_pass` is called before
        every forward pass, and its exceptions end the run; `finished` is called when a query is finished.
        """
        rounds = Rounds(ready, self._reader, self._judge(settings), finished)
        while not rounds.is_over:
            with self.runtime_config.torch_scope():
                outcomes = self._batch_decoder.generate(
                    rounds.groups,
                    rounds.searches,
                    self._judge(settings).ends_search,
                    size=settings.batch_size * settings.augment,
                    before_pass=before_pass,
                    finished=finished if rounds.is_last else lambda: None,
                )
            rounds.add(outcomes)
        return rounds.results()

    def decode_continuously(
        self,
        more: Callable[[int], Sequence[Row]],
        ready: Callable[[Row], PreparedQuery],
        settings: DecodeSettings,
        *,
        before_pass: Callable[[], None] = lambda: None,
    ) -> Iterator[tuple[Row, DecodeResult]]:
        """Predict for a stream of queries with continuous batching; yields each result when it is finished.

        `more` takes a number and returns up to that many waiting queries; decoding ends when it returns none and no
        query is unfinished. `ready` returns the prepared, valid query. `before_pass` is called before every forward
        pass, and its exceptions end the run. A query whose scores are undefined fails. Raises ValueError for settings
        with `augment`.
        """
        if settings.augment > 1:
            raise ValueError("continuous batching does not go with augment; use predict or decode")
        (searches,), judge = search_rounds(settings), self._judge(settings)
        # Queries may come one at a time, which drafts speed up even where they do not pay in the first batch.
        begin = partial(self._batch_decoder.start, searches=searches, enough=judge.ends_search, queries=1)
        running = continuous_batching(more, ready, begin, size=settings.batch_size, before_pass=before_pass)
        while True:
            with self.runtime_config.torch_scope():  # the caller's code runs outside of it
                item = next(running, None)
            if item is None:
                return
            row, decoded = item
            if isinstance(decoded, ScoresError):
                yield row, failed_result(ready(row), decoded)
                continue
            results = self._writer.write_searches(ready(row), [ready(row)], [decoded], searches)
            yield row, judge.select(results, ready(row))

    @cached_property
    def _reader(self) -> QueryReader:
        return QueryReader(self.task, self.tokenizer, self.longest_query, self.caveats, self.familiarity)

    @property
    def _batch_decoder(self) -> BatchDecoder:
        loaded, tokenizer = self.resources, self.tokenizer
        vocabulary = tokenizer.smiles_tokens, loaded.calibration, loaded.learned_drafter
        inputs = DrafterInputs(loaded.cost_curve, *vocabulary, tokenizer.prompt_length, tokenizer.merges)
        sizes = self.config.vocab_size, self.config.max_positions
        functions = self.build_drafter, tokenizer.encode_answer
        return BatchDecoder(
            self.backend, *sizes, inputs, loaded.histories, *functions, threads=self.threads, gaps=loaded.gaps
        )

    @cached_property
    def _writer(self) -> ResultWriter:
        where = {name: getattr(self, name) for name in ("task", "device", "dtype", "runtime")}
        exactness = self.runtime_config.exactness
        return ResultWriter({"model": self.name, **where}, exactness, self.tokenizer, self.confidence)

    def _judge(self, settings: DecodeSettings) -> Judge:
        return Judge(self.task, self._writer, settings)

    def cost(self) -> CostCurve:
        """Return the cost curve of a forward pass; measured on first use and cached on disk."""
        return self.resources.cost_curve()


def _load_again(name: str | Path, options: LoadingOptions) -> Engine:
    return Engine.load(name, **options)


__all__ = ["Engine", "PreparedQuery", "installed_models", "model_folder", "models_dir", "usable_drafters"]
