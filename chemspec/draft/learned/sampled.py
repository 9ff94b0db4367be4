"""Drafts drawn from a small model's distribution, for speculative sampling: every token comes with what it was drawn
from.

A sampling decoder waits at a desk: there it says of which draws it needs the next tokens, and finds the guesses.
Drafting
happens for all desks at once, when the loop prepares a pass. With three models (paper T, Algorithm 3) the medium
model's draws
are speculative themselves: the small model's tokens are kept or redrawn by the same rule, so that each is distributed
as the
medium model has it, and the target judges it by the medium model's distribution.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from chemspec.draft.learned.gamma import Gamma
from chemspec.draft.learned.small import Small, Source, SourcePrefix
from chemspec.draft.rejection import Guess, Nucleus, SamplerRng, accept_or_resample
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import Draft, Prefix


@dataclass
class SampledSequence:
    """One text being drawn.

    Attributes:
        guesses: tokens drafted after `prefix`, not judged yet.
        bonus: all guesses were kept: the next token is the target's own, from scores computed along with theirs.
        log_probs: the target's, of every token after bos.
        score: paper T's, of Algorithm 2: log-probs of the tokens that were not drafted, under what they were drawn
        from.
    """

    prefix: Prefix = (BOS,)
    guesses: deque[Guess] = field(default_factory=deque)
    bonus: bool = False
    log_probs: list[float] = field(default_factory=list)
    score: float = 0.0


@dataclass
class SampleRequest:
    """Where one query's decoder and the drafter meet.

    Attributes:
        dice: of the drafts; the decoder has others.
        waiting: the draws of which the decoder needs the next tokens now.
    """

    source: Source
    dice: SamplerRng
    gamma: Gamma
    waiting: Sequence[SampledSequence] = ()


@dataclass
class DraftRequest:
    """A text to draw: at most `left` more tokens after `prefix`; those drawn are in `guesses`."""

    source: Source
    prefix: Prefix
    left: int
    dice: SamplerRng
    guesses: list[Guess] = field(default_factory=list)

    def add(self, guess: Guess) -> None:
        self.guesses.append(guess)
        self.prefix = (*self.prefix, guess.token)
        self.left = 0 if guess.token == EOS else self.left - 1


class SamplingDraftGenerator:
    """Draws from a small model's distribution, after many prefixes at once.

    Attributes:
        model: whose distribution; it must score the whole vocabulary.
        helper: a drawer of a smaller model that drafts for it, `stride` tokens at a time.
    """

    def __init__(
        self, model: Small, nucleus: Nucleus, *, helper: SamplingDraftGenerator | None = None, stride: int = 4
    ) -> None:
        self.model, self.nucleus, self.helper, self.stride = model, nucleus, helper, stride

    def draw(self, texts: Sequence[DraftRequest]) -> None:
        """Draw every text to its end."""
        while open_ := [one for one in texts if one.left > 0 and self._reads(one)]:
            drafts = [DraftRequest(one.source, one.prefix, min(self.stride, one.left - 1), one.dice) for one in open_]
            if self.helper is not None:
                self.helper.draw(drafts)
            self.model.score(
                (one.source, prefix)
                for one, draft in zip(open_, drafts, strict=True)
                for prefix in _along(one.prefix, draft.guesses)
                if self.model.reads(one.source, prefix)
            )
            for one, draft in zip(open_, drafts, strict=True):
                self._judge(one, draft.guesses)

    def _judge(self, text: DraftRequest, guesses: Sequence[Guess]) -> None:
        """Take the text along its guesses to the first that is not kept, or one token beyond the last."""
        for guess in (*guesses, None):
            scores = self.model.known(text.source, text.prefix)
            if text.left == 0 or scores is None:
                return
            chances = self.nucleus(scores)
            step = accept_or_resample(guess, chances, text.dice)
            text.add(Guess(step.token, chances))
            if not step.drafted:
                return

    def keep(self, places: Sequence[SourcePrefix]) -> None:
        """Forget what these prefixes do not need."""
        self.model.keep(places)
        if self.helper is not None:
            self.helper.keep(places)

    @property
    def calls(self) -> int:
        """Runs of the models so far, of both where there are two."""
        return self.model.calls + (self.helper.calls if self.helper else 0)

    def _reads(self, text: DraftRequest) -> bool:
        return self.model.reads(text.source, text.prefix)


def _along(prefix: Prefix, guesses: Sequence[Guess]) -> list[Prefix]:
    """`prefix`, and the prefixes that the guesses lead to, of which something can be asked."""
    path = [prefix]
    for guess in guesses:
        if guess.token == EOS:
            break
        path.append((*path[-1], guess.token))
    return path


class Sampled:
    """The drafter of speculative sampling; one object serves one run of the loop."""

    def __init__(self, drawer: SamplingDraftGenerator, gamma: Callable[[], Gamma], *, name: str) -> None:
        """Draft with `drawer`, as many tokens as a query's own `gamma` says."""
        self.drawer, self.name = drawer, name
        self._gamma = gamma
        self.desks: list[SampleRequest] = []
        self._drafts: dict[tuple[Source, Prefix], list[Draft]] = {}

    def desk(self, source: Sequence[int], dice: SamplerRng) -> SampleRequest:
        """A new desk, for the decoder of a query."""
        self.desks.append(SampleRequest(tuple(source), dice, self._gamma()))
        return self.desks[-1]

    @property
    def calls(self) -> int:
        return self.drawer.calls

    def prepare(self, asked: Sequence[tuple[Sequence[int], Prefix, int]]) -> None:
        rooms = {(tuple(source), prefix): room for source, prefix, room in asked}
        ordered: list[tuple[SampledSequence, DraftRequest]] = []
        for desk in self.desks:
            draws = [draw for draw in desk.waiting if (desk.source, draw.prefix) in rooms]
            length = desk.gamma.length() if draws else 0
            for draw in draws:
                left = min(length, rooms[desk.source, draw.prefix])
                ordered.append((draw, DraftRequest(desk.source, draw.prefix, left, desk.dice)))
        self.drawer.keep(list(rooms))
        self._drafts.clear()
        self.drawer.draw([wanted for _, wanted in ordered])
        for draw, wanted in ordered:
            draw.guesses.extend(wanted.guesses)
            tokens = _clean(wanted.guesses)
            if tokens:
                place = (wanted.source, draw.prefix)
                chances = tuple(float(guess.chances[guess.token]) for guess in wanted.guesses)
                draft = Draft(tokens, self.name, chances=chances[: len(tokens)])
                self._drafts.setdefault(place, []).append(draft)

    def propose(self, source: Sequence[int], prefix: Prefix, room: int) -> Sequence[Draft]:
        return self._drafts.get((tuple(source), prefix), ())


def _clean(guesses: Sequence[Guess]) -> tuple[int, ...]:
    """The tokens up to one that no draft may have, though a draw may."""
    tokens = []
    for guess in guesses:
        if guess.token in (BOS, PAD):
            break
        tokens.append(guess.token)
    return tuple(tokens)
