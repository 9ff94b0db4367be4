"""The facade: load a model once, then predict, stream or compare. Immutable after loading, safe to share between threads."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import islice
from math import exp, prod
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any

import torch
from safetensors import safe_open

from chemspec import align, chem, confidence, merge
from chemspec.decode.ask import Decoder
from chemspec.decode.beam import beam_search
from chemspec.decode.drive import Event, drive
from chemspec.decode.greedy import greedy
from chemspec.decode.relaxed import relaxed_greedy
from chemspec.decode.sample import sample
from chemspec.decode.sbs import speculative_beam_search
from chemspec.decode.speculative import sampled_beam, speculative_sample
from chemspec.draft import (
    COMPANIONS,
    Attention,
    Drafter,
    HeadDrafts,
    Knowledge,
    Means,
    NoDrafts,
    build,
)
from chemspec.draft.base import Batched
from chemspec.draft.gamma import Fixed
from chemspec.draft.sampled import Desk, Sampled
from chemspec.draft.small import Companion
from chemspec.importers import hf
from chemspec.model import checkpoint, companions
from chemspec.model.cost import Curve, cached, measure
from chemspec.model.hf_runner import HfBackend, Shape
from chemspec.model.session import Backend, Session
from chemspec.model.torch_runner import TorchBackend
from chemspec.model.transformer import Transformer
from chemspec.rejection import Nucleus, Seeded
from chemspec.settings import DRAFTER_NAMES, DRAWN, DecodeSettings, ModelConfig, Task
from chemspec.tokenizer import TokenError, Tokenizer
from chemspec.types import DecodeResult, Hypothesis, Pass, Prefix, Trace, Written
from chemspec.verify import TopBeta

MAX_CHARS = 1000
MAX_TOKENS = 400  # of a query; models are trained on at most 200, and time grows with the square
OUT_OF_MEMORY = (
    "the GPU's memory does not suffice for this query; ask for fewer answers or use the CPU"
)
RUNTIMES = ("auto", "native", "onnx", "torch")
DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp64": torch.float64,
}


@dataclass(frozen=True)
class Ready:
    """A query that can be decoded, or the result that says why not."""

    text: str
    ids: tuple[int, ...] = ()
    tokens: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refusal: DecodeResult | None = None


def model_folder(name: str | Path) -> Path:
    """The folder of a model given by path, or by the name of a shipped one.

    Raises:
        checkpoint.CheckpointError: if there is none, naming those that exist.
    """
    path = Path(name)
    if path.is_dir():
        return path
    shipped = models_home() / str(name)
    if shipped.is_dir():
        return shipped
    if hf.is_id(str(name)):
        if (stored := hf.cached(str(name))) is not None:
            return stored
        raise checkpoint.CheckpointError(hf.get_it(str(name)))
    known = ", ".join(folder.name for folder in installed()) or "none"
    raise checkpoint.CheckpointError(
        f"no model {str(name)!r}: neither a folder nor one of the installed ones ({known})"
    )


def models_home() -> Path:
    """Where models lie: `CHEMSPEC_MODELS`, else `assets/models` of the installation or of the source tree."""
    if chosen := os.environ.get("CHEMSPEC_MODELS"):
        return Path(chosen)
    inside = Path(__file__).parent / "assets" / "models"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "assets" / "models"


def installed() -> list[Path]:
    """The folders of the models at `models_home()`."""
    home = models_home()
    return (
        sorted(folder for folder in home.iterdir() if (folder / "config.json").is_file())
        if home.is_dir()
        else []
    )


def usable(folder: Path) -> tuple[str, ...]:
    """The drafters for which a model folder holds all that they need, in the order of `DRAFTER_NAMES`."""
    kept = folder / "drafters"
    return tuple(
        name
        for name in DRAFTER_NAMES
        if all((kept / kind / "config.json").is_file() for kind in COMPANIONS.get(name, ()))
    )


def drafter_megabytes(folder: Path, drafter: str) -> float:
    """Megabytes of a drafter's own weights in fp32; 0 for one that has none (paper X, tables 8 and 9)."""
    total = 0
    for kind in COMPANIONS.get(drafter, ()):
        with safe_open(folder / "drafters" / kind / "model.safetensors", framework="pt") as file:
            total += sum(prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    return 4 * total / 1e6


class Engine:
    """A model on a device, ready to answer."""

    def __init__(
        self,
        loaded: checkpoint.Checkpoint | hf.HfCheckpoint,
        backend: Backend,
        *,
        device: str,
        dtype: str,
        runtime: str,
        threads: int,
    ) -> None:
        self.name = loaded.name
        self.task: Task = loaded.task
        self.tokenizer: Tokenizer | hf.HfTokenizer = loaded.tokenizer
        self.config: ModelConfig | Shape = loaded.model.config
        self.caveats = loaded.notes
        self.digest = loaded.digest
        self.folder = loaded.folder
        self.backend = backend
        self.device, self.dtype, self.runtime, self.threads = device, dtype, runtime, threads
        # Two places are for bos and eos, where a model wants them in the source.
        self.longest_query = min(MAX_TOKENS, self.config.max_positions - 2)
        self.confidence, self.confidence_problem = _confidence(loaded)
        self._measuring = Lock()
        self._curve: Curve | None = None
        self._knowledge: Knowledge | None = None
        self._watcher: TorchBackend | None = None
        self._companions: dict[str, Any] = {}

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
        """Load a model folder.

        Args:
            name: a path, or the name of an installed model ("forward", "retro").
            device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", ...
            dtype: "auto" (fp32: models of this size are bound by latency, not by arithmetic), "fp32", "bf16", "fp16".
            threads: CPU threads of the model; 0 takes all cores.
            runtime: "auto" (for fp32 on a CPU the compiled kernel, or ONNX Runtime where it cannot be compiled; else
                torch), "native", "onnx" or "torch".
            task, template: of a Hugging Face model, see `importers.hf.load`; our own folders say what they are for.

        Raises:
            checkpoint.CheckpointError: if the folder is no usable model.
            ValueError: for a device, precision or runtime that cannot be had.
        """
        folder = model_folder(name)
        foreign = hf.recognises(folder)
        if template and not foreign:
            raise ValueError(f"{folder} is no Hugging Face model; only those take a template")
        device = _device(device)
        dtype = "fp32" if dtype == "auto" else dtype
        if threads < 0:
            raise ValueError(f"{threads} threads; give at least 1, or 0 for all cores")
        threads = threads or os.cpu_count() or 1
        if dtype not in DTYPES:
            raise ValueError(f"no precision {dtype!r}; there are {', '.join(DTYPES)}")
        loaded: checkpoint.Checkpoint | hf.HfCheckpoint
        if foreign:
            called = str(name) if hf.is_id(str(name)) and not Path(name).is_dir() else ""
            loaded = hf.load(folder, task=task, template=template, name=called)
            backend, runtime = _foreign_backend(loaded, device, dtype, threads, runtime)
        else:
            loaded = checkpoint.load(folder)
            backend, runtime = _backend(loaded, device, dtype, threads, runtime)
        return cls(loaded, backend, device=device, dtype=dtype, runtime=runtime, threads=threads)

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
        results: dict[int, DecodeResult] = {
            i: item.refusal for i, item in enumerate(prepared) if item.refusal
        }
        progress(len(results))
        # Like lengths together: a batch takes as many passes as its longest answer.
        order = sorted(
            (i for i, item in enumerate(prepared) if not item.refusal),
            key=lambda i: len(prepared[i].ids),
        )
        for start in range(0, len(order), settings.batch_size):
            chosen = order[start : start + settings.batch_size]
            results.update(
                zip(chosen, self._decode([prepared[i] for i in chosen], settings), strict=True)
            )
            progress(len(results))
        return [results[i] for i in range(len(queries))]

    def stream(
        self, query: str, settings: DecodeSettings = DecodeSettings()
    ) -> Iterator[Pass | DecodeResult]:
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
            yield merge.together(passes, 1) if settings.augment > 1 else passes[0]

    def write(
        self, sources: Sequence[tuple[int, ...]], settings: DecodeSettings
    ) -> list[list[Written]]:
        """Answers of token sequences as token sequences, best first; no text is read, checked or made."""
        order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
        found: dict[int, list[Written]] = {}
        for start in range(0, len(order), settings.batch_size):
            chosen = order[start : start + settings.batch_size]
            ready = [Ready("", sources[index]) for index in chosen]
            run = self._drive(ready, settings, build(settings, self._means()))
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

    def prepare(self, text: str) -> Ready:
        """Clean, canonicalise and tokenise one query, or say what is wrong with it."""
        query = chem.read_query(text, self.task, max_chars=MAX_CHARS)
        if isinstance(query, chem.Fault):
            status = "too_long" if query.kind == "length" else "invalid"
            return Ready(text, refusal=DecodeResult(text, status, str(query)))  # type: ignore[arg-type]
        try:
            ids = self.tokenizer.encode(query.smiles)
        except TokenError as error:
            return Ready(
                text,
                refusal=DecodeResult(
                    text, "invalid", f"{error} in {query.smiles}", notes=query.notes
                ),
            )
        if len(ids) > self.longest_query:
            message = f"{len(ids)} tokens; queries may have at most {self.longest_query}"
            return Ready(text, refusal=DecodeResult(text, "too_long", message, notes=query.notes))
        notes = (*query.notes, *self.caveats)
        return Ready(text, ids, tuple(self.tokenizer.pieces(ids)), notes)

    def _decode(self, ready: Sequence[Ready], settings: DecodeSettings) -> list[DecodeResult]:
        """Decode one batch; where a GPU's memory does not suffice, decode its halves."""
        rows = [self._spellings(item, settings) for item in ready]
        try:
            run = self._run([row for own in rows for row in own], settings)
            while True:
                try:
                    next(run)
                except StopIteration as stop:
                    found = iter(stop.value)
                    return self._merged(
                        ready, [list(islice(found, len(own))) for own in rows], settings
                    )
        except torch.cuda.OutOfMemoryError:
            if len(ready) == 1:
                return [DecodeResult(ready[0].text, "failed", OUT_OF_MEMORY)]
        torch.cuda.empty_cache()  # after the exception, which keeps the tensors alive, is gone
        half = len(ready) // 2
        return self._decode(ready[:half], settings) + self._decode(ready[half:], settings)

    def _spellings(self, ready: Ready, settings: DecodeSettings) -> list[Ready]:
        """The rows of a batch that a query takes: itself, and other spellings of it that the model can read."""
        if settings.augment == 1:
            return [ready]
        smiles = "".join(ready.tokens)
        rng = Random(f"{settings.seed}/{smiles}")  # what else is asked changes nothing
        rows = [replace(ready, text=smiles, notes=())]
        for text in align.spellings(smiles, settings.augment, rng)[1:]:
            try:
                ids = self.tokenizer.encode(text)
            except TokenError:  # more ring labels, say, than the vocabulary has
                continue
            if len(ids) <= self.longest_query:
                rows.append(Ready(text, ids, tuple(self.tokenizer.pieces(ids))))
        return rows

    def _merged(
        self,
        ready: Sequence[Ready],
        spelled: Sequence[Sequence[DecodeResult]],
        settings: DecodeSettings,
    ) -> list[DecodeResult]:
        """Of every query one result, made of the results of its spellings."""
        if settings.augment == 1:
            return [results[0] for results in spelled]
        called = merge.calls([[one.trace for one in results] for results in spelled])
        return [
            merge.merge(
                item.text,
                results,
                asked=settings.augment,
                n=settings.n,
                trace=self._trace(
                    item, settings, passes, max(one.trace.seconds for one in results)
                ),
                notes=item.notes,
            )
            for item, results, passes in zip(ready, spelled, called, strict=True)
        ]

    def _run(
        self, ready: Sequence[Ready], settings: DecodeSettings
    ) -> Generator[list[Event], None, list[DecodeResult]]:
        """Decode one batch; yields what every model call did, returns the results.

        A query's seconds run from the batch's start to the query's last pass.
        """
        drafter = build(settings, self._means())  # may measure the machine first
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
                    for item, answer, own, spent in zip(
                        ready, stop.value, passes, seconds, strict=True
                    )
                ]
            for query, event in events:
                passes[query].append(event)
                seconds[query] = time.perf_counter() - began
            yield events

    def _means(self) -> Means:
        return Means(
            self.cost, self.tokenizer.alphabet, self.knowledge, self.companion, self.tokenizer.head
        )

    def _drive(
        self, ready: Sequence[Ready], settings: DecodeSettings, drafter: Drafter
    ) -> Generator[list[Event], None, list[list[Written]]]:
        # A model cannot write more than it has positions for.
        settings = replace(settings, max_len=min(settings.max_len, self.config.max_positions - 1))
        sources = [item.ids for item in ready]
        heads = drafter.heads if isinstance(drafter, Attention) else ()
        states = isinstance(drafter, HeadDrafts)
        backend = self._watching() if heads or states else self.backend
        session = Session(backend, sources, top_k=self._top_k(settings), heads=heads, states=states)
        if isinstance(drafter, Attention):
            drafter.looks = session.look
        if isinstance(drafter, HeadDrafts):
            drafter.states = session.state
        # SBS asks for its drafts itself.
        speculates = settings.drafter != "none" and settings.decoder != "sbs"
        return drive(
            sources,
            [self._decoder(item, settings, drafter) for item in ready],
            session,
            drafter if speculates else NoDrafts(),
            max_len=settings.max_len,
            budget=settings.node_budget if speculates else 0,
            clock=time.perf_counter,
            record=settings.record,
        )

    def cost(self) -> Curve:
        """What a pass costs here, by its number of nodes; measured at first use, then kept on disk."""
        with self._measuring:
            if self._curve is None:
                key = f"{self.digest}-{self.runtime}-{self.device}-{self.dtype}-{self.threads}"
                self._curve = _curve(key, self.backend, self.config)
            return self._curve

    def knowledge(self) -> Knowledge:
        """What the model's drafters have learned; read at first use.

        Raises:
            ValueError: naming the file, if it is damaged.
        """
        with self._measuring:
            if self._knowledge is None:
                config = self.config
                self._knowledge = Knowledge.load(
                    self.folder,
                    vocab_size=config.vocab_size,
                    layers=config.decoder_layers,
                    heads=config.heads,
                )
            return self._knowledge

    def companion(self, kind: str) -> Any:
        """The learned drafter of a kind, on the engine's device; loaded at first use.

        Returns:
            Of "ar" and "medium" a small model that writes as this one does (`draft.small.Companion`), on the same runtime;
            of the others their network (`model.companions.Companion`), in torch unless the kernel computes a "spec_drafter".

        Raises:
            ValueError: if there is none, or none that can draft for this model.
        """
        with self._measuring:
            if kind not in self._companions:
                own = kind in companions.KINDS
                self._companions[kind] = (
                    self._load_network(kind) if own else self._load_companion(kind)
                )
            return self._companions[kind]

    def _load_network(self, kind: str) -> companions.Companion:
        if not isinstance(self.tokenizer, Tokenizer):
            raise ValueError(
                f"model {self.name} is a Hugging Face model, for which there is no drafter {kind!r}; choose another"
            )
        found = companions.load(
            companions.home(self.folder, kind), tokenizer=self.tokenizer, target=self.digest
        )
        found.model.to(self.device, DTYPES[self.dtype])
        if self.runtime != "native":
            return found
        # What torch still computes is too small to share, and threads that wait for work would steal the kernel's time.
        torch.set_num_threads(1)
        if isinstance(found.model, Transformer):
            from chemspec.model.native.runner import NativeBackend, NoKernel

            with suppress(NoKernel):  # of a shape that it does not compute: torch does
                return replace(found, backend=NativeBackend(found.model, threads=self.threads))
        return found

    def _load_companion(self, kind: str) -> Companion:
        folder = self.folder / "drafters" / kind
        if not folder.is_dir():
            raise ValueError(
                f"model {self.name} has no small model {kind!r} to draft with ({folder} is missing); train one with "
                f"`chemspec train --recipe {self.task}-{kind}` and put its model folder there, or choose another drafter"
            )
        loaded = checkpoint.load(folder)
        if loaded.tokenizer != self.tokenizer:
            raise ValueError(
                f"the drafter {folder} has another vocabulary than model {self.name}; "
                "train it on data prepared with the model's vocab.json"
            )
        backend, runtime = _backend(loaded, self.device, self.dtype, self.threads, self.runtime)
        config, lock = loaded.model.config, Lock()
        found: list[Curve] = []

        def cost() -> Curve:
            with lock:
                if not found:
                    key = f"{loaded.digest}-{runtime}-{self.device}-{self.dtype}-{self.threads}"
                    found.append(_curve(key, backend, config))
                return found[0]

        return Companion(backend, config.max_positions, config.vocab_size, cost, _alpha(folder))

    def _watching(self) -> Backend:
        """A backend that tells where its heads look and keeps hidden states: torch in place of ONNX Runtime, which does neither."""
        if self.runtime != "onnx":
            return self.backend
        with self._measuring:
            if self._watcher is None:
                model = checkpoint.load(self.folder).model
                self._watcher = TorchBackend(model.to(self.device, DTYPES[self.dtype]))
            return self._watcher

    def _top_k(self, settings: DecodeSettings) -> int:
        """Candidates needed per prefix: with eos among them, a beam of n can use n + 1; a margin needs two."""
        wanted = {
            "greedy": max(2, settings.beta),
            "beam": max(2, settings.n + 1),
            "sbs": max(2, settings.n + 1),
        }  # a draw may be any token
        return min(wanted.get(settings.decoder, self.config.vocab_size), self.config.vocab_size)

    def _decoder(self, ready: Ready, settings: DecodeSettings, drafter: Drafter) -> Decoder:
        def drafts(prefix: Prefix) -> list[tuple[int, ...]]:
            room = settings.max_len - len(prefix)
            if settings.decoder == "sbs" and isinstance(drafter, Batched):
                drafter.prepare([(ready.ids, prefix, room)])  # nobody else tells it
            return [draft.tokens for draft in drafter.propose(ready.ids, prefix, room)]

        if settings.decoder == "greedy" and settings.beta > 1:
            rule = TopBeta(settings.beta, settings.tau)
            return relaxed_greedy(max_len=settings.max_len, rule=rule, drafts=drafts)
        if settings.decoder == "greedy":
            return greedy(max_len=settings.max_len)
        if settings.decoder == "beam":
            return beam_search(
                width=settings.n, max_len=settings.max_len, length_penalty=settings.length_penalty
            )
        if settings.decoder == "sbs":
            return speculative_beam_search(
                width=settings.n, max_len=settings.max_len, drafts=drafts
            )
        if settings.decoder in DRAWN:
            return self._drawn(ready, settings, drafter)
        return sample(
            count=settings.n,
            max_len=settings.max_len,
            rng=Random(
                f"{settings.seed}/{ready.ids}"
            ),  # per query: what else is in the batch changes nothing
            temperature=settings.temperature,
            top_p=settings.top_p,
        )

    def _drawn(self, ready: Ready, settings: DecodeSettings, drafter: Drafter) -> Decoder:
        seed = f"{settings.seed}/{ready.ids}"  # per query, and the drafts have their own
        drafts = Seeded(f"{seed}/drafts")
        desk = (
            drafter.desk(ready.ids, drafts)
            if isinstance(drafter, Sampled)
            else Desk(ready.ids, drafts, Fixed(1))  # nobody drafts
        )
        decoder = speculative_sample if settings.decoder == "speculative-sample" else sampled_beam
        return decoder(
            count=settings.n,
            max_len=settings.max_len,
            desk=desk,
            dice=Seeded(seed),
            nucleus=Nucleus(settings.temperature, settings.top_p),
        )

    def _trace(
        self, ready: Ready, settings: DecodeSettings, passes: Sequence[Pass], seconds: float
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
            {**where, **_told(settings), "drafter": settings.drafts_by, "exact": settings.exact},
            tuple(passes),
            seconds,
            self.tokenizer.tokens if settings.record and settings.augment == 1 else (),
        )

    def _result(self, ready: Ready, answers: Sequence[Written], trace: Trace) -> DecodeResult:
        hypotheses = tuple(self._hypothesis(answer) for answer in answers)
        if self.confidence is not None:
            hypotheses = self.confidence.assess(hypotheses)
        return DecodeResult(ready.text, "ok", "", hypotheses, trace, ready.notes)

    def _hypothesis(self, answer: Written) -> Hypothesis:
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


def _confidence(
    loaded: checkpoint.Checkpoint | hf.HfCheckpoint,
) -> tuple[confidence.Confidence | None, str]:
    """What turns probabilities into chances of being right, or why there is none; a model answers without it."""
    try:
        return confidence.load(loaded.folder, loaded.digest), ""
    except confidence.ConfidenceError as error:
        return None, str(error)


def _backend(
    loaded: checkpoint.Checkpoint, device: str, dtype: str, threads: int, runtime: str
) -> tuple[Backend, str]:
    """The backend wanted, and its name; imports what it needs only."""
    if runtime not in RUNTIMES:
        raise ValueError(f"no runtime {runtime!r}; there are {', '.join(RUNTIMES)}")
    cpu = device == "cpu" and dtype == "fp32"
    if runtime in ("native", "onnx") and not cpu:
        raise ValueError(
            f"the {runtime} runtime computes in fp32 on a CPU, not in {dtype} on {device}"
        )
    if runtime == "native" or (runtime == "auto" and cpu):
        from chemspec.model.native.runner import NativeBackend, NoKernel

        try:
            return NativeBackend(loaded.model, threads=threads), "native"
        except NoKernel as why:
            if runtime == "native":
                raise ValueError(f"the native runtime cannot be had here: {why}") from why
    if runtime == "onnx" or (runtime == "auto" and cpu):
        from chemspec.model.onnx_runner import OnnxBackend  # spares GPU boxes the import

        return OnnxBackend(loaded.model, digest=loaded.digest, threads=threads), "onnx"
    torch.set_num_threads(threads)
    return TorchBackend(loaded.model.to(device=device, dtype=DTYPES[dtype])), "torch"


def _curve(key: str, backend: Backend, config: ModelConfig | Shape) -> Curve:
    """What a pass of a model costs on this machine, from disk if it was measured before."""
    sizes = config.vocab_size, config.max_positions
    return cached(key, lambda: measure(backend, *sizes, time.perf_counter))


def _foreign_backend(
    loaded: hf.HfCheckpoint, device: str, dtype: str, threads: int, runtime: str
) -> tuple[Backend, str]:
    """The backend of a Hugging Face model: torch."""
    if runtime not in ("auto", "torch"):
        raise ValueError(f"a Hugging Face model runs in torch, not in the {runtime} runtime")
    if dtype == "fp16" and loaded.model.family == "t5":
        raise ValueError("T5 overflows in fp16; use bf16 or fp32")
    torch.set_num_threads(threads)
    loaded.model.to(device, DTYPES[dtype])
    return HfBackend(loaded.model), "torch"


def _alpha(folder: Path) -> float:
    """The acceptance rate counted for a small model, from `alpha.json` in its folder.

    Raises:
        ValueError: naming the file, if it does not hold a rate.
    """
    file = folder / "alpha.json"
    if not file.is_file():
        return Companion.alpha
    try:
        found = float(json.loads(file.read_text(encoding="utf-8"))["alpha"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file} is damaged: {error!r}; delete it to do without") from error
    if not 0 < found < 1:
        raise ValueError(f"{file}: alpha is {found}; it must be between 0 and 1")
    return found


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(name).type
    except RuntimeError:
        kind = ""
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"no device {name!r}; use auto, cpu or cuda")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError("there is no usable GPU on this machine; use --device cpu")
    return name


__all__ = ["Engine", "Ready", "installed", "model_folder", "models_home", "usable"]
