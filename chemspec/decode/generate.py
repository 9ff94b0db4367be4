"""Token ids to finished sequences: one wiring of model, decoders, drafter and planner for every caller.

`open_decoding` starts the decoders of a batch. `continuous_batching` replaces finished queries at once. `BatchDecoder`
does both for decoding settings.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeVar

from chemspec.decode import registry as decoders
from chemspec.decode.beam import with_parking
from chemspec.decode.decoding import Decoded, Decoding
from chemspec.decode.draft_history import USUAL_PASSES, DraftHistories, DraftHistory
from chemspec.decode.draft_planner import DraftPlanner
from chemspec.decode.forced import force_beginning
from chemspec.decode.parking import ParkingGaps, parking_pays
from chemspec.decode.protocol import ConfiguredDecoder, Decoder, LoopOptions
from chemspec.draft.base import Drafter, NoDrafts, as_drafter
from chemspec.draft.inputs import DrafterInputs
from chemspec.draft.registry import build_drafter
from chemspec.model.runner import Backend
from chemspec.model.session import ScoresError, Session
from chemspec.settings import DecodeSettings
from chemspec.system import gpu
from chemspec.tokenizer import PAD
from chemspec.types import FinishedSequence

Row = TypeVar("Row")
Searches = Sequence[DecodeSettings]  # searches of one query with increasing width; each reuses the one before
REFILL_DIVISOR = 8  # queries are added once 1/8 of the batch is free, so that their sources are encoded together
LENGTH_PER_TOKEN, MAX_LENGTH = 1.5, 600  # of a query: the default limit of answers to long ones, and the largest one
MAX_QUERIES_PER_SESSION = 4096  # every forward pass iterates over the numbers of all queries so far


class EncodedQuery(Protocol):
    """A query as token ids."""

    @property
    def ids(self) -> tuple[int, ...]:
        """Token ids, without bos and eos."""


Enough = Callable[[Any, list[FinishedSequence], DecodeSettings], bool]  # whether no wider search of a row is needed
Join = Callable[[Sequence[EncodedQuery]], Sequence[int]]  # adds queries to a session; returns their numbers


def open_decoding(
    backend: Backend,
    sources: Sequence[Sequence[int]],
    decoders: Sequence[Decoder],
    options: LoopOptions,
    drafter: Drafter = NoDrafts(),
    *,
    top_k: int,
) -> Decoding:
    """Encode the sources (prefill) and start their decoders, one per query, with `top_k` candidates per prefix."""
    drafter = as_drafter(drafter)
    session = Session(backend, sources, top_k=top_k, states=drafter.reads_states)
    if drafter.reads_states:
        drafter.watch(session)
    return Decoding(sources, decoders, session, drafter, options)


def continuous_batching(
    more: Callable[[int], Sequence[Row]],
    source: Callable[[Row], EncodedQuery],
    begin: Callable[[Sequence[EncodedQuery]], tuple[Decoding, Join]],
    *,
    size: int,
    before_pass: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Row, Decoded | ScoresError]]:
    """Decode rows with continuous batching; yields each row when it has finished.

    `more` takes a number and returns up to that many waiting rows, in decoding order; decoding ends when it returns
    none and no row is unfinished. `source` returns the query of a row. `begin` opens a session for queries, numbered
    from 0, and starts their decoders; it also returns a function that adds queries (`BatchDecoder.start`). If none can
    be added (`Decoding.can_add_queries`), they wait for the next session. A query's output does not depend on its
    batch; its number of forward passes does if drafts are planned, by the cost of a pass over the whole batch, or the
    drafter depends on the batch size.

    A row whose scores are undefined is yielded with the error, and the other rows of its session are decoded again.

    At most `size` rows are unfinished. `before_pass` is called before every forward pass, or every few milliseconds if
    they are fast; its exceptions end the run.
    """
    interrupted: list[Row] = []

    def take(count: int) -> list[Row]:
        chosen = interrupted[:count]
        del interrupted[:count]
        return chosen if len(chosen) == count else [*chosen, *more(count - len(chosen))]

    while chosen := take(size):
        decoding, join = begin(list(map(source, chosen)))
        rows, seen = dict(enumerate(chosen)), len(chosen)
        failed: list[tuple[Row, ScoresError]] = []
        while True:
            for number in decoding.finished_queries():  # a decoder may finish without a forward pass
                yield rows.pop(number), decoding.take_result(number)
            free = size - len(rows)
            refill = decoding.can_add_queries and seen < MAX_QUERIES_PER_SESSION and free * REFILL_DIVISOR >= size
            if refill and (chosen := take(free)):
                rows.update(zip(join(list(map(source, chosen))), chosen, strict=True))
                seen += len(chosen)
            elif rows:
                before_pass()
                try:
                    decoding.run_passes()
                except ScoresError as error:
                    failed = [(rows.pop(number), error.with_traceback(None)) for number in error.queries]
                    interrupted += rows.values()
                    break
            else:
                break
        yield from failed


@dataclass(frozen=True, eq=False)
class BatchDecoder:
    """Decodes with one model: one batch (`start`), or groups of rows (`generate`)."""

    backend: Backend
    vocab_size: int
    max_positions: int
    inputs: DrafterInputs  # what drafters are built from; may measure the cost curve
    histories: DraftHistories  # how drafters have done
    build_drafter: Callable[[DecodeSettings, DrafterInputs], Drafter] = build_drafter
    encode_prefix: Callable[[str], tuple[int, ...]] = lambda _: ()  # token ids of `DecodeSettings.prefix`
    threads: int = 1  # threads of the compiled loop
    gaps: ParkingGaps = field(default_factory=ParkingGaps)  # how far below the best one hypotheses of answers have been

    def start(
        self, rows: Sequence[EncodedQuery], searches: Searches, enough: Enough = lambda *_: True, *, queries: int = 0
    ) -> tuple[Decoding, Join]:
        """Open a session and start the decoders and the clock; also returns a function that adds queries.

        The searches of a row reuse each other's KV cache; `enough` decides whether the next one is left out. `queries`
        is the expected number of queries in a forward pass; 0: as many as there are rows.
        """
        drafter, budget, planner = self._build_drafting(searches[0], queries or len(rows))
        searches = [self._limit_length(search) for search in searches]
        settings, widths = searches[0], {search.n for search in searches}
        parks = self._parks(settings, queries or len(rows))

        def build(row: EncodedQuery) -> Decoder:
            self._check_ids(row.ids)
            of_row = [self._limit_length(search, len(row.ids)) for search in searches]
            return self._build_decoder(row, of_row, drafter, enough, parks=parks)

        def learn(answers: Sequence[FinishedSequence]) -> None:
            if parks and len(answers) in widths:
                self.gaps.add(answers)

        options = LoopOptions(
            max_len=self._limit_length(settings, self.max_positions - 2).max_len,  # of rows that are added, too
            budget=budget,
            record=settings.record,
            vocab_size=self.vocab_size,
            max_positions=self.max_positions,
            planner=planner,
            threads=self.threads,
            finished=learn,
        )
        top_k = max(decoders.required_top_k(search, self.vocab_size) for search in searches)
        sources, started = [row.ids for row in rows], [build(row) for row in rows]
        decoding = open_decoding(self.backend, sources, started, options, drafter, top_k=top_k)
        return decoding, lambda rows: decoding.add_queries([row.ids for row in rows], list(map(build, rows)))

    def _limit_length(self, search: DecodeSettings, tokens: int = 0) -> DecodeSettings:
        """Return a search whose default length fits a query of this many tokens, and whose length fits the model."""
        length = search.max_len
        if length == DecodeSettings.max_len:
            length = max(length, min(int(LENGTH_PER_TOKEN * tokens), MAX_LENGTH))
        length = min(length, self.max_positions - 1)
        return search if length == search.max_len else replace(search, max_len=length)

    def _check_ids(self, ids: Sequence[int]) -> None:
        """Raise ValueError for token ids that the model cannot read; compiled code would read other memory for them."""
        longest, size = self.max_positions - 2, self.vocab_size
        if not 0 < len(ids) <= longest or not PAD < min(ids) <= max(ids) < size:
            message = f"a query is {ids!r:.60}; it must have 1 to {longest} token ids"
            raise ValueError(f"{message}, each from {PAD + 1} to {size - 1} ({PAD} is padding)")

    def generate(
        self,
        groups: Sequence[Sequence[EncodedQuery]],
        searches: Searches,
        enough: Enough = lambda *_: True,
        *,
        size: int,
        before_pass: Callable[[], None] = lambda: None,
        finished: Callable[[], None] = lambda: None,
    ) -> list[list[Decoded] | Exception]:
        """Decode groups of rows, such as the variants of a query, `size` rows at a time.

        After running out of memory the batch is halved. A group with a row that fails alone is its error. `finished` is
        called when a group is finished or has failed; for the other arguments see `start` and `continuous_batching`.
        """
        rows = [(number, index) for number, group in enumerate(groups) for index in range(len(group))]
        left = list(map(len, groups))  # unfinished rows
        results: dict[tuple[int, int], Decoded] = {}
        failed: dict[int, Exception] = {}  # errors by group
        begin, most = partial(self.start, searches=searches, enough=enough), size
        while waiting := [row for row in rows if row not in results and row[0] not in failed]:
            size, rest = min(size, len(waiting)), iter(waiting)
            decoded = continuous_batching(
                lambda count, rest=rest: list(islice(rest, count)),  # type: ignore[misc]
                lambda row: groups[row[0]][row[1]],
                begin,
                size=size,
                before_pass=before_pass,
            )
            try:
                for row, result in decoded:
                    if isinstance(result, ScoresError):
                        if failed.setdefault(row[0], result) is result:
                            finished()
                        continue
                    results[row] = result
                    left[row[0]] -= 1
                    if not left[row[0]]:
                        finished()
                break
            except gpu.memory_errors() as error:
                if size == 1:  # the first unfinished row caused it
                    number, _ = next(row for row in waiting if row not in results)
                    failed[number] = error.with_traceback(None)
                    finished()
                    size = most
                else:
                    size //= 2
            gpu.empty_gpu_cache()  # done here: the exception's traceback, now cleared, kept the tensors alive
        return [
            failed.get(number) or [results[number, index] for index in range(len(group))]
            for number, group in enumerate(groups)
        ]

    def _build_drafting(self, settings: DecodeSettings, queries: int) -> tuple[Drafter, int, DraftPlanner | None]:
        """Return the drafter of a run, the node budget of its loop, and the planner, if drafts are planned."""
        spec = decoders.DECODERS.lookup(settings.decoder)
        fixed = settings.drafting == "fixed" and settings.drafts_by != "auto"
        planned = settings.drafts_by != "none" and settings.drafting == "planned"
        if planned and self._history(settings, queries).skip_run(USUAL_PASSES):
            return NoDrafts(), 0, None
        drafter = as_drafter(self.build_drafter(settings, self.inputs), settings.drafts_by)
        budget = 0 if spec.drafts == "own" or isinstance(drafter, NoDrafts) else settings.node_budget
        if fixed or not budget or isinstance(spec.builder(settings), decoders.DraftAwareDecoder):
            return drafter, budget, None
        cost, history = self.inputs.cost(), self._history(settings, queries)
        return drafter, budget, DraftPlanner.for_drafter(drafter, cost, history)  # type: ignore[arg-type]  # a CostCurve

    def _parks(self, settings: DecodeSettings, queries: int) -> bool:
        """Return whether beams park hypotheses: where drafts are planned, too, and where it saves time."""
        planned = settings.drafts_by == "auto" or (settings.drafts_by != "none" and settings.drafting == "planned")
        plain = settings.decoder == "beam" and settings.rules == "chemspec" and not settings.length_penalty
        if not (planned and plain) or settings.n == 1 or settings.record or settings.prefix:
            return False
        return parking_pays(self.inputs.cost(), settings.n, queries)  # type: ignore[arg-type]  # a CostCurve

    def _history(self, settings: DecodeSettings, queries: int) -> DraftHistory:
        """Return how the drafter has done in such searches of this model."""
        search = settings.drafts_by, settings.decoder, settings.drafting
        return self.histories.of(f"{' '.join(search)} {settings.n} {queries}")

    def _build_decoder(
        self, row: EncodedQuery, searches: Searches, drafter: Drafter, enough: Enough, number: int = 0, *, parks: bool
    ) -> Decoder:
        """Create the decoder of search `number`, which continues with the next searches if predictions are missing."""
        search = searches[number]
        if forced := self.encode_prefix(search.prefix) if search.prefix else ():
            if len(forced) >= search.max_len:
                raise ValueError(f"the prefix has {len(forced)} tokens; a prediction may have {search.max_len}")
            inner = replace(search, max_len=search.max_len - len(forced))
            decoder: Decoder = force_beginning(decoders.build_decoder(row.ids, inner, drafter), forced)
        else:
            decoder = decoders.build_decoder(row.ids, search, drafter)
        if parks:
            decoder = with_parking(decoder, self.gaps.gap(searches[number].n))
        if number + 1 == len(searches):
            return decoder

        def next_search(answers: list[FinishedSequence]) -> Decoder | None:
            if enough(row, answers, searches[number]):
                return None
            return self._build_decoder(row, searches, drafter, enough, number + 1, parks=parks)

        return ConfiguredDecoder(decoder, getattr(decoder, "config", None), next_search)
