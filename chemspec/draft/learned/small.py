"""A small model beside the target: its scores in batches, each prefix once, over a whole run of the loop.

A drafter asks it for prefixes of many queries at once. Its prefix tree and cache live as long as a query does, so that
drafting goes on where the last draft was accepted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from chemspec.model.session import Backend, Session, Source
from chemspec.system.files import write_text_atomic
from chemspec.system.untrusted import read_untrusted_json
from chemspec.types import Prefix, Scores

ALPHA = "alpha.json"  # in the folder of a small model
SourcePrefix = tuple[Source, Prefix]  # a query, and what has been written


@dataclass(frozen=True)
class DraftModel:
    """A small model as loaded for a target, whose vocabulary it has.

    Attributes:
        backend: what computes it.
        positions: most tokens of a source or an answer, bos and eos included.
        vocab_size: tokens.
        cost: gives the cost curve, seconds of a pass by its nodes on this machine.
        alpha: the share of its tokens that the target accepted on validation data; 0.8 where that was not counted.
    """

    backend: Backend
    positions: int
    vocab_size: int
    cost: Callable[[], Callable[[float], float]]
    alpha: float = 0.8


def read_alpha(folder: Path) -> float:
    """Return the acceptance rate counted for the small model of a folder, or the default where there is none.

    Raises:
        ValueError: naming the file, if it does not hold a rate.
    """
    file = folder / ALPHA
    if not file.is_file():
        return DraftModel.alpha
    try:
        found = float(read_untrusted_json(file)["alpha"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file} is damaged: {error!r}; delete it to do without") from error
    if not 0 < found < 1:
        raise ValueError(f"{file}: alpha is {found}; it must be between 0 and 1")
    return found


def write_alpha(folder: Path, found: float, *, counted: str) -> Path:
    """Keep a rate and the command that counted it; returns the file."""
    file = folder / ALPHA
    write_text_atomic(file, json.dumps({"alpha": found, "counted": counted}))
    return file


@dataclass
class _Open:
    """A session and the numbers of its sources, of which `live` may still be asked about."""

    session: Session
    numbers: dict[Source, int]
    live: set[Source] = field(default_factory=set)


class BatchedDraftModel:
    """The scores of a small model, computed as they are asked for; one object serves one run of the loop.

    Attributes:
        calls: runs of the model's decoder.
        computed: prefixes run through it.
    """

    def __init__(self, model: DraftModel, *, top_k: int = 2) -> None:
        self.model = model
        self.top_k = min(top_k, model.vocab_size)
        self.calls, self.computed = 0, 0
        self._known: dict[Source, dict[Prefix, Scores]] = {}
        self._open: list[_Open] = []

    def reads(self, source: Source, prefix: Prefix) -> bool:
        """Return whether the model has positions for both."""
        longest = self.model.positions
        return len(source) <= longest - 2 and len(prefix) <= longest - 1

    def known(self, source: Source, prefix: Prefix) -> Scores | None:
        """Return the scores of a prefix, if they have been computed."""
        return self._known.get(source, {}).get(prefix)

    def score(self, prefixes: Iterable[SourcePrefix]) -> None:
        """Compute the scores of these prefixes, in one pass; one more for queries that are new."""
        wanted: dict[Source, dict[Prefix, None]] = {}
        for source, prefix in prefixes:
            if prefix not in self._known.get(source, {}):
                wanted.setdefault(source, {})[prefix] = None
        new_sources = [source for source in wanted if source not in self._known]
        if new_sources:
            session = Session(self.model.backend, new_sources, top_k=self.top_k)
            numbers = {source: number for number, source in enumerate(new_sources)}
            self._open.append(_Open(session, numbers, set(new_sources)))
            self._known.update((source, {}) for source in new_sources)
        for opened in self._open:
            self._score(opened, wanted)

    def _score(self, opened: _Open, wanted: dict[Source, dict[Prefix, None]]) -> None:
        if not any(source in wanted for source in opened.live):
            return
        sources = {number: source for source, number in opened.numbers.items()}
        live = [sources[number] for number in opened.session.queries]
        scored = opened.session.score([list(wanted.get(source, ())) for source in live])
        self.calls += 1
        for source, scores in zip(live, scored, strict=True):
            self._known[source].update(scores)
            self.computed += len(scores)

    def keep(self, prefixes: Sequence[SourcePrefix]) -> None:
        """Forget finished queries, and what does not lead to or from these prefixes, if it is much.

        A query that is not among them and is asked about later is encoded anew.
        """
        wanted: dict[Source, list[Prefix]] = {}
        for source, prefix in prefixes:
            wanted.setdefault(source, []).append(prefix)
        for opened in self._open:
            gone = {source for source in opened.live if source not in wanted}
            opened.live -= gone
            opened.session.release(opened.numbers[source] for source in gone)
            for source in gone:
                del self._known[source]
            rooted: dict[int, Sequence[Prefix]] = {
                opened.numbers[source]: wanted[source] for source in opened.live if self._known[source]
            }
            if len(rooted) == len(opened.live):
                opened.session.compact(rooted)
        self._open = [opened for opened in self._open if opened.live]


class DraftGenerator:
    """What writes drafts after many prefixes at once: with a small model, perhaps helped by a smaller one.

    Attributes:
        model: the scores that it goes by.
        helper: a generator of the same kind with a smaller model that drafts for this one, `stride` tokens at a time.
    """

    helper: Self | None

    def __init__(self, model: BatchedDraftModel, *, helper: Self | None = None, stride: int = 4) -> None:
        self.model, self.helper, self.stride = model, helper, stride

    def keep(self, prefixes: Sequence[SourcePrefix]) -> None:
        """Forget what these prefixes do not need."""
        self.model.keep(prefixes)
        if self.helper is not None:
            self.helper.keep(prefixes)

    @property
    def calls(self) -> int:
        """Runs of the models so far, of both where there are two."""
        return self.model.calls + (self.helper.calls if self.helper else 0)
