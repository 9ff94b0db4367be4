"""The stock lists of a service: those of CHEMSPEC_HOME and plug-ins, and the built-in ones, by name alone."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from fastapi import APIRouter

from chemspec.service import schema
from chemspec.service.limits import RefusedError
from chemspec.stock.lists import CHOICES, TITLES, Stock, default_lists, list_stamps, load_usable_stock
from chemspec.system.lab_files import lab_files


def add_stock_route(router: APIRouter) -> None:
    """Add the route /v1/stock."""

    @router.get("/v1/stock", response_model=schema.StockLists, responses={401: schema.PROBLEMS[401]}, tags=["stock"])
    async def stock() -> Any:
        """List the stock lists whose names `stock` of a review or a plan takes."""
        of_lab = [
            {"name": name, "title": file.title, "date": file.date, "currency": file.currency, "built_in": False}
            for name, file in lab_files("stock").items()
        ]
        others = [
            {"name": name, "title": TITLES[name], "date": "", "currency": "", "built_in": True} for name in CHOICES
        ]
        return {"lists": of_lab + others}


def check_lists(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the chosen lists, by default all of the lab and the built-in ones; a path is no name.

    Raises:
        RefusedError: if there is no list of a name.
    """
    if names is None:
        return default_lists()
    there = [*lab_files("stock"), *CHOICES]
    for name in names:
        if name not in there:
            shown = name.encode("utf-8", "backslashreplace").decode()[:80]
            raise RefusedError(422, "unknown_stock", f"there is no stock list {shown!r}; available: {', '.join(there)}")
    return tuple(names)


def load_lists(names: Sequence[str]) -> Stock:
    """Load lists, again only after a change; a list of the lab that cannot be used is left out, with a warning."""
    return _load(list_stamps(names))


@lru_cache(maxsize=8)
def _load(stamped: tuple[tuple[str, tuple[int, int]], ...]) -> Stock:
    return load_usable_stock(name for name, _ in stamped)
