"""The table of a library of targets: of each its best route, and the intermediates that several targets share."""

from collections import Counter
from collections.abc import Sequence
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


def library_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows of targets as CSV; an intermediate in the best routes of several stands with their number."""
    targets = Counter(smiles for row in rows for smiles in row.get("intermediates", ()))
    lines = []
    for row in rows:
        shared = [f"{smiles} ({targets[smiles]})" for smiles in row.get("intermediates", ()) if targets[smiles] > 1]
        filled = {**row, "shared_intermediates": " ".join(shared)}
        lines.append([filled.get(name, "") for name in COLUMNS])
    return table_to_csv(COLUMNS, lines)
