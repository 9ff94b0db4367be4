"""The planner changes passes and nodes, never an answer; where nodes are dear it adds few, and asks rarely."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from compilers import needs_compiler
from hypothesis import given
from hypothesis import strategies as st
from table import Table, run
from test_loop import DRAFTERS as ADVERSARIAL
from test_loop import VOCAB

from chemspec.asset_files import bench_queries
from chemspec.decode.beam import beam_search, greedy_search
from chemspec.decode.draft_planner import DraftPlanner
from chemspec.draft.base import Drafter, NoDrafts
from chemspec.draft.copy import Copy
from chemspec.draft.mixed import Mixed
from chemspec.draft.tree.edit_ngrams import COPY_ONLY
from chemspec.engine.engine import Engine
from chemspec.model.cost import CostCurve
from chemspec.settings import DecodeSettings
from chemspec.testing import naive_beam, naive_greedy
from chemspec.types import Draft, Pass, Prefix

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
    assert drafter.asked <= len(plain) * max(1, width)


# On the shipped weights --------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize(
    ("cost", "n", "most"), [(TILES, 2, 13), (TILES, 3, 18), (TILES, 5, 28), (AVX2, 2, 28), (AVX2, 5, 60)]
)
def test_beams_of_the_default_drafter_take_few_passes(
    cost: CostCurve, n: int, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And by the curve that it was given, none takes over 2 % longer than without drafts."""
    engine = Engine.load("retro", threads=1)
    monkeypatch.setattr(engine.resources, "_curve", cost)
    queries, settings = bench_queries("retro")[:8], DecodeSettings(n=n, batch_size=1)
    found = [[one.trace.passes for one in engine.predict(queries, settings, drafter=name)] for name in ("none", "auto")]
    seconds = [sum(cost(step.computed) for steps in one for step in steps) for one in found]
    assert sum(map(len, found[1])) / len(queries) <= most
    assert seconds[1] <= 1.02 * seconds[0]


@pytest.mark.parametrize(("drafting", "drafts"), [("planned", False), ("fixed", True)])
def test_fixed_drafting_skips_the_estimate_before_the_first_pass_also_for_auto(
    drafting: str, drafts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine.load("retro", threads=1)
    monkeypatch.setattr(engine.resources, "_curve", TILES)
    monkeypatch.setattr(DraftPlanner, "may_speed_up", lambda *_: False)
    result = engine.predict(bench_queries("retro")[0], n=3, drafter="auto", drafting=drafting)
    assert any(step.drafted for step in result.trace.passes) == drafts


@pytest.mark.parametrize("width", [1, 2, 5, 10])
def test_whether_drafts_may_gain_follows_the_curve(width: int) -> None:
    for has_probabilities in (False, True):
        assert DraftPlanner(FREE, has_probabilities=has_probabilities).may_speed_up(width)
        assert not DraftPlanner(DEAR, has_probabilities=has_probabilities).may_speed_up(width)
    assert DraftPlanner(TILES).may_speed_up(width)
    assert DraftPlanner(AVX2).may_speed_up(width) == (width < 5)
    assert not DraftPlanner(AVX2).may_speed_up(width, 32) and not DraftPlanner(TILES).may_speed_up(width, 32)
    assert DraftPlanner(FREE).may_speed_up(width, 32)
