"""A forced beginning: a decoder that continues given tokens, with the scores of standard decoding.

The decoder itself is unchanged. Its prefixes are requested with the forced tokens after bos, so it ranks continuations
by their log-probs after these, and the forced tokens get their own log-probs in front: a constant for all answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from chemspec.decode.protocol import START, Decoder, ScoreRequest
from chemspec.types import FinishedSequence, Prefix, Scores


def force_beginning(decoder: Decoder, tokens: tuple[int, ...]) -> Decoder:
    """Return a decoder whose answers begin with these tokens; its scores must be of the whole vocabulary."""

    def extend(prefix: Prefix) -> Prefix:
        return (*START, *tokens, *prefix[1:])

    beginning = [(*START, *tokens[:end]) for end in range(len(tokens))]
    scores: Sequence[Scores] = yield ScoreRequest.of_hypotheses(beginning, beginning)
    log_probs = tuple(
        float(each.log_probs[[*map(int, each.ids)].index(token)]) for each, token in zip(scores, tokens, strict=True)
    )
    answers = None
    try:
        request = next(decoder)
        while True:
            prefixes = [extend(prefix) for prefix in request]
            request = decoder.send((yield ScoreRequest.of_hypotheses(prefixes, prefixes)))
    except StopIteration as stop:
        answers = stop.value
    return [
        FinishedSequence((*tokens, *answer.tokens), (*log_probs, *answer.log_probs), answer.ended) for answer in answers
    ]
