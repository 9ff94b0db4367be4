"""Queries and their right answers as token ids, and whether a runtime gives them, drafted or not, and how fast.

No text is read or made, so that all of it runs where there is no RDKit. One row a case, written at once; no case harms
another.
"""

from __future__ import annotations

import json
import statistics
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from chemspec.decode import registry as decoders
from chemspec.decode.continuous import divides, keep_full
from chemspec.decode.decoding import Decoded, Decoding
from chemspec.decode.planner import Planner
from chemspec.draft.base import Drafter, SessionReader, needs_of
from chemspec.draft.registry import DrafterInputs, NoDrafts, build
from chemspec.engine.drafter_resources import DrafterResources
from chemspec.importers import own
from chemspec.importers.base import LoadedModel
from chemspec.model.runtime import RuntimeConfig
from chemspec.model.session import Backend, NodeBatch, Session
from chemspec.settings import DecodeSettings
from chemspec.tokenizer import BOS, SPECIALS
from chemspec.types import FinishedSequence

TIE = 1e-4  # nats, as in `evaluation.lossless`
CASES = {"greedy": DecodeSettings(decoder="greedy", n=1), "beam10": DecodeSettings(decoder="beam", n=10)}
# (queries, new nodes of each) of the passes that are timed.
SHAPES = ((1, 1), (1, 4), (1, 16), (1, 64), (1, 256), (32, 1), (32, 16), (256, 1), (256, 16), (1024, 8))
SOURCE, WRITTEN = 40, 24
Tell = Callable[[dict[str, Any]], None]
Ids = tuple[int, ...]


@dataclass(frozen=True)
class KnownAnswers:
    """Queries as token ids, and for each case the answers to the first of them: tokens and log-probs, best first."""

    ids: list[Ids]
    answers: dict[str, list[list[tuple[Ids, float]]]]

    def save(self, file: Path) -> None:
        """Write JSON."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"ids": self.ids, "answers": self.answers}), encoding="utf-8")

    @classmethod
    def load(cls, file: Path) -> KnownAnswers:
        """Read what `save` wrote; raises ValueError for anything else."""
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            answers = {
                case: [[(tuple(tokens), float(total)) for tokens, total in own] for own in all_]
                for case, all_ in found["answers"].items()
            }
            return cls([tuple(one) for one in found["ids"]], answers)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{file} holds no known answers: {error}") from error


class TokenModel:
    """A model folder on a runtime, which answers token ids with token ids."""

    def __init__(self, folder: Path, *, device: str, dtype: str, runtime: str) -> None:
        wanted = RuntimeConfig.find(device=device, dtype=dtype, runtime=runtime, threads=0)
        self.loaded: LoadedModel = own.load(folder)
        self.backend: Backend
        self.backend, taken = self.loaded.backend(wanted)
        self.runtime = replace(wanted, runtime=taken)
        if taken != runtime != "auto":
            raise ValueError(f"the {runtime} runtime cannot be had here; there is {taken}")
        self.resources = DrafterResources(self.loaded, self.backend, self.runtime)

    def wait(self) -> None:
        """Let the device finish."""
        if self.runtime.device != "cpu":
            torch.cuda.synchronize(self.runtime.device)

    def decode(self, sources: Sequence[Ids], settings: DecodeSettings) -> list[Decoded]:
        """Decode a batch; a large one in two parts, as `Engine` does."""
        settings = replace(settings, max_len=min(settings.max_len, self.loaded.config.max_positions - 1))
        drafter = self._drafter(settings)
        divided = divides(len(sources), self.backend, decoders.build(sources[0], settings, drafter), drafter)
        waiting = iter(range(len(sources)))

        def begin(numbers: Sequence[int]) -> tuple[Decoding, Callable[[Sequence[int]], Sequence[int]]]:
            opened = self._open([sources[number] for number in numbers], settings, self._drafter(settings))
            return opened, lambda _: ()

        run = keep_full(lambda room: list(islice(waiting, room)), begin, size=len(sources), parts=2 if divided else 1)
        found = dict(run)
        return [found[number] for number in range(len(sources))]

    def _drafter(self, settings: DecodeSettings) -> Drafter:
        resources = self.resources
        inputs = DrafterInputs(
            resources.cost,
            self.loaded.tokenizer.alphabet,
            resources.knowledge,
            resources.companion,
            self.loaded.tokenizer.prompt_length,
        )
        return build(settings, inputs)

    def _planner(self, settings: DecodeSettings, drafter: Drafter) -> Planner | None:
        if isinstance(drafter, NoDrafts) or decoders.is_draft_aware(settings):
            return None
        return Planner.of(drafter, self.resources.cost())

    def _open(self, sources: Sequence[Ids], settings: DecodeSettings, drafter: Drafter) -> Decoding:
        config, resources = self.loaded.config, self.resources
        needs = needs_of(drafter)
        session = Session(
            resources.watching() if any(needs) else self.backend,
            sources,
            top_k=decoders.top_k(settings, config.vocab_size),
            heads=needs.heads,
            states=needs.hidden_states,
        )
        if isinstance(drafter, SessionReader):
            drafter.watch(session)
        in_loop = decoders.loop_drafter(settings, drafter)
        return Decoding(
            sources,
            [decoders.build(source, settings, drafter) for source in sources],
            session,
            in_loop,
            max_len=settings.max_len,
            budget=0 if isinstance(in_loop, NoDrafts) else settings.node_budget,
            clock=time.perf_counter,
            vocab_size=config.vocab_size,
            planner=self._planner(settings, in_loop),
        )


def know(model: TokenModel, ids: Sequence[Ids], counts: dict[str, int]) -> KnownAnswers:
    """Answer the first `counts[case]` queries of every case one by one, without drafts."""
    answers = {
        case: [
            [
                (one.tokens, one.log_prob)
                for one in model.decode([source], replace(CASES[case], drafter="none"))[0].answers
            ]
            for source in ids[:count]
        ]
        for case, count in counts.items()
    }
    return KnownAnswers(list(ids), answers)


def verdict(
    case: str, found: Sequence[FinishedSequence], wanted: Sequence[tuple[Ids, float]], margin: float
) -> tuple[str, float]:
    """Judge one query's answers.

    Args:
        case: "greedy" or "beam10".
        found: best first.
        wanted: the right ones, with their log-probs.
        margin: of a greedy answer, the smallest gap between two best tokens.

    Returns:
        "same"; "tie" where what differs is within rounding; "differs" for a beam that `lossless` has to judge; "WRONG";
        and the largest difference of log-probs of answers that both have.
    """
    totals = dict(wanted)
    apart = max((abs(one.log_prob - totals[one.tokens]) for one in found if one.tokens in totals), default=0.0)
    if [one.tokens for one in found] == [tokens for tokens, _ in wanted]:
        return ("same" if apart <= TIE * 10 else "WRONG"), apart
    if case == "greedy":
        return ("tie" if margin <= TIE else "WRONG"), apart
    pairs = zip(sorted(one.log_prob for one in found), sorted(total for _, total in wanted), strict=False)
    return ("tie" if all(abs(ours - theirs) <= TIE for ours, theirs in pairs) else "differs"), apart


def compare(
    model: TokenModel, known: KnownAnswers, case: str, drafter: str, batch: int, *, limit: int, seconds: float
) -> dict[str, Any]:
    """Answer known queries and return verdicts, times and counts.

    Args:
        model: what answers.
        known: queries and answers.
        case: of `CASES`.
        drafter: a name of the registry.
        batch: queries at a time.
        limit: most queries.
        seconds: after which no batch is begun.
    """
    settings = replace(CASES[case], drafter=drafter)
    wanted = known.answers[case][:limit]
    order = list(range(len(wanted)))
    if batch > 1:
        order.sort(key=lambda index: len(known.ids[index]))
    chunks = [order[start : start + batch] for start in range(0, len(order), batch)]
    for chunk in [*chunks[:2], *chunks[:2]]:  # compiled and recorded then
        model.decode([known.ids[index] for index in chunk], settings)
    verdicts: Counter[str] = Counter()
    times: list[float] = []
    apart, inside, passes, nodes, done = 0.0, 0.0, 0, 0, 0
    began = time.monotonic()
    for chunk in chunks:
        if times and time.monotonic() - began > seconds:
            break
        model.wait()
        start = time.perf_counter()
        decoded = model.decode([known.ids[index] for index in chunk], settings)
        times.append(time.perf_counter() - start)
        done += len(chunk)
        longest = max((own.passes for own in decoded), key=len)
        passes += len(longest)
        inside += sum(one.model_seconds for one in longest)
        nodes += sum(one.computed for own in decoded for one in own.passes)
        for index, found in zip(chunk, decoded, strict=True):
            said, gap = verdict(case, found.answers, wanted[index], min(one.margin for one in found.passes))
            verdicts[said] += 1
            apart = max(apart, gap)
    return {
        "queries": done,
        "verdicts": dict(verdicts),
        "largest_gap": apart,
        "ms_per_query": 1e3 * statistics.median(t / len(c) for t, c in zip(times, chunks, strict=False)),
        "queries_per_second": done / sum(times),
        "passes_per_batch": passes / len(times),
        "nodes_per_query": nodes / done,
        "ms_in_model_per_pass": 1e3 * inside / passes,
    }


def time_passes(model: TokenModel, shapes: Sequence[tuple[int, int]], turns: int = 24) -> Iterator[dict[str, Any]]:
    """Time passes of random tokens: 40 source tokens, 24 written; one row a shape."""
    vocabulary = range(len(SPECIALS), model.loaded.config.vocab_size)
    random = np.random.default_rng(0)
    most = model.loaded.config.max_positions
    source, written = min(SOURCE, most - 2), min(WRITTEN, most // 4)

    def tokens(*shape: int) -> Any:
        return random.integers(vocabulary.start, vocabulary.stop, shape).tolist()

    for queries, nodes in shapes:
        opened, spent = [], []
        for _ in range(3):
            model.wait()
            start = time.perf_counter()
            runner = model.backend.open(tokens(queries, source), top_k=2)
            model.wait()
            opened.append(time.perf_counter() - start)
        own = list(range(queries))
        depths = list(range(written))
        parents = [depth - 1 for depth in depths]
        text = [token for row in tokens(queries, written - 1) for token in (BOS, *row)]
        prompt = NodeBatch([query for query in own for _ in depths], text, depths * queries, parents * queries)
        runner.run(prompt)
        for _ in range(turns):
            # So many continuations of the same prefix, each of one token: a tree of drafts is no deeper for a pass.
            each = [query for query in own for _ in range(nodes)]
            batch = NodeBatch(each, tokens(len(each)), [written] * len(each), [written - 1] * len(each))
            model.wait()
            start = time.perf_counter()
            runner.run(batch)
            spent.append(time.perf_counter() - start)
            kept = np.arange(written)
            for query in own:  # or every pass would be larger than the one before
                runner.compact(query, kept)
        warm = spent[4:] or spent
        yield {
            "queries": queries,
            "nodes": nodes,
            "ms": 1e3 * statistics.median(warm),
            "least_ms": 1e3 * min(warm),
            "open_ms": 1e3 * statistics.median(opened),
        }


def check(
    folder: Path,
    known: KnownAnswers,
    *,
    device: str,
    dtype: str,
    runtimes: Sequence[str],
    cases: Sequence[str],
    drafters: Sequence[str],
    batches: Sequence[int],
    limit: int,
    seconds: float,
    tell: Tell,
) -> bool:
    """Compare every runtime with the known answers; returns whether all cases ran and none was wrong.

    Args:
        folder: of the model.
        known: queries and answers.
        device: where to.
        dtype: precision.
        runtimes: names; of each the cases, with each drafter and batch size.
        cases: of `CASES`.
        drafters: names.
        batches: queries at a time.
        limit: most queries of a case.
        seconds: of a case.
        tell: is given one row a case, or its error.
    """
    fine = True
    for runtime in runtimes:
        about: dict[str, Any] = {"model": str(folder), "device": device, "dtype": dtype, "runtime": runtime}
        try:
            model = TokenModel(folder, device=device, dtype=dtype, runtime=runtime)
        except Exception:
            tell({**about, "error": traceback.format_exc()[-1500:]})
            fine = False
            continue
        for batch in batches:
            for case in cases:
                for drafter in drafters:
                    which = {**about, "case": case, "drafter": drafter, "batch": batch}
                    try:
                        row = compare(model, known, case, drafter, batch, limit=limit, seconds=seconds)
                    except Exception:
                        row = {"error": traceback.format_exc()[-1500:]}
                    fine = fine and "error" not in row and not row["verdicts"].get("WRONG")
                    tell({**which, **row})
    return fine
