"""Greedy decoding, and beam search: the textbook algorithm as one pure step (`advance_beam`) and a loop around it.

At every step all extensions of the live hypotheses are ranked by total log-prob (ties: by token ids). Those among the
first `width` that end with eos are finished; the best `width` others stay live. The search ends when `width` are
finished and no live one can still overtake the last of them, or at the length limit. Hugging Face's `generate` with
`early_stopping=False, length_penalty=0` follows the same rules.
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


class Hyp(NamedTuple):
    """A live or finished hypothesis."""

    tokens: Prefix
    log_probs: tuple[float, ...]
    total: float


class Beam(NamedTuple):
    """The state of the search; both lists are best first."""

    live: tuple[Hyp, ...]
    finished: tuple[Hyp, ...] = ()


Extension = tuple[float, int, int]  # negative total log-prob, index of the live hypothesis, rank of its next token


class BeamConfig(NamedTuple):
    """Parameters of a beam search."""

    width: int  # beam width, which is also the number of output sequences; 0 means greedy decoding
    max_len: int  # maximum output length in tokens, eos included
    # Finished hypotheses are ranked by total / length ** length_penalty; 0 ranks by log-prob.
    length_penalty: float = 0.0

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


def beam_search(*, width: int, max_len: int, length_penalty: float = 0.0) -> Decoder:
    """Return the `width` best sequences found by beam search, best first; unfinished ones, if needed, last."""
    config = BeamConfig(width, max_len, float(length_penalty))
    return ConfiguredDecoder(_decode_beam(config), config)


def _decode_beam(config: BeamConfig) -> Decoder:
    beam = Beam((Hyp(START, (), 0.0),))
    while beam.live and len(beam.live[0].log_probs) < config.max_len:
        scores = yield ScoreRequest.of([hyp.tokens for hyp in beam.live], partial(look_ahead, beam, config))
        beam = advance_beam(beam, scores, config)
    best = [*beam.finished, *beam.live][: config.width]
    return [finish_sequence(hyp.tokens, hyp.log_probs) for hyp in best]


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
    return Beam(tuple(live), tuple(finished))


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
