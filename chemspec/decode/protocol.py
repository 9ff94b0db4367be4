"""Decoder protocol: a generator that yields prefixes and is sent their scores."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from numbers import Integral
from typing import Any, NamedTuple

from chemspec.decode.draft_planner import DraftPlanner
from chemspec.tokenizer import BOS, EOS
from chemspec.types import Draft, FinishedSequence, PluginError, Prefix, Scores, ignore

TokenGuess = Callable[[Prefix], int | None]  # the drafter's most probable next token; None without a draft
LookAhead = Callable[[Mapping[Prefix, Scores], TokenGuess], Iterator[Prefix]]

# Yields prefixes, is sent the scores of each in the same order, and returns output sequences, best first. It does not
# see drafts.
Decoder = Generator[tuple[Prefix, ...], Sequence[Scores], list[FinishedSequence]]
NextSearch = Callable[[list[FinishedSequence]], Decoder | None]

START: Prefix = (BOS,)
INT = frozenset((int,))


def start_clock() -> Callable[[], float]:
    """Return a function that returns the seconds since this call."""
    began = time.perf_counter()
    return lambda: time.perf_counter() - began


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """Options of a run."""

    max_len: int  # maximum output length in tokens; drafts are cut there
    budget: int = 0  # maximum number of drafted nodes per query and forward pass
    clock: Callable[[], float] = field(default_factory=start_clock)  # returns seconds, from any origin
    record: bool = False  # record every computed prefix, which takes time and memory
    # Size of the model's vocabulary; running raises ValueError for a drafted or requested id beyond it.
    vocab_size: int = sys.maxsize
    max_positions: int = sys.maxsize  # maximum length of a prefix
    planner: DraftPlanner | None = None  # decides how many drafted nodes pay off; without it the whole budget is used
    finished: Callable[[Sequence[FinishedSequence]], None] = ignore  # called with the list of every finished search
    threads: int = 1  # CPU threads of the compiled loop, which splits large batches among them
    # Whether to use the compiled loop; by default wherever it supports the decoder and drafter.
    compiled: bool | None = None


class ConfiguredDecoder(Generator[tuple[Prefix, ...], Sequence[Scores], list[FinishedSequence]]):
    """A decoder that exposes its parameters, so that the C++ loop can run the same algorithm natively.

    A plain generator is a decoder too, but always runs in the Python loop.

    Attributes:
        decoder: the generator.
        config: parameters that determine the output, together with the scores.
        next_search: takes the output sequences and returns the query's next decoder, or None. The next search reuses
            the scores and the KV cache, which is not compacted in between, so no node is computed twice.
        started: whether the first request has been read.
    """

    def __init__(self, decoder: Decoder, config: Any, next_search: NextSearch | None = None) -> None:
        self.decoder, self.config, self.next_search, self.started = decoder, config, next_search, False

    def send(self, scores: Any) -> tuple[Prefix, ...]:
        """Send the scores of the last request; returns the next request."""
        self.started = True
        return self.decoder.send(scores)

    def throw(self, *error: Any) -> tuple[Prefix, ...]:
        """Raise an error at the decoder's current `yield`."""
        return self.decoder.throw(*error)


class ScoreRequest(tuple[Prefix, ...]):
    """Prefixes whose scores a decoder requests: at least one, without duplicates. A plain tuple works too.

    A decoder that requests several prefixes at once may add `lookahead`: given the known scores and guessed tokens, it
    yields the prefixes that it would request later if the guesses were right, in that order, each once and only those
    without scores. It must not change the decoder's state, because guesses come from drafts.

    A decoder that does not generate one token per step gives the length of its longest hypothesis as `written`. One
    that requests the nodes of its own drafts gives these as `drafts`, by the live hypothesis they follow, best first.
    """

    lookahead: LookAhead | None = None
    written: int | None = None
    repeated: bool = False  # a step that the decoder has taken before, so that its longest hypothesis does not grow
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
        """Return a request of a decoder whose hypotheses grow at different speeds."""
        request = cls(prefixes)
        request.written = max(map(len, hypotheses)) - 1
        request.drafts = drafts
        return request


def next_search_of(decoder: Decoder) -> NextSearch | None:
    """Return a decoder's `next_search`, or None."""
    return decoder.next_search if isinstance(decoder, ConfiguredDecoder) else None


def may_request_again(decoder: Decoder) -> bool:
    """Return whether any node may be requested again: by a next search, or by a beam search with parked hypotheses."""
    config = decoder.config if isinstance(decoder, ConfiguredDecoder) else None
    return next_search_of(decoder) is not None or getattr(config, "park_gap", inf) < inf


def read_request(decoder: Decoder, request: Any) -> tuple[Prefix, ...]:
    """Return what a decoder has requested; raises PluginError for anything but prefixes, naming the decoder."""
    prefixes = request if isinstance(request, tuple) else ()
    if not prefixes or not all(isinstance(prefix, tuple) and prefix[:1] == START for prefix in prefixes):
        raise PluginError(
            f"the decoder {_name_of(decoder)!r} requested {request!r:.60}; it must yield a tuple of prefixes, at least "
            "one, each a tuple of token ids that begins with bos (chemspec.START)"
        )
    return prefixes


def check_prefixes(decoder: Decoder, prefixes: Iterable[Prefix], options: LoopOptions) -> None:
    """Raise PluginError for a requested prefix that the model cannot score: compiled code would read other memory."""
    for prefix in prefixes:
        plain = INT.issuperset(map(type, prefix))  # the usual case, and fast
        integers = plain or all(isinstance(token, Integral) for token in prefix)
        if not integers or not 0 <= min(prefix) <= max(prefix) < options.vocab_size:
            fault = f"token ids are integers from 0 to {options.vocab_size - 1}"
        elif len(prefix) > options.max_positions:
            fault = f"it has {len(prefix)} tokens, the model at most {options.max_positions}"
        else:
            continue
        raise PluginError(f"the decoder {_name_of(decoder)!r} requested the prefix {prefix!r:.60}; {fault}")


def read_answers(decoder: Decoder, answers: Any) -> list[FinishedSequence]:
    """Return what a decoder has returned; raises PluginError for anything else, naming the decoder."""
    if not isinstance(answers, list) or not all(isinstance(answer, FinishedSequence) for answer in answers):
        raise PluginError(
            f"the decoder {_name_of(decoder)!r} returned {answers!r:.60}; it must return a list of "
            "chemspec.FinishedSequence, best first"
        )
    return answers


def _name_of(decoder: Decoder) -> str:
    while isinstance(decoder, ConfiguredDecoder):
        decoder = decoder.decoder
    return getattr(decoder, "__name__", type(decoder).__name__)


class FinishedSearch(NamedTuple):
    """One finished search of a query."""

    answers: list[FinishedSequence]  # output sequences, best first
    passes: int  # forward passes of the query so far, including those of earlier searches
    seconds: float  # clock time after the last of them
    tokens: int  # growth of the longest hypothesis in tokens, with or without a forward pass
    standard: int  # forward passes needed without drafts: steps with a prefix that no earlier search requested


def finish_sequence(prefix: Prefix, log_probs: Sequence[float]) -> FinishedSequence:
    """Return a prefix as an output sequence, with the log-probs of its tokens after bos."""
    if isinstance(log_probs, (int, float)):
        raise PluginError("finish_sequence: log_probs must have one number for each token after bos")
    return FinishedSequence(prefix[1:], tuple(log_probs), "eos" if prefix[-1] == EOS else "length")
