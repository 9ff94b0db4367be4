"""The passes of one query of the compiled loop, which keeps the token, the parent and the draft of every node.

Accepted spans and the sources of nodes are derived when passes are read, by `decode/origins.py` as in the Python loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ctypes import POINTER, c_double, c_int32, cast
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter

from chemspec.decode.compiled.structures import DraftRow, NodeRow, PassRow, RecordView, read_array, read_row, read_rows
from chemspec.decode.origins import Origin, TreeRecorder, accepted_spans, credit_longest, node_source
from chemspec.decode.protocol import FinishedSearch, NextSearch
from chemspec.types import Draft, Pass, TreeDelta

MAX_UNUSED_ROWS = 5  # rows of drafts that are read for each wanted one, rather than one by one
_length = attrgetter("length")
Times = Sequence[tuple[float, float, float]]  # per pass: seconds of drafting and of the model, end time


@dataclass
class QueryRecords:
    """The part of a query's records that has been read so far."""

    began: int  # number of the loop's forward passes before the query's first
    next_search: NextSearch | None  # method of the current decoder
    is_greedy: bool  # then all drafts of a pass are added, as alternatives (`query_state.DraftTree.branches`)
    earlier: list[FinishedSearch] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    tree: TreeRecorder[int] = field(default_factory=TreeRecorder)
    read: tuple[int, int] = (0, 0)  # numbers of requested and computed nodes read with these passes

    def start_next_search(self, next_search: NextSearch | None, *, is_greedy: bool) -> None:
        """Begin the records of another search; all passes so far must have been read."""
        self.next_search, self.is_greedy = next_search, is_greedy
        self.tree.start_next_search()

    def read_passes(self, view: RecordView, names: Sequence[str], times: Times) -> None:
        """Read the passes since the last call, all of one search; `names` are those of drafters."""
        old, new = len(self.passes), view.passes - len(self.passes)
        if not new:
            return
        rows = read_rows(PassRow, view.pass_rows, new, old)
        starts, counts = self.read, (sum([row.beam for row in rows]), sum([row.nodes for row in rows]))
        self.read = starts[0] + counts[0], starts[1] + counts[1]
        beam = iter(read_array("i", view.beam, counts[0], starts[0]))
        nodes = iter(read_array("i", view.nodes, counts[1], starts[1]))
        tree, margins = _TreeReader(view, names), read_array("d", view.margins, new, old)
        numbers = [number for row in rows for number in range(row.drafts, row.drafts + row.drafts_count)]
        drafts_of_passes = iter(tree.drafts(numbers))
        times = times[self.began + old : self.began + view.passes]
        for row, margin, (draft_seconds, model_seconds, _) in zip(rows, margins, times, strict=True):
            drafts = tuple(islice(drafts_of_passes, row.drafts_count))
            start = max(row.before, row.written - row.emitted)
            credited = self._credited_nodes(tree, row, start, drafts) if row.emitted > 1 else {}
            spans = accepted_spans(start, [*credited.values()]) if credited else ()
            grown = None
            if row.beam:
                grown = self._record_nodes(tree, islice(nodes, row.nodes), list(islice(beam, row.beam)), credited)
            self.passes.append(
                Pass(
                    requested=row.requested,
                    computed=row.computed,
                    drafted=row.computed - row.requested,
                    emitted=row.emitted,
                    accepted=sum(map(_length, spans)),
                    margin=margin,
                    width=row.width,
                    draft_seconds=draft_seconds,
                    model_seconds=model_seconds,
                    spans=spans,
                    drafts=drafts,
                    grown=grown,
                )
            )

    def _credited_nodes(
        self, tree: _TreeReader, row: PassRow, start: int, drafts: Sequence[Draft]
    ) -> dict[int, Origin | None]:
        """Return the origins of the tokens after `start` that a pass accepted or predicted, without the last one."""
        path = tree.path(row.leading, start, row.emitted - 1)
        origins = [tree.origin(node) for node in path.values()]
        if self.is_greedy and drafts:
            credit_longest([node.token for node in path.values()], 0, origins, {0: drafts})
        return dict(zip(path, origins, strict=True))

    def _record_nodes(
        self,
        tree: _TreeReader,
        computed: Iterable[int],
        requested: Sequence[int],
        credited: Mapping[int, Origin | None],
    ) -> TreeDelta:
        """Record the nodes of a pass; those of the best hypothesis may be credited to another draft than the first."""

        def describe(number: int) -> tuple[int, int, int]:
            node = tree.node(number)
            origin = credited.get(number) or tree.origin(node)
            awaited = number in requested and not node.reused
            return node.parent, node.token, node_source(origin, requested=awaited)

        return self.tree.record(computed, requested, describe)


class _TreeReader:
    """The nodes and drafts of a query, read one at a time while its view is valid."""

    def __init__(self, view: RecordView, names: Sequence[str]) -> None:
        self._view, self._names = view, names
        self._tokens, self._positions = (cast(at, POINTER(c_int32)) for at in (view.draft_tokens, view.draft_places))
        self._probabilities = cast(view.draft_chances, POINTER(c_double))
        self._drafts: dict[int, Draft] = {}

    def node(self, number: int) -> NodeRow:
        """Return a node of the query's prefix tree."""
        return read_row(NodeRow, self._view.node_rows, number, self._view.node_stride)

    def path(self, number: int, start: int, length: int) -> dict[int, NodeRow]:
        """Return the first nodes, at most `length`, after depth `start` on the path to a node, by number."""
        path: list[tuple[int, NodeRow]] = []
        while length > 0 and (node := self.node(number)).depth > start:
            path.append((number, node))
            number = node.parent
        return dict(path[::-1][:length])

    def origin(self, node: NodeRow) -> Origin | None:
        """Return the draft of a node that the current search computed, if it was drafted."""
        return None if node.reused or node.draft < 0 else (self.draft(node.draft), node.position)

    def draft(self, number: int) -> Draft:
        """Return one of the drafts of the query."""
        if number not in self._drafts:
            self._drafts[number] = self._written(read_row(DraftRow, self._view.draft_rows, number))
        return self._drafts[number]

    def drafts(self, numbers: Sequence[int]) -> list[Draft]:
        """Return drafts of the query; close rows are read at once, since a function call for each takes time."""
        first, stop = min(numbers, default=0), max(numbers, default=-1) + 1
        if stop - first > MAX_UNUSED_ROWS * len(numbers):  # a beam proposes hundreds of drafts and computes a few
            rows = [read_row(DraftRow, self._view.draft_rows, number) for number in numbers]
        else:
            close = read_rows(DraftRow, self._view.draft_rows, stop - first, first)
            rows = [close[number - first] for number in numbers]
        drafts = [*map(self._written, rows)]
        self._drafts.update(zip(numbers, drafts, strict=True))
        return drafts

    def _written(self, row: DraftRow) -> Draft:
        return Draft(
            tuple(self._tokens[row.start : row.start + row.length]),
            self._names[row.name],
            (row.from_, row.to) if row.spanned else None,
            row.match,
            tuple(self._positions[row.positions : row.positions + row.positions_count]),
            tuple(self._probabilities[row.probs : row.probs + row.probs_count]),
        )
