"""Sample speculatively (Leviathan et al. 2023; Tulsian et al., Algorithm 1): accept or resample a small model's tokens.

Exact in distribution: every answer has the probability that `sample` gives it, though the same seed draws others; the
argument is in `chemspec.draft.rejection`. Each draw goes its own way: one whose guess is refused does not hold up the
others.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import log

from chemspec.decode.protocol import Decoder, finished
from chemspec.draft.learned.sampled import SampledSequence, SampleRequest
from chemspec.draft.rejection import Nucleus, SamplerRng, accept_or_resample
from chemspec.tokenizer import EOS
from chemspec.types import FinishedSequence, Prefix, Scores

Draws = Generator[tuple[Prefix, ...], Sequence[Scores], list[SampledSequence]]


def speculative_sample(
    *, count: int, max_len: int, request: SampleRequest, rng: SamplerRng, nucleus: Nucleus = Nucleus()
) -> Decoder:
    """Draw `count` answers; return the different ones among them, most probable (under the model itself) first.

    `scores` must hold the whole vocabulary.

    Args:
        count: draws.
        max_len: most tokens of an answer, eos included.
        request: where the drafter leaves its guesses.
        rng: decides what is accepted, and draws the rest.
        nucleus: temperature and top-p.
    """
    draws = yield from _draws(count, max_len, request, rng, nucleus)
    return sorted(_answers(draws), key=lambda answer: (-answer.log_prob, answer.tokens))


def sampled_beam(
    *, count: int, max_len: int, request: SampleRequest, rng: SamplerRng, nucleus: Nucleus = Nucleus()
) -> Decoder:
    """Extend `count` beams by one speculative draw a pass, and rank them: Tulsian et al.'s Algorithm 2 as printed.

    Relaxed: this is no beam search. As every beam puts forward one candidate, none is ever dropped, and the score
    counts those tokens only that were not drafted (line 24), so that it prefers answers with many drafted ones.

    Args:
        count: beams.
        max_len: most tokens of an answer, eos included.
        request: where the drafter leaves its guesses.
        rng: decides what is accepted, and draws the rest.
        nucleus: temperature and top-p.
    """
    draws = yield from _draws(count, max_len, request, rng, nucleus)
    return _answers(sorted(draws, key=lambda draw: (-draw.score, draw.prefix)))


def _answers(draws: Sequence[SampledSequence]) -> list[FinishedSequence]:
    return list({draw.prefix: finished(draw.prefix, draw.log_probs) for draw in draws}.values())


def _draws(count: int, max_len: int, request: SampleRequest, rng: SamplerRng, nucleus: Nucleus) -> Draws:
    draws = [SampledSequence() for _ in range(count)]
    while open_ := [draw for draw in draws if _unfinished(draw, max_len)]:
        # Those with something left to judge go on by themselves; when none has, all wait for new guesses together.
        moving = [draw for draw in open_ if draw.guesses or draw.bonus]
        request.waiting = () if moving else open_
        moving = moving or open_
        asked = tuple(dict.fromkeys(draw.prefix for draw in moving))
        known = dict(zip(asked, (yield asked), strict=True))
        chances = {prefix: nucleus(scores) for prefix, scores in known.items()}
        for draw in moving:
            prefix = draw.prefix
            guess = draw.guesses.popleft() if draw.guesses else None
            step = accept_or_resample(guess, chances[prefix], rng)
            if guess is not None:
                request.gamma.learn(int(step.drafted), int(not step.drafted))
            if not step.drafted:
                draw.guesses.clear()
                draw.score += log(step.chances[step.token])
            draw.bonus = step.drafted and not draw.guesses
            place = list(known[prefix].ids).index(step.token)
            draw.log_probs.append(float(known[prefix].log_probs[place]))
            draw.prefix = (*prefix, step.token)
    return draws


def _unfinished(draw: SampledSequence, max_len: int) -> bool:
    return draw.prefix[-1] != EOS and len(draw.prefix) - 1 < max_len
