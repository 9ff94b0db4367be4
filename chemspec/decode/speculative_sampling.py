"""Speculative sampling (Leviathan et al. 2023; Tulsian et al., Algorithm 1): accept or resample a small model's tokens.

Exact in distribution: every output has the same probability as under `sample`, although the same seed gives other
samples; `chemspec.draft.rejection` has the argument. Sequences advance independently: a rejection in one does not
delay the others.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import log

from chemspec.decode.protocol import Decoder, ScoreRequest, finish_sequence
from chemspec.draft.learned.sampled import SampledSequence, SampleRequest
from chemspec.draft.rejection import Nucleus, SamplerRng, accept_or_resample
from chemspec.tokenizer import EOS
from chemspec.types import FinishedSequence, Prefix, Scores

Sampling = Generator[tuple[Prefix, ...], Sequence[Scores], list[SampledSequence]]


def speculative_sample(
    *, count: int, max_len: int, request: SampleRequest, rng: SamplerRng, nucleus: Nucleus = Nucleus()
) -> Decoder:
    """Sample `count` sequences; returns the distinct ones, most probable under the model first.

    `scores` must hold the whole vocabulary.

    Args:
        count: number of samples.
        max_len: maximum output length in tokens, eos included.
        request: receives the drafter's tokens.
        rng: source of randomness for acceptance and resampling.
        nucleus: temperature and top-p.
    """
    sequences = yield from _sample_sequences(count, max_len, request, rng, nucleus)
    return sorted(_unique_sequences(sequences), key=lambda answer: (-answer.log_prob, answer.tokens))


def sampled_beam(
    *, count: int, max_len: int, request: SampleRequest, rng: SamplerRng, nucleus: Nucleus = Nucleus()
) -> Decoder:
    """Extend `count` beams by one speculative sample per pass and rank them: Algorithm 2 of Tulsian et al. as printed.

    Relaxed: this is not a beam search. Every beam has one candidate, so none is ever dropped, and the score counts only
    tokens that were not drafted (line 24), so it prefers outputs with many drafted tokens.

    Args:
        count: number of beams.
        max_len: maximum output length in tokens, eos included.
        request: receives the drafter's tokens.
        rng: source of randomness for acceptance and resampling.
        nucleus: temperature and top-p.
    """
    sequences = yield from _sample_sequences(count, max_len, request, rng, nucleus)
    return _unique_sequences(sorted(sequences, key=lambda sequence: (-sequence.score, sequence.prefix)))


def _unique_sequences(sequences: Sequence[SampledSequence]) -> list[FinishedSequence]:
    return list(
        {sequence.prefix: finish_sequence(sequence.prefix, sequence.log_probs) for sequence in sequences}.values()
    )


def _sample_sequences(count: int, max_len: int, request: SampleRequest, rng: SamplerRng, nucleus: Nucleus) -> Sampling:
    sequences = [SampledSequence() for _ in range(count)]
    while open_ := [sequence for sequence in sequences if _is_unfinished(sequence, max_len)]:
        # Sequences with drafted tokens left advance; when none has any, all wait for new drafts together.
        moving = [sequence for sequence in open_ if sequence.guesses or sequence.bonus]
        request.waiting = () if moving else open_
        moving = moving or open_
        prefixes = dict.fromkeys(sequence.prefix for sequence in moving)
        requested = ScoreRequest.of_hypotheses(prefixes, (sequence.prefix for sequence in sequences))
        scored = dict(zip(requested, (yield requested), strict=True))
        probs = {prefix: nucleus(scores) for prefix, scores in scored.items()}
        for sequence in moving:
            prefix = sequence.prefix
            guess = sequence.guesses.popleft() if sequence.guesses else None
            step = accept_or_resample(guess, probs[prefix], rng)
            if guess is not None:
                request.gamma.record_outcome(int(step.drafted), int(not step.drafted))
            if not step.drafted:
                sequence.guesses.clear()
                sequence.score += log(step.probs[step.token])
            sequence.bonus = step.drafted and not sequence.guesses
            rank = list(scored[prefix].ids).index(step.token)
            sequence.log_probs.append(float(scored[prefix].log_probs[rank]))
            sequence.prefix = (*prefix, step.token)
    return sequences


def _is_unfinished(sequence: SampledSequence, max_len: int) -> bool:
    return sequence.prefix[-1] != EOS and len(sequence.prefix) - 1 < max_len
