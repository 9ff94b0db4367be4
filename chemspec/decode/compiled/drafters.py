"""Pass a drafter to the compiled loop: as a description, or as a callback for drafters without C++ code."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from ctypes import c_void_p
from typing import Any

from chemspec.decode.compiled.structures import (
    DrafterArgs,
    LimitsStruct,
    PlannerArgs,
    ProposeBack,
    TableStruct,
    array_address,
)
from chemspec.decode.planner import Planner
from chemspec.decode.protocol import DraftLimits
from chemspec.draft.base import Drafter, read_drafts
from chemspec.draft.copy import Copy, TokenClasses
from chemspec.draft.mixed import Mixed
from chemspec.draft.none import NoDrafts
from chemspec.draft.windows import Windows
from chemspec.types import Draft, Prefix

NONE, COPY, WINDOWS, MIXED, OTHER = range(5)
KINDS: dict[type, int] = {NoDrafts: NONE, Copy: COPY, Windows: WINDOWS, Mixed: MIXED}
NAMES = ("", "copy", "windows", "mixed")  # names of their drafts


def supports_drafter(drafter: Drafter) -> bool:
    """Return whether the compiled loop supports a drafter."""
    return type(drafter) in KINDS or not drafter.has_hooks


class CompiledDrafter:
    """A drafter in a run of the compiled loop.

    Attributes:
        spec: description of the drafter.
        planner: address of the planner's description; None without a planner.
        names: names of drafts, by the numbers used in the compiled code.
        error: exception raised by the drafter's callback.
    """

    def __init__(self, code: ctypes.CDLL, drafter: Drafter, limits: DraftLimits, planner: Planner | None) -> None:
        """Describe a drafter."""
        self._code, self._drafter, self._vocab_size = code, drafter, limits.vocab_size
        self._sources: list[Prefix] = []
        self.kind = KINDS.get(type(drafter), OTHER)
        self.names = list(NAMES)
        self.error: BaseException | None = None
        self._kept: list[Any] = []  # keeps alive what the structures point to
        self.spec = DrafterArgs(kind=self.kind, name=min(self.kind, MIXED), copy_name=COPY)
        if isinstance(drafter, Copy):
            self._describe_copy(drafter)
        elif isinstance(drafter, Windows):
            self.spec.length = drafter.length
        elif isinstance(drafter, Mixed):
            self._describe_classes(drafter.token_classes)
            self._describe_table(drafter.edit_table)
            self.spec.limits = self._keep_alive(LimitsStruct.from_limits(drafter.limits))
        self.planner = None if planner is None else self._describe_planner(planner)

    def add_queries(self, loop: c_void_p, sources: Sequence[Prefix]) -> None:
        """Add queries, with their drafts if these are the same in every forward pass."""
        first = len(self._sources)
        self._sources += sources
        if isinstance(self._drafter, Windows) and self.kind == WINDOWS:
            for query, source in enumerate(sources, first):
                for draft in self._drafter.propose(source, (), self._drafter.length):
                    if draft.tokens:
                        self._add_draft(loop, query, draft, WINDOWS)

    def make_callback(self) -> Any:
        """Return the callback by which the compiled code gets the drafts of a Python drafter."""

        def propose(loop: int, query: int, prefix: Any, written: int, room: int) -> int:
            try:
                drafts = self._drafter.propose(self._sources[query], tuple(prefix[:written]), room)
                for draft in read_drafts(self._drafter, drafts, self._vocab_size):
                    self._add_draft(c_void_p(loop), query, draft, self._name_number(draft.drafter))
            except BaseException as error:  # exceptions must not propagate through compiled code
                self.error = error
                return 0
            return 1

        return ProposeBack(propose)

    def _add_draft(self, loop: c_void_p, query: int, draft: Draft, name: int) -> None:
        tokens, positions, chances = array("i", draft.tokens), array("i", draft.places), array("d", draft.chances)
        span = draft.span or (0, 0)
        done = self._code.chemspec_loop_add_draft(
            *(
                loop,
                query,
                name,
                c_void_p(array_address(tokens)),
                len(tokens),
                draft.span is not None,
                *span,
                draft.match,
            ),
            *(c_void_p(array_address(positions)), len(positions), c_void_p(array_address(chances)), len(chances)),
        )
        if done != 1:
            raise MemoryError("there is not enough memory to draft")

    def _name_number(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def _describe_copy(self, copy: Copy) -> None:
        spec = self.spec
        spec.length, spec.count, spec.context = copy.length, copy.count, copy.context
        self._describe_classes(copy.token_classes)

    def _describe_classes(self, classes: TokenClasses) -> None:
        rings = array("i", classes.rings)
        self._kept.append(rings)
        spec = self.spec
        spec.dot, spec.prompt_length = classes.dot, classes.prompt_length
        spec.rings, spec.labels = rings.buffer_info()

    def _describe_table(self, table: Any) -> None:
        self.spec.table = self._keep_alive(TableStruct.from_table(table))
        self._kept.append(table)

    def _describe_planner(self, planner: Planner) -> int:
        curve, records = planner.cost, (planner.by_chance, planner.by_place, planner.by_level)
        columns = [array("d", values) for record in records for values in (record.hits, record.tries)]
        columns = [array("d", curve.nodes), array("d", curve.seconds), *columns]
        self._kept += columns
        sizes = [len(record.hits) for record in records]
        starts = [column.buffer_info()[0] for column in columns]
        return self._keep_alive(PlannerArgs(len(curve.nodes), *sizes, planner.foresees, planner.call_seconds, *starts))

    def _keep_alive(self, structure: ctypes.Structure) -> int:
        self._kept.append(structure)
        return ctypes.addressof(structure)
