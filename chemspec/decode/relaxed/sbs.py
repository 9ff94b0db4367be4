"""Search as Andronov et al. (2024), appendix B: speculative beam search. Its answers may differ from beam search's.

At every iteration each hypothesis is continued along its best draft, and every accepted place of the draft puts forward
candidates of its own; hypotheses of different lengths then compete by log-probability. Drafts decide which candidates
exist, so, unlike in the other decoders, they can change the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp

from chemspec.decode.beam import Hyp
from chemspec.decode.protocol import START, Decoder, ScoreRequest, finished
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix, Scores

NUCLEUS = 0.9975  # the authors' code accepts a draft's token inside this nucleus and among the best n


def speculative_beam_search(*, width: int, max_len: int, drafts: Callable[[Prefix], Sequence[Draft]]) -> Decoder:
    """Return the `width` best answers found, best first.

    Without drafts (DL=0) it is a beam search whose finished answers keep their places in the beam.

    Args:
        width: hypotheses kept.
        max_len: most tokens of an answer, eos included.
        drafts: continuations to try after a prefix; end-of-sequence and what follows is not drafted.
    """
    beam = [Hyp(START, (), 0.0)]
    while any(_open(hyp, max_len) for hyp in beam):
        live = [hyp for hyp in beam if _open(hyp, max_len)]
        tried = {hyp.tokens: drafts(hyp.tokens) for hyp in live}
        lines = {prefix: _lines(prefix, proposed, max_len) for prefix, proposed in tried.items()}
        prefixes = dict.fromkeys(prefix for own in lines.values() for line in own for prefix in line)
        asked = ScoreRequest.of_hypotheses(prefixes, (hyp.tokens for hyp in beam), tried)
        known = dict(zip(asked, (yield asked), strict=True))
        candidates = [hyp for hyp in beam if not _open(hyp, max_len)]
        for hyp in live:
            candidates += _candidates(hyp, _best(lines[hyp.tokens], known, width), known, width)
        candidates.sort(key=lambda hyp: (-hyp.total, hyp.tokens))
        beam = candidates[:width]
    return [finished(hyp.tokens, hyp.log_probs) for hyp in beam]


def _open(hyp: Hyp, max_len: int) -> bool:
    return hyp.tokens[-1] != EOS and len(hyp.log_probs) < max_len


def _lines(prefix: Prefix, drafts: Sequence[Draft], max_len: int) -> list[list[Prefix]]:
    """For each draft, the prefixes along it, the first being `prefix` itself."""
    room = max_len - len(prefix)  # the longest prefix about which anything can be asked has max_len - 1 tokens
    lines = []
    for tokens in [draft.tokens for draft in drafts] or [()]:
        line = [prefix]
        for token in tokens[: max(0, room)]:
            if token == EOS:
                break
            line.append((*line[-1], token))
        lines.append(line)
    return lines


def _best(lines: list[list[Prefix]], known: dict[Prefix, Scores], width: int) -> list[Prefix]:
    """The accepted part of the draft of which most tokens are accepted."""
    return max((_accepted(line, known, width) for line in lines), key=len)


def _accepted(line: list[Prefix], known: dict[Prefix, Scores], width: int) -> list[Prefix]:
    accepted = line[:1]
    for before, after in pairwise(line):
        if after[-1] not in _nucleus(known[before], width):
            break
        accepted.append(after)
    return accepted


def _nucleus(scores: Scores, width: int) -> list[int]:
    """The ids among the best `width` that lie in the nucleus; the best one always does."""
    ids, mass = [], 0.0
    for token, log_prob in zip(scores.ids[:width], scores.log_probs[:width], strict=True):
        if mass >= NUCLEUS:
            break
        ids.append(int(token))
        mass += exp(float(log_prob))
    return ids


def _candidates(hyp: Hyp, path: list[Prefix], known: dict[Prefix, Scores], width: int) -> list[Hyp]:
    """From every accepted place, the best `width` next tokens, among which the draft's own leads on to the next place.

    As in figure 3 of the paper: with 10 tokens accepted and a width of 2, that is 10 + 2 candidates.
    """
    found: list[Hyp] = []
    log_probs, total = hyp.log_probs, hyp.total
    for place, prefix in enumerate(path):
        following = path[place + 1][-1] if place + 1 < len(path) else None
        onward = 0.0
        scores = known[prefix]
        for token, gain in zip(scores.ids[:width], scores.log_probs[:width], strict=True):
            token, gain = int(token), float(gain)
            if token == following:
                onward = gain
            elif gain > float("-inf"):
                found.append(Hyp((*prefix, token), (*log_probs, gain), total + gain))
        log_probs, total = (*log_probs, onward), total + onward
    return found
