"""Keep one query's state: its decoder, what it asks, every score known for it, and which drafts led there."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from chemspec.decode.protocol import Decoder, RuledDecoder, ScoreRequest, next_search_of
from chemspec.tokenizer import BOS
from chemspec.types import AHEAD, ASKED, AcceptedSpan, Draft, FinishedSequence, Prefix, Scores, TreeDelta


@dataclass
class QueryState:
    """A query under way.

    Attributes:
        requested: the prefixes that the decoder waits for.
        ever_requested: those and all before, of earlier searches too.
        scores: of every prefix computed so far.
        reused: those that were computed before the present search began.
        draft_of: drafted prefix -> the draft that led to it, and the index of its last token in the draft.
        numbers: of the nodes recorded so far; of one that was computed again the newer.
        recorded: how many nodes have been recorded.
        written: tokens of the longest hypothesis so far.
        standard: passes that the search so far takes without drafts (`protocol.Search`).
        margin: the smallest that the decoder was sent since the last pass.
        results: what the decoder returned, once it has.
    """

    source: Sequence[int]
    decoder: Decoder
    requested: tuple[Prefix, ...] = ()
    ever_requested: set[Prefix] = field(default_factory=set)
    scores: dict[Prefix, Scores] = field(default_factory=dict)
    reused: dict[Prefix, Scores] = field(default_factory=dict)
    draft_of: dict[Prefix, tuple[Draft, int]] = field(default_factory=dict)
    numbers: dict[Prefix, int] = field(default_factory=dict)
    recorded: int = 0
    written: int = 0
    standard: int = 0
    margin: float = inf
    results: list[FinishedSequence] | None = None
    widest: int = 1

    def start(self) -> None:
        """Run the decoder to its first request that takes a pass."""
        try:
            self.requested = next(self.decoder)
        except StopIteration as stop:
            self.results = stop.value
            return
        self._count_standard()
        _, self.margin = self.resume()

    def go_on(self, decoder: Decoder) -> None:
        """Search anew with another decoder, from the scores that there are."""
        self.decoder, self.results, self.reused = decoder, None, self.scores.copy()
        self.written, self.standard, self.widest = 0, 0, 1
        self.numbers, self.recorded = {}, 0  # each search's record stands for itself
        self.start()

    @property
    def may_go_on(self) -> bool:
        """Whether another search may follow, for which every node stays in the cache."""
        return next_search_of(self.decoder) is not None

    def _count_standard(self) -> None:
        self.standard += not self.ever_requested.issuperset(self.requested)
        self.ever_requested.update(self.requested)

    @property
    def tried(self) -> Mapping[Prefix, Sequence[Draft]] | None:
        """The drafts whose nodes the decoder itself requests, by live hypothesis (`ScoreRequest.drafts`), if any."""
        return self.requested.drafts if isinstance(self.requested, ScoreRequest) else None

    def missing(self) -> list[Prefix]:
        """Return the requested prefixes without scores."""
        return [prefix for prefix in self.requested if prefix not in self.scores]

    @property
    def width(self) -> int:
        """How many hypotheses the decoder keeps: by its rules, or as many as it has requested at once."""
        rules = self.decoder.rules if isinstance(self.decoder, RuledDecoder) else None
        self.widest = max(self.widest, len(self.requested))
        return max(self.widest, getattr(rules, "width", 1))

    def resume(self, on_request: Callable[[Sequence[Prefix]], None] = lambda _: None) -> tuple[int, float]:
        """Answer the decoder as long as all it requests is known; what it requests next `on_request` is told.

        Returns:
            The tokens by which its longest hypothesis grew, and the smallest margin among the scores that it was sent
            since the last pass (`Pass.margin`).
        """
        before, known = self.written, self.scores
        margin, self.margin = self.margin, inf
        while self.results is None:
            try:
                scores = [known[prefix] for prefix in self.requested]
            except KeyError:
                break
            for score in scores:
                margin = min(margin, score.margin)
            one_a_step = getattr(self.requested, "written", None) is None
            try:
                self.requested = self.decoder.send(scores)
                length = getattr(self.requested, "written", None) or 0
            except StopIteration as stop:
                self.results = stop.value
                length = max((len(answer.tokens) for answer in stop.value), default=0)
            self.written = self.written + 1 if one_a_step else max(self.written, length)
            if self.results is None:
                self._count_standard()
                on_request(self.requested)
        return self.written - before, margin

    def leading(self) -> Prefix:
        """Return the text of the first hypothesis so far."""
        return (BOS, *self.results[0].tokens) if self.results else self.requested[0]

    def record(self, computed: Iterable[Prefix], asked: Container[Prefix], requested: Iterable[Prefix]) -> TreeDelta:
        """Number the nodes just computed, parents first; before a search's first, those that it reuses.

        Args:
            computed: their prefixes.
            asked: those of them that the decoder waited for.
            requested: all that it waited for, scored before or not.
        """
        parents, tokens, sources = [], [], []
        for prefix in computed if self.recorded else (*self.reused, *computed):
            draft, index = (None, 0) if prefix in self.reused else self.draft_of.get(prefix, (None, 0))
            parents.append(self.numbers.get(prefix[:-1], -1))
            tokens.append(prefix[-1])
            copied = draft.place_in_query(index) if draft is not None else None
            sources.append(ASKED if prefix in asked else AHEAD if copied is None else copied)
            self.numbers[prefix] = self.recorded
            self.recorded += 1
        beam = tuple(self.numbers[prefix] for prefix in requested)
        return TreeDelta(beam, tuple(parents), tuple(tokens), tuple(sources))

    def accepted(
        self, before: Prefix, emitted: int, branches: Mapping[Prefix, Sequence[Draft]]
    ) -> tuple[AcceptedSpan, ...]:
        """Return which of the tokens just emitted after `before` had been drafted, as runs copied from one span.

        Of several hypotheses this follows the first. The last token of a pass does not count, eos included: in greedy
        decoding it was not itself computed, so it is the model's own; of a beam it may have been. Where drafts begin
        alike, the one with the longest accepted run is credited (of equal ones the first), in `draft_of` too.

        Args:
            before: the first hypothesis before the pass.
            emitted: tokens by which the longest hypothesis grew; where it is not the first, what this grew up to that
                one's old length does not count.
            branches: drafts of this pass that were added side by side, by the prefix that they follow.
        """
        text = self.leading()
        start = max(len(before), self.written - emitted + 1)
        end = min(start + emitted, len(text) + 1)
        self._credit_longest(text[: end - 1], start + 1, branches)
        runs: list[AcceptedSpan] = []
        for length in range(start + 1, end):
            if text[:length] not in self.draft_of or text[:length] in self.reused:
                continue
            draft, index = self.draft_of[text[:length]]
            copied = draft.place_in_query(index)
            run = AcceptedSpan(length - 2, 1, draft.drafter, None if copied is None else (copied, copied + 1))
            joined = _join(runs[-1], run) if runs else None
            if joined is None:
                runs.append(run)
            else:
                runs[-1] = joined
        return tuple(runs)

    def _credit_longest(self, text: Prefix, length: int, branches: Mapping[Prefix, Sequence[Draft]]) -> None:
        """Credit the drafted tokens of `text`, from this length on, to the drafts with the longest accepted runs."""
        while length <= len(text):
            draft, index = self.draft_of.get(text[:length], (None, 0))
            anchor = text[: length - index - 1]
            if draft is None or anchor not in branches:
                length += 1
                continue
            answer = text[len(anchor) :]
            draft = max(branches[anchor], key=lambda branch: _common_length(branch.tokens, answer))
            for at in range(index, _common_length(draft.tokens, answer)):
                self.draft_of[text[:length]] = draft, at
                length += 1


def _common_length(tokens: Sequence[int], others: Sequence[int]) -> int:
    """Return how many tokens two texts begin with alike."""
    pairs = enumerate(zip(tokens, others, strict=False))
    return next((at for at, (token, other) in pairs if token != other), min(len(tokens), len(others)))


def _join(run: AcceptedSpan, following: AcceptedSpan) -> AcceptedSpan | None:
    """Return both as one run, if the second goes on where the first ends, in the answer and in the query."""
    if run.start + run.length != following.start or run.drafter != following.drafter:
        return None
    length = run.length + following.length
    if run.span is None and following.span is None:
        return AcceptedSpan(run.start, length, run.drafter)
    if run.span is None or following.span is None or run.span[1] != following.span[0]:
        return None
    return AcceptedSpan(run.start, length, run.drafter, (run.span[0], following.span[1]))
