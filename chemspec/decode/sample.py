"""Sampling with temperature and top-p, plain and speculative.

Speculative sampling (Leviathan et al. 2023; Tulsian et al., Algorithm 1) accepts or resamples a small model's tokens.
It is exact in distribution: every output has the same probability as under `sample_sequences`, although the same seed
gives other samples; `chemspec.draft.rejection` has the argument. Sequences advance independently: a rejection in one
does not delay the others. All decoders here need scores of the whole vocabulary, and their outputs have log-probs at
temperature 1.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import islice
from math import log
from random import Random

import numpy as np

from chemspec.decode.protocol import START, Decoder, ScoreRequest, finish_sequence
from chemspec.draft.learned.sampled import SampledSequence, SampleRequest
from chemspec.draft.rejection import Nucleus, Seeded, accept_or_resample, sampling_distribution, verify_block
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import FinishedSequence, Prefix, Scores

Sampling = Generator[tuple[Prefix, ...], Sequence[Scores], list[SampledSequence]]


def sample_sequences(*, count: int, max_len: int, rng: Random, temperature: float = 1.0, top_p: float = 1.0) -> Decoder:
    """Sample `count` sequences; returns the distinct ones, most probable under the model first.

    Log-probs are divided by the temperature, which is above 0. Only the most probable tokens with the total probability
    top_p are sampled; it is above 0 and at most 1.
    """
    draws: list[tuple[Prefix, list[float]]] = [(START, []) for _ in range(count)]
    while open_ := [index for index, (prefix, _) in enumerate(draws) if _is_unfinished(prefix, max_len)]:
        requested = tuple(dict.fromkeys(draws[index][0] for index in open_))
        scored = dict(zip(requested, (yield requested), strict=True))
        cumulative_probs = {
            prefix: np.cumsum(sampling_distribution(scores, temperature=temperature, top_p=top_p))
            for prefix, scores in scored.items()
        }
        for index in open_:
            prefix, log_probs = draws[index]
            cumulative = cumulative_probs[prefix]
            drawn = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
            drawn = min(drawn, len(cumulative) - 1)
            token = int(scored[prefix].ids[drawn])
            draws[index] = ((*prefix, token), [*log_probs, float(scored[prefix].log_probs[drawn])])
    return _most_probable_first(draws)


def speculative_sample(
    *, count: int, max_len: int, request: SampleRequest, rng: Seeded, nucleus: Nucleus = Nucleus()
) -> Decoder:
    """Sample `count` sequences; returns the distinct ones, most probable under the model first.

    The request receives the drafter's tokens; `rng` is the source of randomness for acceptance and resampling.
    """
    sequences = yield from _sample_sequences(count, max_len, request, rng, nucleus)
    return _most_probable_first((sequence.prefix, sequence.log_probs) for sequence in sequences)


def block_sample(
    *, count: int, max_len: int, request: SampleRequest, rng: Seeded, nucleus: Nucleus = Nucleus()
) -> Decoder:
    """Sample `count` sequences as `speculative_sample`, but verify whole drafts (`rejection.verify_block`)."""
    sequences = [SampledSequence() for _ in range(count)]
    while open_ := [sequence for sequence in sequences if _is_unfinished(sequence.prefix, max_len)]:
        prefixes = [sequence.prefix for sequence in sequences]
        request.waiting = open_
        first = dict.fromkeys(sequence.prefix for sequence in open_)
        scored = dict(zip(first, (yield ScoreRequest.of_hypotheses(first, prefixes)), strict=True))
        request.waiting = ()
        lines = [_scored_prefixes(sequence) for sequence in open_]
        along = ScoreRequest.of_hypotheses(dict.fromkeys(prefix for line in lines for prefix in line), prefixes)
        along.repeated = True  # the pass that these drafts were added to has computed them, if they fitted into it
        scored |= dict(zip(along, (yield along), strict=True))
        for sequence, line in zip(open_, lines, strict=True):
            _take_block(sequence, line, scored, request, rng, nucleus)
    return _most_probable_first((sequence.prefix, sequence.log_probs) for sequence in sequences)


def _scored_prefixes(sequence: SampledSequence) -> list[Prefix]:
    """Return a sequence's prefix and those along its draft, up to a token that nothing follows."""
    line = [sequence.prefix]
    for drafted in sequence.drafted_tokens:
        if drafted.token in (EOS, BOS, PAD):
            break
        line.append((*line[-1], drafted.token))
    return line


def _take_block(
    sequence: SampledSequence,
    line: Sequence[Prefix],
    scored: Mapping[Prefix, Scores],
    request: SampleRequest,
    rng: Seeded,
    nucleus: Nucleus,
) -> None:
    """Extend a sequence by the accepted part of its draft, and by one token of the target's unless that ends it."""
    targets = [nucleus(scored[prefix]) for prefix in line]
    block = list(islice(sequence.drafted_tokens, len(line)))
    accepted, rest = verify_block(block, targets[: len(block)], rng)
    if block:
        request.gamma.record_outcome(accepted, int(accepted < len(block)))
    tokens = [drafted.token for drafted in block[:accepted]]
    if accepted < len(line):
        tokens.append(rng.pick_token(targets[accepted] if rest is None else rest))
    for prefix, token in zip(line, tokens, strict=False):
        sequence.log_probs.append(float(scored[prefix].log_probs[list(scored[prefix].ids).index(token)]))
    sequence.prefix = (*sequence.prefix, *tokens)
    sequence.drafted_tokens.clear()


def sampled_beam(
    *, count: int, max_len: int, request: SampleRequest, rng: Seeded, nucleus: Nucleus = Nucleus()
) -> Decoder:
    """Extend `count` beams by one speculative sample per pass and rank them: Algorithm 2 of Tulsian et al. as printed.

    Relaxed: this is not a beam search. Every beam has one candidate, so none is ever dropped, and the score counts only
    tokens that were not drafted (line 24), so it prefers outputs with many drafted tokens. The arguments are those of
    `speculative_sample`.
    """
    sequences = yield from _sample_sequences(count, max_len, request, rng, nucleus)
    sequences = sorted(sequences, key=lambda sequence: (-sequence.score, sequence.prefix))
    return _unique_sequences((sequence.prefix, sequence.log_probs) for sequence in sequences)


def _unique_sequences(draws: Iterable[tuple[Prefix, list[float]]]) -> list[FinishedSequence]:
    return list({prefix: finish_sequence(prefix, log_probs) for prefix, log_probs in draws}.values())


def _most_probable_first(draws: Iterable[tuple[Prefix, list[float]]]) -> list[FinishedSequence]:
    return sorted(_unique_sequences(draws), key=lambda answer: (-answer.log_prob, answer.tokens))


def _is_unfinished(prefix: Prefix, max_len: int) -> bool:
    return prefix[-1] != EOS and len(prefix) - 1 < max_len


def _sample_sequences(count: int, max_len: int, request: SampleRequest, rng: Seeded, nucleus: Nucleus) -> Sampling:
    sequences = [SampledSequence() for _ in range(count)]
    while open_ := [sequence for sequence in sequences if _is_unfinished(sequence.prefix, max_len)]:
        # Sequences with drafted tokens left advance; when none has any, all wait for new drafts together.
        moving = [sequence for sequence in open_ if sequence.drafted_tokens or sequence.bonus]
        request.waiting = () if moving else open_
        moving = moving or open_
        prefixes = dict.fromkeys(sequence.prefix for sequence in moving)
        requested = ScoreRequest.of_hypotheses(prefixes, (sequence.prefix for sequence in sequences))
        scored = dict(zip(requested, (yield requested), strict=True))
        probs = {prefix: nucleus(scores) for prefix, scores in scored.items()}
        for sequence in moving:
            prefix = sequence.prefix
            drafted = sequence.drafted_tokens.popleft() if sequence.drafted_tokens else None
            step = accept_or_resample(drafted, probs[prefix], rng)
            if drafted is not None:
                request.gamma.record_outcome(int(step.drafted), int(not step.drafted))
            if not step.drafted:
                sequence.drafted_tokens.clear()
                sequence.score += log(step.probs[step.token])
            sequence.bonus = step.drafted and not sequence.drafted_tokens
            rank = list(scored[prefix].ids).index(step.token)
            sequence.log_probs.append(float(scored[prefix].log_probs[rank]))
            sequence.prefix = (*prefix, step.token)
    return sequences
