"""Greedy decoding with relaxed acceptance: Spec-Verification of Xia et al. (2023, section 3.2). Exact if beta is 1.

Like exact greedy decoding it requests one prefix at a time, and drafted tokens have been scored ahead. A draft's next
token that the rule accepts is taken instead of the target's argmax.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chemspec.decode.protocol import START, Decoder, finish_sequence
from chemspec.decode.relaxed.acceptance import TopBeta
from chemspec.tokenizer import EOS
from chemspec.types import Prefix

Drafts = Callable[[Prefix], Sequence[tuple[int, ...]]]


def relaxed_greedy(*, max_len: int, rule: TopBeta, drafts: Drafts) -> Decoder:
    """Decode one sequence of at most `max_len` tokens, eos included.

    Args:
        max_len: maximum output length in tokens.
        rule: decides which drafted tokens are accepted.
        drafts: returns the drafts after a scored prefix, best first.
    """
    prefix: Prefix = START
    log_probs: list[float] = []
    live: list[tuple[int, ...]] = []  # remainders of the drafts that agree with the output so far
    while len(log_probs) < max_len and prefix[-1] != EOS:
        (scores,) = yield (prefix,)
        if not live:
            live = [tuple(draft) for draft in drafts(prefix) if draft]
        best = int(scores.ids[0])
        offered = [draft[0] for draft in live]
        # The target's argmax first: a draft that contains it is preferred over one that departs from it.
        standing = (token for token in offered if rule.accepts_token(scores, token))
        token = best if best in offered else next(standing, best)
        live = [draft[1:] for draft in live if draft[0] == token and len(draft) > 1]
        log_probs.append(
            next(
                float(value)
                for candidate, value in zip(scores.ids, scores.log_probs, strict=True)
                if int(candidate) == token
            )
        )
        prefix = (*prefix, token)
    return [finish_sequence(prefix, log_probs)]
