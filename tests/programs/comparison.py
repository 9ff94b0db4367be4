"""Compare exact decoding with the naive decoders of `chemspec/testing.py`, query by query.

Two programs that add in different orders differ in the last bits, and where two texts are as good as equal, the last
bits decide. So a difference is excused if the naive decoder gives the engine's very answers, in their order, once no
more than `TIE` has been added to or taken from the totals of the texts concerned: then, and only then, it is a tie. It
is still counted and reported.

What to compare with may also come from `independent`, which shares no code with the engine and, having a
cache, is fast enough for tens of thousands of queries. The proof of a tie is the naive decoder's in either case.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from programs import independent
from programs.int8_reference import quantised

from chemspec import asset_files
from chemspec.engine.engine import Engine
from chemspec.io import tables
from chemspec.metrics import speed_numbers
from chemspec.model import checkpoint
from chemspec.settings import DecodeSettings
from chemspec.system.files import write_text_atomic
from chemspec.system.threads import set_torch_threads
from chemspec.testing import Target, naive_beam, naive_greedy, naive_reader
from chemspec.tokenizer import BOS, EOS
from chemspec.types import DecodeResult, FinishedSequence, Trace

if TYPE_CHECKING:
    from rich.table import Table

COMPARABLE = ("greedy", "beam")
AGAINST = ("naive", "numpy")
TIE = 1e-4  # nats by which scores may differ, and below which the better of two texts is a matter of rounding
LEANS = (1e-6, 1e-5, 3e-5, TIE)  # tried in turn, so that the report can say how close it was
ROUNDS = 6  # of looking for a way in which rounding can have led there
CHUNK = 32  # answers between two reports
TOGETHER = 16  # queries that numpy decodes at once
SHOWN = 20  # differences told in full


class Comparison(NamedTuple):
    """How one query's answers differ from the naive ones.

    Attributes:
        tokens: whether the sets of answers differ.
        order: whether the sets are the same, but not their order.
        score: the largest difference of a total or of a token's log-prob, over the answers that both have.
        gap: if anything differs, the smallest of `LEANS` that explains it; infinity if none does.
    """

    tokens: bool = False
    order: bool = False
    score: float = 0.0
    gap: float = 0.0

    @property
    def same(self) -> bool:
        """Whether the lists are equal."""
        return not (self.tokens or self.order)

    @property
    def fine(self) -> bool:
        """Equal, or a tie; with equal scores, up to `TIE`."""
        return self.gap <= TIE and self.score <= TIE


@dataclass(frozen=True)
class ComparedBatch:
    """Some queries, compared.

    Attributes:
        queries: those that the model can read; `refused` counts the others.
        naive_seconds: that the naive decoder took for them.
        verdicts, traces, seconds: by drafter.
    """

    queries: tuple[str, ...]
    refused: int
    naive_seconds: float
    verdicts: Mapping[str, Sequence[Comparison]]
    traces: Mapping[str, Sequence[Trace]]
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class _Case:
    """One query with the answers of both decoders, best first.

    Attributes:
        model: that both decoders used.
        source: token ids of the query.
        expected: what `naive` gave for the same model, source and settings.
        found: the engine's answers.
        how: the settings of both.
    """

    model: Target
    source: Sequence[int]
    expected: Sequence[FinishedSequence]
    found: Sequence[FinishedSequence]
    how: DecodeSettings

    def greedy_gap(self) -> float:
        """Return by how much the worst-chosen token of the answer falls short of the best at its place."""
        if len(self.found) != 1 or not self.found[0].tokens:
            return float("inf")
        text = self.found[0].tokens
        if EOS in text[:-1] or (text[-1] != EOS and len(text) < self.how.max_len):
            return float("inf")
        read = naive_reader(self.model, self.source)
        short = 0.0
        for place, token in enumerate(text):
            log_probs = read([(BOS, *text[:place])])[0].tolist()
            short = max(short, max(log_probs) - log_probs[token])
        return min((gap for gap in LEANS if short <= gap), default=float("inf"))

    def beam_gap(self) -> float:
        """Return the least by which totals must move for the naive search to find what was found."""
        if len({item.tokens for item in self.found}) != len(self.found) or not self.explained_by(TIE):
            return float("inf")
        return next(gap for gap in LEANS if self.explained_by(gap))

    def explained_by(self, gap: float) -> bool:
        """Return whether the naive search finds what was found, if texts on the way there are better by half the gap.

        Texts that the search finds and the engine did not are worse by as much; there may be more of them once the
        first are out of the way.
        """
        how, ours = self.how, [item.tokens for item in self.found]
        liked, disliked = _beginnings(self.found), set[tuple[int, ...]]()
        half, moved = gap / 2, self.expected

        def lean(text: tuple[int, ...]) -> float:
            return half * ((text in liked) - (text in disliked))

        for _ in range(ROUNDS):
            more = _beginnings(moved) - liked - disliked
            if not more and disliked:
                return False  # the same again
            disliked |= more
            moved = naive_beam(self.model, self.source, how.n, how.max_len, how.length_penalty, lean)
            ranks = {item.tokens: item.log_prob / float(len(item.tokens) ** how.length_penalty) for item in moved}
            if ranks.keys() == set(ours):
                pairs = zip(ours, ranks.values(), strict=True)
                return all(abs(ranks[text] - rank) <= gap for text, rank in pairs)
        return False


def _beginnings(texts: Sequence[FinishedSequence]) -> set[tuple[int, ...]]:
    """Return these texts and every text on the way to them."""
    return {item.tokens[:length] for item in texts for length in range(1, len(item.tokens) + 1)}


def judge(
    model: Target,
    source: Sequence[int],
    expected: Sequence[FinishedSequence],
    found: Sequence[FinishedSequence],
    how: DecodeSettings,
) -> Comparison:
    """Compare one query's answers; see `_Case` for what is given."""
    theirs = {item.tokens: item for item in expected}
    score = max((_apart(item, theirs[item.tokens]) for item in found if item.tokens in theirs), default=0.0)
    texts, wanted = [item.tokens for item in found], [item.tokens for item in expected]
    if texts == wanted:
        return Comparison(score=score)
    tokens = len(texts) != len(wanted) or set(texts) != set(wanted)
    case = _Case(model, source, expected, found, how)
    gap = case.greedy_gap() if how.decoder == "greedy" else case.beam_gap()
    return Comparison(tokens, not tokens, score, gap)


def naive(model: Target, source: Sequence[int], how: DecodeSettings) -> list[FinishedSequence]:
    """Return what the settings mean, decoded without cache, drafts or batch, best first.

    Args:
        model: of one query at a time.
        source: token ids of the query.
        how: with a decoder of `COMPARABLE`.
    """
    if how.decoder == "greedy":
        return [naive_greedy(model, source, how.max_len)]
    return naive_beam(model, source, how.n, how.max_len, how.length_penalty)


Expect = Callable[[Sequence[Sequence[int]]], list[list[FinishedSequence]]]  # token ids of queries to their answers


def by_numpy(engine: Engine, how: DecodeSettings) -> Expect:
    """Return what decodes the engine's model with numpy alone, straight from its folder.

    Raises:
        ValueError: for a model or a length penalty that it does not know.
    """
    if how.length_penalty:
        raise ValueError("numpy ranks a beam by plain log-probability; leave the length penalty 0")
    model = independent.IndependentModel(engine.folder, int8=engine.dtype == "int8")

    def expect(sources: Sequence[Sequence[int]]) -> list[list[FinishedSequence]]:
        found: dict[int, list[FinishedSequence]] = {}
        order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
        for start in range(0, len(order), TOGETHER):
            part = order[start : start + TOGETHER]
            asked = [sources[index] for index in part]
            if how.decoder == "greedy":
                texts = [[text] for text in independent.greedy(model, asked, how.max_len)]
            else:
                texts = independent.beam(model, asked, how.n, how.max_len)
            found.update(zip(part, ([_finished(text) for text in answers] for answers in texts), strict=True))
        return [found[index] for index in range(len(sources))]

    return expect


def _finished(text: independent.Text) -> FinishedSequence:
    return FinishedSequence(text.tokens, text.log_probs, "eos" if text.tokens[-1:] == (EOS,) else "length")


def _apart(one: FinishedSequence, other: FinishedSequence) -> float:
    pairs = zip(one.log_probs, other.log_probs, strict=True)
    return max(abs(one.log_prob - other.log_prob), *(abs(a - b) for a, b in pairs))


def check(
    engine: Engine,
    queries: Sequence[str],
    settings: DecodeSettings,
    drafters: Sequence[str],
    *,
    against: str = "naive",
    minutes: float = 0.0,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Iterator[ComparedBatch]:
    """Compare every drafter's answers with the naive ones; yields as it goes, so that nothing is lost when interrupted.

    Args:
        engine: that computes in fp32 or int8.
        queries: SMILES.
        settings: of an exact decoder; the drafter in it is not looked at.
        drafters: names.
        against: "naive" (torch, everything computed anew at every step) or "numpy" (see `independent`).
        minutes: begin no more queries after this time; 0 is no limit.
        progress: is told how many queries of how many are done.

    Raises:
        ValueError: for a decoder that has no naive counterpart, or an engine that computes in another precision.
    """
    if against not in AGAINST:
        raise ValueError(f"nothing called {against!r} to compare with; there are {' and '.join(AGAINST)}")
    if settings.decoder not in COMPARABLE:
        raise ValueError(
            f"decoder {settings.decoder!r} cannot be compared; "
            f"only {' and '.join(COMPARABLE)} must equal the naive decoder"
        )
    if engine.dtype not in ("fp32", "int8"):
        raise ValueError(
            f"the engine computes in {engine.dtype}, where rounding decides more often; compare in fp32 or int8"
        )
    how = replace(settings, max_len=min(settings.max_len, engine.config.max_positions - 1))
    # Fixed: as many drafts as the budget allows are more to be wrong about; `auto` is planned all the same.
    variants = {name: replace(settings, drafter=name, drafting="fixed") for name in drafters}
    model = checkpoint.load(engine.folder).model.to(engine.device)
    if engine.dtype == "int8":
        model = quantised(model)
    expect: Expect = lambda sources: [naive(model, source, how) for source in sources]  # noqa: E731
    if against == "numpy":
        expect = by_numpy(engine, how)
    began = time.monotonic()
    done, size = 0, max(CHUNK // how.n, 1, settings.batch_size, 2 * TOGETHER if against == "numpy" else 1)
    while done < len(queries) and not (0 < 60 * minutes < time.monotonic() - began):
        part = queries[done : done + size]
        with set_torch_threads(engine.threads):
            chunk = _chunk(engine, model, part, how, variants, expect)
        yield chunk
        done += len(part)
        progress(done, len(queries))


def _chunk(
    engine: Engine,
    model: Target,
    texts: Sequence[str],
    how: DecodeSettings,
    variants: Mapping[str, DecodeSettings],
    expect: Expect,
) -> ComparedBatch:
    ready = [engine.prepare(text) for text in texts]
    usable = [item for item in ready if not item.refusal]
    start = time.perf_counter()
    expected = expect([item.ids for item in usable])
    spent = time.perf_counter() - start
    verdicts, traces, seconds = {}, {}, {}
    for name, settings in variants.items():
        start = time.perf_counter()
        results = engine.predict([item.text for item in usable], settings)
        seconds[name] = time.perf_counter() - start
        verdicts[name] = [
            judge(model, item.ids, answers, written(engine, result), how)
            for item, answers, result in zip(usable, expected, results, strict=True)
        ]
        traces[name] = [result.trace for result in results]
    told = tuple(item.text for item in usable)
    return ComparedBatch(told, len(ready) - len(usable), spent, verdicts, traces, seconds)


def written(engine: Engine, result: DecodeResult) -> list[FinishedSequence]:
    """Return an engine's answers as token ids, eos included, as the decoders wrote them."""
    ids = {token: index for index, token in enumerate(engine.tokenizer.tokens)}
    return [
        FinishedSequence(
            (*(ids[token] for token in item.tokens), *([EOS] if item.ended == "eos" else [])),
            item.token_log_probs,
            item.ended,
        )
        for item in result.hypotheses
    ]


# --- what was found ------------------------------------------------------------------------------


def count(chunk: ComparedBatch) -> dict[str, Any]:
    """Return what is kept of a batch: sums, as JSON, which `summary` adds up."""
    rows, differences = [], []
    for name, verdicts in chunk.verdicts.items():
        counted = speed_numbers(chunk.traces[name])
        rows.append(
            {
                "drafter": name,
                "queries": len(verdicts),
                "tokens": sum(item.tokens for item in verdicts),
                "order": sum(item.order for item in verdicts),
                "excused": sum(not item.same and item.fine for item in verdicts),
                "unexcused": sum(not item.fine for item in verdicts),
                "largest_score_difference": max((item.score for item in verdicts), default=0.0),
                "smallest_margin": counted.margin if counted.margin < float("inf") else None,
                "passes": counted.passes,
                "nodes": counted.computed,
                "seconds": chunk.seconds[name],
            }
        )
        differences += [
            {"drafter": name, "query": query, **_plain(verdict)}
            for query, verdict in zip(chunk.queries, verdicts, strict=True)
            if not (verdict.same and verdict.fine)
        ]
    return {
        "queries": len(chunk.queries),
        "refused": chunk.refused,
        "naive_seconds": chunk.naive_seconds,
        "rows": rows,
        "differences": differences,
    }


def summary(counts: Sequence[Mapping[str, Any]], settings: DecodeSettings) -> dict[str, Any]:
    """Return `{"settings", "queries", "refused", "naive_seconds", "fine", "rows", "differences"}` of all batches.

    A row counts, for one drafter, queries whose answers differ in tokens or in order, those of them that are ties
    (`excused`) and those that are not (`unexcused`, where scores that are too far apart count too).
    """
    rows = [_row(parts) for parts in zip(*(one["rows"] for one in counts), strict=True)]
    queries = sum(one["queries"] for one in counts)
    return {
        "settings": {name: value for name, value in asdict(settings).items() if name != "drafter"},
        "queries": queries,
        "refused": sum(one["refused"] for one in counts),
        "naive_seconds": sum(one["naive_seconds"] for one in counts),
        "fine": queries > 0 and not any(row["unexcused"] for row in rows),
        "rows": rows,
        "differences": [item for one in counts for item in one["differences"]],
    }


def _row(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up what one drafter has in all batches."""
    added = ("queries", "tokens", "order", "excused", "unexcused", "passes", "nodes", "seconds")
    total = {name: sum(part[name] for part in parts) for name in added}
    margins = [part["smallest_margin"] for part in parts if part["smallest_margin"] is not None]
    return {
        "drafter": parts[0]["drafter"],
        **total,
        "largest_score_difference": max(part["largest_score_difference"] for part in parts),
        "smallest_margin": min(margins, default=None),
        "passes_per_query": total["passes"] / max(1, total["queries"]),
        "nodes_per_pass": total["nodes"] / max(1, total["passes"]),
    }


class Journal:
    """A file of counts, a line a batch, by which a run that was ended goes on where it was.

    Its first line says what is compared; to go on with anything else is refused.
    """

    def __init__(self, file: Path, stamp: Mapping[str, Any]) -> None:
        """Open or begin a file.

        Raises:
            ValueError: for a file of another comparison.
        """
        self.file, self.counts = file, list[dict[str, Any]]()
        head = json.dumps(stamp, sort_keys=True)
        try:
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        except FileNotFoundError:
            lines = []
        whole = [line for line in lines if line.endswith("\n")]  # the last is torn where the run was killed
        if whole and whole[0].rstrip("\n") != head:
            raise ValueError(f"{file} holds another comparison ({whole[0].strip()}); name another file")
        self.counts += [json.loads(line) for line in whole[1:]]
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomic(file, "".join(whole) or head + "\n")

    @property
    def done(self) -> int:
        """Queries compared so far, refused ones included."""
        return sum(one["queries"] + one["refused"] for one in self.counts)

    def add(self, one: dict[str, Any]) -> None:
        """Keep a batch."""
        self.counts.append(one)
        with self.file.open("a", encoding="utf-8") as text:
            text.write(json.dumps(one) + "\n")


def stamp_of(engine: Engine, queries: Sequence[str], settings: DecodeSettings, **more: Any) -> dict[str, Any]:
    """Return what makes two runs the same comparison."""
    asked = hashlib.sha256("\n".join(queries).encode()).hexdigest()[:16]
    facts = {"digest": engine.digest, "dtype": engine.dtype, "runtime": engine.runtime, "queries": asked}
    return {**facts, "settings": asdict(settings), **more}


def _plain(verdict: Comparison) -> dict[str, Any]:
    """Return a comparison for JSON, which knows no infinity."""
    return {**verdict._asdict(), "gap": verdict.gap if verdict.gap <= TIE else None}


COLUMNS = {
    "task": "{task}",
    "decoder": "{settings[decoder]}",
    "n": "{settings[n]}",
    "drafter": "{drafter}",
    "queries": "{queries}",
    "tokens differ": "{tokens}",
    "order differs": "{order}",
    "of these ties": "{excused}",
    "not excused": "{unexcused}",
    "largest score difference": "{largest_score_difference:.1e}",
    "smallest margin": "{smallest_margin:.1e}",
    "passes": "{passes_per_query:.1f}",
    "nodes/pass": "{nodes_per_pass:.1f}",
    "seconds": "{seconds:.0f}",
    "naive seconds": "{naive_seconds:.0f}",
}


def _rows(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [{**report, **row} for row in report["rows"]]


def table(report: Mapping[str, Any]) -> Table:
    """Return the report (with its `task`) for a terminal; differences below it."""
    differences = report["differences"]
    lines = [_sentence(item) for item in differences[:SHOWN]]
    lines += [f"... and {len(differences) - SHOWN} more"] * (len(differences) > SHOWN)
    return tables.terminal(COLUMNS, _rows(report), remarks=lines)


def _sentence(item: Mapping[str, Any]) -> str:
    what = "answers" if item["tokens"] else "order" if item["order"] else "scores"
    why = (
        f"NOT a tie of {TIE:g}"
        if item["gap"] is None
        else f"scores are {item['score']:.1e} apart"
        if item["score"] > TIE
        else f"a tie: explained by moving totals by {item['gap']:g}"
    )
    return f"{item['drafter']}: {what} differ for {item['query']}: {why}"


def markdown(report: Mapping[str, Any], *, head: bool) -> str:
    """Return the rows for a document, with the table's head if it begins there."""
    text = tables.markdown(COLUMNS, _rows(report))
    return text if head else text.split("\n", 2)[2]  # after headings and rule


def queries_for(engine: Engine, given: Sequence[str] | None, *, limit: int, seed: int, skip: int = 0) -> list[str]:
    """Draw queries from those given or built in, always the same ones for a seed.

    Args:
        engine: whose task chooses the built-in queries.
        given: SMILES; None takes the built-in ones.
        limit: how many; 0 takes all, in order.
        seed: of the random choice.
        skip: leave out so many of the sample, with which an earlier run ended.

    Raises:
        ValueError: where nothing is left.
    """
    from random import Random

    texts = list(given) if given is not None else list(asset_files.bench_queries(engine.task))
    texts = [text for text in texts if text.strip()]
    chosen = texts if not limit or limit >= len(texts) else Random(seed).sample(texts, limit)
    if 0 < len(chosen) <= skip:
        raise ValueError(f"skip is {skip}, but there are only {len(chosen)} queries")
    return chosen[skip:]
