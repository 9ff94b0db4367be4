"""Decode greedily, but trust drafts: Spec-Verification of Xia et al. (2023, section 3.2). Relaxed unless beta is 1.

Like the exact greedy decoder it asks about one prefix at a time, and what was drafted has been scored ahead. But where
a draft's next token is good enough by the rule, it is taken instead of the target's best one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chemspec.decode.protocol import START, Decoder, finished
from chemspec.decode.relaxed.acceptance import TopBeta
from chemspec.tokenizer import EOS
from chemspec.types import Prefix

Drafts = Callable[[Prefix], Sequence[tuple[int, ...]]]


def relaxed_greedy(*, max_len: int, rule: TopBeta, drafts: Drafts) -> Decoder:
    """Return one answer of at most `max_len` tokens, eos included.

    Args:
        max_len: most tokens of the answer.
        rule: which drafted tokens may stand.
        drafts: what was drafted after a prefix, best first; asked once the prefix has been scored.
    """
    prefix: Prefix = START
    log_probs: list[float] = []
    live: list[tuple[int, ...]] = []  # what is left of the drafts that agree with the text
    while len(log_probs) < max_len and prefix[-1] != EOS:
        (scores,) = yield (prefix,)
        if not live:
            live = [tuple(draft) for draft in drafts(prefix) if draft]
        best = int(scores.ids[0])
        offered = [draft[0] for draft in live]
        # The target's own choice first: of several drafts, none is needed that departs from it.
        standing = (token for token in offered if rule.accepts(scores, token))
        token = best if best in offered else next(standing, best)
        live = [draft[1:] for draft in live if draft[0] == token and len(draft) > 1]
        log_probs.append(
            next(float(value) for found, value in zip(scores.ids, scores.log_probs, strict=True) if int(found) == token)
        )
        prefix = (*prefix, token)
    return [finished(prefix, log_probs)]
