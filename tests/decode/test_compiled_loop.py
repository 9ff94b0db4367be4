"""The compiled loop is the one in Python: same nodes, passes, answers, scores and records, to the last bit.

A planner makes the trees of `mixed` smaller in compiled code, and then only the answers are the same.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pytest
from helpers.compilers import needs_compiler
from helpers.table import Table, TableRunner
from helpers.thinned import NIGHTLY, pairwise
from helpers.tiny import tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st
from test_loop import DRAFTERS as ADVERSARIAL
from test_loop import EAGER, VOCAB, Illegal

from chemspec.decode.beam import beam_search, greedy_search
from chemspec.decode.compiled import loop as compiled_loop
from chemspec.decode.compiled import records
from chemspec.decode.compiled.structures import DraftRow, NodeRow, PassRow, copy_array
from chemspec.decode.decoding import Decoded, Decoding
from chemspec.decode.draft_history import DraftHistories
from chemspec.decode.draft_planner import DraftPlanner
from chemspec.decode.protocol import Decoder, LoopOptions
from chemspec.decode.sample import sample_sequences
from chemspec.draft.base import Drafter, NoDrafts
from chemspec.draft.copy import Copy, TokenClasses
from chemspec.draft.merging import Merging
from chemspec.draft.mixed import Mixed
from chemspec.draft.tree.edit_ngrams import COPY_ONLY, EditNgramTable, count_edits
from chemspec.draft.windows import Smart, Windows
from chemspec.engine.engine import Engine
from chemspec.model.cost import CostCurve
from chemspec.model.runner import Backend, Runner
from chemspec.model.runners.native import runner as native
from chemspec.model.session import Session
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings
from chemspec.types import AcceptedSpan, Draft, FinishedSequence, Prefix

pytestmark = needs_compiler

Search = tuple[int, int, float, float]  # width, 0 for greedy decoding; most tokens; length penalty; `park_gap`


def decode(
    compiled: bool | None,
    batch: Sequence[Sequence[int]],
    decoders: Sequence[Decoder],
    backend: Backend,
    drafter: Drafter,
    *,
    planner: DraftPlanner | None = None,
    max_len: int,
    budget: int = 64,
    top_k: int = 1_000_000,
    record: bool = True,
    threads: int = 1,
) -> list[list[Decoded]]:
    """Every search of every query, one after the other, without seconds."""
    ticks = count()
    run = Decoding(
        batch,
        decoders,
        Session(backend, batch, top_k=top_k),
        drafter,
        LoopOptions(
            max_len=max_len,
            budget=budget,
            clock=lambda: float(next(ticks)),
            record=record,
            vocab_size=VOCAB,
            planner=planner,
            threads=threads,
            compiled=compiled,
        ),
    )
    while not run.is_finished:
        run.run_passes()
    results = [run.take_result(query) for query in range(len(batch))]
    searches = [[*result.earlier, result] for result in results]
    for search in (search for own in searches for search in own):
        assert all(step.draft_seconds > 0 and step.model_seconds > 0 for step in search.passes)
        assert bool(search.seconds) is bool(search.passes)
    return [list(map(timeless, own)) for own in searches]


def timeless(search: Decoded) -> Decoded:
    passes = [replace(step, draft_seconds=0.0, model_seconds=0.0) for step in search.passes]
    return search._replace(passes=passes, seconds=0.0, earlier=())


@cache
def edits(classes: TokenClasses) -> EditNgramTable:
    """A table of sources that change in two places."""
    random, pairs = Random(7), []
    for _ in range(60):
        source = [random.randrange(3, VOCAB) for _ in range(random.randint(1, 12))]
        target = list(source)
        for _ in range(2):
            target[random.randrange(len(target))] = random.randrange(3, VOCAB)
        pairs.append((source, target))
    return count_edits(pairs, classes, min_visits=2, min_change=0.0)


@dataclass(frozen=True)
class Case:
    """What a run is told, beside the queries."""

    drafter: str
    length: int
    places: int
    dilation: int
    nodes: int
    classes: TokenClasses
    learned: bool
    slope: float  # seconds of one more node, of a pass that takes one
    step: int = 0  # where not 0, so many nodes take as long as one
    planned: bool = False

    def planner(self, drafter: Drafter) -> DraftPlanner | None:
        """Make the planner anew, as a run does; its costs are those of a machine that nobody has."""
        if not self.planned:
            return None
        size = self.step or 1
        nodes = tuple(range(1, 66))
        return DraftPlanner.for_drafter(
            drafter, CostCurve(nodes, tuple(1 + self.slope * size * -(-n // size) for n in nodes))
        )

    def build(self, table: Table) -> Drafter:
        """Make the drafter anew, as a run does."""
        classes, size = self.classes, {"length": self.length}
        edit_table = edits(classes) if self.learned else None
        if self.drafter == "none":
            return NoDrafts()
        if self.drafter == "copy":
            return Copy(**size, count=self.places, token_classes=classes)
        if self.drafter == "windows":
            return Windows(**size, count=self.places, dilation=self.dilation, token_classes=classes)
        if self.drafter == "smart":
            return Smart(**size, count=self.places, token_classes=classes)
        if self.drafter == "mixed":
            table_ = edit_table or COPY_ONLY
            return Mixed(table_, nodes=self.nodes, **size, count=self.places, token_classes=classes)
        return ADVERSARIAL[self.drafter](table)


OWN = ("none", "copy", "windows", "smart", "mixed")
SINGLE = tuple((token,) for token in range(8))
# Tokens 8 and 9 span several symbols: three of a kind, or ring labels, dots among them.
MERGINGS = (
    Merging(((7, 7, 8), (7, 8, 9)), (*SINGLE, (7, 7), (7, 7, 7))),
    Merging(((5, 6, 8), (8, 7, 9)), (*SINGLE, (5, 6), (5, 6, 7))),
    Merging(((3, 5, 8), (6, 3, 9)), (*SINGLE, (3, 5), (6, 3))),
)
cases = st.builds(
    Case,
    drafter=st.sampled_from((*OWN, "mixed", *sorted(ADVERSARIAL))),
    length=st.integers(1, 9),
    places=st.integers(1, 4),
    dilation=st.sampled_from((0, 0, 1)),
    nodes=st.integers(1, 30),
    classes=st.builds(
        TokenClasses,
        st.sampled_from((-1, 4)),
        st.sampled_from(((), (5,), (5, 6, 7))),
        st.sampled_from((0, 0, 2)),
        st.sampled_from((None, None, *MERGINGS)),
    ),
    learned=st.booleans(),
    slope=st.sampled_from((1e-9, 1e-3, 1e-2, 0.1, 1.0)),
    step=st.sampled_from((0, 0, 4, 16)),
    planned=st.booleans(),
)
tables = st.builds(
    Table,
    st.integers(0, 50),
    vocab_size=st.just(VOCAB),
    sharpness=st.sampled_from((0.5, 3.0)),
    copying=st.sampled_from((0.0, 3.0, 6.0)),
    levels=st.sampled_from((0, 0, 1, 2, 3)),  # ties
)
batches = st.lists(st.lists(st.integers(3, VOCAB - 1), min_size=1, max_size=14), min_size=1, max_size=5)
lengths, penalties = st.integers(1, 16), st.sampled_from((0.0, 0.0, 0.6, 1.3))
gaps = st.sampled_from((inf, inf, 0.0, 0.5, 2.0, 6.0))
first = st.tuples(st.sampled_from((0, 0, 1, 2, 5)), lengths, penalties, gaps)
others = st.lists(st.tuples(st.integers(1, 7), lengths, penalties, gaps), max_size=2)
plans = st.builds(lambda one, more: [one, *more], first, others)  # of the searches of a query, one after the other


def search(first: Search, *others: Search) -> Decoder:
    """Greedy decoding or a beam, and the searches that go on from it."""
    width, max_len, length_penalty, gap = first
    if width:
        gap = inf if length_penalty else gap
        decoder = beam_search(width=width, max_len=max_len, length_penalty=length_penalty, park_gap=gap)
    else:
        decoder = greedy_search(max_len=max_len)
    if others:
        decoder.next_search = lambda answers: search(*others) if answers else None  # type: ignore[attr-defined]
    return decoder


def bits(answers: Sequence[FinishedSequence]) -> list[tuple[Prefix, list[str], str]]:
    return [(one.tokens, [value.hex() for value in one.log_probs], one.ended) for one in answers]


@settings(max_examples=max(50, settings.default.max_examples))
@given(batches, tables, cases, st.lists(plans, min_size=5, max_size=5), st.data())
def test_the_compiled_loop_does_what_the_one_in_python_does(
    batch: list[list[int]], table: Table, case: Case, planned: list[list[Search]], data: st.DataObject
) -> None:
    """Queries of a batch may differ in decoder, width and length; some are over before others.

    Every search finds what it finds alone, without drafts and parking, and no node is computed twice.
    """
    alike = data.draw(st.booleans())
    planned = [planned[0 if alike else query] for query in range(len(batch))]
    given_ = {
        "max_len": max(length for plan in planned for _, length, *_ in plan),
        "budget": data.draw(st.sampled_from((0, 3, 64))),
        "top_k": data.draw(st.sampled_from((8, 1_000_000))),
        "record": data.draw(st.booleans()),
    }
    found = []
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):
            patch.setattr(TableRunner, "compaction_threshold", EAGER)
        for compiled in (False, True):
            table.calls.clear()
            decoders = [search(*plan) for plan in planned]
            drafter = case.build(table)
            outcome = decode(compiled, batch, decoders, table, drafter, planner=case.planner(drafter), **given_)
            found.append((outcome, list(table.calls)))
    assert case.planned or found[0] == found[1]
    for outcome, calls in found:
        computed = [node for call in calls for node in call]
        if len(set(map(tuple, batch))) == len(batch):  # the table tells queries by their sources
            passes = [step for own in outcome for one in own for step in one.passes]
            assert len(set(computed)) == len(computed) == sum(step.computed for step in passes)
    for source, plan, own, other in zip(batch, planned, found[0][0], found[1][0], strict=True):
        for one, same, (width, max_len, length_penalty, _) in zip(own, other, plan, strict=True):
            alone = [search((width, max_len, length_penalty, inf))]
            ((fresh,),) = decode(False, [source], alone, table, NoDrafts(), max_len=max_len, top_k=max(2, width + 1))
            assert bits(one.answers) == bits(same.answers) == bits(fresh.answers)


@pytest.mark.parametrize("compiled", [False, True])
def test_what_raises_over_the_answers_comes_through(compiled: bool) -> None:
    def refuse(_: list[FinishedSequence]) -> Decoder | None:
        raise KeyboardInterrupt

    decoder = beam_search(width=2, max_len=4)
    decoder.next_search = refuse  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        decode(compiled, [[4]], [decoder], Table(0, vocab_size=VOCAB), NoDrafts(), max_len=4)


# Together 3 s: of merged tokens one kind runs by default at each length.
@pytest.mark.parametrize(
    ("length", "merging"),
    [
        pytest.param(length, merging, marks=[] if merging in (None, MERGINGS[at % 3]) else NIGHTLY)
        for at, length in enumerate((63, 64, 65, 200, 520))
        for merging in (None, *MERGINGS)
    ],
)
def test_long_queries_are_drafted_the_same(length: int, merging: Merging | None) -> None:
    """Few different tokens, so that long pieces come again."""
    random, table = Random(length), Table(1, vocab_size=VOCAB, copying=9.0)
    batch = [[random.randrange(3, 3 + kinds) for _ in range(length)] for kinds in (2, 3, 7)]
    for learned in (False, True):
        case = Case("mixed", 24, 16, 0, 40, TokenClasses(4, (5, 6, 7), 0, merging), learned, 1e-3)
        found = []
        for compiled in (False, True):
            decoders = [search((0, 90, 0.0, inf)) for _ in batch]
            found.append(decode(compiled, batch, decoders, table, case.build(table), max_len=90, top_k=6))
        assert found[0] == found[1]


CHEAP = CostCurve((1, 128), (1e-3, 1.2e-3))  # nodes cost next to nothing: beams look ahead
DEAR = CostCurve((1, 8, 64, 128), (2e-4, 4e-4, 2e-3, 4e-3))
QUERIES = [
    "CC(=O)Nc1ccc(O)cc1",
    "O=C(NCc1ccccc1)c1ccc2[nH]ccc2c1",
    "COC(=O)c1ccc(Br)cc1.[Li+].[OH-].C1CCOC1.O",
    "CC(C)(C)OC(=O)N1CCC(Oc2ccc(C(=O)O)cc2)CC1",
    "C",
]


@cache
def shipped() -> Engine:
    return Engine.load("retro", threads=2)


def forced(compiled: bool | None) -> Callable[..., Decoding]:
    return lambda *given: Decoding(*given[:-1], replace(given[-1], compiled=compiled))


@pytest.mark.parametrize(
    ("search", "drafter", "cost"),
    pairwise([("greedy", 1), ("beam", 4)], ["none", "copy", "windows", "mixed"], [None, CHEAP, DEAR]),
)
def test_on_the_shipped_weights_too(
    search: tuple[str, int], drafter: str, cost: CostCurve | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder, n = search
    engine = shipped()
    monkeypatch.setattr(engine.resources, "measured_curve", cost)
    drafting = "planned" if cost else "fixed"
    how = DecodeSettings(decoder=decoder, n=n, drafter=drafter, drafting=drafting, record=True, max_len=40)  # type: ignore[arg-type]
    found = []
    for compiled in (False, True):
        monkeypatch.setattr("chemspec.decode.generate.Decoding", forced(compiled))
        monkeypatch.setattr(engine.resources, "histories", DraftHistories())
        results = engine.predict(QUERIES[::2], how)
        passes = [replace(step, draft_seconds=0.0, model_seconds=0.0) for one in results for step in one.trace.passes]
        found.append(([one.hypotheses for one in results], [] if cost and drafter == "mixed" else passes))
    assert found[0] == found[1]


def test_drafts_are_recorded_the_same_whether_their_rows_are_read_at_once_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = shipped()
    monkeypatch.setattr("chemspec.decode.generate.Decoding", forced(True))
    monkeypatch.setattr(engine.resources, "measured_curve", CHEAP)
    drafts = []
    for rows in (0, inf):
        monkeypatch.setattr(records, "MAX_UNUSED_ROWS", rows)
        monkeypatch.setattr(engine.resources, "histories", DraftHistories())
        results = engine.predict(QUERIES[::2], DecodeSettings(n=4, drafter="mixed", max_len=40))
        drafts.append([step.drafts for result in results for step in result.trace.passes])
    assert drafts[0] == drafts[1] and any(drafts[0])


def small_model() -> Transformer:
    return tiny_model(2, VOCAB).float()


def source_of(draft: Draft, length: int) -> tuple[int, int] | None:
    return draft.span and (draft.span[0], draft.span[0] + length)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("drafter", ["windows", "smart"])
def test_every_pass_names_the_source_of_its_best_draft(
    drafter: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chemspec.decode.generate.Decoding", forced(compiled))
    engine = shipped()
    accepted = shared = 0
    queries = [*QUERIES, "CCCc1cccc2c1OCCNC2"]  # the last: a draft that is not the first one has the longest match
    for result in engine.predict(
        queries, DecodeSettings(decoder="greedy", n=1, drafter=drafter, drafting="fixed", max_len=40)
    ):
        answer, start = (*result.hypotheses[0].tokens, ""), 0
        for step in result.trace.passes:
            kept = tuple(engine.tokenizer.encode("".join(answer[start : start + step.accepted])))
            winners = [draft for draft in step.drafts if kept and draft.tokens[: len(kept)] == kept]
            if winners:
                assert step.spans == (AcceptedSpan(start, len(kept), drafter, source_of(winners[0], len(kept))),)
                accepted += len(kept)
                shared += any(draft.tokens[0] == kept[0] for draft in step.drafts[: step.drafts.index(winners[0])])
            else:
                assert not step.spans
            start += step.emitted
    assert accepted > 20 and shared


class Watched:
    """A backend whose runners count how often the passes were done by Python."""

    def __init__(self, backend: Backend, *, in_a_row: bool = True) -> None:
        self.backend, self.in_a_row, self.called = backend, in_a_row, 0

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int) -> Runner:
        runner: Any = self.backend.open(sources, top_k=top_k)
        run = runner.run

        def counted(nodes: Any) -> Any:
            self.called += 1
            return run(nodes)

        runner.run = counted
        if not self.in_a_row:
            runner.kernel_pass = None
        return runner


@pytest.mark.parametrize(
    ("width", "drafter", "limits"), pairwise([0, 5], [*OWN, "bushy"], [(0.0, False), (60.0, False), (60.0, True)])
)
def test_passes_in_a_row_are_those_that_python_does_one_by_one(
    width: int, drafter: str, limits: tuple[float, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether they are broken off after each or not at all, and with caches that are cleared all the time.

    There are enough prefixes in a pass that threads share them.
    """
    seconds, planned = limits
    monkeypatch.setattr(compiled_loop, "MAX_NATIVE_SECONDS", seconds)
    monkeypatch.setattr(native.NativeRunner, "compaction_threshold", EAGER)
    random, model = Random(5), small_model()
    batch = [[random.randrange(4, VOCAB) for _ in range(random.randint(4, 12))] for _ in range(9)]
    case = Case(drafter, 6, 3, 0, 12, TokenClasses(4, (5, 6)), True, 1e-3, planned=planned)
    found = []
    for compiled, in_a_row in ((False, False), (True, False), (True, True)):
        backend, made = Watched(native.NativeBackend(model, threads=1), in_a_row=in_a_row), case.build(model)
        decoders = [search((width, 14, 0.0, 2.0)) for _ in batch]
        options = {"planner": case.planner(made), "max_len": 14, "top_k": 6, "threads": 2}
        found.append(decode(compiled, batch, decoders, backend, made, **options))
        assert bool(backend.called) is not in_a_row
    assert found[1] == found[2]
    assert planned or found[0] == found[1]


@pytest.mark.parametrize("in_a_row", [False, True])
def test_what_a_drafter_raises_comes_through(in_a_row: bool) -> None:
    backend = native.NativeBackend(small_model(), threads=1) if in_a_row else Table(0, vocab_size=VOCAB)
    with pytest.raises(KeyError, match="out of ideas"):
        decode(True, [[4, 5]], [greedy_search(max_len=9)], backend, Broken(), max_len=9, top_k=6)
    with pytest.raises(ValueError, match="drafter 'illegal' proposed the token id -1"):
        decode(True, [[4, 5]], [greedy_search(max_len=9)], backend, Illegal(-1), max_len=9, top_k=6)


class Broken:
    """A drafter that fails at its second question."""

    def __init__(self) -> None:
        self.asked = 0

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        self.asked += 1
        if self.asked == 2:
            raise KeyError("out of ideas")
        return [Draft((source[0],), "broken")]


def test_a_source_beyond_the_vocabulary_is_not_drafted() -> None:  # `BatchDecoder.start` refuses it for both loops
    with pytest.raises(ValueError, match=f"drafter 'copy' proposed the token id {VOCAB + 1}"):
        decode(False, [[4, VOCAB + 1]], [greedy_search(max_len=9)], Table(0, vocab_size=VOCAB), Copy(), max_len=9)


def test_a_decoder_that_it_does_not_know_is_left_to_python() -> None:
    table = Table(0, vocab_size=VOCAB)

    def answers(compiled: bool | None) -> list[list[Decoded]]:
        drawn = sample_sequences(count=1, max_len=5, rng=Random(0))
        return decode(compiled, [[4]], [drawn], table, NoDrafts(), max_len=5)

    assert answers(None) == answers(False)
    with pytest.raises(ValueError, match="the compiled loop cannot run"):
        answers(True)


def test_numbers_of_compiled_code_are_copied_from_the_first_or_a_later_one() -> None:
    numbers = array("i", [5, 6, 7, 8])
    start, _ = numbers.buffer_info()
    assert copy_array("i", start, 3) == numbers[:3] and copy_array("i", start, 2, 2) == numbers[2:]
    assert copy_array("i", None, 3) == copy_array("i", start, 0) == array("i")


@pytest.mark.parametrize(
    ("kind", "header", "name"),
    [(PassRow, "records.h", "PassRecord"), (NodeRow, "node_tree.h", "NodeRow"), (DraftRow, "drafters.h", "Draft")],
)
def test_rows_have_the_fields_of_the_compiled_codes_structures(kind: Any, header: str, name: str) -> None:
    text = (Path(compiled_loop.__file__).parent / header).read_text(encoding="utf-8")
    body = re.search(rf"^struct {name} {{.*?^}};", text, re.S | re.M)
    assert body is not None
    words = body[0].replace("places", "positions").replace("chances", "probs")
    declared = re.findall(r"^ *int32_t ([\w, ]+);", re.sub(r" = -?\d+", "", words), re.M)
    assert [field.rstrip("_") for field in kind._fields] == ", ".join(declared).split(", ")
