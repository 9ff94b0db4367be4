"""What records say of where tokens came from: accepted spans, and the prefix tree; both loops record by these."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Generic, TypeVar

from chemspec.types import DRAFTED, REQUESTED, AcceptedSpan, Draft, TreeDelta

Origin = tuple[Draft, int]  # the draft that contains a token, and the token's index there
Key = TypeVar("Key", bound=Hashable)


def credit_longest(
    tokens: Sequence[int], start: int, origins: list[Origin | None], branches: Mapping[int, Sequence[Draft]]
) -> None:
    """Credit drafted tokens to the drafts of their pass with the longest accepted runs; of equal ones to the first.

    `origins` are those of `tokens` from number `start` on; `branches` are the drafts after the first tokens, by the
    number of these, where a pass added all of them, as alternatives.
    """
    at = 0
    while at < len(origins):
        draft, index = origins[at] or (None, 0)
        anchor = start + at - index
        if draft is None or anchor not in branches:
            at += 1
            continue
        answer = tokens[anchor:]
        draft = max(branches[anchor], key=lambda branch: common_prefix_length(branch.tokens, answer))
        run = [(draft, number) for number in range(index, common_prefix_length(draft.tokens, answer))]
        origins[at : at + len(run)] = run
        at += max(1, len(run))


def accepted_spans(start: int, origins: Sequence[Origin | None]) -> tuple[AcceptedSpan, ...]:
    """Return the drafted tokens among those of an output from `start` on, as runs copied from one span each."""

    def run_of(token: tuple[int, Origin | None]) -> tuple[str, int | None] | None:
        number, origin = token
        if origin is None:
            return None
        copied = origin[0].query_position(origin[1])
        return origin[0].drafter, None if copied is None else copied - number

    spans = []
    for run, members in groupby(enumerate(origins, start), run_of):
        if run is not None:
            numbers = [number for number, _ in members]
            first, stop = numbers[0], numbers[-1] + 1
            span = None if run[1] is None else (first + run[1], stop + run[1])
            spans.append(AcceptedSpan(first, len(numbers), run[0], span))
    return tuple(spans)


def node_source(origin: Origin | None, *, requested: bool) -> int:
    """Return the source of a node, as in `TreeDelta.sources`."""
    copied = None if origin is None else origin[0].query_position(origin[1])
    return REQUESTED if requested else DRAFTED if copied is None else copied


class TreeRecorder(Generic[Key]):
    """Numbers the computed nodes of each search of a query; a search's first record includes the nodes it reuses."""

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}  # of a node that was computed twice the newer one
        self._reused: list[Key] = []
        self._count = 0

    def start_next_search(self) -> None:
        """Begin another record, which may reuse all nodes so far."""
        self._reused, self._numbers, self._count = list(self._numbers) or self._reused, {}, 0

    def record(
        self, computed: Iterable[Key], requested: Iterable[Key], describe: Callable[[Key], tuple[Key, int, int]]
    ) -> TreeDelta:
        """Record nodes just computed, parents first, of which `describe` returns parent, token and source."""
        parents, tokens, sources = [], [], []
        for node in computed if self._count else (*self._reused, *computed):
            parent, token, source = describe(node)
            parents.append(self._numbers.get(parent, -1))
            tokens.append(token)
            sources.append(source)
            self._numbers[node] = self._count
            self._count += 1
        beam = tuple(self._numbers[node] for node in requested)
        return TreeDelta(beam, tuple(parents), tuple(tokens), tuple(sources))


def common_prefix_length(tokens: Sequence[int], others: Sequence[int]) -> int:
    """Return the length of the common prefix of two token sequences."""
    for length, (token, other) in enumerate(zip(tokens, others, strict=False)):
        if token != other:
            return length
    return min(len(tokens), len(others))
