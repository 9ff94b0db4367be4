"""What the targets of a library share, in a list and as a diagram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chemspec.depict import canvas
from chemspec.plan import library_diagram
from chemspec.plan.library import SharedIntermediate, shared_intermediates

MOLECULES = ["C" * length + "O" for length in range(1, 9)]


def row(target: str, intermediates: Sequence[str], status: str = "solved") -> dict[str, Any]:
    steps = len(intermediates) + 1
    return {"target": target, "smiles": target, "status": status, "steps": steps, "intermediates": [*intermediates]}


@given(st.lists(st.lists(st.sampled_from(MOLECULES), unique=True), max_size=8))
def test_each_intermediate_of_several_targets_counts_once_and_no_other(routes: list[list[str]]) -> None:
    rows = [row("N" * number, route) for number, route in enumerate(routes, 1)]
    shared = shared_intermediates(rows)
    having = {smiles: [number for number, route in enumerate(routes) if smiles in route] for smiles in MOLECULES}
    assert sum(1 + entry.others for entry in shared) == sum(len(numbers) > 1 for numbers in having.values())
    assert all([*entry.targets] == having[entry.smiles] and len(entry.targets) > 1 for entry in shared)
    assert len({entry.targets for entry in shared}) == len(shared), "one for the same targets"
    assert [len(entry.targets) for entry in shared] == sorted((len(entry.targets) for entry in shared), reverse=True)


def test_of_a_line_of_shared_steps_the_last_stands_for_all() -> None:
    rows = [row("N", ["CO", "CCO", "CCCO"]), row("NN", ["CO", "CCO"]), row("NN", ["CO", "CCO"])]
    assert shared_intermediates(rows) == [SharedIntermediate("CCO", (0, 1), 1)]


def test_the_diagram_says_what_it_leaves_out_and_fits_a_phone() -> None:
    cores = [f"{'C' * size}N" for size in range(1, 16)]
    rows = [row(f"{'C' * number}O", [cores[number // 9]]) | {"target": "aspirin"} for number in range(9 * len(cores))]
    rows[0]["status"] = "open"
    shared = shared_intermediates(rows)
    blocks = library_diagram.draw_blocks(rows, shared, dark=True)
    assert len(blocks) == library_diagram.MAX_SHOWN < len(shared) and all(block.width <= 364 for block in blocks)
    words = canvas.to_svg(blocks[0])
    assert "in 9 routes" in words and "3 more not drawn" in words and "row 1, aspirin" in words
    assert "no route from stock" in words and words.count("<polygon") == library_diagram.MAX_DRAWN
    assert "These are 12 of 15" in library_diagram.summarize(rows, shared)
    whole = library_diagram.draw_library(rows)
    assert whole and all(item.left >= 0 and item.left + item.width <= whole.width for item in whole.items)
