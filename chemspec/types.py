"""Shared value types: results and traces, immutable and convertible to and from JSON. Log-probs are in nats."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from chemspec.system.extras import require_packages

Prefix = tuple[int, ...]  # token ids, starting with bos
SourceIds = tuple[int, ...]  # a query's token ids, without bos and eos
Cost = Callable[[float], float]  # seconds of a forward pass by its number of nodes
Status = Literal["ok", "invalid", "too_long", "failed"]
Ended = Literal["eos", "length"]
Progress = Callable[[int, int], None]  # called with the number of items done and in total
Tell = Callable[[str], None]  # called with messages for people

# Field names are JSON keys; `_OLD_KEYS` are those of files that were written before version 0.3.


def ignore(*_: object) -> None:
    """Do nothing: the default of a `Progress` and a `Tell`."""


class Scores(NamedTuple):
    """Next-token scores of one prefix: the best k token ids with their log-probs, best first, ties by id."""

    ids: Sequence[int]
    log_probs: Sequence[float]

    @property
    def margin(self) -> float:
        """Log-prob gap between the best two tokens: rounding errors below it cannot change a greedy choice."""
        return float(self.log_probs[0] - self.log_probs[1]) if len(self.log_probs) > 1 else float("inf")


class FinishedSequence(NamedTuple):
    """Output of a decoder: tokens after bos (eos included), their log-probs, and the reason it ended."""

    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    ended: Ended

    @property
    def log_prob(self) -> float:
        """Log-prob of the whole sequence."""
        return sum(self.log_probs)


@dataclass(frozen=True)
class Draft:
    """Drafted tokens after a prefix.

    Attributes:
        span: span of the query from which they were copied, if any.
        match: number of last generated tokens that match the query just before the span.
        positions: position in the query from which each token was copied (the first symbol of a merged token), or -1,
            if they are not from one span.
        probabilities: probability of each token given those before it, if the drafter returns probabilities.
    """

    tokens: tuple[int, ...]
    drafter: str
    span: tuple[int, int] | None = None
    match: int = 0
    positions: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()

    def query_position(self, index: int) -> int | None:
        """Return the position in the query from which token number `index` was copied, or None."""
        if self.positions:
            copied = self.positions[index] if index < len(self.positions) else -1
            return copied if copied >= 0 else None
        return None if self.span is None else self.span[0] + index


@dataclass(frozen=True)
class AcceptedSpan:
    """Accepted drafted tokens: `length` tokens of the output from `start` on, copied from `span`.

    The span has one position per token; of a merged token that is where its first symbol stands.
    """

    start: int
    length: int
    drafter: str
    span: tuple[int, int] | None = None


REQUESTED, DRAFTED = -2, -1  # values of `TreeDelta.sources` for nodes that were not copied from the query


@dataclass(frozen=True)
class TreeDelta:
    """Nodes that one forward pass added to a query's prefix tree, recorded with `DecodeSettings.record`.

    Nodes are numbered over the whole trace, in the order of computation.
    """

    beam: tuple[int, ...]  # nodes that the decoder requested, new or already scored: its live hypotheses, best first
    parents: tuple[int, ...]  # parent's number of each new node, -1 for bos
    tokens: tuple[int, ...]  # token id of each new node
    # Origin of each new node: the position in the query if it was drafted by copying, `DRAFTED` if it was drafted
    # otherwise or computed by a narrower search (in the first pass), `REQUESTED` if the decoder requested it.
    sources: tuple[int, ...]


@dataclass(frozen=True)
class Pass:
    """Record of one forward pass for one query. Raw counts; rates are derived in `metrics.py`.

    Attributes:
        requested: number of requested prefixes that had no scores yet.
        computed: number of nodes computed for this query.
        drafted: number of other nodes: added by a drafter or a look-ahead, or (rarely) evicted ancestors.
        emitted: number of tokens by which the decoder's longest hypothesis grew after this pass.
        accepted: tokens of the best hypothesis among these that were in a draft, without the last one.
        margin: smallest log-prob gap between the best two tokens of the prefixes that the decoder was sent, in nats.
            Rounding errors below it cannot change a greedy output. A beam may also change if two hypotheses at the rank
            of its width are that close, and a sample if a random number is next to a boundary of the cumulative
            distribution.
        width: number of queries in the same forward pass.
        draft_seconds, model_seconds: time of the whole pass, for all its queries together.
        spans: origin of the accepted tokens.
        drafts: drafts proposed after the best hypothesis.
        grown: new nodes of the prefix tree, if recorded.
        draft_calls: forward passes of the drafter's own models, for all queries together.
    """

    requested: int
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


class PluginError(ValueError, TypeError):
    """A decoder or drafter returned what its protocol does not allow; the message names it and says what to return."""


@dataclass(frozen=True)
class StandardCost:
    """Cost of a search without drafts, where that is not one pass per emitted token."""

    tokens: int  # number of tokens by which its longest hypothesis grew, with or without a forward pass
    standard: int  # forward passes needed if neither search used drafts


@dataclass(frozen=True)
class Trace:
    """Record of a decoding run: the query's tokens, the settings and every forward pass; `seconds` is the total time.

    Of a model whose tokens are merged ones (`settings` has "merged"), `query` has the symbols that tokens consist of.
    `vocabulary` is the text of every token id, set only if the prefix tree was recorded or tokens are merged ones.
    `standard_cost` is set if the search reused a narrower one (`passes` then has only the additional passes), or if its
    steps are no single tokens.
    """

    query: tuple[str, ...]
    settings: dict[str, Any]
    passes: tuple[Pass, ...] = ()
    seconds: float = 0.0
    vocabulary: tuple[str, ...] = ()
    standard_cost: StandardCost | None = None


@dataclass(frozen=True)
class Vote:
    """Vote on a prediction by several SMILES variants of the query (`DecodeSettings.augment`)."""

    # Sum of 1 / (1 + rank) over the variants that predicted it; ranks start at 0 and count distinct valid predictions.
    score: float
    variants: int  # number of these variants
    best_rank: int  # its best rank in the predictions of one variant, from 1
    variant: int  # number, from 0, of that variant; SMILES and log-probs are from it


@dataclass(frozen=True)
class Hypothesis:
    """One prediction.

    Attributes:
        smiles: SMILES as generated by the model.
        canonical: canonical SMILES; empty if the SMILES is invalid.
        valid: whether the SMILES is valid.
        tokens: tokens of the SMILES, without eos.
        token_log_probs: log-prob of every token in nats, including eos if it ended with eos.
        ended: "eos", or "length" if it was cut.
        log_prob, model_probability: the model's probability of this SMILES given the query. With augmentation, from the
            variant that ranked it best (the most probable of several). With `DecodeSettings.distinct`, summed over all
            SMILES of the molecule and its tautomers.
        probability: calibrated probability that the prediction is correct (`chemspec.engine.confidence`), if
            `calibrated`; otherwise, where it was not measured for these weights or settings, the model's.
        calibrated: whether `probability` is calibrated.
        vote: votes of the variants of the query; None without augmentation.
        tautomers: canonical SMILES and probability of each tautomer that was predicted, this one included; empty if no
            other was, or without `DecodeSettings.distinct`.
    """

    smiles: str
    canonical: str
    valid: bool
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]
    log_prob: float
    model_probability: float
    probability: float
    ended: Ended = "eos"
    calibrated: bool = False
    vote: Vote | None = None
    tautomers: tuple[tuple[str, float], ...] = ()

    def __repr__(self) -> str:
        text = self.canonical or f"{self.smiles} (not valid)"
        return f"<Hypothesis {text}: probability {self.probability:.3f}>"


@dataclass(frozen=True)
class Merged:
    """Counts of a list merged from several SMILES variants."""

    requested: int  # number of requested variants
    variants: int  # number of decoded variants
    answers: int  # number of predictions, over all variants
    invalid: int  # number of invalid ones among them


@dataclass(frozen=True)
class Distinct:
    """How a list of distinct predictions was selected (`DecodeSettings.distinct`, `chemspec.engine.distinct`)."""

    widths: tuple[int, ...]  # beam widths of the searches in order; the predictions are from the last one
    merged: int  # number of predictions that were other SMILES of the same molecule, or of a tautomer
    omitted: tuple[Hypothesis, ...]  # left out because they are invalid or repeat the query
    excluded: tuple[Hypothesis, ...] = ()  # left out because they do not fit `DecodeSettings.guide`
    earlier: tuple[DecodeResult, ...] = field(default=(), compare=False)  # results of the narrower searches; have times


@dataclass(frozen=True)
class Within:
    """How far the searches of a query came before a deadline (`chemspec.engine.deadline`)."""

    seconds: float  # time limit
    width: int  # beam width of the list; 1 for the greedy answer, 0 if nothing was complete
    abandoned: int  # beam width of the search that was abandoned at the deadline; 0 if none was
    passes: int  # number of forward passes of all searches, the abandoned one included

    @property
    def text(self) -> str:
        """The width of the list in words."""
        width = "greedy answer" if self.width == 1 else f"beam of width {self.width}"
        abandoned = f"; a beam of width {self.abandoned} was abandoned" if self.abandoned else ""
        return f"{width} within {1000 * self.seconds:g} ms{abandoned}"


@dataclass(frozen=True)
class DecodeResult:
    """Result of one query: predictions, best first, or an error status with a message.

    Attributes:
        query: the query as entered.
        status: "ok", "invalid" (not a readable SMILES), "too_long" or "failed" (out of memory, or undefined scores).
        message: error and remedy, unless the status is "ok".
        hypotheses: predictions, best first.
        trace: record of the decoding run.
        notes: changes made to the query, and caveats of the model.
        merged: set if the predictions were merged from several SMILES variants of the query.
        variants: results of these variants, the canonical one first, as if each were decoded alone. The trace of the
            merged result combines their forward passes, without spans and drafts.
        distinct: set for a list of distinct predictions; the trace is that of the last search, its seconds those of
            all.
        smiles: canonical SMILES that was read from the query; empty if it cannot be read.
        within: set if there was a deadline.
    """

    query: str
    status: Status
    message: str
    hypotheses: tuple[Hypothesis, ...] = ()
    trace: Trace = field(default_factory=lambda: Trace((), {}))
    notes: tuple[str, ...] = ()
    merged: Merged | None = None
    variants: tuple[DecodeResult, ...] = ()
    distinct: Distinct | None = None
    smiles: str = ""
    within: Within | None = None

    def __repr__(self) -> str:
        if self.status != "ok":
            return f"<DecodeResult {self.query!r}: {self.status}, {self.message}>"
        first = f", first {self.hypotheses[0]!r}" if self.hypotheses else ""
        return f"<DecodeResult {self.query!r}: {len(self.hypotheses)} predictions{first}>"

    def to_frame(self) -> Any:
        """Return the predictions as a pandas DataFrame, one row each, best first, with `rank` from 1 and `query`."""
        require_packages("pandas", what="a table of predictions")
        import pandas as pd

        columns = ("smiles", "canonical", "valid", "probability", "calibrated", "model_probability", "log_prob")
        rows = [
            {"query": self.query, "rank": rank, **{name: getattr(answer, name) for name in columns}}
            for rank, answer in enumerate(self.hypotheses, 1)
        ]
        return pd.DataFrame(rows, columns=["query", "rank", *columns])


def to_json(value: Any) -> str:
    """Return a value of this module as one line of JSON, with null for infinities."""
    import msgspec

    return msgspec.json.encode(value, enc_hook=float).decode()  # numpy's numbers are floats


def result_from_json(text: str) -> DecodeResult:
    """Parse a `DecodeResult` written by `to_json`, ignoring unknown fields; ValueError for anything else."""
    import msgspec

    try:
        return msgspec.convert(json.loads(text, object_hook=_read_object), DecodeResult)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is not a chemspec result: {error}") from error


_OLD_KEYS = {
    "asked": "requested",
    "places": "positions",
    "chances": "probabilities",
    "spellings": "variants",
    "spelling": "variant",
    "aside": "omitted",
    "barred": "excluded",
    "continued": "standard_cost",
}


def _read_object(values: dict[str, Any]) -> dict[str, Any]:
    """Replace a null margin by infinity, and the keys of old files by today's."""
    for old in _OLD_KEYS.keys() & values.keys():
        values[_OLD_KEYS[old]] = values.pop(old)
    if values.get("margin", 0) is None:
        values["margin"] = float("inf")
    return upgrade_prediction(values)


def upgrade_prediction(values: dict[str, Any]) -> dict[str, Any]:
    """Return a prediction of any version with today's keys; `confidence` was the calibrated probability before 0.3."""
    if {"log_prob", "probability"} <= values.keys() and "model_probability" not in values:
        confidence, values["model_probability"] = values.pop("confidence", None), values["probability"]
        values["calibrated"] = confidence is not None
        values["probability"] = values["probability"] if confidence is None else confidence
    return values
