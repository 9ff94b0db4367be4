"""Pass a drafter to the compiled loop: as a description, or as a callback for drafters without C++ code."""

import ctypes
from array import array
from ctypes import c_double, c_int32, pointer
from itertools import accumulate, chain
from typing import Any

from chemspec.decode.compiled.structures import (
    DrafterArgs,
    DraftHistoryStruct,
    DraftPlannerArgs,
    MergingArgs,
    TableStruct,
    array_address,
)
from chemspec.decode.draft_history import CLASSES, DraftHistory
from chemspec.decode.draft_planner import DraftPlanner
from chemspec.decode.protocol import LoopOptions
from chemspec.draft.base import Drafter, NoDrafts, read_drafts
from chemspec.draft.copy import Copy
from chemspec.draft.merging import Merging
from chemspec.draft.mixed import Mixed
from chemspec.types import Draft, Prefix

NONE, COPY, MIXED, OTHER = range(4)
KINDS: dict[type, int] = {NoDrafts: NONE, Copy: COPY, Mixed: MIXED}


class CompiledDrafter:
    """A drafter in a run of the compiled loop."""

    def __init__(self, code: ctypes.CDLL, drafter: Drafter, options: LoopOptions) -> None:
        """Describe a drafter."""
        self._code, self._drafter, self._vocab_size = code, drafter, options.vocab_size
        self.sources: list[Prefix] = []  # sources of the queries, by number
        self.kind = KINDS.get(type(drafter), OTHER)
        self.names = ["", "copy", "mixed"]  # drafters by their numbers in the compiled code
        self.error: BaseException | None = None  # raised by the drafter's callback
        self.args = args = DrafterArgs(kind=self.kind, name=min(self.kind, MIXED), copy_name=COPY)
        if isinstance(drafter, Mixed):
            args.table, args.nodes = pointer(TableStruct.from_table(drafter.edit_table)), drafter.nodes
        if isinstance(drafter, Copy | Mixed):
            args.length, args.count = drafter.length, drafter.count
            classes = drafter.token_classes
            args.dot, args.prompt_length, args.labels = classes.dot, classes.prompt_length, len(classes.rings)
            args.rings = (c_int32 * args.labels)(*classes.rings)
            if classes.merging is not None:
                args.merging = describe_merging(classes.merging)

    def propose(self, loop: int, query: int, prefix: Any, written: int, room: int) -> int:
        """Add the drafts of a Python drafter, as a callback of the compiled code (`structures.ProposeCallback`)."""
        try:
            drafts = self._drafter.propose(self.sources[query], tuple(prefix[:written]), room)
            for draft in read_drafts(self._drafter, drafts, self._vocab_size):
                if draft.drafter not in self.names:
                    self.names.append(draft.drafter)
                self._add_draft(loop, query, draft, self.names.index(draft.drafter))
        except BaseException as error:  # exceptions must not propagate through compiled code
            self.error = error
            return 0
        return 1

    def _add_draft(self, loop: int, query: int, draft: Draft, name: int) -> None:
        tokens, positions, probs = (
            array("i", draft.tokens),
            array("i", draft.positions),
            array("d", draft.probabilities),
        )
        copied = draft.span is not None, *(draft.span or (0, 0)), draft.match
        lists = array_address(positions), len(positions), array_address(probs), len(probs)
        add = self._code.chemspec_loop_add_draft
        if add(loop, query, name, array_address(tokens), len(tokens), *copied, *lists) != 1:
            raise MemoryError("there is not enough memory to draft")


def describe_merging(merging: Merging) -> MergingArgs:
    """Return the description of a vocabulary's merges."""
    starts = accumulate(map(len, merging.parts), initial=0)
    columns = chain.from_iterable(merging.merges), chain.from_iterable(merging.parts), starts
    arrays = [(c_int32 * len(values))(*values) for values in map(tuple, columns)]
    return MergingArgs(len(merging.merges), *arrays)


def describe_planner(planner: DraftPlanner) -> DraftPlannerArgs:
    """Return the description of a planner."""
    curve, priors = planner.curve, planner.priors
    columns = [(c_double * len(values))(*values) for values in (curve.nodes, curve.seconds, priors)]
    return DraftPlannerArgs(len(curve.nodes), len(priors), curve.measured, planner.call_seconds, *columns)


def describe_history(history: DraftHistory) -> DraftHistoryStruct:
    """Return a history as compiled code reads and writes it."""
    columns = [(c_double * len(values))(*values) for values in (history.hits, history.tries, history.factors)]
    numbers = history.net_gain, history.pause, history.pause_left, history.value_share, history.idle_runs
    return DraftHistoryStruct(*numbers, *columns)


def read_history(written: DraftHistoryStruct, factors: int) -> DraftHistory:
    """Return a history that compiled code has written."""
    return DraftHistory(
        written.net_gain,
        written.pause,
        written.pause_left,
        written.value_share,
        written.idle_runs,
        written.hits[:CLASSES],
        written.tries[:CLASSES],
        written.factors[:factors],
    )
