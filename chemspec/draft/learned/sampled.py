"""Drafts sampled from a small model, for speculative sampling: every token comes with the distribution it is from.

A sampling decoder and the drafter share a `SampleRequest`: the decoder says which sequences need next tokens, and finds
the guesses in them. Drafting happens for all requests at once, when the loop prepares a pass. With three models (paper
T, Algorithm 3) the medium model's samples are speculative themselves: the small model's tokens are accepted or
resampled by the same rule, so that each is distributed as the medium model has it, and the target judges it by the
medium model's distribution.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

from chemspec.draft.learned.gamma import Gamma
from chemspec.draft.learned.small import DraftGenerator, DraftModelSession
from chemspec.draft.rejection import DraftedToken, Nucleus, SamplerRng, accept_or_resample
from chemspec.model.session import Source
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import Draft, Prefix


@dataclass
class SampledSequence:
    """One sequence being sampled.

    Attributes:
        prefix: what has been accepted.
        guesses: tokens drafted after `prefix`, not judged yet.
        bonus: all guesses were accepted: the next token is the target's own, from scores computed with theirs.
        log_probs: the target's, of every token after bos.
        score: that of Tulsian et al., Algorithm 2: log-probs of the tokens that were not drafted, under what they were
            sampled from.
    """

    prefix: Prefix = (BOS,)
    guesses: deque[DraftedToken] = field(default_factory=deque)
    bonus: bool = False
    log_probs: list[float] = field(default_factory=list)
    score: float = 0.0


@dataclass
class SampleRequest:
    """What one query's decoder asks of the drafter.

    Attributes:
        source: the query's token ids.
        rng: of the drafts; the decoder has another.
        gamma: how many tokens to draft.
        waiting: the sequences of which the decoder needs the next tokens now.
    """

    source: Source
    rng: SamplerRng
    gamma: Gamma
    waiting: Sequence[SampledSequence] = ()


@dataclass
class DraftRequest:
    """A draft to sample: at most `left` more tokens after `prefix`; those sampled are in `guesses`."""

    source: Source
    prefix: Prefix
    left: int
    rng: SamplerRng
    guesses: list[DraftedToken] = field(default_factory=list)

    def add_token(self, guess: DraftedToken) -> None:
        """Append a token."""
        self.guesses.append(guess)
        self.prefix = (*self.prefix, guess.token)
        self.left = 0 if guess.token == EOS else self.left - 1


class SamplingDraftGenerator(DraftGenerator):
    """Samples from a small model's distribution, for which it must score the whole vocabulary; cut by `nucleus`."""

    def __init__(
        self, model: DraftModelSession, nucleus: Nucleus, *, helper: Self | None = None, stride: int = 4
    ) -> None:
        super().__init__(model, helper=helper, stride=stride)
        self.nucleus = nucleus

    def sample_drafts(self, texts: Sequence[DraftRequest]) -> None:
        """Sample every draft to its end."""
        while unfinished := [text for text in texts if text.left > 0 and self.model.can_read(text.source, text.prefix)]:
            drafts = [
                DraftRequest(text.source, text.prefix, min(self.stride, text.left - 1), text.rng) for text in unfinished
            ]
            if self.helper is not None:
                self.helper.sample_drafts(drafts)
            self.model.score_prefixes(
                (text.source, prefix)
                for text, draft in zip(unfinished, drafts, strict=True)
                for prefix in _scorable_prefixes(text.prefix, draft.guesses)
                if self.model.can_read(text.source, prefix)
            )
            for text, draft in zip(unfinished, drafts, strict=True):
                self._accept_guesses(text, draft.guesses)

    def _accept_guesses(self, text: DraftRequest, guesses: Sequence[DraftedToken]) -> None:
        """Extend the text by its guesses up to the first that is rejected, or one token beyond the last."""
        for guess in (*guesses, None):
            scores = self.model.cached_scores(text.source, text.prefix)
            if text.left == 0 or scores is None:
                return
            probs = self.nucleus(scores)
            step = accept_or_resample(guess, probs, text.rng)
            text.add_token(DraftedToken(step.token, probs))
            if not step.drafted:
                return


def _scorable_prefixes(prefix: Prefix, guesses: Sequence[DraftedToken]) -> list[Prefix]:
    """Return the prefix and those that the guesses lead to, as far as they can be scored."""
    path = [prefix]
    for guess in guesses:
        if guess.token == EOS:
            break
        path.append((*path[-1], guess.token))
    return path


class Sampled:
    """The drafter of speculative sampling; one object serves one run of the loop."""

    def __init__(self, generator: SamplingDraftGenerator, gamma: Callable[[], Gamma], *, name: str) -> None:
        """Draft as many tokens as a query's own gamma says.

        Args:
            generator: samples the drafts.
            gamma: makes the gamma of a query.
            name: of the drafter, for the trace.
        """
        self.generator, self.name = generator, name
        self._gamma = gamma
        self.requests: list[SampleRequest] = []
        self._drafts: dict[tuple[Source, Prefix], list[Draft]] = {}

    def open_request(self, source: Sequence[int], rng: SamplerRng) -> SampleRequest:
        """Open the request of one query's decoder."""
        self.requests.append(SampleRequest(tuple(source), rng, self._gamma()))
        return self.requests[-1]

    @property
    def calls(self) -> int:
        """Runs of the models so far."""
        return self.generator.calls

    def prepare(self, requested: Sequence[tuple[Sequence[int], Prefix, int]]) -> None:
        """Draft for all prefixes of a pass at once; see `BatchedDrafter.prepare`."""
        limits = {(tuple(source), prefix): max_new_tokens for source, prefix, max_new_tokens in requested}
        ordered: list[tuple[SampledSequence, DraftRequest]] = []
        for request in self.requests:
            sequences = [sequence for sequence in request.waiting if (request.source, sequence.prefix) in limits]
            length = request.gamma.next_length() if sequences else 0
            for sequence in sequences:
                left = min(length, limits[request.source, sequence.prefix])
                ordered.append((sequence, DraftRequest(request.source, sequence.prefix, left, request.rng)))
        self.generator.release_others(list(limits))
        self._drafts.clear()
        self.generator.sample_drafts([draft_request for _, draft_request in ordered])
        for sequence, draft_request in ordered:
            sequence.guesses.extend(draft_request.guesses)
            tokens = _draftable_tokens(draft_request.guesses)
            if tokens:
                key = (draft_request.source, sequence.prefix)
                probs = tuple(float(guess.probs[guess.token]) for guess in draft_request.guesses)
                draft = Draft(tokens, self.name, chances=probs[: len(tokens)])
                self._drafts.setdefault(key, []).append(draft)

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        return self._drafts.get((tuple(source), prefix), ())


def _draftable_tokens(guesses: Sequence[DraftedToken]) -> tuple[int, ...]:
    """Return the tokens up to one that no draft may have, though a sample may."""
    tokens = []
    for guess in guesses:
        if guess.token in (BOS, PAD):
            break
        tokens.append(guess.token)
    return tuple(tokens)
