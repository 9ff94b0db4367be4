"""Beams that park hypotheses find the list of plain beams, with fewer nodes; what they learn from finished searches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
from helpers.compilers import needs_compiler
from helpers.table import Table
from hypothesis import given
from hypothesis import strategies as st

from chemspec.asset_files import bench_queries
from chemspec.decode.beam import Beam, Hyp, beam_search, next_floor, park
from chemspec.decode.draft_history import DraftHistories
from chemspec.decode.generate import open_decoding
from chemspec.decode.parking import MAX_SEARCHES, MIN_SEARCHES, ParkingGaps, needed_gap, parking_pays
from chemspec.decode.protocol import LoopOptions
from chemspec.engine.engine import Engine
from chemspec.model.cost import CostCurve
from chemspec.settings import DecodeSettings
from chemspec.system import cache
from chemspec.testing import naive_beam
from chemspec.types import FinishedSequence

AVX2 = CostCurve((1, 2, 64), tuple(1e-6 * t for t in (360, 570, 13_590)))  # 210 µs a node and 150 µs a pass


def hyps(*totals: float) -> tuple[Hyp, ...]:
    return tuple(Hyp((1, 5), (total,), total) for total in totals)


def answer(*log_probs: float) -> FinishedSequence:
    return FinishedSequence(tuple(range(4, 4 + len(log_probs))), log_probs, "eos")


# --- the search ------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(3, 11), min_size=1, max_size=8),
    st.integers(0, 10**6),
    st.integers(1, 9),
    st.integers(1, 20),
    st.floats(0, 8),
    st.sampled_from([0, 0, 1, 2]),
    st.booleans(),
)
def test_the_list_is_that_of_the_naive_beam(
    source: list[int], seed: int, width: int, max_len: int, gap: float, levels: int, compiled: bool
) -> None:
    """Whatever is parked, ties included; no node is computed that the plain beam does not need or that was computed."""
    table = Table(seed, sharpness=1.5, levels=levels)
    search = beam_search(width=width, max_len=max_len, park_gap=gap)
    options = LoopOptions(max_len=max_len, compiled=compiled and None)
    run = open_decoding(table, [source], [search], options, top_k=100)
    (found,) = run.run_to_end()
    expected = naive_beam(table, source, width, max_len)
    assert [(one.tokens, one.ended) for one in found] == [(one.tokens, one.ended) for one in expected]
    assert [one.log_probs for one in found] == [pytest.approx(one.log_probs) for one in expected]
    computed = [node for call in table.calls for node in call]
    assert len(computed) == len(set(computed))


@pytest.mark.parametrize(
    ("live", "finished", "parked", "gap", "floor", "stays", "below"),
    [
        ((-1.0, -2.0, -9.0), (), (), 5.0, -inf, (-1.0, -2.0), (-9.0,)),  # far below the best one
        ((-1.0, -2.0, -9.0), (), (), inf, -inf, (-1.0, -2.0, -9.0), ()),  # nothing is parked without a gap
        ((-6.0, -7.0), (-1.0,), (), 5.5, -inf, (-6.0,), (-7.0,)),  # the best one has finished
        ((-3.0, -3.5), (-1.0, -2.0), (-2.5,), 9.0, -inf, (), (-3.0, -3.5)),  # below the third of all, a parked one
        ((-2.8, -3.5), (-1.0, -2.0), (-2.5,), 9.0, -inf, (-2.8,), (-3.5,)),  # a little below it
        ((-1.0, -2.0, -4.0), (), (), inf, -2.0, (-1.0, -2.0), (-4.0,)),  # a repetition; a tie goes on
    ],
)
def test_what_is_parked(
    live: Sequence[float],
    finished: Sequence[float],
    parked: tuple[float, ...],
    gap: float,
    floor: float,
    stays: Sequence[float],
    below: Sequence[float],
) -> None:
    beam = park(Beam(hyps(*live), hyps(*finished), parked), 3, gap, floor)
    assert [hyp.total for hyp in beam.live] == [*stays]
    assert beam.parked == tuple(sorted([*parked, *below], reverse=True)[:3])


def test_the_threshold_of_a_repetition() -> None:
    lacking = Beam((), hyps(-1.0, -6.0), (-4.0, -5.0, -7.0))  # of three, one is certain
    assert next_floor(lacking, 3, 1) == -5.5 and next_floor(lacking, 3, 2) == -6.0
    assert next_floor(lacking, 3, 4) == -inf  # the plain beam
    full = Beam((), hyps(-1.0, -2.0, -4.2), (-4.0, -5.0))
    assert next_floor(full, 3, 1) == -4.2  # below the last finished one nothing can be in the list
    assert next_floor(full, 3, 4) == -inf


def test_a_length_penalty_cannot_park() -> None:
    with pytest.raises(ValueError, match="cannot park"):
        beam_search(width=3, max_len=9, length_penalty=0.6, park_gap=4.0)


# --- what is learned -------------------------------------------------------------------------------


def test_the_gap_that_a_list_needs() -> None:
    assert needed_gap([answer(-0.1, -0.1)]) == 0.0
    assert needed_gap([answer(-0.1, -0.1, -0.1), answer(-3.0, -0.5, -9.0)]) == pytest.approx(3.3)  # not at its end
    assert needed_gap([answer(-0.2, -0.1), answer(-0.1, -4.0, -0.1)]) == pytest.approx(3.8)  # below a finished one
    assert needed_gap([answer(-0.1), answer(-0.2)._replace(ended="length")]) == inf


def test_nothing_is_parked_before_enough_is_known() -> None:
    gaps = ParkingGaps()
    for number in range(MIN_SEARCHES):
        assert gaps.gap(2) == inf
        gaps.add([answer(-0.1, -0.1), answer(-1.0 - number, -0.1)])
    assert gaps.gap(2) == pytest.approx(MIN_SEARCHES - 0.1) and gaps.gap(3) == inf
    for _ in range(MAX_SEARCHES):  # older ones are forgotten
        gaps.add([answer(-0.1, -0.1), answer(-0.6, -0.1)])
    assert gaps.gap(2) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"2": 3}', b'{"x": [1]}', b'{"2": ["a"]}', b'{"2": [NaN, -1]}']
)
def test_a_damaged_file_is_no_experience(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path))
    cache.write_cached("x.parking.json", content)
    assert ParkingGaps("x.parking.json").gap(2) == inf


def test_the_next_process_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path))
    gaps = ParkingGaps("x.parking.json")
    for _ in range(MIN_SEARCHES):
        gaps.add([answer(-0.1, -0.1), answer(-2.0, -0.1)])
    assert ParkingGaps("x.parking.json").gap(2) == gaps.gap(2) < inf
    assert len(json.loads(cache.read_cached("x.parking.json") or b"")["2"]) == MIN_SEARCHES


# --- where it pays ---------------------------------------------------------------------------------


def test_where_parking_pays() -> None:
    flat = CostCurve((1, 256), (500e-6, 500e-6 + 256e-9))
    assert parking_pays(AVX2, 10, 1) and parking_pays(AVX2, 5, 16)
    assert not any(parking_pays(flat, width, queries) for width in (2, 5, 10, 20) for queries in (1, 8))


@needs_compiler
def test_retro_needs_fewer_nodes() -> None:
    """Of 16 built-in queries after 8 others; batches and lists of distinct molecules find the same lists too."""
    engine = Engine.load("retro", threads=1, dtype="int8")
    engine.resources.measured_curve, engine.resources.histories, engine.resources.gaps = (
        AVX2,
        DraftHistories(),
        ParkingGaps(),
    )
    queries = bench_queries("retro")[:24]
    settings = DecodeSettings(n=5, batch_size=1, node_budget=0)
    plain = engine.predict(queries, settings, drafter="none")
    parked = engine.predict(queries, settings)
    assert [one.hypotheses for one in parked] == [one.hypotheses for one in plain]
    nodes = [sum(step.computed for one in found[8:] for step in one.trace.passes) for found in (plain, parked)]
    assert nodes[1] < 0.9 * nodes[0]
    for how in (replace(settings, batch_size=8), replace(settings, distinct=True), replace(settings, record=True)):
        without, found = (engine.predict(queries[:8], how, drafter=drafter) for drafter in ("none", "auto"))
        assert [one.hypotheses for one in found] == [one.hypotheses for one in without]


@needs_compiler
def test_nothing_is_parked_for_a_model_whose_answers_do_not_end() -> None:
    """Only lists of ended answers are proved; otherwise every search would be repeated."""
    engine = Engine.load("retro", threads=1, dtype="int8")
    engine.resources.measured_curve, engine.resources.histories, engine.resources.gaps = (
        AVX2,
        DraftHistories(),
        ParkingGaps(),
    )
    queries = bench_queries("retro")[: MIN_SEARCHES + 6]
    settings = DecodeSettings(n=5, batch_size=1, max_len=16, node_budget=0)
    plain, found = (engine.predict(queries, settings, drafter=drafter) for drafter in ("none", "auto"))
    assert any(answer.ended == "length" for one in plain for answer in one.hypotheses)
    assert [one.hypotheses for one in found] == [one.hypotheses for one in plain]
    assert [len(one.trace.passes) for one in found] == [len(one.trace.passes) for one in plain]
