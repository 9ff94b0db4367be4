"""The rounds of searches of queries, the same for `predict`, `stream` and `decode`: wider until answers suffice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from chemspec.decode.decoding import Decoded
from chemspec.engine import distinct
from chemspec.engine.queries import PreparedQuery, QueryReader
from chemspec.engine.results import ResultWriter, failed_result
from chemspec.settings import DecodeSettings, Task
from chemspec.types import DecodeResult, FinishedSequence

Outcome = Sequence[Decoded] | Exception  # the decoded rows of a query, or why there are none


def search_rounds(settings: DecodeSettings) -> list[list[DecodeSettings]]:
    """Return the searches of a query in rounds with a common cache; a round with enough predictions is the last."""
    widths = distinct.search_widths(settings) if settings.distinct else (settings.n,)
    searches = [settings if width == settings.n else replace(settings, n=width) for width in widths]
    # Apart if deciding takes several rows.
    return [[search] for search in searches] if settings.augment > 1 else [searches]


@dataclass(frozen=True, eq=False)
class Judge:
    """Writes what was decoded as results, and decides whether they suffice."""

    task: Task
    writer: ResultWriter
    settings: DecodeSettings

    def suffices(self, result: DecodeResult, query: PreparedQuery) -> bool:
        """Return whether no wider search is needed."""
        return distinct.has_enough_answers(result, query.smiles, self.task, self.settings)

    def ends_search(self, query: PreparedQuery, answers: list[FinishedSequence], search: DecodeSettings) -> bool:
        """Return whether a search has enough predictions, so that no wider one follows in the same session."""
        return self.suffices(self.writer.write_result(query, search, Decoded(answers, [], 0.0)), query)

    def select(self, results: Sequence[DecodeResult], query: PreparedQuery) -> DecodeResult:
        """Return the result of all searches of a query."""
        return distinct.select_result(results, query.smiles, self.task, self.settings)


class Rounds:
    """Queries with their rounds of searches: what is to be decoded next, until `is_over`, and the results."""

    def __init__(
        self,
        queries: Sequence[PreparedQuery],
        reader: QueryReader,
        judge: Judge,
        finished: Callable[[], None] = lambda: None,
    ) -> None:
        """Search valid queries; `finished` is called when one has enough predictions before the last round."""
        self._queries, self._judge, self._finished = queries, judge, finished
        self._variants = [reader.variants(query, judge.settings) for query in queries]
        self._results: list[list[DecodeResult]] = [[] for _ in queries]
        self._lacking = list(range(len(queries)))
        self._left = search_rounds(judge.settings)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to decode."""
        return not (self._left and self._lacking)

    @property
    def is_last(self) -> bool:
        """Whether no round follows this one."""
        return len(self._left) == 1

    @property
    def searches(self) -> list[DecodeSettings]:
        """The searches of this round."""
        return self._left[0]

    @property
    def groups(self) -> list[list[PreparedQuery]]:
        """The variants of each query that this round is for."""
        return [self._variants[number] for number in self._lacking]

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """End the round with what was decoded for each of the `groups`."""
        searches = self._left.pop(0)
        lacking = []
        for number, outcome in zip(self._lacking, outcomes, strict=True):
            query, results = self._queries[number], self._results[number]
            if isinstance(outcome, Exception):
                results.append(failed_result(query, outcome))
            else:
                results += self._judge.writer.write_searches(query, self._variants[number], outcome, searches)
            if self._left and not self._judge.suffices(results[-1], query):
                lacking.append(number)
            elif self._left:
                self._finished()
        self._lacking = lacking

    def results(self) -> list[DecodeResult]:
        """Return the result of each query."""
        return [self._judge.select(*pair) for pair in zip(self._results, self._queries, strict=True)]
