"""State of one query in the Python loop: its decoder, its requests, all known scores, and the drafts they came from."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from math import inf
from typing import Any

from chemspec.decode.protocol import (
    ConfiguredDecoder,
    Decoder,
    FinishedSearch,
    next_search_of,
    read_answers,
    read_request,
)
from chemspec.tokenizer import BOS
from chemspec.types import DRAFTED, REQUESTED, AcceptedSpan, Draft, FinishedSequence, Pass, Prefix, Scores, TreeDelta


@dataclass
class QueryState:
    """A query being decoded."""

    source: Sequence[int]
    decoder: Decoder
    requested: tuple[Prefix, ...] = ()  # prefixes that the decoder currently requests
    ever_requested: set[Prefix] = field(default_factory=set)  # all prefixes requested so far, also by earlier searches
    scores: dict[Prefix, Scores] = field(default_factory=dict)  # scores of every prefix computed so far
    # Scores that were computed before the current search began.
    reused: dict[Prefix, Scores] = field(default_factory=dict)
    # Drafted prefix -> the draft that contains it, and the index of its last token in the draft.
    draft_of: dict[Prefix, tuple[Draft, int]] = field(default_factory=dict)
    # Recorded node number of each prefix; the newer one if it was computed twice.
    numbers: dict[Prefix, int] = field(default_factory=dict)
    recorded: int = 0  # number of recorded nodes
    written: int = 0  # length of the longest hypothesis so far
    standard: int = 0  # forward passes that the search so far needs without drafts (`protocol.FinishedSearch`)
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
            self.numbers, self.recorded = {}, 0  # each search has its own record
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
            self.standard += not self.ever_requested.issuperset(self.requested)
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
            self._send(scores)
            if self.results is None:
                length = getattr(self.requested, "written", None) or 0
            else:
                length = max((len(answer.tokens) for answer in self.results), default=0)
            self.written = self.written + 1 if one_a_step else max(self.written, length)
        return self.written - before, margin

    def leading_prefix(self) -> Prefix:
        """Return the best hypothesis so far."""
        return (BOS, *self.results[0].tokens) if self.results else self.requested[0]

    def record_nodes(
        self, computed: Iterable[Prefix], awaited: Container[Prefix], requested: Iterable[Prefix]
    ) -> TreeDelta:
        """Record the nodes just computed, parents first; a search's first record includes the nodes it reuses.

        The decoder awaited some of them; `requested` are all prefixes that it had requested, scored before or not.
        """
        parents, tokens, sources = [], [], []
        for prefix in computed if self.recorded else (*self.reused, *computed):
            draft, index = (None, 0) if prefix in self.reused else self.draft_of.get(prefix, (None, 0))
            parents.append(self.numbers.get(prefix[:-1], -1))
            tokens.append(prefix[-1])
            copied = draft.query_position(index) if draft is not None else None
            sources.append(REQUESTED if prefix in awaited else DRAFTED if copied is None else copied)
            self.numbers[prefix] = self.recorded
            self.recorded += 1
        beam = tuple(self.numbers[prefix] for prefix in requested)
        return TreeDelta(beam, tuple(parents), tuple(tokens), tuple(sources))

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
        end = min(start + emitted, len(text) + 1)
        self._credit_longest(text[: end - 1], start + 1, branches)
        runs: list[AcceptedSpan] = []
        for length in range(start + 1, end):
            if text[:length] not in self.draft_of or text[:length] in self.reused:
                continue
            draft, index = self.draft_of[text[:length]]
            copied, run = draft.query_position(index), runs[-1] if runs else None
            span = None if copied is None else (copied, copied + 1)
            follows = run and run.start + run.length == length - 2 and run.drafter == draft.drafter
            if run and follows and (run.span[1] if run.span else None) == copied:
                runs[-1] = replace(run, length=run.length + 1, span=span and run.span and (run.span[0], span[1]))
            else:
                runs.append(AcceptedSpan(length - 2, 1, draft.drafter, span))
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
            draft = max(branches[anchor], key=lambda branch: common_prefix_length(branch.tokens, answer))
            for at in range(index, common_prefix_length(draft.tokens, answer)):
                self.draft_of[text[:length]] = draft, at
                length += 1


def common_prefix_length(tokens: Sequence[int], others: Sequence[int]) -> int:
    """Return the length of the common prefix of two token sequences."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(tokens, others, strict=False)))
