"""Greedy decoding, and beam search: the textbook algorithm as one pure step (`advance_beam`) and a loop around it.

At every step all extensions of the live hypotheses are ranked by total log-prob (ties: by token ids). Those among the
first `width` that end with eos are finished; the best `width` others stay live. The search ends when `width` are
finished and no live one can still overtake the last of them, or at the length limit. Hugging Face's `generate` with
`early_stopping=False, length_penalty=0` follows the same rules.

Parking finds the same list with fewer nodes: hypotheses far below the best one are not extended (`park`). Why the list
is the same: let t be the total of the last of `width` finished hypotheses, and let every parked one lie below t. Totals
only fall, so no descendant of a parked hypothesis reaches t. Candidates are ranked by total, so those at or above t are
ranked alike with and without the others: the same ones live on and finish. If a parked one does not lie below t, the
search is repeated with known scores and a lower threshold, in the end with none.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heapreplace
from math import inf
from typing import NamedTuple

from chemspec.decode.protocol import START, ConfiguredDecoder, Decoder, ScoreRequest, TokenGuess, finish_sequence
from chemspec.tokenizer import EOS
from chemspec.types import Prefix, Scores

# Assumed cost of a guessed token in nats, that of a token with probability 0.95. It affects the look-ahead only, never
# the output.
GUESS_COST = 0.05
# A hypothesis this far below the rank of the beam width, in nats, is parked, too: totals fall little once they are low.
RANK_GAP = 0.4
# How far below a parked hypothesis that has to go on the first repetition parks, the second twice as far; after as many
# repetitions nothing is parked. None of these affects the output.
FLOOR_GAP, REPETITIONS = 0.5, 3


class Hyp(NamedTuple):
    """A live or finished hypothesis."""

    tokens: Prefix
    log_probs: tuple[float, ...]
    total: float


class Beam(NamedTuple):
    """The state of the search; both lists are best first."""

    live: tuple[Hyp, ...]
    finished: tuple[Hyp, ...] = ()
    parked: tuple[float, ...] = ()  # the `width` highest totals of parked hypotheses


Extension = tuple[float, int, int]  # negative total log-prob, index of the live hypothesis, rank of its next token


class BeamConfig(NamedTuple):
    """Parameters of a beam search."""

    width: int  # beam width, which is also the number of output sequences; 0 means greedy decoding
    max_len: int  # maximum output length in tokens, eos included
    # Finished hypotheses are ranked by total / length ** length_penalty; 0 ranks by log-prob.
    length_penalty: float = 0.0
    # Hypotheses this far below the best one, in nats, are parked; only without a length penalty.
    park_gap: float = inf

    def ranking_score(self, hyp: Hyp) -> float:
        """Return the score by which finished hypotheses are ranked."""
        return hyp.total / len(hyp.log_probs) ** self.length_penalty if self.length_penalty else hyp.total

    def best_attainable_score(self, hyp: Hyp) -> float:
        """Return an upper bound of a live hypothesis's final score.

        Log-probs only fall, but a length penalty can favour longer sequences.
        """
        return hyp.total / self.max_len**self.length_penalty if self.length_penalty else hyp.total


Step = Callable[[Beam, Sequence[Scores], BeamConfig], Beam]


def greedy_search(*, max_len: int) -> Decoder:
    """Decode one sequence of at most `max_len` tokens, eos included: always the most probable next token."""
    return ConfiguredDecoder(_decode_greedily(max_len), BeamConfig(0, max_len))


def _decode_greedily(max_len: int) -> Decoder:
    prefix = START
    log_probs: list[float] = []
    while len(log_probs) < max_len and prefix[-1] != EOS:
        (scores,) = yield (prefix,)
        prefix = (*prefix, int(scores.ids[0]))
        log_probs.append(float(scores.log_probs[0]))
    return [finish_sequence(prefix, log_probs)]


def beam_search(*, width: int, max_len: int, length_penalty: float = 0.0, park_gap: float = inf) -> Decoder:
    """Return the `width` best sequences found by beam search, best first; unfinished ones, if needed, last.

    The parameters are those of `BeamConfig`; raises ValueError for parking with a length penalty.
    """
    config = BeamConfig(width, max_len, float(length_penalty), float(park_gap))
    if length_penalty and park_gap < inf:
        raise ValueError("a beam with a length penalty cannot park hypotheses: their scores may rise")
    return ConfiguredDecoder(_decode_beam(config), config)


def with_parking(decoder: Decoder, park_gap: float) -> Decoder:
    """Return a beam search that has not started with another `park_gap`."""
    config = decoder.config if isinstance(decoder, ConfiguredDecoder) else None
    assert isinstance(config, BeamConfig)
    return beam_search(**config._replace(park_gap=park_gap)._asdict())


def _decode_beam(config: BeamConfig) -> Decoder:
    gap, floor, deepest, repetitions = config.park_gap, -inf, 0, 0
    while True:
        step: Step = partial(_advance_and_park, gap=gap, floor=floor)
        beam = Beam((Hyp(START, (), 0.0),))
        while beam.live and (depth := len(beam.live[0].log_probs)) < config.max_len:
            request = ScoreRequest.of([hyp.tokens for hyp in beam.live], partial(look_ahead, beam, config, step=step))
            request.repeated, deepest = depth < deepest, max(deepest, depth + 1)
            beam = step(beam, (yield request), config)
        if not beam.parked or _last_total(beam, config.width) > beam.parked[0]:
            break
        repetitions += 1
        gap, floor = inf, next_floor(beam, config.width, repetitions)
    best = [*beam.finished, *beam.live][: config.width]
    return [finish_sequence(hyp.tokens, hyp.log_probs) for hyp in best]


def _advance_and_park(beam: Beam, scores: Sequence[Scores], config: BeamConfig, *, gap: float, floor: float) -> Beam:
    return park(advance_beam(beam, scores, config), config.width, gap, floor)


def _last_total(beam: Beam, width: int) -> float:
    return beam.finished[-1].total if len(beam.finished) == width else -inf


def park(beam: Beam, width: int, gap: float, floor: float) -> Beam:
    """Park live hypotheses below `floor`, and with a finite `gap` those that are probably in no list.

    These are more than `gap` below the best one, live or finished, or `RANK_GAP` below the one at the rank of `width`.
    """
    if gap < inf:
        best = max((hyps[0].total for hyps in (beam.live, beam.finished) if hyps), default=0.0)
        totals = sorted([*(hyp.total for hyps in (beam.live, beam.finished) for hyp in hyps), *beam.parked])
        rank = totals[-width] - RANK_GAP if len(totals) >= width else -inf
        floor = max(floor, best - gap, rank)
    below = [hyp.total for hyp in beam.live if hyp.total < floor]
    if not below:
        return beam
    live = tuple(hyp for hyp in beam.live if hyp.total >= floor)
    return Beam(live, beam.finished, tuple(sorted([*beam.parked, *below], reverse=True)[:width]))


def next_floor(beam: Beam, width: int, repetitions: int) -> float:
    """Return the threshold of the next repetition of a search whose parked hypotheses might change the list."""
    if repetitions > REPETITIONS:
        return -inf
    certain = sum(hyp.total > beam.parked[0] for hyp in beam.finished)
    needed = beam.parked[min(width - certain, len(beam.parked)) - 1]
    return max(_last_total(beam, width), needed - FLOOR_GAP * repetitions)


def look_ahead(
    beam: Beam, config: BeamConfig, scored: Mapping[Prefix, Scores], guess: TokenGuess, step: Step | None = None
) -> Iterator[Prefix]:
    """Run the search ahead with guessed tokens in place of unknown scores; yield the prefixes it would request.

    Known scores are used as they are. A guessed token follows at a small cost, so that a guessed hypothesis loses
    against an equally good known one. The iterator ends when there is nothing left to guess. The step of the search is
    by default `advance_beam`.
    """
    met: set[Prefix] = set()
    while beam.live and len(beam.live[0].log_probs) < config.max_len:
        scores = []
        for hyp in beam.live:
            scores_here = scored.get(hyp.tokens)
            if scores_here is None:
                if hyp.tokens not in met:
                    met.add(hyp.tokens)
                    yield hyp.tokens
                token = guess(hyp.tokens)
                scores_here = Scores((), ()) if token is None else Scores((token,), (-GUESS_COST,))
            scores.append(scores_here)
        if not any(len(score.ids) for score in scores):
            return
        beam = (step or advance_beam)(beam, scores, config)


def advance_beam(beam: Beam, scores: Sequence[Scores], config: BeamConfig) -> Beam:
    """Extend every live hypothesis by one token and keep the best: one step of the search.

    At most one extension of a hypothesis is eos. So of the best 2 * width candidates at most `width` end and at least
    `width` stay live, if that many exist; and of every live hypothesis at most the best width + 1 tokens, eos included,
    are needed. A look-ahead passes one guessed token or none.
    """
    finished, live = list(beam.finished), list[Hyp]()
    for rank, (cost, parent_index, token_index) in enumerate(rank_extensions(beam.live, scores, 2 * config.width)):
        parent, (ids, log_probs) = beam.live[parent_index], scores[parent_index]
        ended = ids[token_index] == EOS
        if ended and rank >= config.width:
            continue  # eos counts among the first `width` candidates only
        if not ended and len(live) == config.width:
            continue
        tokens, log_probs_so_far = (*parent.tokens, ids[token_index]), (*parent.log_probs, log_probs[token_index])
        (finished if ended else live).append(Hyp(tokens, log_probs_so_far, -cost))
    if len(finished) > len(beam.finished):
        finished.sort(key=lambda hyp: (-config.ranking_score(hyp), hyp.tokens))
        del finished[config.width :]
    if len(finished) == config.width:
        # Log-probs only fall, so a hypothesis below the threshold can never displace the last finished one. A tie can,
        # by token ids, and stays live.
        threshold = config.ranking_score(finished[-1])
        live = [hyp for hyp in live if config.best_attainable_score(hyp) >= threshold]
    return Beam(tuple(live), tuple(finished), beam.parked)


def rank_extensions(live: Sequence[Hyp], scores: Sequence[Scores], count: int) -> list[Extension]:
    """Return the `count` best extensions of all live hypotheses, by merging their sorted lists."""
    heads = [
        (-(hyp.total + scores_here.log_probs[0]), parent_index, 0)
        for parent_index, (hyp, scores_here) in enumerate(zip(live, scores, strict=True))
        if len(scores_here.ids)
    ]
    heapify(heads)
    candidates: list[Extension] = []
    threshold, ties = inf, False
    while heads and heads[0][0] <= threshold:  # includes ties with the last one
        best = heads[0]
        cost, parent_index, token_index = best
        if cost == inf:
            break  # only impossible tokens are left
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
    if ties:  # broken by token ids; all live hypotheses have the same length
        candidates.sort(key=lambda c: (c[0], live[c[1]].tokens, scores[c[1]].ids[c[2]]))
    return candidates[:count]
