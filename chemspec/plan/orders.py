"""Orders in which the routes of a plan are listed."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from chemspec.plan.routes import Node, Plan, Route
from chemspec.stock.offers import HERE

PROBABILITY = "probability"
_PRICE = re.compile(r", ([\d,]+\.\d\d)(?: (\S+?))?(?:,|$)")  # price in the text of an offer


def leaf_price(leaf: Node) -> tuple[float, str] | None:
    """Return price and unit of a building block from the text of its offer; None if it has no price."""
    match = _PRICE.search(leaf.stock)
    return (float(match[1].replace(",", "")), match[2] or "") if match else None


def route_price(route: Route) -> tuple[int, float]:
    """Return the number of building blocks without a price, and the sum of the prices of the others, as listed."""
    prices = [leaf_price(leaf) for leaf in route.leaves]
    return prices.count(None), sum(price[0] for price in prices if price)


def count_to_buy(route: Route) -> int:
    """Return the number of building blocks that no inventory of the lab has."""
    return sum(f", {HERE}" not in leaf.stock for leaf in route.leaves)


# By name what the order is, and the key: smaller comes first. Routes from stock come before others in each.
ORDERS: dict[str, tuple[str, Callable[[Route], Any]]] = {
    PROBABILITY: ("the product of the steps' probabilities, lowered where the forward model differs", lambda _: 0),
    "steps": ("the number of steps, fewest first", lambda route: len(route.steps)),
    "weakest": ("the probability of the weakest step, highest first", lambda route: -route.weakest),
    "convergence": ("the longest line of steps, shortest first", lambda route: (route.depth, len(route.steps))),
    "price": ("the sum of the building blocks' prices in your list; without a price last", route_price),
    "shelf": ("the number of building blocks that your inventory lacks, fewest first", count_to_buy),
    "diversity": ("probability, but the best route of each group before any variant", lambda _: 0),
}


def order_routes(routes: Sequence[Route], order: str) -> tuple[Route, ...]:
    """Return routes, given by probability, in an order of `ORDERS`, with their groups numbered in it."""
    if order == "diversity":
        seen: dict[int, int] = {}
        turns = []
        for route in routes:
            turns.append(seen.get(route.group, 0))
            seen[route.group] = turns[-1] + 1
        ranked = [routes[k] for k in sorted(range(len(routes)), key=lambda k: (not routes[k].solved, turns[k], k))]
    else:
        key = ORDERS[order][1]
        ranked = sorted(routes, key=lambda route: (not route.solved, key(route)))
    numbers: dict[int, int] = {}
    return tuple(
        replace(route, group=numbers.setdefault(route.group, len(numbers) + 1)) if route.group else route
        for route in ranked
    )


def check_order(order: str) -> None:
    """Raise ValueError for what is not in `ORDERS`."""
    if order not in ORDERS:
        raise ValueError(f"{order!r} is no order of routes; choose one of {', '.join(ORDERS)}")


def order_plan(plan: Plan, order: str) -> Plan:
    """Return a plan with its routes in an order of `ORDERS`; ValueError for another."""
    check_order(order)
    return plan if order == PROBABILITY else replace(plan, routes=order_routes(plan.routes, order))
