"""The table of a library of targets: of each its best route, and the intermediates that several targets share."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chemspec.io.spreadsheets import table_to_csv
from chemspec.plan.orders import route_price
from chemspec.plan.routes import Plan

COLUMNS = (
    "target", "smiles", "status", "steps", "longest_line", "weakest_step", "probability", "price", "building_blocks",
    "not_in_stock", "shared_intermediates", "message",
)  # fmt: skip


def library_row(plan: Plan, target: str) -> dict[str, Any]:
    """Return the row of a target as JSON, with the intermediates of its best route; `target`: as it was given."""
    row = {"target": target, "smiles": plan.target, "status": plan.status}
    row |= {} if plan.status == "solved" else {"message": plan.message}
    if not plan.routes:
        return row
    route = plan.routes[0]
    unpriced, price = route_price(route)
    return row | {
        "steps": len(route.steps),
        "longest_line": route.depth,
        "weakest_step": round(route.weakest, 4),
        "probability": round(route.score, 6),
        "price": "" if unpriced else f"{price:.2f}",
        "building_blocks": " ".join(leaf.smiles for leaf in route.leaves),
        "not_in_stock": " ".join(leaf.smiles for leaf in route.leaves if not leaf.stock),
        "intermediates": [node.smiles for node in route.steps if node.smiles != plan.target],
    }


@dataclass(frozen=True)
class SharedIntermediate:
    """An intermediate in the best routes of several targets; of those of the same targets the last before them."""

    smiles: str
    targets: tuple[int, ...]  # numbers of their rows, from 0, each molecule once
    others: int = 0  # number of further intermediates that the same targets share


def _targets_by_intermediate(rows: Sequence[dict[str, Any]]) -> dict[str, list[int]]:
    """Return, by intermediate in the order of the steps, the numbers of the rows of its targets, each molecule once."""
    first_rows: dict[str, int] = {}  # by target; one that is listed twice shares nothing with itself
    targets: defaultdict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        if first_rows.setdefault(row["smiles"], number) == number:
            for smiles in row.get("intermediates", ()):
                targets[smiles].append(number)
    return targets


def shared_intermediates(rows: Sequence[dict[str, Any]]) -> list[SharedIntermediate]:
    """Return the intermediates that best routes of several targets share: those of most targets, and steps, first."""
    together: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
    for smiles, numbers in _targets_by_intermediate(rows).items():
        if len(numbers) > 1:
            together[tuple(numbers)].append(smiles)
    shared = [SharedIntermediate(group[-1], numbers, len(group) - 1) for numbers, group in together.items()]
    return sorted(shared, key=lambda entry: (-len(entry.targets), -entry.others))


def shared_texts(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return for each target the intermediates of its best route that those of others have, with their number."""
    counts = {smiles: len(numbers) for smiles, numbers in _targets_by_intermediate(rows).items()}
    return [
        " ".join(f"{smiles} ({counts[smiles]})" for smiles in row.get("intermediates", ()) if counts.get(smiles, 0) > 1)
        for row in rows
    ]


def library_table(
    rows: Sequence[dict[str, Any]], others: Sequence[str] = (), cells: Sequence[Sequence[str]] = ()
) -> str:
    """Return the rows of targets as CSV; an intermediate in the best routes of several stands with their number.

    `others`: names of further columns, which come first; `cells`: those of each row.
    """
    lines = []
    for number, (row, shared) in enumerate(zip(rows, shared_texts(rows), strict=True)):
        filled = {**row, "shared_intermediates": shared}
        lines.append([*(cells[number] if cells else ()), *(filled.get(name, "") for name in COLUMNS)])
    return table_to_csv([*others, *COLUMNS], lines)
