"""Search with a beam: the textbook algorithm, as one pure step (`advance`) and a loop around it.

At every step all extensions of the live hypotheses are ranked by total log-prob (ties: by token ids). Those among the
first `width` that end with eos are finished; the best `width` others live on. The search ends when `width` are finished
and no live one can still overtake the last of them, or at the length limit. (Hugging Face's `generate` with
`early_stopping=False, length_penalty=0` plays by the same rules.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heapreplace
from math import inf
from typing import NamedTuple

from chemspec.decode.protocol import START, Decoder, Guess, RuledDecoder, ScoreRequest, finished
from chemspec.tokenizer import EOS
from chemspec.types import Prefix, Scores

# Nats that a guessed token is taken to cost: those of a token of probability 0.95. It decides what a look-ahead
# guesses, never an answer.
GUESS_COST = 0.05


class Hyp(NamedTuple):
    """A hypothesis under way or finished."""

    tokens: Prefix
    log_probs: tuple[float, ...]
    total: float


class Beam(NamedTuple):
    """The state of the search; both lists are best first."""

    live: tuple[Hyp, ...]
    finished: tuple[Hyp, ...] = ()


Candidate = tuple[float, int, int]  # minus the total log-prob, which live hypothesis, which of its next tokens


class Rules(NamedTuple):
    """What the search is told.

    Attributes:
        width: hypotheses kept, and answers returned.
        max_len: most tokens of an answer, eos included.
        length_penalty: finished hypotheses are ranked by total / length ** length_penalty; 0 ranks by log-prob.
    """

    width: int
    max_len: int
    length_penalty: float = 0.0

    def score(self, hyp: Hyp) -> float:
        """Return what finished hypotheses are ranked by."""
        return hyp.total / len(hyp.log_probs) ** self.length_penalty if self.length_penalty else hyp.total

    def best_attainable_score(self, hyp: Hyp) -> float:
        """Return the best score that a live hypothesis can still reach: log-probs only fall, longer texts may gain."""
        return hyp.total / self.max_len**self.length_penalty if self.length_penalty else hyp.total


Step = Callable[[Beam, Sequence[Scores], Rules], Beam]


def beam_search(*, width: int, max_len: int, length_penalty: float = 0.0) -> Decoder:
    """Return the `width` best answers that beam search finds, best first; unfinished ones, if any are needed, last."""
    rules = Rules(width, max_len, float(length_penalty))
    return RuledDecoder(_search(rules), rules)


def _search(rules: Rules) -> Decoder:
    beam = Beam((Hyp(START, (), 0.0),))
    while beam.live and len(beam.live[0].log_probs) < rules.max_len:
        scores = yield ScoreRequest.of([hyp.tokens for hyp in beam.live], partial(look_ahead, beam, rules))
        beam = advance(beam, scores, rules)
    best = [*beam.finished, *beam.live][: rules.width]
    return [finished(hyp.tokens, hyp.log_probs) for hyp in best]


def look_ahead(
    beam: Beam, rules: Rules, known: Mapping[Prefix, Scores], guess: Guess, step: Step | None = None
) -> Iterator[Prefix]:
    """Play the search on past the point where it must wait, and yield the unscored prefixes that it then meets.

    Where scores are known they count; elsewhere the guessed token is taken to follow at a small cost, so that a
    hypothesis that is only guessed loses against one that is known to be as good. At the end, nothing is left to guess.

    Args:
        beam: the state of the search.
        rules: what it is told.
        known: scores by prefix.
        guess: the likeliest next token of a prefix.
        step: of the search; `advance` by default.
    """
    met: set[Prefix] = set()
    while beam.live and len(beam.live[0].log_probs) < rules.max_len:
        scores = []
        for hyp in beam.live:
            found = known.get(hyp.tokens)
            if found is None:
                if hyp.tokens not in met:
                    met.add(hyp.tokens)
                    yield hyp.tokens
                token = guess(hyp.tokens)
                found = Scores((), ()) if token is None else Scores((token,), (-GUESS_COST,))
            scores.append(found)
        if not any(len(score.ids) for score in scores):
            return
        beam = (step or advance)(beam, scores, rules)


def advance(beam: Beam, scores: Sequence[Scores], rules: Rules) -> Beam:
    """Extend every live hypothesis, rank, keep.

    At most one extension of a hypothesis is eos. So among the best 2 * width candidates at most width end and at least
    width live on, if there are so many; and no hypothesis puts more than its best width + 1 tokens, one of them perhaps
    eos, among those that matter.

    Args:
        beam: the state before.
        scores: of every live hypothesis, at least its `width` + 1 best tokens, or all there are. A look-ahead passes
            one guessed token, or none: what comes out is then a guess, too.
        rules: what the search is told.
    """
    finished, live = list(beam.finished), list[Hyp]()
    for rank, (cost, parent_index, token_index) in enumerate(ranked(beam.live, scores, 2 * rules.width)):
        parent, (ids, log_probs) = beam.live[parent_index], scores[parent_index]
        ended = ids[token_index] == EOS
        if ended and rank >= rules.width:
            continue  # an end counts among the first `width` candidates only
        if not ended and len(live) == rules.width:
            continue
        tokens, known = (*parent.tokens, ids[token_index]), (*parent.log_probs, log_probs[token_index])
        (finished if ended else live).append(Hyp(tokens, known, -cost))
    if len(finished) > len(beam.finished):
        finished.sort(key=lambda hyp: (-rules.score(hyp), hyp.tokens))
        del finished[rules.width :]
    if len(finished) == rules.width:
        # Log-probs only fall, so what is below the threshold now can never displace the last finished hypothesis. What
        # equals it can, by token ids, and stays.
        threshold = rules.score(finished[-1])
        live = [hyp for hyp in live if rules.best_attainable_score(hyp) >= threshold]
    return Beam(tuple(live), tuple(finished))


def ranked(live: Sequence[Hyp], scores: Sequence[Scores], count: int) -> list[Candidate]:
    """The `count` best extensions of all live hypotheses: a merge of their lists, each of which is best first."""
    heads = [
        (-(hyp.total + found.log_probs[0]), parent_index, 0)
        for parent_index, (hyp, found) in enumerate(zip(live, scores, strict=True))
        if len(found.ids)
    ]
    heapify(heads)
    candidates: list[Candidate] = []
    threshold, ties = inf, False
    while heads and heads[0][0] <= threshold:  # and whatever ties with the last of them
        best = heads[0]
        cost, parent_index, token_index = best
        if cost == inf:
            break  # nothing but impossible tokens is left
        ties = ties or (bool(candidates) and candidates[-1][0] == cost)
        candidates.append(best)
        if len(candidates) == count:
            threshold = cost
        log_probs = scores[parent_index].log_probs
        if token_index + 1 < len(log_probs):
            heapreplace(
                heads, (-(live[parent_index].total + log_probs[token_index + 1]), parent_index, token_index + 1)
            )
        else:
            heappop(heads)
    if ties:  # by tokens; all live hypotheses are of one length
        candidates.sort(key=lambda c: (c[0], live[c[1]].tokens, scores[c[1]].ids[c[2]]))
    return candidates[:count]
