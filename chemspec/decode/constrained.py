"""Decoders with constraints of one's own: a function changes the scores before the search sees them.

The search is sent scores of the prefixes that it requests, whether they were drafted or not; a function of these alone
is part of the search, so drafts cannot change its output either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chemspec.decode.protocol import Decoder, ScoreRequest
from chemspec.decode.registry import DECODERS, BuildDecoder, DecoderSpec, DraftAwareDecoder
from chemspec.settings import SearchSettings
from chemspec.types import FinishedSequence, PluginError, Prefix, Scores

SourceIds = tuple[int, ...]
Array = NDArray[np.float64]
LogitsProcessor = Callable[[SourceIds, Prefix, Array], Array]


def constrained_decoder(name: str, process: LogitsProcessor, *, search: str = "beam") -> DecoderSpec:
    """Return a decoder that searches with changed scores, exact with any drafter.

    Args:
        name: of the decoder, for `decoder=` once it is registered (`chemspec.DECODERS.register`).
        process: takes the query's token ids, those written so far (after bos) and the log-probs (V,) of every next
            token, a copy; returns log-probs of the same shape, at most 0, and minus infinity for what may not follow.
            It must depend on its arguments alone. `engine.tokenizer.tokens` has the text of every id.
        search: "beam", "greedy" or "sample".

    Raises:
        ValueError: for another search, or one that is given the drafter.
    """
    spec = DECODERS.lookup(search)
    build = spec.build
    if spec.guarantee != "exact" or isinstance(build, DraftAwareDecoder):
        raise ValueError(f"a constraint goes with an exact search such as beam, greedy or sample, not with {search!r}")
    make: BuildDecoder = build

    def build_constrained(source: SourceIds, settings: SearchSettings) -> Decoder:
        return _constrain(make(source, settings), name, tuple(source), process, dead_ends=search == "beam")

    about = f"{spec.about}, with constraints of your own"
    return DecoderSpec(name, name, about, "exact", build_constrained, random=spec.random, hypotheses=spec.hypotheses)


def _constrain(decoder: Decoder, name: str, source: SourceIds, process: LogitsProcessor, *, dead_ends: bool) -> Decoder:
    changed_scores: dict[Prefix, Scores] = {}

    def changed(prefix: Prefix, scores: Scores) -> Scores:
        if prefix not in changed_scores:
            changed_scores[prefix] = _apply(process, name, source, prefix[1:], scores)
        if not dead_ends and not len(changed_scores[prefix].ids):
            raise PluginError(f"the decoder {name!r} allows no token after {prefix[1:]!r:.60}")
        return changed_scores[prefix]

    try:
        request = next(decoder)
        while True:
            scores = yield ScoreRequest.of_hypotheses(request, request)
            request = decoder.send([changed(*each) for each in zip(request, scores, strict=True)])
    except StopIteration as stop:
        answers: list[FinishedSequence] = stop.value
        return answers


def _apply(process: LogitsProcessor, name: str, source: SourceIds, written: Prefix, scores: Scores) -> Scores:
    """Return the scores after a constraint: the allowed tokens, best first, ties by id."""
    by_token = np.empty(len(scores.ids))
    by_token[np.asarray(scores.ids, dtype=np.int64)] = scores.log_probs
    returned: Any = process(source, written, by_token.copy())
    if (
        not isinstance(returned, np.ndarray)
        or returned.shape != by_token.shape
        or np.isnan(returned).any()
        or returned.max() > 0
    ):
        raise PluginError(
            f"the decoder {name!r} returned {returned!r:.60} for scores; it must return an array of {len(by_token)} "
            "log-probs, each at most 0"
        )
    order = np.argsort(-returned, kind="stable")
    order = order[: int(np.isfinite(returned).sum())]
    return Scores(order.tolist(), returned[order].tolist())
