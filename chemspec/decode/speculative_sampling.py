"""Sample speculatively (Leviathan et al. 2023; Tulsian et al., Algorithm 1): accept or resample a small model's tokens.

Exact in distribution: every answer has the probability that `sample` gives it, though not those of the same seed; the
argument is in `chemspec.draft.rejection`. Each sequence proceeds on its own: one whose guess is rejected does not hold
up the others.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import log

from chemspec.decode.protocol import Decoder, ScoreRequest, finished
from chemspec.draft.learned.sampled import SampledSequence, SampleRequest
from chemspec.draft.rejection import Nucleus, SamplerRng, accept_or_resample
from chemspec.tokenizer import EOS
from chemspec.types import FinishedSequence, Prefix, Scores

Sampling = Generator[tuple[Prefix, ...], Sequence[Scores], list[SampledSequence]]


def speculative_sample(
    *, count: int, max_len: int, request: SampleRequest, rng: SamplerRng, nucleus: Nucleus = Nucleus()
) -> Decoder:
    """Sample `count` answers; return the different ones among them, most probable (under the model itself) first.

    `scores` must hold the whole vocabulary.

    Args:
        count: sequences to sample.
        max_len: most tokens of an answer, eos included.
        request: where the drafter leaves its guesses.
        rng: decides what is accepted, and samples the rest.
        nucleus: temperature and top-p.
    """
    sequences = yield from _sample_all(count, max_len, request, rng, nucleus)
    return sorted(_answers(sequences), key=lambda answer: (-answer.log_prob, answer.tokens))


def sampled_beam(
    *, count: int, max_len: int, request: SampleRequest, rng: SamplerRng, nucleus: Nucleus = Nucleus()
) -> Decoder:
    """Extend `count` beams by one speculative sample a pass, and rank them: Tulsian et al.'s Algorithm 2 as printed.

    Relaxed: this is no beam search. As every beam puts forward one candidate, none is ever dropped, and the score
    counts those tokens only that were not drafted (line 24), so that it prefers answers with many drafted ones.

    Args:
        count: beams.
        max_len: most tokens of an answer, eos included.
        request: where the drafter leaves its guesses.
        rng: decides what is accepted, and samples the rest.
        nucleus: temperature and top-p.
    """
    sequences = yield from _sample_all(count, max_len, request, rng, nucleus)
    return _answers(sorted(sequences, key=lambda sequence: (-sequence.score, sequence.prefix)))


def _answers(sequences: Sequence[SampledSequence]) -> list[FinishedSequence]:
    return list({sequence.prefix: finished(sequence.prefix, sequence.log_probs) for sequence in sequences}.values())


def _sample_all(count: int, max_len: int, request: SampleRequest, rng: SamplerRng, nucleus: Nucleus) -> Sampling:
    sequences = [SampledSequence() for _ in range(count)]
    while open_ := [sequence for sequence in sequences if _unfinished(sequence, max_len)]:
        # Those with something left to judge go on by themselves; when none has, all wait for new guesses together.
        moving = [sequence for sequence in open_ if sequence.guesses or sequence.bonus]
        request.waiting = () if moving else open_
        moving = moving or open_
        prefixes = dict.fromkeys(sequence.prefix for sequence in moving)
        asked = ScoreRequest.of_hypotheses(prefixes, (sequence.prefix for sequence in sequences))
        known = dict(zip(asked, (yield asked), strict=True))
        probs = {prefix: nucleus(scores) for prefix, scores in known.items()}
        for sequence in moving:
            prefix = sequence.prefix
            guess = sequence.guesses.popleft() if sequence.guesses else None
            step = accept_or_resample(guess, probs[prefix], rng)
            if guess is not None:
                request.gamma.learn(int(step.drafted), int(not step.drafted))
            if not step.drafted:
                sequence.guesses.clear()
                sequence.score += log(step.probs[step.token])
            sequence.bonus = step.drafted and not sequence.guesses
            place = list(known[prefix].ids).index(step.token)
            sequence.log_probs.append(float(known[prefix].log_probs[place]))
            sequence.prefix = (*prefix, step.token)
    return sequences


def _unfinished(sequence: SampledSequence, max_len: int) -> bool:
    return sequence.prefix[-1] != EOS and len(sequence.prefix) - 1 < max_len
