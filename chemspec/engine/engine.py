"""Load a model once, then predict, stream or compare: the facade of the program."""

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
from chemspec.decode.compiled.build import library as loop_library
from chemspec.decode.continuous import DIVIDED, divides, keep_full
from chemspec.decode.decoding import Decoded, Decoding
from chemspec.decode.planner import Planner
from chemspec.decode.protocol import Decoder, RuledDecoder
from chemspec.draft.base import Drafter, SessionReader, needs_of
from chemspec.draft.registry import DrafterCalibration, DrafterInputs, NoDrafts, build
from chemspec.engine import augment, confidence, distinct, familiarity
from chemspec.engine.drafter_resources import DrafterResources
from chemspec.engine.molecules import Job, MoleculePool, Molecules
from chemspec.engine.registry import installed, model_folder, models_dir, usable
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
Searches = Sequence[DecodeSettings]  # of one query, that differ in their width; each goes on from the one before
Join = Callable[[Sequence["PreparedQuery"]], Sequence[int]]  # of queries to a session; returns their numbers

MAX_CHARS = 1000
MAX_TOKENS = 400  # of a query; models are trained on at most 200, and time grows with the square
ROUNDED = "computed in half precision: exact up to rounding, so drafts and batches may change an answer"
GROUP = 16  # batches that `predict` hands to `decode` at once: what it knows at its end only is written up then
OUT_OF_MEMORY = "memory does not suffice for this query; ask for fewer answers, or on a GPU use the CPU"


@dataclass(frozen=True)
class PreparedQuery:
    """A query that can be decoded, or the result that says why not.

    Attributes:
        text: as it was typed.
        ids, tokens: what the model reads.
        notes: what to tell with the answer.
        lead: marks of the model's own that it was typed with, such as the class of a reaction.
        smiles: the canonical SMILES.
        refusal: the result, if it cannot be decoded.
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
    """A model on a device, ready to answer; immutable, and safe to share between threads.

    Attributes:
        name: the model's.
        task: "forward" (reactants to product), "retro" (product to reactants) or another of `chemspec.tasks`.
        tokenizer: SMILES to token ids and back.
        config: the model's dimensions.
        caveats: what one has to know to read its answers; they go into every result's notes.
        digest: of the weights.
        folder: where they lie.
        backend: what computes them.
        runtime_config: device, precision, runtime and CPU threads.
        resources: what its drafters need beside it, made at first use.
        confidence: from a probability to the chance of being right; None where nobody has measured it.
        confidence_problem: why it cannot be used although there is a file.
        familiarity: what its training data were like; None where nobody has looked.
        build_drafter: makes the drafter of a run.
        molecules: reads queries and writes up answers, in this process or in others.
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
    build_drafter: Callable[[DecodeSettings, DrafterInputs], Drafter] = build
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
            dtype: "auto" (fp32), "fp32", "int8" (linear layers in whole numbers, see `model.int8`: faster on a CPU, and
                the same bits everywhere), "bf16", "fp16".
            threads: CPU threads of the model; 0 takes all cores.
            runtime: "auto" (for fp32 on a CPU the compiled kernel, or ONNX Runtime where it cannot be compiled; else
                torch; on a GPU recorded graphs, for int8 "triton"), "native", "onnx", "torch", "graphs" (torch with
                recorded CUDA graphs), or "triton" (kernels whose scores have the same bits in any company).
            task: of another program's model, "forward" or "retro"; our own folders say what they are for.
            template: what another program's model reads, see `importers.base.LoadOptions`.
            vocab: the file of its vocabulary, where that lies apart.
            workers: processes that read queries and write up answers while others are decoded; 0: this one does it.

        Raises:
            checkpoint.CheckpointError: if the folder is no usable model.
            ValueError: for a device, precision or runtime that cannot be had.
        """
        folder = model_folder(name)
        wanted = RuntimeConfig.find(device=device, dtype=dtype, runtime=runtime, threads=threads)
        given_name = "" if Path(name).exists() else str(name)
        loaded = importers.load(folder, LoadOptions(task, template, given_name, Path(vocab) if vocab else None))
        backend, runtime = loaded.backend(wanted)
        config = replace(wanted, runtime=runtime)
        loop_library()  # built or read from disk now, not within the first answer
        measured, problem = _confidence(loaded)
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
            familiarity=familiarity.load(loaded.folder, loaded.digest) if loaded.folder.is_dir() else None,
            molecules=MoleculePool(workers) if workers else Molecules(),
        )

    @property
    def device(self) -> str:
        """What the model computes on: "cpu", "cuda", ..."""
        return self.runtime_config.device

    @property
    def dtype(self) -> str:
        """Its precision: "fp32", "bf16", ..."""
        return self.runtime_config.dtype

    @property
    def runtime(self) -> str:
        """What does the arithmetic: "native", "onnx", "torch" or "graphs"."""
        return self.runtime_config.runtime

    @property
    def threads(self) -> int:
        """CPU threads of the model."""
        return self.runtime_config.threads

    @property
    def longest_query(self) -> int:
        """Most tokens of a query; two positions are for bos and eos, where a model wants them in the source."""
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
        """Answer queries: `engine.predict("CCO")`, `engine.predict(["CCO", "CCN"], n=10, decoder="beam")`.

        A query that cannot be answered gets a result with a status and a message, and does not harm the others. With
        `settings.augment` every query takes so many rows of its batch, and one result merges their answers.

        Args:
            queries: SMILES or reaction SMILES, one or several.
            settings: how to answer; the defaults of `DecodeSettings` without.
            progress: called with the number of queries done so far.
            overrides: fields of `DecodeSettings` that differ from `settings`.

        Returns:
            One result for a string, a list in the order of the queries for a sequence.

        Raises:
            ValueError: for settings out of range, or a drafter that the model lacks.
            TypeError: for queries that are no texts.
        """
        settings = _settings(settings, overrides)
        if isinstance(queries, str):
            return self.predict([queries], settings, progress=progress)[0]
        check_texts(queries)
        self.expect(queries)
        prepared = [self.prepare(query) for query in queries]
        results: dict[int, DecodeResult] = {i: query.refusal for i, query in enumerate(prepared) if query.refusal}
        progress(len(results))
        # Like lengths together: where queries cannot join a batch, it takes as many passes as its longest answer.
        order = sorted((i for i in range(len(queries)) if i not in results), key=lambda i: len(prepared[i].ids))
        size = GROUP * settings.batch_size
        groups = [order[start : start + size] for start in range(0, len(order), size)]
        done = count(len(results) + 1)

        def decode(group: list[int]) -> list[DecodeResult]:
            return self.decode([prepared[i] for i in group], settings, finished=lambda: progress(next(done)))

        for group, found in zip(groups, self.molecules.each(decode, groups), strict=True):
            results.update(zip(group, found, strict=True))
        return [results[i] for i in range(len(queries))]

    def expect(self, queries: Sequence[str]) -> None:
        """Let queries be read that `predict` will be asked next, if there are other processes for that."""
        self.molecules.expect(self._reading(self.tokenizer.lead(query)[1]) for query in queries)

    def _reading(self, text: str) -> Job:
        return "read", text, self.task, MAX_CHARS

    def stream(
        self, query: str, settings: DecodeSettings | None = None, **overrides: Any
    ) -> Iterator[Pass | DecodeResult]:
        """Answer one query; yields every pass when it is done, and the result at the end.

        Of a query in several spellings a pass is one model call with all of them, as in the result's trace.

        Args:
            query: SMILES or reaction SMILES.
            settings: how to answer.
            overrides: as for `predict`.
        """
        settings = _settings(settings, overrides)
        ready = self.prepare(query)
        if ready.refusal:
            yield ready.refusal
            return
        searched = []
        for searches in self._rounds(settings):
            for event in self._stream(ready, searches):
                if isinstance(event, DecodeResult):
                    searched.append(event)
                else:
                    yield event
            if self._has_enough(searched[-1], ready, settings):
                break
        yield self._listed(searched, ready, settings)

    def _stream(self, ready: PreparedQuery, searches: Searches) -> Iterator[Pass | DecodeResult]:
        """Searches of `stream` that go on from each other's scores: all passes, then the result of each."""
        settings = searches[0]
        rows = self._spellings(ready, settings)
        try:
            with self.runtime_config.torch_scope():
                decoding, _ = self._begin(rows, searches)
            calls = iter(decoding)
            while True:
                with self.runtime_config.torch_scope():  # the caller's code between two passes is none of ours
                    events = next(calls, None)
                if events is None:
                    break
                passes = [event for _, event in events]
                yield augment.together(passes, 1) if settings.augment > 1 else passes[0]
        except gpu.memory_errors(ScoresError) as error:
            yield _failed(ready, error)
            return
        yield from self._results(ready, rows, [decoding.take(number) for number in range(len(rows))], searches)

    def write(self, sources: Sequence[tuple[int, ...]], settings: DecodeSettings) -> list[list[FinishedSequence]]:
        """Answer token sequences with token sequences, best first; no text is read, checked or made."""
        order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
        answers: dict[int, list[FinishedSequence]] = {}
        for start in range(0, len(order), settings.batch_size):
            batch = order[start : start + settings.batch_size]
            with self.runtime_config.torch_scope():
                decoding, _ = self._begin([PreparedQuery("", sources[index]) for index in batch], [settings])
                answers.update(zip(batch, decoding.run_to_end(), strict=True))
        return [answers[index] for index in range(len(sources))]

    def compare(self, query: str, settings: Sequence[DecodeSettings]) -> list[DecodeResult]:
        """Answer one query under each of several settings, one after the other."""
        return [self.predict(query, how) for how in settings]

    def prepare(self, text: str) -> PreparedQuery:
        """Clean, canonicalise and tokenise one query, or say what is wrong with it."""
        text = text.encode("utf-8", "replace").decode()  # half a surrogate pair is no text that could be told back
        lead, bare = self.tokenizer.lead(text)
        query = self.molecules.get(*self._reading(bare))
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
        tokens = tuple(self.tokenizer.pieces(ids))
        likeness = self.familiarity.likeness(query.smiles) if self.familiarity else None
        unlike = self.familiarity.notes(tokens, likeness) if self.familiarity else ()
        return PreparedQuery(text, ids, tokens, (*query.notes, *self.caveats, *unlike), lead, query.smiles)

    def _answer(
        self,
        ready: Sequence[PreparedQuery],
        settings: DecodeSettings,
        before_pass: Callable[[], None],
        finished: Callable[[], None],
    ) -> list[DecodeResult]:
        """Answer queries; where different answers are wanted, those that lack some in the next round again."""
        searched: list[list[DecodeResult]] = [[] for _ in ready]
        lacking, rounds = list(range(len(ready))), self._rounds(settings)
        for searches in rounds:
            last = searches is rounds[-1]
            done = finished if last else lambda: None
            found = self._decode([ready[i] for i in lacking], searches, before_pass, done)
            for i, results in zip(lacking, found, strict=True):
                searched[i] += results
            if last:
                break
            asked, lacking = lacking, [i for i in lacking if not self._has_enough(searched[i][-1], ready[i], settings)]
            for _ in range(len(asked) - len(lacking)):
                finished()
        return [self._listed(results, query, settings) for results, query in zip(searched, ready, strict=True)]

    def _rounds(self, settings: DecodeSettings) -> list[Searches]:
        """Return the searches of a query, one after the other until one has enough answers.

        Those of one round go on from each other's scores and KV cache. Each is a round of its own where that takes
        several rows to decide (`augment`), or other processes, for which decoding would have to wait.
        """
        widths = distinct.widths(settings) if settings.distinct else (settings.n,)
        searches = [replace(settings, n=width) for width in widths]
        apart = settings.augment > 1 or isinstance(self.molecules, MoleculePool)
        return [[search] for search in searches] if apart else [searches]

    def _has_enough(self, result: DecodeResult, ready: PreparedQuery, settings: DecodeSettings) -> bool:
        """Whether no wider search is needed after this one."""
        return not settings.distinct or distinct.enough(result, ready.smiles, self.task, settings.n, settings.guide)

    def _listed(self, searched: list[DecodeResult], ready: PreparedQuery, settings: DecodeSettings) -> DecodeResult:
        """Return the result of a query, by those of its searches."""
        if not settings.distinct:
            return searched[-1]
        return distinct.select(searched, ready.smiles, self.task, settings.n, settings.guide)

    def decode(
        self,
        ready: Sequence[PreparedQuery],
        settings: DecodeSettings,
        *,
        before_pass: Callable[[], None] = lambda: None,
        finished: Callable[[], None] = lambda: None,
    ) -> list[DecodeResult]:
        """Answer queries, at most `settings.batch_size` at a time; the results are in their order.

        Args:
            ready: what `prepare` returned, none of them refused.
            settings: how to answer.
            before_pass: called before every run of the model; what it raises ends all.
            finished: called when one of the queries is done.
        """
        with self.runtime_config.torch_scope():
            return self._answer(ready, settings, before_pass, finished)

    def keep_decoding(
        self,
        more: Callable[[int], Sequence[Row]],
        ready: Callable[[Row], PreparedQuery],
        settings: DecodeSettings,
        *,
        before_pass: Callable[[], None] = lambda: None,
    ) -> Iterator[tuple[Row, DecodeResult]]:
        """Answer queries that keep coming, `settings.batch_size` at a time, each as soon as it is done.

        Args:
            more: returns at most so many that wait; where it returns none while none is under way, that is the end.
            ready: what `prepare` returned of one, no refusal.
            settings: how to answer, in one search and one spelling: neither `distinct` nor `augment`.
            before_pass: called before every run of the model; what it raises ends all.

        Raises:
            ScoresError: over a query that the model has no scores for; what was under way is lost.
        """

        def begin(rows: Sequence[Row]) -> tuple[Decoding, Callable[[Sequence[Row]], Sequence[int]]]:
            decoding, join = self._begin(list(map(ready, rows)), [settings])
            return decoding, lambda others: join(list(map(ready, others)))

        running = keep_full(
            more,
            begin,
            size=settings.batch_size,
            parts=self._parts(settings.batch_size, settings),
            before_pass=before_pass,
        )
        while True:
            with self.runtime_config.torch_scope():  # the caller's code between two results is none of ours
                found = next(running, None)
            if found is None:
                return
            row, decoded = found
            yield row, self._written([ready(row)], [decoded], settings)[0]

    def _decode(
        self,
        ready: Sequence[PreparedQuery],
        searches: Searches,
        before_pass: Callable[[], None],
        finished: Callable[[], None],
    ) -> list[list[DecodeResult]]:
        """Decode queries, fewer at a time where memory does not suffice; returns the results of each one's searches."""
        settings = searches[0]
        spelled = [self._spellings(query, settings) for query in ready]
        rows = [row for spellings in spelled for row in spellings]
        asked_by = [number for number, spellings in enumerate(spelled) for _ in spellings]
        missing = [len(spellings) for spellings in spelled]
        decoded: dict[int, Decoded] = {}
        failed: dict[int, DecodeResult] = {}
        size = most = settings.batch_size * settings.augment
        while left := [row for row in range(len(rows)) if row not in decoded and asked_by[row] not in failed]:
            try:
                for row, found in self._run(rows, left, searches, size, before_pass):
                    decoded[row] = found
                    self._expect(found)
                    missing[asked_by[row]] -= 1
                    if not missing[asked_by[row]]:
                        finished()
                break
            except gpu.memory_errors(ScoresError) as error:
                if size == 1:  # one after the other: the first that is not done is to blame
                    to_blame = asked_by[next(row for row in left if row not in decoded)]
                    failed[to_blame] = _failed(ready[to_blame], error)
                    finished()
                    size = most
                else:
                    size = max(1, min(size, len(left)) // 2)
            gpu.empty_cache()  # after the exception, which keeps the tensors alive, is gone
        results = []
        numbers = iter(range(len(rows)))
        for number, spellings in enumerate(spelled):
            own = list(islice(numbers, len(spellings)))
            if number in failed:
                results.append([failed[number]])
            else:
                results.append(self._results(ready[number], spellings, [decoded[row] for row in own], searches))
        return results

    def _results(
        self, ready: PreparedQuery, rows: Sequence[PreparedQuery], decoded: Sequence[Decoded], searches: Searches
    ) -> list[DecodeResult]:
        """Return the results of those searches of a query that were made, by what became of its rows."""
        made = zip(*((*row.earlier, row) for row in decoded), strict=True)
        return [
            self._merged([ready], [self._written(rows, search, settings)], settings)[0]
            for search, settings in zip(made, searches, strict=False)
        ]

    def _run(
        self,
        rows: Sequence[PreparedQuery],
        numbers: Sequence[int],
        searches: Searches,
        size: int,
        before_pass: Callable[[], None],
    ) -> Iterator[tuple[int, Decoded]]:
        """Decode the rows of these numbers, so many at a time; returns each when it is done."""
        waiting, size = iter(numbers), min(size, len(numbers))

        def begin(chosen: Sequence[int]) -> tuple[Decoding, Callable[[Sequence[int]], Sequence[int]]]:
            decoding, join = self._begin([rows[number] for number in chosen], searches)
            return decoding, lambda others: join([rows[number] for number in others])

        return keep_full(
            lambda room: list(islice(waiting, room)),
            begin,
            size=size,
            parts=self._parts(size, searches[0]),
            before_pass=before_pass,
        )

    def _spellings(self, ready: PreparedQuery, settings: DecodeSettings) -> list[PreparedQuery]:
        """The rows of a batch that a query takes: itself, and other spellings of it that the model can read."""
        if settings.augment == 1:
            return [ready]
        smiles = ready.smiles
        rng = Random(f"{settings.seed}/{smiles}")  # what else is asked changes nothing
        rows = [replace(ready, text=smiles, notes=())]
        for text in root_align.smiles_variants_of_query(smiles, settings.augment, rng)[1:]:
            try:
                ids = self.tokenizer.encode(ready.lead + text)
            except TokenError:  # more ring labels, say, than the vocabulary has
                continue
            if len(ids) <= self.longest_query:
                rows.append(PreparedQuery(text, ids, tuple(self.tokenizer.pieces(ids))))
        return rows

    def _merged(
        self, ready: Sequence[PreparedQuery], spelled: Sequence[Sequence[DecodeResult]], settings: DecodeSettings
    ) -> list[DecodeResult]:
        """Of every query one result, made of the results of its spellings."""
        if settings.augment == 1:
            return [results[0] for results in spelled]
        called = augment.calls([[one.trace for one in results] for results in spelled])
        return [
            augment.merge(
                item.text,
                results,
                asked=settings.augment,
                n=settings.n,
                trace=self._trace(item, settings, passes, max(one.trace.seconds for one in results)),
                notes=item.notes,
            )
            for item, results, passes in zip(ready, spelled, called, strict=True)
        ]

    def _parts(self, size: int, settings: DecodeSettings) -> int:
        """In how many parts so many rows are decoded: on a device large batches are halved, to take turns."""
        if size < DIVIDED:
            return 1
        drafter = self._drafter(settings)
        return 2 if divides(size, self.backend, decoders.build((), settings, drafter), drafter) else 1

    def _drafter(self, settings: DecodeSettings) -> Drafter:
        """Make the drafter of a run; may measure the machine first."""
        resources = self.resources
        inputs = DrafterInputs(
            resources.cost,
            self.tokenizer.alphabet,
            resources.knowledge,
            resources.companion,
            self.tokenizer.prompt_length,
        )
        return self.build_drafter(settings, inputs)

    def _begin(self, rows: Sequence[PreparedQuery], searches: Searches) -> tuple[Decoding, Join]:
        """Open a session and start its decoders; the clock runs from here on. Also returns what lets others join."""
        settings, resources = searches[0], self.resources
        width = {"greedy": 1, "beam": settings.n}.get(settings.decoder, 0) if settings.drafting == "planned" else 0
        undrafted = (settings.drafts_by, width) in resources.undrafted
        drafter = NoDrafts() if undrafted else self._drafter(settings)
        in_loop = decoders.loop_drafter(settings, drafter)
        planner = self._planner(settings, in_loop)  # may time the model once, which is no part of an answer
        if width and planner is not None and not planner.may_gain(width):
            resources.undrafted.add((settings.drafts_by, width))
            in_loop, planner = NoDrafts(), None
        began = time.perf_counter()
        # A model cannot write more than it has positions for.
        if settings.max_len >= self.config.max_positions:
            searches = [replace(search, max_len=self.config.max_positions - 1) for search in searches]
            settings = searches[0]
        sources = [row.ids for row in rows]
        needs = needs_of(drafter)
        session = Session(
            resources.watching() if any(needs) else self.backend,
            sources,
            top_k=max(decoders.top_k(search, self.config.vocab_size) for search in searches),
            heads=needs.heads,
            states=needs.hidden_states,
        )
        if hasattr(drafter, "watch") and isinstance(drafter, SessionReader):  # see `needs_of`
            drafter.watch(session)

        decoding = Decoding(
            sources,
            [self._decoder(row, searches, drafter) for row in rows],
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
            return decoding.join([row.ids for row in rows], [self._decoder(row, searches, drafter) for row in rows])

        return decoding, join

    def _decoder(self, row: PreparedQuery, searches: Searches, drafter: Drafter, number: int = 0) -> Decoder:
        """Make what decodes a query in the search of this number, and, while answers lack, in those after it."""
        decoder = decoders.build(row.ids, searches[number], drafter)
        if number + 1 == len(searches):
            return decoder

        def next_search(answers: list[FinishedSequence]) -> Decoder | None:
            result = self._result(row, answers, self._trace(row, searches[number], (), 0.0))
            if self._has_enough(result, row, searches[0]):
                return None
            return self._decoder(row, searches, drafter, number + 1)

        return RuledDecoder(decoder, getattr(decoder, "rules", None), next_search)

    def _planner(self, settings: DecodeSettings, drafter: Drafter) -> Planner | None:
        """Make the planner of a run, if drafts are planned; may measure the machine first."""
        fixed = settings.drafting == "fixed" and settings.drafts_by != "auto"
        if fixed or isinstance(drafter, NoDrafts) or not settings.node_budget or decoders.is_draft_aware(settings):
            return None
        return Planner.of(drafter, self.resources.cost())

    def _expect(self, decoded: Decoded) -> None:
        """Let answers be made canonical that will be written up next, if there are other processes for that."""
        ended = (answer for answer in decoded.answers if answer.ended == "eos")
        self.molecules.expect(("canonical", self.tokenizer.decode(answer.tokens)) for answer in ended)

    def _written(
        self, rows: Sequence[PreparedQuery], decoded: Sequence[Decoded], settings: DecodeSettings
    ) -> list[DecodeResult]:
        """Write up what became of rows."""
        # What a row's trace says: it knows of no other.
        alone = replace(settings, augment=1) if settings.augment > 1 else settings
        return [
            self._result(row, found.answers, self._trace(row, alone, found.passes, found.seconds, found.continued))
            for row, found in zip(rows, decoded, strict=True)
        ]

    def cost(self) -> CostCurve:
        """What a pass costs here, by its number of nodes; measured at first use, then kept on disk."""
        return self.resources.cost()

    def fastest_batch(self, settings: DecodeSettings) -> int:
        """Return the `batch_size` with which a query takes least here; measured at first use, then kept on disk."""
        rows = (1 if settings.decoder == "greedy" else settings.n) * settings.augment
        return self.resources.fastest_batch(rows)

    def knowledge(self) -> DrafterCalibration:
        """What the model's drafters have learned; read at first use. See `DrafterResources.knowledge`."""
        return self.resources.knowledge()

    def companion(self, kind: str) -> Any:
        """The learned drafter of a kind; loaded at first use. See `DrafterResources.companion`."""
        return self.resources.companion(kind)

    def _trace(
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
                **_plain(settings),
                "drafter": settings.drafts_by,
                "exact": settings.exact,
                "exactness": settings.exactness(self.runtime_config.exactness),
            },
            tuple(passes),
            seconds,
            self.tokenizer.tokens if settings.record and settings.augment == 1 else (),
            continued,
        )

    def _result(self, ready: PreparedQuery, answers: Sequence[FinishedSequence], trace: Trace) -> DecodeResult:
        hypotheses = tuple(self._hypothesis(answer) for answer in answers)
        if self.confidence is not None:
            hypotheses = self.confidence.assess(hypotheses)
        return DecodeResult(ready.text, "ok", "", hypotheses, trace, ready.notes, smiles=ready.smiles)

    def _hypothesis(self, answer: FinishedSequence) -> Hypothesis:
        smiles = self.tokenizer.decode(answer.tokens)
        canonical = self.molecules.get("canonical", smiles) if answer.ended == "eos" else None
        return Hypothesis(
            smiles=smiles,
            canonical=canonical or "",
            valid=canonical is not None,
            tokens=tuple(self.tokenizer.pieces(answer.tokens)),
            token_log_probs=answer.log_probs,
            log_prob=answer.log_prob,
            probability=exp(answer.log_prob),
            ended=answer.ended,
        )


def check_texts(queries: object) -> None:
    """Refuse what is no sequence of texts before any of it is answered."""
    wanted = "give a SMILES, or a sequence of them"
    if not isinstance(queries, Sized) or not isinstance(queries, Iterable) or isinstance(queries, bytes):
        raise TypeError(f"{queries!r:.50} cannot be predicted; {wanted}")
    for place, query in enumerate(queries):
        if not isinstance(query, str):
            raise TypeError(f"query {place} is {query!r:.50}, no text; {wanted}")


def _failed(ready: PreparedQuery, error: Exception) -> DecodeResult:
    message = str(error) if isinstance(error, ScoresError) else OUT_OF_MEMORY
    return DecodeResult(ready.text, "failed", message, smiles=ready.smiles)


def _settings(settings: DecodeSettings | None, overrides: dict[str, Any]) -> DecodeSettings:
    settings = DecodeSettings() if settings is None else settings
    return replace(settings, **overrides) if overrides else settings


@lru_cache(maxsize=64)  # of plain values, so that a trace may share them
def _plain(settings: DecodeSettings) -> dict[str, Any]:
    return asdict(settings)


def _confidence(loaded: LoadedModel) -> tuple[confidence.Confidence | None, str]:
    """What turns probabilities into chances of being right, or why there is none; a model answers without it."""
    if not loaded.folder.is_dir():  # a checkpoint of another program
        return None, ""
    try:
        return confidence.load(loaded.folder, loaded.digest), ""
    except confidence.ConfidenceError as error:
        return None, str(error)


__all__ = ["Engine", "PreparedQuery", "installed", "model_folder", "models_dir", "usable"]
