"""Plain values that everything shares; frozen, and JSON both ways. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, NamedTuple, TypeVar

Prefix = tuple[int, ...]  # token ids from bos on
Status = Literal["ok", "invalid", "too_long", "failed"]
Ended = Literal["eos", "length"]


class Scores(NamedTuple):
    """What comes after one prefix: the best k token ids with their log-probs, best first, ties by id."""

    ids: Sequence[int]
    log_probs: Sequence[float]

    @property
    def margin(self) -> float:
        """The log-prob gap between the best two tokens: how far arithmetic noise is from changing the choice."""
        return float(self.log_probs[0] - self.log_probs[1]) if len(self.log_probs) > 1 else float("inf")


class FinishedSequence(NamedTuple):
    """An answer as a decoder finished it: tokens after bos (eos included), a log-prob for each, and why it ended."""

    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    ended: Ended

    @property
    def log_prob(self) -> float:
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

    def source(self, place: int) -> int | None:
        """The place in the query from which the token at `place` of the draft was copied, if it was."""
        if self.places:
            copied = self.places[place] if place < len(self.places) else -1
            return copied if copied >= 0 else None
        return None if self.span is None else self.span[0] + place


@dataclass(frozen=True)
class AcceptedSpan:
    """Drafted tokens that the model confirmed: `length` tokens of the answer from `start` on, copied from `span`."""

    start: int
    length: int
    drafter: str
    span: tuple[int, int] | None = None


ASKED, AHEAD = -2, -1  # in `TreeDelta.sources`: what was not copied from the query


@dataclass(frozen=True)
class TreeDelta:
    """What one pass added to a query's tree of prefixes, recorded on request (`DecodeSettings.record`).

    Nodes are numbered over the whole trace, in the order in which they were computed.

    Attributes:
        beam: the nodes that the decoder asked about, whether new or already scored: its live hypotheses, best first.
        parents: of each new node its parent's number, -1 for the first node, which is bos.
        tokens: of each new node its token id.
        sources: of each new node the place in the query from which it was copied ahead of being asked for, `AHEAD`
            if it was drafted but not copied from one place, `ASKED` if it was computed because it was asked for.
    """

    beam: tuple[int, ...]
    parents: tuple[int, ...]
    tokens: tuple[int, ...]
    sources: tuple[int, ...]


@dataclass(frozen=True)
class Pass:
    """One model call, as one query saw it. Raw counts; every rate is derived in `metrics.py`.

    Attributes:
        asked: prefixes the decoder was waiting for.
        computed: nodes run through the model for this query.
        drafted: nodes among them that a drafter added.
        emitted: tokens by which the answer (the beam) grew in consequence.
        accepted: those of them that had been drafted.
        margin: smallest top-2 margin among the prefixes answered.
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
class Trace:
    """How an answer was made: the query's tokens, the settings and every pass; `seconds` includes everything.

    `vocabulary` is the text of every token id, kept only where the tree of prefixes was recorded.
    """

    query: tuple[str, ...]
    settings: dict[str, Any]
    passes: tuple[Pass, ...] = ()
    seconds: float = 0.0
    vocabulary: tuple[str, ...] = ()


@dataclass(frozen=True)
class Vote:
    """How an answer fared among several spellings of the query (`DecodeSettings.augment`, `merge.py`).

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
    """One answer. `canonical` is empty where the text is no valid SMILES; `ended` is "length" where it was cut.

    Attributes:
        log_prob, probability: the model's own, of this text after the query as it was spelled; of an answer merged from
            several spellings, those of the spelling that ranked it best (of several, the most probable).
        confidence: the chance that this answer is right, as measured on validation data (`confidence.py`); None where
            it has not been measured for these weights or this kind of answer.
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
class DecodeResult:
    """What became of one query: answers best first, or a status and a message that says what to do.

    Attributes:
        merged: set where the answers were merged from several spellings of the query, which is no decoder's own list.
        spellings: then, what became of each spelling, the canonical one first: answers and trace as if it had been
            asked
            alone. The trace of the whole sums up each model call, without spans and drafts.
    """

    query: str
    status: Status
    message: str
    hypotheses: tuple[Hypothesis, ...] = ()
    trace: Trace = field(default_factory=lambda: Trace((), {}))
    notes: tuple[str, ...] = ()
    merged: Merged | None = None
    spellings: tuple[DecodeResult, ...] = ()


T = TypeVar("T")


def to_json(value: Any) -> str:
    """A value of this module as one line of JSON; infinities become null."""
    return json.dumps(_finite(asdict(value)))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if abs(value) != float("inf") and value == value else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def result_from_json(text: str) -> DecodeResult:
    """Read what `to_json` wrote for a `DecodeResult`.

    Raises:
        ValueError: if the text is not such a document.
    """
    try:
        return _result(json.loads(text))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"this is not a chemspec result: {error}") from error


def _result(values: dict[str, Any]) -> DecodeResult:
    merged = values.pop("merged", None)
    return _make(
        DecodeResult,
        values,
        hypotheses=tuple(_hypothesis(item) for item in values.pop("hypotheses")),
        trace=_trace(values.pop("trace")),
        notes=tuple(values.pop("notes", ())),
        merged=None if merged is None else _make(Merged, merged),
        spellings=tuple(_result(item) for item in values.pop("spellings", ())),
    )


def _hypothesis(values: dict[str, Any]) -> Hypothesis:
    vote = values.pop("vote", None)
    return _make(
        Hypothesis,
        values,
        tokens=tuple(values.pop("tokens")),
        token_log_probs=tuple(values.pop("token_log_probs")),
        vote=None if vote is None else _make(Vote, vote),
    )


def _trace(values: dict[str, Any]) -> Trace:
    passes = []
    for item in values.pop("passes"):
        margin = item.pop("margin")
        spans = tuple(_make(AcceptedSpan, span, span=_pair(span.pop("span", None))) for span in item.pop("spans"))
        drafts = tuple(
            _make(
                Draft,
                one,
                tokens=tuple(one.pop("tokens")),
                span=_pair(one.pop("span", None)),
                places=tuple(one.pop("places", ())),
                chances=tuple(one.pop("chances", ())),
            )
            for one in item.pop("drafts", ())
        )
        grown = item.pop("grown", None)
        if grown is not None:
            grown = _make(TreeDelta, {name: tuple(numbers) for name, numbers in grown.items()})
        margin = float("inf") if margin is None else margin
        passes.append(_make(Pass, item, margin=margin, spans=spans, drafts=drafts, grown=grown))
    query, words = tuple(values.pop("query")), tuple(values.pop("vocabulary", ()))
    return _make(Trace, values, query=query, passes=tuple(passes), vocabulary=words)


def _pair(value: Any) -> tuple[int, int] | None:
    return None if value is None else (int(value[0]), int(value[1]))


def _make(kind: type[T], values: dict[str, Any], **parts: Any) -> T:
    known = {item.name for item in fields(kind)}  # type: ignore[arg-type]
    unknown = set(values) - known
    if unknown:
        raise ValueError(f"unknown field {sorted(unknown)[0]!r}")
    return kind(**{**values, **parts})
