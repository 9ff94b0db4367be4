"""Define a decoder: a generator that requests the scores of prefixes, and goes on when it is sent them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chemspec.tokenizer import BOS, EOS
from chemspec.types import Draft, FinishedSequence, Prefix, Scores

Guess = Callable[[Prefix], int | None]  # the likeliest next token, or none if there is no idea
LookAhead = Callable[[Mapping[Prefix, Scores], Guess], Iterator[Prefix]]

# Yields prefixes, is sent the scores of each in the same order, and returns answers, best first. Of drafts it knows
# nothing.
Decoder = Generator[tuple[Prefix, ...], Sequence[Scores], list[FinishedSequence]]
NextSearch = Callable[[list[FinishedSequence]], Decoder | None]

START: Prefix = (BOS,)


class Limits(NamedTuple):
    """What bounds the drafts of a run.

    Attributes:
        max_len: most tokens of an answer: no draft goes further.
        budget: most nodes that drafts may add to a pass for one query.
        vocab_size: a drafted token id must be below it.
    """

    max_len: int
    budget: int
    vocab_size: int


class RuledDecoder(Generator[tuple[Prefix, ...], Sequence[Scores], list[FinishedSequence]]):
    """A decoder that says by which rules it plays, so that compiled code may play in its place.

    A plain generator is a decoder too, but always runs in the Python loop.

    Attributes:
        rules: all that its answers depend on beside the scores.
        next_search: given its answers, returns what decodes the same query next, or None. That goes on from the scores
            and the KV cache of this one, of which nothing is cleared away before: no node is computed twice.
        started: whether it has been asked for its first request.
    """

    def __init__(self, decoder: Decoder, rules: Any, next_search: NextSearch | None = None) -> None:
        self._decoder, self.rules, self.next_search, self.started = decoder, rules, next_search, False

    def send(self, scores: Any) -> tuple[Prefix, ...]:
        """Go on, as a generator does."""
        self.started = True
        return self._decoder.send(scores)

    def throw(self, *error: Any) -> tuple[Prefix, ...]:
        """Raise an error where the decoder waits."""
        return self._decoder.throw(*error)


class ScoreRequest(tuple[Prefix, ...]):
    """Prefixes of which the decoder wants the scores; never empty, none twice. A plain tuple will do.

    A decoder that needs several at once may add `lookahead`: given the scores known and guesses for others, it yields
    the prefixes that it would request later if the guesses were right, in the order in which it would: each once, and
    only those without scores. It must change nothing that the decoder reads later: guesses come from drafts.

    A decoder whose steps do not write one token each gives the tokens of its longest hypothesis as `written`. One that
    requests the nodes of its own drafts gives these as `drafts`, by the live hypothesis that they follow, best first.
    """

    lookahead: LookAhead | None = None
    written: int | None = None
    drafts: Mapping[Prefix, Sequence[Draft]] | None = None

    @classmethod
    def of(cls, prefixes: Sequence[Prefix], lookahead: LookAhead) -> ScoreRequest:
        """Return a request with a look-ahead."""
        request = cls(prefixes)
        request.lookahead = lookahead
        return request

    @classmethod
    def of_hypotheses(
        cls,
        prefixes: Iterable[Prefix],
        hypotheses: Iterable[Prefix],
        drafts: Mapping[Prefix, Sequence[Draft]] | None = None,
    ) -> ScoreRequest:
        """Return a request of a decoder whose hypotheses grow by steps of their own."""
        request = cls(prefixes)
        request.written = max(map(len, hypotheses)) - 1
        request.drafts = drafts
        return request


def next_search_of(decoder: Decoder) -> NextSearch | None:
    """Return what says which search follows a decoder's, if one may."""
    return decoder.next_search if isinstance(decoder, RuledDecoder) else None


class Search(NamedTuple):
    """A search of a query that has ended.

    Attributes:
        answers: best first.
        passes: model calls for the query up to its end, those of earlier searches included.
        seconds: the clock's reading after the last of them.
        tokens: by which its longest hypothesis grew, with or without a pass.
        standard: passes that it takes where nothing is drafted: steps with a prefix that no earlier search requested.
    """

    answers: list[FinishedSequence]
    passes: int
    seconds: float
    tokens: int
    standard: int


def finished(prefix: Prefix, log_probs: Sequence[float]) -> FinishedSequence:
    """Return the answer that a prefix holds, from the log-probs of its tokens after bos."""
    return FinishedSequence(prefix[1:], tuple(log_probs), "eos" if prefix[-1] == EOS else "length")


def decode_alone(decoder: Decoder, score: Callable[[Sequence[Prefix]], Sequence[Scores]]) -> list[FinishedSequence]:
    """Run one decoder on a function that scores prefixes: the loop without drafts, batches and cache."""
    try:
        request = next(decoder)
        while True:
            request = decoder.send(score(request))
    except StopIteration as stop:
        answers: list[FinishedSequence] = stop.value
        return answers
