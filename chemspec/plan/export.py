"""Write plans to files: JSON, Markdown, or the best route as SVG or PNG."""

import json
from collections.abc import Sequence
from pathlib import Path

from chemspec.plan import depict
from chemspec.plan.routes import Evidence, Plan, plan_document, plan_to_markdown, route_titles
from chemspec.system.files import write_bytes_atomic, write_text_atomic

ENDINGS = (".json", ".md", ".svg", ".png")


def check_ending(file: Path) -> None:
    """Raise a ValueError for a file that `write_plans` cannot write."""
    if file.suffix not in ENDINGS:
        raise ValueError(f"{file}: give a file that ends in one of {', '.join(ENDINGS)}")


def write_plans(file: Path, plans: Sequence[tuple[Plan, Evidence]], *, as_list: bool = False) -> None:
    """Write plans, each with the precedents of its steps, in the format of the file's ending.

    A .json has all routes, one plan as an object, else, or with `as_list`, a list. A .svg or .png has the best route of
    the first plan with one, and is not written if there is none.
    """
    check_ending(file)
    if file.suffix == ".json":
        documents = [plan_document(*entry) for entry in plans]
        write_text_atomic(file, json.dumps(documents if as_list or len(plans) != 1 else documents[0], indent=1))
    elif file.suffix == ".md":
        write_text_atomic(file, "\n".join(plan_to_markdown(*entry) for entry in plans))
    elif best := next((entry for entry in plans if entry[0].routes), None):
        drawn = best[0].routes[0], route_titles(best[0].routes)[0], best[1]
        write_bytes_atomic(file, depict.to_png(*drawn) if file.suffix == ".png" else depict.to_svg(*drawn).encode())
