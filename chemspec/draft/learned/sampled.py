"""Drafts sampled from a small model, for speculative sampling: every token comes with its distribution.

A sampling decoder and the drafter share a `SampleRequest`: the decoder sets the sequences that need next tokens, and
the drafter adds drafted tokens to them, for all requests at once when the loop prepares a forward pass. With three
models (Tulsian et al., Algorithm 3) the small model's tokens are accepted or resampled by the medium model by the same
rule, so each token has the medium model's distribution, by which the target verifies it.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Self

from chemspec.draft.learned.gamma import Gamma
from chemspec.draft.learned.network import LearnedDrafter
from chemspec.draft.learned.small import DraftGenerator, DraftModelSession, DraftText, SourcePrefix
from chemspec.draft.rejection import DraftedToken, Nucleus, Seeded, accept_or_resample
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import Draft, Prefix, SourceIds


@dataclass
class SampledSequence:
    """One sequence being sampled."""

    prefix: Prefix = (BOS,)  # the accepted tokens
    # Drafted tokens after `prefix` that are not verified yet.
    drafted_tokens: deque[DraftedToken] = field(default_factory=deque)
    # Whether all drafted tokens were accepted: the next one is sampled from the target's scores computed with them.
    bonus: bool = False
    log_probs: list[float] = field(default_factory=list)  # the target's log-probs of every token after bos
    # Score of Tulsian et al., Algorithm 2: log-probs of the tokens that were not drafted, as they were sampled.
    score: float = 0.0


@dataclass
class SampleRequest:
    """Sequences of one query for which its decoder needs drafts."""

    source: SourceIds  # the query's token ids
    rng: Seeded  # source of randomness of the drafts, independent of the decoder's
    gamma: Gamma  # determines the number of tokens to draft
    waiting: Sequence[SampledSequence] = ()  # sequences that need next tokens now


class SamplingDraftGenerator(DraftGenerator):
    """Samples drafts from a small model that scores the whole vocabulary, with temperature and top-p."""

    def __init__(self, model: DraftModelSession, nucleus: Nucleus, *, helper: Self | None = None) -> None:
        super().__init__(model, helper=helper)
        self.nucleus = nucleus

    def extend(self, text: DraftText, drafted: DraftText) -> None:
        """Extend a draft by the helper's tokens up to the first rejected one, and by one more token."""
        assert text.rng is not None
        for token in (*map(DraftedToken, drafted.tokens, drafted.probs), None):
            scores = self.model.cached_scores(text.source, text.prefix)
            if text.left == 0 or scores is None:
                return
            distribution = self.nucleus(scores)
            step = accept_or_resample(token, distribution, text.rng)
            text.tokens.append(step.token)
            text.probs.append(distribution)
            text.prefix, text.left = (*text.prefix, step.token), 0 if step.token == EOS else text.left - 1
            if not step.drafted:
                return


class Sampled(LearnedDrafter):
    """Drafter of speculative sampling; create one per run."""

    def __init__(self, generator: SamplingDraftGenerator, gamma: Callable[[], Gamma], *, name: str) -> None:
        """Draft with one gamma per query."""
        super().__init__(name)
        self.generator, self._gamma = generator, gamma
        self.requests: list[SampleRequest] = []

    def open_request(self, source: Sequence[int], rng: Seeded) -> SampleRequest:
        """Create the request of one query's decoder."""
        self.requests.append(SampleRequest(tuple(source), rng, self._gamma()))
        return self.requests[-1]

    @property
    def calls(self) -> int:  # type: ignore[override]
        """Number of forward passes of the draft models so far."""
        return self.generator.calls

    def predict(self, requested: Mapping[SourcePrefix, int]) -> Mapping[SourcePrefix, list[Draft]]:
        """Sample drafts for the waiting sequences of all requests; see `LearnedDrafter.predict`."""
        drafts: dict[SourcePrefix, list[Draft]] = {}
        ordered: list[tuple[SampledSequence, DraftText]] = []
        for request in self.requests:
            sequences = [sequence for sequence in request.waiting if (request.source, sequence.prefix) in requested]
            length = request.gamma.next_length() if sequences else 0
            for sequence in sequences:
                left = min(length, requested[request.source, sequence.prefix])
                ordered.append((sequence, DraftText(request.source, sequence.prefix, left, request.rng)))
        self.generator.release_others(list(requested))
        self.generator.write([text for _, text in ordered])
        for sequence, text in ordered:
            sequence.drafted_tokens.extend(map(DraftedToken, text.tokens, text.probs))
            tokens = tuple(takewhile(lambda token: token not in (BOS, PAD), text.tokens))  # these may be sampled
            if tokens:
                probabilities = (float(probs[token]) for token, probs in zip(tokens, text.probs, strict=False))
                draft = Draft(tokens, self.name, probabilities=tuple(probabilities))
                drafts.setdefault((text.source, sequence.prefix), []).append(draft)
        return drafts
