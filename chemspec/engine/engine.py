"""The facade: load a model once, then predict, stream or compare. Immutable after loading, safe to share between
threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from functools import lru_cache
from itertools import islice
from math import exp
from pathlib import Path
from random import Random
from typing import Any

import torch

from chemspec import chem
from chemspec.chem import root_align
from chemspec.decode import registry as decoders
from chemspec.decode.loop import Event, run_loop
from chemspec.draft.base import Drafter, SessionReader, needs_of
from chemspec.draft.registry import DrafterCalibration, DrafterInputs, NoDrafts, build
from chemspec.engine import augment, confidence
from chemspec.engine.drafter_resources import DrafterResources
from chemspec.engine.registry import installed, model_folder, models_dir, usable
from chemspec.importers import registry as importers
from chemspec.importers.base import LoadedModel, LoadOptions, TextTokenizer
from chemspec.model.cost import CostCurve
from chemspec.model.runners.hf_runner import ModelDims
from chemspec.model.runtime import RuntimeConfig
from chemspec.model.session import Backend, Session
from chemspec.settings import DecodeSettings, ModelConfig, Task
from chemspec.tokenizer import TokenError
from chemspec.types import DecodeResult, FinishedSequence, Hypothesis, Pass, Trace

MAX_CHARS = 1000
MAX_TOKENS = 400  # of a query; models are trained on at most 200, and time grows with the square
OUT_OF_MEMORY = "the GPU's memory does not suffice for this query; ask for fewer answers or use the CPU"


@dataclass(frozen=True)
class PreparedQuery:
    """A query that can be decoded, or the result that says why not."""

    text: str
    ids: tuple[int, ...] = ()
    tokens: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refusal: DecodeResult | None = None


class Engine:
    """A model on a device, ready to answer."""

    def __init__(self, loaded: LoadedModel, backend: Backend, place: RuntimeConfig) -> None:
        self.name = loaded.name
        self.task: Task = loaded.task
        self.tokenizer: TextTokenizer = loaded.tokenizer
        self.config: ModelConfig | ModelDims = loaded.config
        self.caveats = loaded.notes
        self.digest = loaded.digest
        self.folder = loaded.folder
        self.backend = backend
        self.device, self.dtype, self.runtime, self.threads = astuple(place)
        self.kit = DrafterResources(loaded, backend, place)
        self.build = build  # makes the drafter of a run
        # Two places are for bos and eos, where a model wants them in the source.
        self.longest_query = min(MAX_TOKENS, self.config.max_positions - 2)
        self.confidence, self.confidence_problem = _confidence(loaded)

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
    ) -> Engine:
        """Load a model folder of any format that `importers.registry` knows.

        Args:
            name: a path, or the name of an installed model ("forward", "retro").
            device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", ...
            dtype: "auto" (fp32: models of this size are bound by latency, not by arithmetic), "fp32", "bf16", "fp16".
            threads: CPU threads of the model; 0 takes all cores.
            runtime: "auto" (for fp32 on a CPU the compiled kernel, or ONNX Runtime where it cannot be compiled; else
                torch), "native", "onnx", "torch", or "graphs" (torch with recorded CUDA graphs).
            task, template: of a Hugging Face model, see `importers.hf.load`; our own folders say what they are for.

        Raises:
            checkpoint.CheckpointError: if the folder is no usable model.
            ValueError: for a device, precision or runtime that cannot be had.
        """
        folder = model_folder(name)
        place = RuntimeConfig.find(device=device, dtype=dtype, runtime=runtime, threads=threads)
        called = "" if Path(name).is_dir() else str(name)
        loaded = importers.load(folder, LoadOptions(task, template, called))
        backend, runtime = loaded.backend(place)
        return cls(loaded, backend, replace(place, runtime=runtime))

    def predict(
        self,
        queries: Sequence[str],
        settings: DecodeSettings = DecodeSettings(),
        *,
        progress: Callable[[int], None] = lambda _: None,
    ) -> list[DecodeResult]:
        """Answer queries, in their order; a bad one gets a status and a message and does not harm the others.

        With `settings.augment` every query takes so many rows of its batch, and one result merges their answers.

        Args:
            progress: called with the number of queries done so far.
        """
        prepared = [self.prepare(query) for query in queries]
        results: dict[int, DecodeResult] = {i: item.refusal for i, item in enumerate(prepared) if item.refusal}
        progress(len(results))
        # Like lengths together: a batch takes as many passes as its longest answer.
        order = sorted((i for i, item in enumerate(prepared) if not item.refusal), key=lambda i: len(prepared[i].ids))
        for start in range(0, len(order), settings.batch_size):
            chosen = order[start : start + settings.batch_size]
            results.update(zip(chosen, self._decode([prepared[i] for i in chosen], settings), strict=True))
            progress(len(results))
        return [results[i] for i in range(len(queries))]

    def stream(self, query: str, settings: DecodeSettings = DecodeSettings()) -> Iterator[Pass | DecodeResult]:
        """Answer one query; yields every pass when it is done, and the result at the end.

        Of a query in several spellings a pass is one model call with all of them, as in the result's trace.
        """
        ready = self.prepare(query)
        if ready.refusal:
            yield ready.refusal
            return
        rows = self._spellings(ready, settings)
        run = self._run(rows, settings)
        while True:
            try:
                events = next(run)
            except StopIteration as stop:
                yield self._merged([ready], [stop.value], settings)[0]
                return
            except torch.cuda.OutOfMemoryError:
                yield DecodeResult(query, "failed", OUT_OF_MEMORY)
                return
            passes = [event for _, event in events]
            yield augment.together(passes, 1) if settings.augment > 1 else passes[0]

    def write(self, sources: Sequence[tuple[int, ...]], settings: DecodeSettings) -> list[list[FinishedSequence]]:
        """Answers of token sequences as token sequences, best first; no text is read, checked or made."""
        order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
        found: dict[int, list[FinishedSequence]] = {}
        for start in range(0, len(order), settings.batch_size):
            chosen = order[start : start + settings.batch_size]
            ready = [PreparedQuery("", sources[index]) for index in chosen]
            run = self._drive(ready, settings, self.build(settings, self._means()))
            while True:
                try:
                    next(run)
                except StopIteration as stop:
                    found.update(zip(chosen, stop.value, strict=True))
                    break
        return [found[index] for index in range(len(sources))]

    def compare(self, query: str, settings: Sequence[DecodeSettings]) -> list[DecodeResult]:
        """Answer one query under each of several settings, one after the other."""
        return [self.predict([query], item)[0] for item in settings]

    def prepare(self, text: str) -> PreparedQuery:
        """Clean, canonicalise and tokenise one query, or say what is wrong with it."""
        query = chem.read_query(text, self.task, max_chars=MAX_CHARS)
        if isinstance(query, chem.Fault):
            status = "too_long" if query.kind == "length" else "invalid"
            return PreparedQuery(text, refusal=DecodeResult(text, status, str(query)))  # type: ignore[arg-type]
        try:
            ids = self.tokenizer.encode(query.smiles)
        except TokenError as error:
            return PreparedQuery(
                text, refusal=DecodeResult(text, "invalid", f"{error} in {query.smiles}", notes=query.notes)
            )
        if len(ids) > self.longest_query:
            message = f"{len(ids)} tokens; queries may have at most {self.longest_query}"
            return PreparedQuery(text, refusal=DecodeResult(text, "too_long", message, notes=query.notes))
        notes = (*query.notes, *self.caveats)
        return PreparedQuery(text, ids, tuple(self.tokenizer.pieces(ids)), notes)

    def _decode(self, ready: Sequence[PreparedQuery], settings: DecodeSettings) -> list[DecodeResult]:
        """Decode one batch; where a GPU's memory does not suffice, decode its halves."""
        rows = [self._spellings(item, settings) for item in ready]
        try:
            run = self._run([row for own in rows for row in own], settings)
            while True:
                try:
                    next(run)
                except StopIteration as stop:
                    found = iter(stop.value)
                    return self._merged(ready, [list(islice(found, len(own))) for own in rows], settings)
        except torch.cuda.OutOfMemoryError:
            if len(ready) == 1:
                return [DecodeResult(ready[0].text, "failed", OUT_OF_MEMORY)]
        torch.cuda.empty_cache()  # after the exception, which keeps the tensors alive, is gone
        half = len(ready) // 2
        return self._decode(ready[:half], settings) + self._decode(ready[half:], settings)

    def _spellings(self, ready: PreparedQuery, settings: DecodeSettings) -> list[PreparedQuery]:
        """The rows of a batch that a query takes: itself, and other spellings of it that the model can read."""
        if settings.augment == 1:
            return [ready]
        smiles = "".join(ready.tokens)
        rng = Random(f"{settings.seed}/{smiles}")  # what else is asked changes nothing
        rows = [replace(ready, text=smiles, notes=())]
        for text in root_align.spellings(smiles, settings.augment, rng)[1:]:
            try:
                ids = self.tokenizer.encode(text)
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

    def _run(
        self, ready: Sequence[PreparedQuery], settings: DecodeSettings
    ) -> Generator[list[Event], None, list[DecodeResult]]:
        """Decode one batch; yields what every model call did, returns the results.

        A query's seconds run from the batch's start to the query's last pass.
        """
        drafter = self.build(settings, self._means())  # may measure the machine first
        alone = replace(settings, augment=1)  # what a row's trace says: it knows of no other
        began = time.perf_counter()
        passes: list[list[Pass]] = [[] for _ in ready]
        seconds = [0.0] * len(ready)
        run = self._drive(ready, settings, drafter)
        while True:
            try:
                events = next(run)
            except StopIteration as stop:
                return [
                    self._result(item, answer, self._trace(item, alone, own, spent))
                    for item, answer, own, spent in zip(ready, stop.value, passes, seconds, strict=True)
                ]
            for query, event in events:
                passes[query].append(event)
                seconds[query] = time.perf_counter() - began
            yield events

    def _means(self) -> DrafterInputs:
        kit = self.kit
        return DrafterInputs(kit.cost, self.tokenizer.alphabet, kit.knowledge, kit.companion, self.tokenizer.head)

    def _drive(
        self, ready: Sequence[PreparedQuery], settings: DecodeSettings, drafter: Drafter
    ) -> Generator[list[Event], None, list[list[FinishedSequence]]]:
        # A model cannot write more than it has positions for.
        settings = replace(settings, max_len=min(settings.max_len, self.config.max_positions - 1))
        sources = [item.ids for item in ready]
        needs = needs_of(drafter)
        backend = self.kit.watching() if any(needs) else self.backend
        top_k = decoders.top_k(settings, self.config.vocab_size)
        session = Session(backend, sources, top_k=top_k, heads=needs.heads, states=needs.hidden_states)
        if isinstance(drafter, SessionReader):
            drafter.watch(session)
        in_loop = decoders.loop_drafter(settings, drafter)
        return run_loop(
            sources,
            [decoders.build(item.ids, settings, drafter) for item in ready],
            session,
            in_loop,
            max_len=settings.max_len,
            budget=0 if isinstance(in_loop, NoDrafts) else settings.node_budget,
            clock=time.perf_counter,
            record=settings.record,
        )

    def cost(self) -> CostCurve:
        """What a pass costs here, by its number of nodes; measured at first use, then kept on disk."""
        return self.kit.cost()

    def knowledge(self) -> DrafterCalibration:
        """What the model's drafters have learned; read at first use. See `DrafterResources.knowledge`."""
        return self.kit.knowledge()

    def companion(self, kind: str) -> Any:
        """The learned drafter of a kind; loaded at first use. See `DrafterResources.companion`."""
        return self.kit.companion(kind)

    def _trace(self, ready: PreparedQuery, settings: DecodeSettings, passes: Sequence[Pass], seconds: float) -> Trace:
        where = {
            "model": self.name,
            "task": self.task,
            "device": self.device,
            "dtype": self.dtype,
            "runtime": self.runtime,
        }
        return Trace(
            ready.tokens,
            {**where, **_told(settings), "drafter": settings.drafts_by, "exact": settings.exact},
            tuple(passes),
            seconds,
            self.tokenizer.tokens if settings.record and settings.augment == 1 else (),
        )

    def _result(self, ready: PreparedQuery, answers: Sequence[FinishedSequence], trace: Trace) -> DecodeResult:
        hypotheses = tuple(self._hypothesis(answer) for answer in answers)
        if self.confidence is not None:
            hypotheses = self.confidence.assess(hypotheses)
        return DecodeResult(ready.text, "ok", "", hypotheses, trace, ready.notes)

    def _hypothesis(self, answer: FinishedSequence) -> Hypothesis:
        smiles = self.tokenizer.decode(answer.tokens)
        canonical = chem.canonical(smiles) if answer.ended == "eos" else None
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


@lru_cache(maxsize=64)  # of plain values, so that a trace may share them
def _told(settings: DecodeSettings) -> dict[str, Any]:
    return asdict(settings)


def _confidence(loaded: LoadedModel) -> tuple[confidence.Confidence | None, str]:
    """What turns probabilities into chances of being right, or why there is none; a model answers without it."""
    try:
        return confidence.load(loaded.folder, loaded.digest), ""
    except confidence.ConfidenceError as error:
        return None, str(error)


__all__ = ["Engine", "PreparedQuery", "installed", "model_folder", "models_dir", "usable"]
