"""Speculative beam search of Andronov et al. (2024), appendix B. Relaxed: its output may differ from beam search's.

In every iteration each hypothesis is extended along its best draft, and every accepted position of the draft yields
candidates; hypotheses of different lengths then compete by log-probability. Drafts determine which candidates exist,
so they can change the output.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise, takewhile
from math import exp

from chemspec.decode.beam import Hyp
from chemspec.decode.protocol import START, Decoder, ScoreRequest, finish_sequence
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix, Scores

NUCLEUS = 0.9975  # the authors' code accepts a drafted token inside this nucleus and among the best n


def speculative_beam_search(*, width: int, max_len: int, drafts: Callable[[Prefix], Sequence[Draft]]) -> Decoder:
    """Return the `width` best sequences of at most `max_len` tokens, eos included, best first.

    `drafts` returns the drafts after a prefix; they are cut before eos. Without drafts (DL=0) it is a beam search whose
    finished hypotheses stay in the beam.
    """
    beam = [Hyp(START, (), 0.0)]
    while any(_is_unfinished(hyp, max_len) for hyp in beam):
        live = [hyp for hyp in beam if _is_unfinished(hyp, max_len)]
        tried = {hyp.tokens: drafts(hyp.tokens) for hyp in live}
        lines = {prefix: _prefixes_along_drafts(prefix, proposed, max_len) for prefix, proposed in tried.items()}
        prefixes = dict.fromkeys(prefix for paths in lines.values() for line in paths for prefix in line)
        request = ScoreRequest.of_hypotheses(prefixes, (hyp.tokens for hyp in beam), tried)
        scored = dict(zip(request, (yield request), strict=True))
        candidates = [hyp for hyp in beam if not _is_unfinished(hyp, max_len)]
        for hyp in live:
            candidates += expand_along(hyp, _longest_accepted(lines[hyp.tokens], scored, width), scored, width)
        candidates.sort(key=lambda hyp: (-hyp.total, hyp.tokens))
        beam = candidates[:width]
    return [finish_sequence(hyp.tokens, hyp.log_probs) for hyp in beam]


def _is_unfinished(hyp: Hyp, max_len: int) -> bool:
    return hyp.tokens[-1] != EOS and len(hyp.log_probs) < max_len


def _prefixes_along_drafts(prefix: Prefix, drafts: Sequence[Draft], max_len: int) -> list[list[Prefix]]:
    """Return for each draft the prefixes along it, starting with `prefix` itself."""
    room = max(0, max_len - len(prefix))  # the longest prefix that needs scores has max_len - 1 tokens
    paths = [
        takewhile(lambda token: token != EOS, tokens[:room]) for tokens in [draft.tokens for draft in drafts] or [()]
    ]
    return [list(accumulate(path, lambda text, token: (*text, token), initial=prefix)) for path in paths]


def _longest_accepted(lines: list[list[Prefix]], scored: dict[Prefix, Scores], width: int) -> list[Prefix]:
    """Return the accepted part of the draft with most accepted tokens."""

    def is_accepted(step: tuple[Prefix, Prefix]) -> bool:
        return step[1][-1] in _nucleus_tokens(scored[step[0]], width)

    return max(([line[0], *(after for _, after in takewhile(is_accepted, pairwise(line)))] for line in lines), key=len)


def _nucleus_tokens(scores: Scores, width: int) -> list[int]:
    """Return the ids among the best `width` that lie in the nucleus; the best one always does."""
    ids, mass = [], 0.0
    for token, log_prob in zip(scores.ids[:width], scores.log_probs[:width], strict=True):
        if mass >= NUCLEUS:
            break
        ids.append(int(token))
        mass += exp(float(log_prob))
    return ids


def expand_along(hyp: Hyp, path: list[Prefix], scored: dict[Prefix, Scores], width: int) -> list[Hyp]:
    """Return the candidates of all accepted positions: the best `width` next tokens of each, except the draft's own.

    The draft's token leads to the next position instead. With 10 accepted tokens and a width of 2 there are 10 + 2
    candidates, as in figure 3 of the paper.
    """
    candidates: list[Hyp] = []
    log_probs, total = hyp.log_probs, hyp.total
    for index, prefix in enumerate(path):
        following = path[index + 1][-1] if index + 1 < len(path) else None
        onward = 0.0
        scores = scored[prefix]
        for token, gain in zip(scores.ids[:width], scores.log_probs[:width], strict=True):
            token, gain = int(token), float(gain)
            if token == following:
                onward = gain
            elif gain > float("-inf"):
                candidates.append(Hyp((*prefix, token), (*log_probs, gain), total + gain))
        log_probs, total = (*log_probs, onward), total + onward
    return candidates
