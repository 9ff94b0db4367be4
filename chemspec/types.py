"""Define the values that everything shares; frozen, and JSON both ways. All log-probs are in nats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Prefix = tuple[int, ...]  # token ids from bos on
Status = Literal["ok", "invalid", "too_long", "failed"]
Ended = Literal["eos", "length"]


class Scores(NamedTuple):
    """What comes after one prefix: the best k token ids with their log-probs, best first, ties by id."""

    ids: Sequence[int]
    log_probs: Sequence[float]

    @property
    def margin(self) -> float:
        """The log-prob gap between the best two tokens: how far arithmetic noise is from changing a greedy choice."""
        return float(self.log_probs[0] - self.log_probs[1]) if len(self.log_probs) > 1 else float("inf")


class FinishedSequence(NamedTuple):
    """An answer as a decoder finished it: tokens after bos (eos included), a log-prob for each, and why it ended."""

    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    ended: Ended

    @property
    def log_prob(self) -> float:
        """Of the whole answer."""
        return sum(self.log_probs)


@dataclass(frozen=True)
class Draft:
    """A guess at the tokens after a prefix.

    Attributes:
        span: the place in the query from which they were copied, if any.
        match: how many of the tokens written last match the query just before that place.
        places: of every token the place in the query from which it was copied, -1 for none, where that is no one span.
        chances: of every token the chance that it follows those before it, if the drafter has an opinion.
    """

    tokens: tuple[int, ...]
    drafter: str
    span: tuple[int, int] | None = None
    match: int = 0
    places: tuple[int, ...] = ()
    chances: tuple[float, ...] = ()

    def place_in_query(self, index: int) -> int | None:
        """The place in the query from which the draft's token number `index` was copied, if it was."""
        if self.places:
            copied = self.places[index] if index < len(self.places) else -1
            return copied if copied >= 0 else None
        return None if self.span is None else self.span[0] + index


@dataclass(frozen=True)
class AcceptedSpan:
    """Drafted tokens that the model confirmed: `length` tokens of the answer from `start` on, copied from `span`."""

    start: int
    length: int
    drafter: str
    span: tuple[int, int] | None = None


ASKED, AHEAD = -2, -1  # in `TreeDelta.sources`, of nodes that were not copied from the query


@dataclass(frozen=True)
class TreeDelta:
    """What one pass added to a query's tree of prefixes, recorded on request (`DecodeSettings.record`).

    Nodes are numbered over the whole trace, in the order in which they were computed.

    Attributes:
        beam: the nodes that the decoder asked about, whether new or already scored: its live hypotheses, best first.
        parents: of each new node its parent's number, -1 for the first node, which is bos.
        tokens: of each new node its token id.
        sources: of each new node where it comes from: the place in the query from which it was copied ahead of being
            asked for, `AHEAD` if it was drafted but not copied from one place, or computed by a narrower search (then
            the first pass lists it), `ASKED` if the decoder asked for it.
    """

    beam: tuple[int, ...]
    parents: tuple[int, ...]
    tokens: tuple[int, ...]
    sources: tuple[int, ...]


@dataclass(frozen=True)
class Pass:
    """One model call, as one query saw it. Raw counts; every rate is derived in `metrics.py`.

    Attributes:
        asked: prefixes the decoder was waiting for that had no scores yet.
        computed: nodes run through the model for this query.
        drafted: all others among them: what a drafter or a look-ahead added, and (seldom) ancestors that had been
            cleared away and are computed again.
        emitted: tokens by which the longest of the decoder's hypotheses grew in consequence.
        accepted: those of them that had been drafted, without the last of the pass (`QueryState.accepted`).
        margin: smallest gap between the best two tokens of a prefix that the decoder was sent, in nats. Noise below it
            leaves a greedy answer as it is. A beam may also change where two hypotheses at the rank of its width are
            that close, and a sample where a draw falls next to an edge of the cumulative distribution.
        width: queries in the same call.
        draft_seconds, model_seconds: of the whole call, shared by all its queries.
        spans: where accepted tokens came from.
        drafts: what was proposed after the leading prefix.
        grown: the new nodes of the prefix tree, if they were recorded.
        draft_calls: runs of the drafter's own models, if it has any; of the whole call, shared like its seconds.
    """

    asked: int
    computed: int
    drafted: int
    emitted: int
    accepted: int
    margin: float
    width: int
    draft_seconds: float
    model_seconds: float
    spans: tuple[AcceptedSpan, ...] = ()
    drafts: tuple[Draft, ...] = ()
    grown: TreeDelta | None = None
    draft_calls: int = 0


@dataclass(frozen=True)
class Continued:
    """What a search took that went on from the scores and the KV cache of a narrower one.

    Attributes:
        tokens: by which its longest hypothesis grew, those that needed no pass included.
        standard: passes that it takes where neither search has drafts.
    """

    tokens: int
    standard: int


@dataclass(frozen=True)
class Trace:
    """How an answer was made: the query's tokens, the settings and every pass; `seconds` includes everything.

    `vocabulary` is the text of every token id, kept only where the tree of prefixes was recorded. `continued` is set
    where the search went on from a narrower one, and has passes for what was new in it alone.
    """

    query: tuple[str, ...]
    settings: dict[str, Any]
    passes: tuple[Pass, ...] = ()
    seconds: float = 0.0
    vocabulary: tuple[str, ...] = ()
    continued: Continued | None = None


@dataclass(frozen=True)
class Vote:
    """How an answer fared among several spellings of the query (`DecodeSettings.augment`, `chemspec.engine.augment`).

    Attributes:
        score: sum of 1 / (1 + rank) over the spellings that gave it, ranks from 0 among their different valid answers.
        spellings: how many gave it.
        best_rank: its best place among the answers of one spelling, from 1.
        spelling: the number, from 0, of the spelling that gave it that place; text and log-probs are this one's.
    """

    score: float
    spellings: int
    best_rank: int
    spelling: int


@dataclass(frozen=True)
class Hypothesis:
    """One answer.

    Attributes:
        smiles: the text as the model wrote it.
        canonical: in RDKit's spelling; empty where the text is no valid SMILES.
        valid: whether it is one.
        tokens: the text in pieces, without eos.
        token_log_probs: in nats, of every token, and of eos where the answer ended with it.
        ended: "eos", or "length" where it was cut.
        log_prob, probability: the model's own, of this text after the query as it was spelled; of an answer merged from
            several spellings, those of the spelling that ranked it best (of several, the most probable). In a list of
            different answers (`DecodeSettings.distinct`) those of all its texts together.
        confidence: the chance that this answer is right, as measured on validation data (`chemspec.engine.confidence`);
            None where it has not been measured for these weights or this kind of answer.
        vote: how it fared among several spellings of the query; None where there was one.
    """

    smiles: str
    canonical: str
    valid: bool
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]
    log_prob: float
    probability: float
    ended: Ended = "eos"
    confidence: float | None = None
    vote: Vote | None = None


@dataclass(frozen=True)
class Merged:
    """What a merged list of answers was made of.

    Attributes:
        asked: spellings of the query that were wanted.
        spellings: those that were decoded.
        answers, invalid: of all spellings together; invalid ones have no vote.
    """

    asked: int
    spellings: int
    answers: int
    invalid: int


@dataclass(frozen=True)
class Distinct:
    """How a list of different answers was made of a search (`DecodeSettings.distinct`, `chemspec.engine.distinct`).

    Attributes:
        widths: of the searches, one after the other; the answers are those of the last.
        merged: texts that were other spellings of an answer.
        aside: answers left out: no molecules, or the query again.
        barred: answers left out because they are not what the guide wants (`DecodeSettings.guide`).
        earlier: results of the searches before the last, which were too narrow.
    """

    widths: tuple[int, ...]
    merged: int
    aside: tuple[Hypothesis, ...]
    barred: tuple[Hypothesis, ...] = ()
    earlier: tuple[DecodeResult, ...] = field(default=(), compare=False)  # has times, which differ from run to run


@dataclass(frozen=True)
class DecodeResult:
    """What became of one query: answers best first, or a status and a message that says what to do.

    Attributes:
        query: as it was asked.
        status: "ok"; "invalid" (no SMILES that can be read), "too_long" or "failed" (out of memory, or scores that are
            no numbers).
        message: what is wrong and what to do, unless the status is "ok".
        hypotheses: the answers, best first.
        trace: how they were made.
        notes: what was done to the query, and what one has to know of the model.
        merged: set where the answers were merged from several spellings of the query, which is no decoder's own list.
        spellings: then, what became of each spelling, the canonical one first: answers and trace as if it had been
            asked alone. The trace of the whole sums up each model call, without spans and drafts.
        distinct: set where only different, useful answers were wanted; the trace is that of the last search, its
            seconds those of all.
        smiles: what was read in the query, canonical: what the model was asked; empty if it cannot be read.
    """

    query: str
    status: Status
    message: str
    hypotheses: tuple[Hypothesis, ...] = ()
    trace: Trace = field(default_factory=lambda: Trace((), {}))
    notes: tuple[str, ...] = ()
    merged: Merged | None = None
    spellings: tuple[DecodeResult, ...] = ()
    distinct: Distinct | None = None
    smiles: str = ""


def to_json(value: Any) -> str:
    """Return a value of this module as one line of JSON; infinities become null."""
    import msgspec

    return msgspec.json.encode(value, enc_hook=float).decode()  # numpy's numbers are floats


def result_from_json(text: str) -> DecodeResult:
    """Read what `to_json` wrote for a `DecodeResult`, today or by an earlier version.

    Raises:
        ValueError: if the text is not such a document, or has a field that this version does not know.
    """
    import msgspec

    try:
        values = json.loads(text, object_hook=_with_margin)
        result = msgspec.convert(values, DecodeResult)
        _check_known(values, msgspec.to_builtins(result))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is not a chemspec result: {error}") from error
    return result


def _with_margin(values: dict[str, Any]) -> dict[str, Any]:
    """Undo the null that an infinite margin became."""
    return {**values, "margin": float("inf")} if values.get("margin", 0) is None else values


def _check_known(values: Any, known: Any) -> None:
    """Refuse what was read but is no field of anything."""
    if isinstance(values, dict):
        for name in values:
            if name not in known:
                raise ValueError(f"unknown field {name!r}")
            _check_known(values[name], known[name])
    elif isinstance(values, list):
        for one, other in zip(values, known, strict=True):
            _check_known(one, other)
