"""One query in the Python loop.

`QueryState` has its decoder, its requests, all known scores, and the drafts they came from; `DraftTree` the drafts of
one forward pass.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import Any

from chemspec.decode.draft_planner import KNOWN_RATE, AcceptanceRecord, token_class
from chemspec.decode.origins import (
    Origin,
    TreeRecorder,
    accepted_spans,
    common_prefix_length,
    credit_longest,
    node_source,
)
from chemspec.decode.protocol import (
    ConfiguredDecoder,
    Decoder,
    FinishedSearch,
    LookAhead,
    LoopOptions,
    next_search_of,
    read_answers,
    read_request,
)
from chemspec.draft.base import Drafter, read_drafts
from chemspec.tokenizer import BOS, EOS
from chemspec.types import AcceptedSpan, Draft, FinishedSequence, Pass, Prefix, Scores, TreeDelta


@dataclass
class QueryState:
    """A query being decoded."""

    source: Sequence[int]
    decoder: Decoder
    requested: tuple[Prefix, ...] = ()  # prefixes that the decoder currently requests
    ever_requested: set[Prefix] = field(default_factory=set)  # all prefixes requested so far, also by earlier searches
    # Drafted prefixes and their classes (`draft_planner.token_class`); None once their outcome is recorded.
    expected: dict[Prefix, int | None] = field(default_factory=dict)
    scores: dict[Prefix, Scores] = field(default_factory=dict)  # scores of every prefix computed so far
    # Scores that were computed before the current search began.
    reused: dict[Prefix, Scores] = field(default_factory=dict)
    # Drafted prefix -> the draft that contains it, and the index of its last token in the draft.
    draft_of: dict[Prefix, Origin] = field(default_factory=dict)
    tree: TreeRecorder[Prefix] = field(default_factory=TreeRecorder)  # of each search separately
    written: int = 0  # length of the longest hypothesis so far
    standard: int = 0  # forward passes that the search so far needs without drafts (`protocol.FinishedSearch`)
    is_new: bool = False  # whether the current request has a prefix that was never requested before
    advanced: int = 0  # such requests that have been answered
    margin: float = inf  # smallest margin the decoder was sent since the last forward pass
    results: list[FinishedSequence] | None = None  # output sequences, once the decoder has finished
    widest: int = 1
    draft_calls: int = 0  # forward passes of the drafter's models since the last forward pass, made by the decoder
    passes: list[Pass] = field(default_factory=list)  # records of the forward passes
    seconds: float = 0.0  # clock time after the last of them
    earlier: list[FinishedSearch] = field(default_factory=list)  # the finished searches before the current one

    def start_search(self) -> None:
        """Run the decoder to its first request that needs a forward pass."""
        self._send(None)
        _, self.margin = self.resume_decoder()

    def start_next_search(self) -> bool:
        """If this search has finished, start the next one, which reuses its scores; returns whether there is one."""
        while self.results is not None:
            next_search = next_search_of(self.decoder)
            following = next_search(self.results) if next_search else None
            if following is None:
                return False
            self.earlier.append(self.finished_search())
            self.decoder, self.results, self.reused = following, None, self.scores.copy()
            self.written, self.standard, self.widest = 0, 0, 1
            self.tree.start_next_search()
            self.start_search()
        return True

    def finished_search(self) -> FinishedSearch:
        """Return the current search, which has finished."""
        return FinishedSearch(self.results or [], len(self.passes), self.seconds, self.written, self.standard)

    @property
    def own_drafts(self) -> Mapping[Prefix, Sequence[Draft]] | None:
        """Drafts whose nodes the decoder requests itself, by live hypothesis (`ScoreRequest.drafts`), if any."""
        return getattr(self.requested, "drafts", None)

    @property
    def hypothesis_count(self) -> int:
        """Number of live hypotheses: the decoder's beam width if it has one, else its largest request so far."""
        config = self.decoder.config if isinstance(self.decoder, ConfiguredDecoder) else None
        self.widest = max(self.widest, len(self.requested))
        return max(self.widest, getattr(config, "width", 1))

    def _send(self, scores: Any) -> None:
        """Send scores to the decoder and read its next request, or its results."""
        try:
            self.requested = read_request(self.decoder, self.decoder.send(scores))
        except StopIteration as stop:
            self.results = read_answers(self.decoder, stop.value)
        else:
            self.is_new = not self.ever_requested.issuperset(self.requested)
            self.standard += self.is_new and not getattr(self.requested, "repeated", False)
            self.ever_requested.update(self.requested)

    def resume_decoder(self) -> tuple[int, float]:
        """Advance the decoder while all requested scores are known.

        Returns the number of tokens by which its longest hypothesis grew, and the smallest margin among the scores it
        was sent since the last forward pass (`Pass.margin`).
        """
        before, scored = self.written, self.scores
        margin, self.margin = self.margin, inf
        while self.results is None:
            try:
                scores = [scored[prefix] for prefix in self.requested]
            except KeyError:
                break
            for score in scores:
                margin = min(margin, score.margin)
            one_a_step = getattr(self.requested, "written", None) is None
            repeated = getattr(self.requested, "repeated", False)
            self.advanced += self.is_new
            self._send(scores)
            if self.results is None:
                length = getattr(self.requested, "written", None) or 0
            else:
                length = max((len(answer.tokens) for answer in self.results), default=0)
            self.written = self.written + (not repeated) if one_a_step else max(self.written, length)
        return self.written - before, margin

    def observe_drafts(self, record: AcceptanceRecord) -> None:
        """Record which drafted tokens were accepted: children of requested nodes, up to the depth that is reached."""
        reached = inf if self.results is not None else min(map(len, self.requested))
        for prefix, kind in self.expected.items():
            if kind is not None and len(prefix) <= reached:
                self.expected[prefix] = None
                if prefix[:-1] in self.ever_requested:
                    record.add_outcome(kind, prefix in self.ever_requested)

    def leading_prefix(self) -> Prefix:
        """Return the best hypothesis so far."""
        return (BOS, *self.results[0].tokens) if self.results else self.requested[0]

    def record_nodes(
        self, computed: Iterable[Prefix], awaited: Container[Prefix], requested: Iterable[Prefix]
    ) -> TreeDelta:
        """Record the nodes just computed, parents first.

        The decoder awaited some of them; `requested` are all prefixes that it had requested, scored before or not.
        """

        def describe(prefix: Prefix) -> tuple[Prefix, int, int]:
            return prefix[:-1], prefix[-1], node_source(self._origin(prefix), requested=prefix in awaited)

        return self.tree.record(computed, requested, describe)

    def _origin(self, prefix: Prefix) -> Origin | None:
        return None if prefix in self.reused else self.draft_of.get(prefix)

    def accepted_spans(
        self, before: Prefix, emitted: int, branches: Mapping[Prefix, Sequence[Draft]]
    ) -> tuple[AcceptedSpan, ...]:
        """Return the drafted tokens among those just emitted after `before`, as runs copied from one span each.

        Only the best hypothesis is considered. The last token of a forward pass does not count, eos included: in greedy
        decoding it was not drafted but predicted (in a beam it may have been drafted). `emitted` is the growth of the
        longest hypothesis; if another one is the best, its growth up to the longest one's old length does not count. If
        several drafts of this pass, the `branches` after a prefix, share their first tokens, the one with the longest
        accepted run is credited (the first of equals), in `draft_of` too.
        """
        text = self.leading_prefix()
        start = max(len(before), self.written - emitted + 1)
        text = text[: max(start, start + emitted - 1)]
        prefixes = [text[:length] for length in range(start + 1, len(text) + 1)]
        origins = [*map(self._origin, prefixes)]
        alternatives = {len(prefix): drafts for prefix, drafts in branches.items() if text[: len(prefix)] == prefix}
        credit_longest(text, start, origins, alternatives)
        self.draft_of.update((prefix, origin) for prefix, origin in zip(prefixes, origins, strict=True) if origin)
        return accepted_spans(start - 1, origins)


class DraftTree:
    """Drafted prefixes of one query; scored prefixes and those shared between drafts are not computed again."""

    def __init__(self, query: QueryState, drafter: Drafter, options: LoopOptions) -> None:
        """Start an empty tree."""
        self.query, self.drafter, self.options = query, drafter, options
        self.added: dict[Prefix, None] = {}  # prefixes computed in addition to the requested ones, parents first
        # Drafted prefix -> the first draft that contains it, and the index of its last token in the draft.
        self.draft_of: dict[Prefix, Origin] = {}
        self.drafts: dict[Prefix, Sequence[Draft]] = {}  # proposed after a prefix
        # Those that were added in full, as alternatives; a look-ahead follows only the first.
        self.branches: dict[Prefix, Sequence[Draft]] = {}
        self.rates: dict[Prefix, float] = {}  # acceptance rates of the guesses of a look-ahead
        self.probabilities: dict[Prefix, float] = {}  # probabilities that prefixes of a look-ahead are requested

    def add_drafts(self, prefixes: Iterable[Prefix]) -> None:
        """Add the drafts after each prefix, until the budget is used, or with a planner the nodes that pay off."""
        candidates: dict[Prefix, float] = {}  # nodes to compute with the probability that they are requested
        for prefix in prefixes:
            self.branches[prefix] = self._drafts_after(prefix)
            probabilities = {prefix: 1.0}
            for path, draft, index in self._nodes_after(prefix):
                self.draft_of.setdefault(path, (draft, index))
                if path not in probabilities:
                    rate = self._acceptance_rate(path, draft, self.branches[prefix].index(draft), index)
                    probabilities[path] = probabilities[path[:-1]] * rate
                if path[-1] != EOS and path not in self.query.scores and path not in candidates:
                    if self.options.planner is None and len(candidates) >= self.options.budget:
                        break
                    candidates[path] = probabilities[path]
        if self.options.planner is not None:
            candidates = dict(sorted(candidates.items(), key=lambda item: -item[1]))
        self._add_candidates(candidates)

    def _add_candidates(self, candidates: Mapping[Prefix, float]) -> None:
        """Add the first candidates: as many as the budget allows, or with a planner as pay off."""
        planner, most = self.options.planner, self.options.budget
        if planner is not None:
            most = planner.choose([*candidates.values()])
        self.added = dict.fromkeys(islice(candidates, most))

    def _acceptance_rate(self, path: Prefix, draft: Draft, rank: int, index: int) -> float:
        """Return the acceptance rate of a drafted token, and note its class, to observe whether it is requested."""
        query, planner = self.query, self.options.planner
        if planner is None:
            return 1.0
        kind = token_class(draft.probabilities, rank, index)
        if path[-1] != EOS and path not in query.ever_requested and query.expected.get(path, kind) is not None:
            query.expected[path] = kind
        return planner.acceptance.rates[kind]

    def _nodes_after(self, prefix: Prefix) -> Iterator[tuple[Prefix, Draft, int]]:
        """Yield the nodes of all drafts after a prefix, each with the draft and the index of the token."""
        for draft in self.drafts[prefix]:
            path = prefix
            for index, token in enumerate(draft.tokens[: self.options.max_len - len(prefix)]):
                path = (*path, token)
                yield path, draft, index
                if token == EOS:  # no scores are needed after it
                    break

    def add_own_drafts(self) -> None:
        """Record drafts whose nodes the decoder requests itself, so that there is nothing to add."""
        for prefix, drafts in (self.query.own_drafts or {}).items():
            self.drafts[prefix] = read_drafts(self.drafter, drafts, self.options.vocab_size)
            for path, draft, index in self._nodes_after(prefix):
                if path[-1] != EOS:
                    self.draft_of.setdefault(path, (draft, index))
        self.branches = self.drafts

    def add_look_ahead(self, lookahead: LookAhead, missing: Sequence[Prefix]) -> None:
        """Add the prefixes of a decoder's look-ahead, until the budget is used, or with a planner those that pay off.

        The missing prefixes, requested and without scores, are computed anyway. A beam advances by whole levels, so the
        nodes stay in the order in which it would request them.
        """
        skip, candidates = set(missing), dict[Prefix, float]()
        self.probabilities = dict.fromkeys(self.query.requested, 1.0)
        for prefix in lookahead(self.query.scores, self._guess_likely_token):
            if prefix in skip:
                continue
            probability = self._requested_probability(prefix)
            if self.options.planner is not None and probability < self.options.planner.min_probability:
                continue
            if len(candidates) >= self.options.budget:
                break
            candidates[prefix] = probability
        self._add_candidates(candidates)

    def _requested_probability(self, prefix: Prefix) -> float:
        """Return the probability that a prefix of the look-ahead will be requested."""
        if prefix not in self.probabilities:
            rate = KNOWN_RATE if prefix[:-1] in self.query.scores else self.rates.get(prefix, 1.0)
            self.probabilities[prefix] = self._requested_probability(prefix[:-1]) * rate
        return self.probabilities[prefix]

    def _guess_likely_token(self, prefix: Prefix) -> int | None:
        """Guess the next token, unless the prefix is too unlikely to pay off."""
        planner = self.options.planner
        if planner is not None and self._requested_probability(prefix) < planner.min_probability:
            return None
        return self.guess_next_token(prefix)

    def guess_next_token(self, prefix: Prefix) -> int | None:
        """Return the token after `prefix` in the draft that contains it, or else in the best new draft."""
        draft, index = self.draft_of.get(prefix, (None, 0))
        if draft is None or index + 1 >= len(draft.tokens):
            drafts = self._drafts_after(prefix)
            if not drafts:
                return None
            draft, index = drafts[0], -1
        path = (*prefix, draft.tokens[index + 1])
        self.draft_of.setdefault(path, (draft, index + 1))
        self.rates[path] = self._acceptance_rate(path, draft, 0, index + 1)
        return path[-1]

    def _drafts_after(self, prefix: Prefix) -> Sequence[Draft]:
        if prefix not in self.drafts:
            # A prefix of max_len tokens is complete and needs no scores, so drafts stop one token earlier.
            room = self.options.max_len - len(prefix)
            drafts = self.drafter.propose(self.query.source, prefix, room) if room > 0 else ()
            self.drafts[prefix] = read_drafts(self.drafter, drafts, self.options.vocab_size)
        return self.drafts[prefix]

    def matched_drafts(self, before: Prefix) -> Iterator[tuple[Draft, int]]:
        """Yield the drafts after `before`, the leading prefix, with their numbers of accepted tokens."""
        text = self.query.leading_prefix()
        if text[: len(before)] != before:
            return  # another hypothesis is the best one now
        emitted = text[len(before) :]
        for draft in self.drafts.get(before, ()):
            seen = draft.tokens[: len(emitted)]
            matched = common_prefix_length(seen, emitted)
            if matched == len(seen) < len(draft.tokens):  # the tokens after these were not judged
                draft = replace(draft, tokens=seen)
            if seen:
                yield draft, matched
