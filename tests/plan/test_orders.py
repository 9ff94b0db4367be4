"""Orders of routes: each by its number, those from stock first, groups numbered anew."""

from __future__ import annotations

import pytest

pytest.importorskip("syntheseus")

from chemspec.plan.expand import Proposal
from chemspec.plan.orders import ORDERS, leaf_price, order_plan, order_routes
from chemspec.plan.routes import Node, Plan, Route, route_titles


def line(stock: str, *chances: float, group: int = 1) -> Route:
    """A linear route with a step of each probability."""
    node = Node("C" * 9, stock)
    for number, chance in enumerate(chances):
        node = Node("C" * (10 + number), "", Proposal((node.smiles,), chance), (node,))
    return Route(node, group)


LONG, SHORT, WEAK = line("a", 0.9, 0.9, 0.9), line("a", 0.6, group=2), line("a", 0.9, 0.5, group=3)
OPEN = line("", 0.99, group=4)
ROUTES = (LONG, SHORT, WEAK, OPEN)


@pytest.mark.parametrize(
    ("order", "first"), [("probability", LONG), ("steps", SHORT), ("weakest", LONG), ("convergence", SHORT)]
)
def test_each_order_goes_by_its_number(order: str, first: Route) -> None:
    ordered = order_routes(ROUTES, order)
    assert ordered[0].root == first.root and ordered[-1].root == OPEN.root, "without stock last"
    assert sorted(map(hash, (route.root for route in ordered))) == sorted(hash(route.root) for route in ROUTES)
    assert [route.group for route in ordered] == [1, 2, 3, 4]


def test_prices_are_added_and_what_has_none_comes_last() -> None:
    cheap, dear, unknown = (line(stock, 0.5) for stock in ("mine, 2.50 EUR/g, Acme", "mine, 1,250.00 EUR/g", "common"))
    assert leaf_price(dear.leaves[0]) == (1250.0, "EUR/g") and leaf_price(unknown.leaves[0]) is None
    assert [route.root for route in order_routes((unknown, dear, cheap), "price")] == [
        cheap.root, dear.root, unknown.root
    ]  # fmt: skip


def test_diversity_shows_the_best_of_each_group_first() -> None:
    routes = [line("a", 0.9, group=1), line("a", 0.8, group=1), line("a", 0.7, group=2)]
    ordered = order_routes(routes, "diversity")
    assert [route.weakest for route in ordered] == [0.9, 0.7, 0.8]
    assert route_titles(ordered) == ["Route 1", "Route 2", "Route 1, variant 2"]


def test_another_order_is_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match="price"):
        order_plan(Plan("C", "open", ""), "alphabet")
    assert all(about for about, _ in ORDERS.values())
