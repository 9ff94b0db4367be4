"""Greedy decoding with relaxed acceptance: Spec-Verification of Xia et al. (2023, section 3.2, Eq. 8 to 10).

Like exact greedy decoding it requests one prefix at a time, and drafted tokens have been scored ahead. A draft's next
token that `TopBeta` accepts is taken instead of the target's argmax. With beta = 1 it is their exact rule (Eq. 2), the
target's argmax only; otherwise the output depends on the drafts, and callers must label it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chemspec.decode.protocol import START, Decoder, finish_sequence
from chemspec.tokenizer import EOS
from chemspec.types import Prefix, Scores

Drafts = Callable[[Prefix], Sequence[tuple[int, ...]]]


@dataclass(frozen=True)
class TopBeta:
    """Accepts a token among the best `beta` (Eq. 8) whose log-prob is at most `tau` below the best one's (Eq. 9)."""

    beta: int
    tau: float

    def accepts_token(self, scores: Scores, token: int) -> bool:
        """Return whether a drafted token is accepted, given the target's scores."""
        for rank, candidate in enumerate(scores.ids[: self.beta]):
            if int(candidate) == token:
                return float(scores.log_probs[0]) - float(scores.log_probs[rank]) <= self.tau
        return False


def relaxed_greedy(*, max_len: int, rule: TopBeta, drafts: Drafts) -> Decoder:
    """Decode one sequence of at most `max_len` tokens, eos included; `drafts` returns those after a scored prefix."""
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
        log_probs.append(float(scores.log_probs[list(scores.ids).index(token)]))
        prefix = (*prefix, token)
    return [finish_sequence(prefix, log_probs)]
