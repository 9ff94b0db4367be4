"""A draft model with its own KV cache, scored in batches; the cache lives as long as the query.

Each prefix is computed once per run, so drafting continues where the last draft was accepted.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Any, Self

from chemspec.draft.rejection import Seeded
from chemspec.model.runner import Backend
from chemspec.model.session import Session
from chemspec.tokenizer import EOS
from chemspec.types import Cost, Prefix, Scores, SourceIds

SourcePrefix = tuple[SourceIds, Prefix]  # a query's token ids and a prefix of its output


@dataclass(frozen=True)
class DraftModel:
    """A loaded draft model with the target's vocabulary."""

    backend: Backend  # backend of the model
    positions: int  # maximum length of source and output, bos and eos included
    vocab_size: int  # size of the vocabulary
    cost: Callable[[], Cost]  # returns the cost curve on this machine


class DraftModelSession:
    """Scores of a draft model, computed on demand; create one per run."""

    def __init__(self, model: DraftModel, *, top_k: int = 2) -> None:
        self.model = model
        self.top_k = min(top_k, model.vocab_size)
        self.calls = 0  # forward passes of its decoder
        self._known: dict[SourceIds, dict[Prefix, Scores]] = {}
        self._open: list[Session] = []  # sessions with unfinished sources

    def can_read(self, source: SourceIds, prefix: Prefix) -> bool:
        """Return whether source and prefix fit into the model's positions."""
        longest = self.model.positions
        return len(source) <= longest - 2 and len(prefix) <= longest - 1

    def cached_scores(self, source: SourceIds, prefix: Prefix) -> Scores | None:
        """Return the scores of a prefix, or None if it has not been computed."""
        return self._known.get(source, {}).get(prefix)

    def score_prefixes(self, prefixes: Iterable[SourcePrefix]) -> None:
        """Compute the scores of these prefixes in one forward pass, and one more for new queries."""
        to_score: dict[SourceIds, dict[Prefix, None]] = {}
        for source, prefix in prefixes:
            if prefix not in self._known.get(source, {}):
                to_score.setdefault(source, {})[prefix] = None
        new_sources = [source for source in to_score if source not in self._known]
        if new_sources:
            self._open.append(Session(self.model.backend, new_sources, top_k=self.top_k))
            self._known.update((source, {}) for source in new_sources)
        for session in self._open:
            sources = session.sources.values()
            if to_score.keys().isdisjoint(sources):
                continue
            scored = session.score([list(to_score.get(source, ())) for source in sources])
            self.calls += 1
            for source, scores in zip(sources, scored, strict=True):
                self._known[source].update(scores)

    def release_others(self, prefixes: Sequence[SourcePrefix]) -> None:
        """Release all queries but those of these prefixes, and evict nodes that are unreachable from the prefixes.

        A released query that is scored later is encoded again.
        """
        reachable_from: dict[SourceIds, list[Prefix]] = {}
        for source, prefix in prefixes:
            reachable_from.setdefault(source, []).append(prefix)
        for session in self._open:
            gone = {query: source for query, source in session.sources.items() if source not in reachable_from}
            session.release(gone)
            for source in gone.values():
                del self._known[source]
            if all(self._known[source] for source in session.sources.values()):
                session.compact({query: reachable_from[source] for query, source in session.sources.items()})
        self._open = [session for session in self._open if session.sources]


@dataclass
class DraftText:
    """A draft being generated: tokens after `prefix`, which grows with them, and at most `left` more."""

    source: SourceIds
    prefix: Prefix
    left: int
    rng: Seeded | None = None  # source of randomness of a sampled draft
    tokens: list[int] = field(default_factory=list)
    probs: list[Any] = field(default_factory=list)  # probability of each token; of a sampled one the distribution (V,)


class DraftGenerator(ABC):
    """Base class of batched draft generation with a small model, optionally drafted for by a smaller one.

    The helper is a generator of the same kind with a smaller model that drafts for this one, `stride` tokens at a time.
    """

    helper: Self | None
    stride = 4

    def __init__(self, model: DraftModelSession, *, helper: Self | None = None) -> None:
        self.model, self.helper = model, helper
        self.rounds, self.written = 1, 1 if helper is None else 3  # prior: tokens of one round

    @abstractmethod
    def extend(self, text: DraftText, drafted: DraftText) -> None:
        """Extend a draft as far as scores are known, given the helper's draft after it; at its end set `left` to 0."""

    def write(self, texts: Sequence[DraftText]) -> None:
        """Generate every draft to its end."""
        while unfinished := [text for text in texts if text.left > 0 and self.model.can_read(text.source, text.prefix)]:
            drafts = [
                DraftText(text.source, text.prefix, min(self.stride, text.left - 1), text.rng) for text in unfinished
            ]
            if self.helper is not None:
                self.helper.write(drafts)
            self.model.score_prefixes(
                (text.source, prefix)
                for text, draft in zip(unfinished, drafts, strict=True)
                for prefix in _prefixes_along(text.prefix, draft.tokens)
                if self.model.can_read(text.source, prefix)
            )
            before = sum(len(text.prefix) for text in unfinished)
            for text, draft in zip(unfinished, drafts, strict=True):
                self.extend(text, draft)
            self.rounds += len(unfinished)
            self.written += sum(len(text.prefix) for text in unfinished) - before

    def release_others(self, prefixes: Sequence[SourcePrefix]) -> None:
        """Release everything that these prefixes do not need."""
        self.model.release_others(prefixes)
        if self.helper is not None:
            self.helper.release_others(prefixes)

    @property
    def calls(self) -> int:
        """Number of forward passes of the draft models so far."""
        return self.model.calls + (self.helper.calls if self.helper else 0)


def _prefixes_along(prefix: Prefix, tokens: Sequence[int]) -> Iterator[Prefix]:
    """Return the prefix and its extensions by drafted tokens, up to eos."""
    drafted = takewhile(lambda token: token != EOS, tokens)
    return accumulate(drafted, lambda path, token: (*path, token), initial=prefix)
