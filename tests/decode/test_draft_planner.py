"""The planner changes passes and nodes, never an answer; where nodes are dear it adds few, and drafts rarely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from helpers.compilers import needs_compiler
from helpers.small import QUERIES, tiny_folder
from helpers.table import Table, run
from helpers.thinned import every
from hypothesis import given
from hypothesis import strategies as st
from test_loop import DRAFTERS as ADVERSARIAL
from test_loop import VOCAB

from chemspec.asset_files import bench_queries
from chemspec.decode.beam import beam_search, greedy_search
from chemspec.decode.draft_history import CLASSES, MAX_TRIES, POSITION_CLASS, USUAL_PASSES, DraftHistories, DraftHistory
from chemspec.decode.draft_planner import (
    MIN_GAIN,
    PASS_SECONDS,
    PRIOR_BY_POSITION,
    AcceptanceRecord,
    AddedCost,
    DraftPlanner,
    NodeChoice,
    PassCosts,
    token_class,
)
from chemspec.decode.parking import ParkingGaps
from chemspec.decode.query_state import DraftTree
from chemspec.draft.base import Drafter, NoDrafts
from chemspec.draft.copy import Copy
from chemspec.draft.mixed import Mixed
from chemspec.draft.tree.edit_ngrams import COPY_ONLY, EDGES
from chemspec.engine.engine import Engine
from chemspec.model.cost import CostCurve
from chemspec.settings import DecodeSettings
from chemspec.system import cache as disk_cache
from chemspec.testing import naive_beam, naive_greedy
from chemspec.types import Draft, Hypothesis, Pass, Prefix

FREE = CostCurve((1, 128), (1.0, 1.0001))
DEAR = CostCurve((1, 128), (1.0, 128.0))  # a pass costs nothing beside its nodes
# Seconds of passes of `retro` in fp32 with one thread, on a processor with tiles and on one with AVX2.
TILES = CostCurve(
    (1, 2, 3, 5, 10, 16, 32, 64, 128), tuple(1e-6 * t for t in (160, 180, 190, 210, 260, 350, 600, 1250, 2550))
)
AVX2 = CostCurve(
    (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128),
    tuple(1e-6 * t for t in (361, 534, 760, 860, 1217, 1705, 2418, 3329, 6487, 12982, 27633)),
)
SOURCE = [4, 5, 6, 7, 8, 9, 5, 4, 7, 6, 9, 8]

curves = st.builds(
    lambda slope, step: CostCurve(tuple(range(1, 66)), tuple(1 + slope * step * -(-n // step) for n in range(1, 66))),
    st.sampled_from((1e-6, 1e-3, 0.03, 0.3, 3.0)),
    st.sampled_from((1, 4, 16)),
)
drafters = st.sampled_from(("copy", "mixed", *sorted(ADVERSARIAL)))


def made(name: str, table: Table) -> Drafter:
    if name == "copy":
        return Copy(count=2)
    return Mixed(COPY_ONLY) if name == "mixed" else ADVERSARIAL[name](table)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_compiler)])
@given(
    st.lists(st.lists(st.integers(3, VOCAB - 1), min_size=1, max_size=12), min_size=1, max_size=3),
    st.builds(Table, st.integers(0, 50), vocab_size=st.just(VOCAB), copying=st.sampled_from((0.0, 4.0, 9.0))),
    drafters,
    curves,
    st.sampled_from((0, 1, 2, 4)),
    st.integers(1, 14),
    st.sampled_from((1, 2, 7, 64)),
)
def test_no_plan_changes_an_answer_or_exceeds_the_budget(
    compiled: bool,
    batch: list[list[int]],
    table: Table,
    name: str,
    cost: CostCurve,
    width: int,
    max_len: int,
    budget: int,
) -> None:
    drafter = made(name, table)
    found, passes = run(
        lambda _: beam_search(width=width, max_len=max_len) if width else greedy_search(max_len=max_len),
        batch,
        table,
        drafter,
        max_len=max_len,
        budget=budget,
        compiled=compiled,
        planner=DraftPlanner.for_drafter(drafter, cost),
    )
    for source, answers in zip(batch, found, strict=True):
        expected = naive_beam(table, source, width, max_len) if width else [naive_greedy(table, source, max_len)]
        assert [one.tokens for one in answers] == [one.tokens for one in expected]
    assert all(0 <= step.drafted <= budget for steps in passes for step in steps)


def beam_passes(drafter: Drafter, cost: CostCurve | None, *, width: int = 4, copying: float = 12.0) -> list[Pass]:
    planner = DraftPlanner.for_drafter(drafter, cost) if cost else None
    table = Table(3, vocab_size=VOCAB, copying=copying)
    _, (passes,) = run(
        lambda _: beam_search(width=width, max_len=20),
        [SOURCE],
        table,
        drafter,
        max_len=20,
        budget=256,
        planner=planner,
    )
    return passes


@pytest.mark.parametrize("drafter", [Copy(), Mixed(COPY_ONLY)], ids=["copy", "mixed"])
def test_a_beam_saves_passes_where_nodes_are_free_and_nodes_where_they_are_dear(drafter: Drafter) -> None:
    plain, free, dear = beam_passes(NoDrafts(), None), beam_passes(drafter, FREE), beam_passes(drafter, DEAR)
    assert 2 * len(free) <= len(plain)
    assert sum(step.computed for step in dear) <= 1.1 * sum(step.computed for step in plain)


class Wrong:
    """Proposes what is never written, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        self.asked += 1
        return [Draft((VOCAB - 1, 3)[:max_new_tokens], "wrong")]


@pytest.mark.parametrize("width", [0, 2, 5])
def test_a_drafter_that_is_always_wrong_is_asked_ever_more_rarely(width: int) -> None:
    drafter, length = Wrong(), 200
    table = Table(1, vocab_size=VOCAB, copying=0.0)

    def decoder(_: int):  # type: ignore[no-untyped-def]
        return beam_search(width=width, max_len=length) if width else greedy_search(max_len=length)

    source = [Random(0).randrange(3, VOCAB - 1) for _ in range(12)]
    options = {"max_len": length, "budget": 256}
    _, (plain,) = run(decoder, [source], table, NoDrafts(), **options)  # type: ignore[arg-type]
    _, (passes,) = run(decoder, [source], table, drafter, planner=DraftPlanner.for_drafter(drafter, TILES), **options)  # type: ignore[arg-type]
    seconds, standard = (sum(TILES(step.computed) for step in steps) for steps in (passes, plain))
    assert seconds <= 1.1 * standard + 10 * TILES(max(1, width))
    assert drafter.asked <= 2 * len(plain) * max(1, width)  # a look-ahead asks after its guesses, too


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_compiler)])
@pytest.mark.parametrize("width", [0, 2, 5])
def test_a_model_that_rejects_every_draft_is_soon_not_drafted_for(width: int, compiled: bool) -> None:
    """From the eleventh short query on its passes take hardly longer than without drafts, and it is asked rarely."""
    table, length, history, asked = Table(1, vocab_size=VOCAB, copying=0.0), 60, DraftHistory(), [0, 0]
    seconds = [[0.0, 0.0], [0.0, 0.0]]  # of the first ten queries and the others; without drafts and with
    passes_then = 0
    for query in range(40):
        source = [Random(query).randrange(3, VOCAB - 1) for _ in range(12)]
        for drafts, drafter in enumerate((NoDrafts(), Wrong())):
            _, (passes,) = run(
                lambda _: beam_search(width=width, max_len=length) if width else greedy_search(max_len=length),
                [source],
                table,
                drafter,
                max_len=length,
                budget=64 * drafts,
                planner=DraftPlanner.for_drafter(drafter, TILES, history) if drafts else None,
                compiled=compiled,
            )
            seconds[query >= 10][drafts] += sum(TILES(step.computed) for step in passes)
            passes_then += (query >= 10) * drafts * len(passes)
        asked[query >= 10] += drafter.asked  # type: ignore[union-attr]
    assert seconds[1][1] <= 1.03 * seconds[1][0]
    assert asked[1] <= 0.15 * passes_then * max(1, width)


# Times of passes ---------------------------------------------------------------------------------

MEASURED = replace(TILES, measured=True)


def test_times_of_passes_correct_a_measured_curve_and_no_other() -> None:
    """Of the sizes that are met; a pass that was interrupted changes little, and a larger pass never gets cheaper."""
    costs, given_costs, expected = PassCosts(MEASURED, []), PassCosts(TILES, []), TILES(2) + PASS_SECONDS
    for turn in range(400):
        for nodes, seconds in ((2, TILES(2)), (10, 1.5 * TILES(10)), (32, 0.1 * TILES(32))):
            interrupted = 1.0 if turn % 10 == 9 and nodes == 2 else seconds
            given_costs.add_times(nodes, seconds, 0.0, 0.0)
            costs.add_times(nodes, interrupted, 3e-5, costs.planning(2, 1e-6))
    assert costs(2) == pytest.approx(expected, rel=0.2)
    assert costs(10) == pytest.approx(1.5 * TILES(10), rel=0.1)
    assert costs.planning(2, 1e-6) == pytest.approx(3e-5, rel=0.05)
    times = [costs(nodes) for nodes in range(1, 130)]
    assert times == sorted(times) and costs.factors[-2] == 1.0  # 128 nodes were never computed
    assert given_costs.factors == [1.0] * (len(TILES.nodes) + 1) and given_costs(10) == PassCosts(TILES, [])(10)
    assert PassCosts(MEASURED, costs.factors)(10) == pytest.approx(costs(10), rel=0.01)  # the next run goes on


@pytest.mark.parametrize("slow", [1.0, 4.0])
def test_nodes_that_take_longer_than_they_were_measured_are_soon_hardly_added(slow: float) -> None:
    """By a planner whose passes of 2 nodes take as long as expected, and larger ones `slow` times as long."""
    planner, added = DraftPlanner.for_drafter(Mixed(COPY_ONLY), MEASURED), []
    for _ in range(1000):
        drafts = planner.begin_pass(2, 1, 2, budget=16)
        added.append(planner.choose([0.7**depth for depth in range(1, 17)]) if drafts else 0)
        seconds = TILES(2) if not added[-1] else slow * TILES(2 + added[-1])
        accepted = min(added[-1], 1)  # of three drafted tokens in a row at most one
        planner.record_pass(
            computed=2 + added[-1],
            needed=2,
            proposed=1,
            tokens=1 + accepted,
            waiting=2 + 2 * accepted,
            seconds=seconds,
            planning_seconds=7e-6,
        )
    assert sum(map(bool, added[:40])) >= 20
    assert (sum(map(bool, added[500:])) > 250) is (slow == 1.0)
    assert sum(map(bool, added[500:])) < 50 or slow == 1.0


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_compiler)])
@pytest.mark.parametrize("curve", [TILES, MEASURED], ids=["given", "measured"])
def test_a_run_leaves_what_its_passes_took_to_the_next(curve: CostCurve, compiled: bool) -> None:
    table, history, drafter = Table(3, vocab_size=VOCAB, copying=9.0), DraftHistory(), Copy(count=2)
    runs = [
        run(
            lambda _: beam_search(width=2, max_len=20),
            [SOURCE],
            table,
            drafter,
            max_len=20,
            budget=16,
            compiled=compiled,
            planner=DraftPlanner.for_drafter(drafter, curve, history),
        )
        for _ in range(2)
    ]
    assert [one.tokens for one in runs[0][0][0]] == [one.tokens for one in naive_beam(table, SOURCE, 2, 20)]
    assert runs[0][0] == runs[1][0] and len(history.factors) == len(curve.nodes) + 1
    assert (set(history.factors) == {1.0}) is (curve is TILES)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_compiler)])
def test_a_drafter_whose_drafts_are_never_worth_a_node_is_asked_ever_more_rarely(compiled: bool) -> None:
    drafter, table, length = Wrong(), Table(1, vocab_size=VOCAB, copying=30.0), 100
    _, (passes,) = run(
        lambda _: greedy_search(max_len=length),
        [SOURCE * 6],
        table,
        drafter,
        max_len=length,
        budget=16,
        compiled=compiled,
        planner=DraftPlanner.for_drafter(drafter, DEAR, DraftHistory()),
    )
    assert 0 < drafter.asked < len(passes) / 2, (drafter.asked, len(passes))


# Choices -----------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), curves, st.integers(1, 9), st.floats(0.01, 3))
def test_the_choice_has_the_largest_gain(
    probabilities: list[float], curve: CostCurve, nodes: int, value: float
) -> None:
    """Of all numbers of nodes, up to what a curve cannot tell apart."""
    costs = [curve(nodes + added) - curve(nodes) for added in range(len(probabilities) + 1)]
    choice = NodeChoice(AddedCost(costs, 0.0), value)
    for probability in probabilities:
        choice.add(probability)
    gains = [value * sum(probabilities[:count]) - cost for count, cost in enumerate(costs)]
    best = max(gains)
    if choice.best:
        assert gains[choice.best] == pytest.approx(best, abs=1e-9)
    else:
        assert best <= MIN_GAIN * value + 1e-9


def test_negligible_nodes_are_added_where_they_are_free_and_only_there() -> None:
    for slope, expected in ((0.0, 10), (1e-3, 10), (0.1, 2)):
        choice = NodeChoice(AddedCost([slope * added for added in range(11)], 0.02), 1.0)
        for probability in (0.9, 0.8, *[1e-3] * 8):
            choice.add(probability)
        assert choice.best == expected


def test_rates_fall_fast_if_everything_is_rejected_and_stay_if_priors_are_right() -> None:
    record = AcceptanceRecord([0.9, 0.5, 0.99], DraftHistory())
    record.hits, record.tries = [0.0] * 3, [20.0, 20.0, 0.0]
    record.update_rates()
    assert record.rates[0] < 0.2 and record.rates[1] < 0.2
    assert record.rates[2] < 0.3  # never verified, but of the same drafter
    record.hits = [18.0, 10.0, 0.0]
    record.update_rates()
    assert record.rates == pytest.approx([0.9, 0.5, 0.99])


def test_the_classes_follow_each_other() -> None:
    assert len(EDGES) + 1 == POSITION_CLASS
    assert POSITION_CLASS + len(PRIOR_BY_POSITION) == CLASSES
    assert {token_class([p / 100], 0, 0) for p in range(100)} == set(range(POSITION_CLASS))
    assert {token_class((), rank, index) for rank in range(5) for index in (0, 1, 7)} == set(range(11, CLASSES))


# Histories ---------------------------------------------------------------------------------------


def test_a_history_is_kept_across_processes_and_a_damaged_file_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path))
    first = DraftHistories("model.drafts.json").of("auto beam planned 5 1")
    learned = DraftHistory(-0.5, 64.0, 30.0, 1.1, 0.0, [1.0] * CLASSES, [20.0] * CLASSES)
    first.add_run(DraftHistory(), learned)
    again = DraftHistories("model.drafts.json").of("auto beam planned 5 1")
    assert again == first == learned
    assert again.skip_run(20) and again.skip_run(20) and not again.skip_run(20)
    assert DraftHistories("model.drafts.json").of("auto beam planned 3 1") == DraftHistory()
    for content in (b"[]", b"{", b'{"auto": [1, 2]}', b'{"auto": [0, 4, 0, 0.8, [1], [1]]}'):
        disk_cache.write_cached("model.drafts.json", content)
        assert DraftHistories("model.drafts.json").of("auto") == DraftHistory()


def test_a_history_is_written_when_twice_as_much_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(disk_cache, "write_cached", lambda name, _: written.append(name))
    history = DraftHistories("model.drafts.json").of("auto")
    for _ in range(100):
        history.add_run(DraftHistory(), DraftHistory(hits=[1.0] * CLASSES, tries=[1.0] * CLASSES))
    assert 5 <= len(written) <= 8


def test_searches_for_which_nothing_is_worth_adding_are_ever_more_rarely_planned() -> None:
    """From the second in a row on; one to which something is added begins the count anew."""
    history, planned = DraftHistory(), []
    for _ in range(60):
        planned.append(not history.skip_run(USUAL_PASSES))
        if planned[-1]:
            history.add_run(history.copy(), replace(history.copy(), idle_runs=1.0))
    # One is left out, then 2, 4, 8, ...
    assert [run for run, is_planned in enumerate(planned) if is_planned] == [0, 1, 3, 6, 11, 20, 37]
    history.pause_left = 0.0
    history.add_run(history.copy(), replace(history.copy(), idle_runs=0.0))
    assert history.idle_runs == 0.0 and not history.skip_run(USUAL_PASSES)


@pytest.mark.parametrize(("seconds_of_pass", "pauses"), [(5e-5, True), (5e-3, False)])
def test_drafts_that_gain_less_than_their_records_cost_are_left_out(seconds_of_pass: float, pauses: bool) -> None:
    """Two nodes and two tokens for 1.9 passes: a gain, unless passes are as short as the records take."""
    curve = CostCurve((1, 2), (seconds_of_pass, 1.9 * seconds_of_pass))
    planner = DraftPlanner(curve)
    planned = 0
    for _ in range(100):
        planned += planner.begin_pass(1, 1, 1, budget=8)
        outcome = {"computed": 2, "needed": 2, "proposed": 0, "tokens": 2, "waiting": 1}
        planner.record_pass(**outcome, seconds=1.9 * seconds_of_pass, planning_seconds=0.0)
    assert (planned < 100) == pauses


def test_a_history_forgets_and_adds_what_several_runs_have_learned() -> None:
    history = DraftHistory()
    for _ in range(3):
        history.add_run(DraftHistory(), DraftHistory(hits=[200.0] * CLASSES, tries=[300.0] * CLASSES))
    assert history.tries == [MAX_TRIES] * CLASSES
    assert history.hits == pytest.approx([MAX_TRIES * 2 / 3] * CLASSES)


# On the shipped weights --------------------------------------------------------------------------
SLOW = pytest.mark.slow  # together they take seconds

FLAT, H100 = CostCurve((1, 256), (4.9e-4, 4.91e-4)), CostCurve((1, 256), (4.9e-4, 5.9e-4))
# Seconds of passes of `retro` in int8 with one thread on an AMD EPYC (Zen 5).
AVX512 = CostCurve(
    (1, 2, 3, 4, 6, 8, 12, 16, 17, 32, 33, 64),
    tuple(1e-6 * t for t in (45, 53, 59, 65, 84, 116, 159, 213, 224, 430, 442, 913)),
)


@cache
def retro(dtype: str) -> Engine:
    return Engine.load("retro", threads=1, dtype=dtype)


@cache  # the same for every curve
def without_drafts(settings: DecodeSettings, queries: tuple[str, ...]) -> tuple[tuple[Hypothesis, ...], ...]:
    return tuple(one.hypotheses for one in retro("int8").predict(queries, settings, drafter="none"))


def passes_and_nodes(queries: Sequence[str], cost: CostCurve, n: int, **how: Any) -> tuple[float, float]:
    """Return passes and nodes a query, and check that the lists are those without drafts."""
    engine = retro("int8")
    engine.resources.measured_curve, engine.resources.histories, engine.resources.gaps = (
        cost,
        DraftHistories(),
        ParkingGaps(),
    )
    settings = DecodeSettings(n=n, decoder="greedy" if n == 1 else "beam", batch_size=1)
    found = engine.predict(queries, settings, **how)
    assert tuple(one.hypotheses for one in found) == without_drafts(settings, tuple(queries))
    steps = [step for one in found for step in one.trace.passes]
    return len(steps) / len(queries), sum(step.computed for step in steps) / len(queries)


@needs_compiler
@pytest.mark.parametrize(
    ("n", "most"), [(1, 3.4), *(pytest.param(*row, marks=SLOW) for row in ((5, 12.5), (10, 18.5)))]
)
def test_what_is_free_is_filled(n: int, most: float) -> None:
    """With 64 nodes at no cost, 24 queries; of the first 8 all curves are compared below."""
    passes, _ = passes_and_nodes(bench_queries("retro")[:24], FLAT, n, node_budget=64)
    assert passes <= most


# Passes and nodes a query, of the first 8, by the curve.
CHOICES = {
    1: {"flat": (2.5, 160.8), "H100": (2.5, 160.8), "AMX": (3.5, 54.1), "AVX-512": (4.4, 47.5), "AVX2": (7.2, 43.8)},
    3: {
        "flat": (8.0, 286.2),
        "H100": (8.4, 263.6),
        "AMX": (13.6, 173.4),
        "AVX-512": (26.8, 152.0),
        "AVX2": (29.4, 140.4),
    },
    5: {
        "flat": (10.9, 563.9),
        "H100": (11.1, 535.0),
        "AMX": (20.8, 300.9),
        "AVX-512": (53.0, 243.5),
        "AVX2": (48.5, 243.4),
    },
    10: {
        "flat": (14.4, 1245.1),
        "H100": (14.5, 1181.9),
        "AMX": (55.4, 503.8),
        "AVX-512": (55.9, 488.2),
        "AVX2": (55.2, 488.9),
    },
}


@needs_compiler
@pytest.mark.parametrize("n", every(2, sorted(CHOICES)))
def test_the_choices_on_five_curves(n: int) -> None:
    curves = {"flat": FLAT, "H100": H100, "AMX": TILES, "AVX-512": AVX512, "AVX2": AVX2}
    found = {name: passes_and_nodes(bench_queries("retro")[:8], cost, n) for name, cost in curves.items()}
    assert found == {name: pytest.approx(row, rel=0.03) for name, row in CHOICES[n].items()}


@needs_compiler
@pytest.mark.parametrize(
    ("cost", "n", "most"),
    [
        (TILES, 2, 13),
        (AVX2, 5, 60),
        *(pytest.param(*row, marks=SLOW) for row in ((TILES, 3, 18), (TILES, 5, 28), (AVX2, 2, 28))),
    ],
)
def test_beams_of_the_default_drafter_take_few_passes(
    cost: CostCurve, n: int, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And by the curve that it was given, none takes over 2 % longer than without drafts."""
    engine = retro("fp32")
    monkeypatch.setattr(engine.resources, "measured_curve", cost)
    monkeypatch.setattr(engine.resources, "histories", DraftHistories())
    queries, settings = bench_queries("retro")[:8], DecodeSettings(n=n, batch_size=1)
    found = [[one.trace.passes for one in engine.predict(queries, settings, drafter=name)] for name in ("none", "auto")]
    seconds = [sum(cost(step.computed) for steps in one for step in steps) for one in found]
    assert sum(map(len, found[1])) / len(queries) <= most
    assert seconds[1] <= 1.02 * seconds[0]


@needs_compiler
@pytest.mark.parametrize(("drafting", "drafts"), [("planned", False), ("fixed", True)])
def test_a_pause_of_earlier_queries_leaves_the_drafter_out_unless_drafting_is_fixed(
    drafting: str, drafts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = retro("fp32")
    monkeypatch.setattr(engine.resources, "measured_curve", TILES)
    histories = DraftHistories()
    histories.of("auto beam planned 3 1").pause_left = 50.0
    monkeypatch.setattr(engine.resources, "histories", histories)
    for expected in (drafts, drafts, True):
        result = engine.predict(bench_queries("retro")[0], n=3, drafter="auto", drafting=drafting)
        assert any(step.drafted for step in result.trace.passes) == expected


@pytest.mark.parametrize("drafting", ["planned", "fixed"])
def test_only_runs_that_plan_their_drafts_are_left_out(
    drafting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DraftHistory, "skip_run", lambda *_: True)
    engine = Engine.load(tiny_folder(tmp_path / "tiny"), threads=1)
    found = engine.predict(QUERIES[0], decoder="greedy", n=1, drafter="copy", drafting=drafting)
    assert any(step.drafted for step in found.trace.passes) == (drafting == "fixed")


def test_a_node_of_a_look_ahead_that_no_draft_gave_is_as_probable_as_the_one_before_it() -> None:
    seen: list[float] = []
    planner = SimpleNamespace(min_probability=0.0, choose=lambda odds: seen.extend(odds) or len(odds))
    query = SimpleNamespace(requested={(2,): None}, scores={})
    tree = DraftTree(cast(Any, query), NoDrafts(), cast(Any, SimpleNamespace(planner=planner, budget=9)))
    tree.add_look_ahead(lambda *_: [(2, 5), (2, 5, 6)], [])
    assert seen == [1.0, 1.0] and [*tree.added] == [(2, 5), (2, 5, 6)]
