"""Write plans to files: JSON, Markdown, or the best route as SVG or PNG."""

import json
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent

from chemspec.plan import depict
from chemspec.plan.routes import Evidence, Plan, plan_document, plan_to_markdown, route_titles
from chemspec.system.files import write_bytes_atomic, write_text_atomic

ENDINGS = (".json", ".md", ".svg", ".png")


class PlanFile:
    """A file of plans in the format of its ending; each plan is rendered once, when it is added."""

    def __init__(self, file: Path) -> None:
        """Start without plans; raises ValueError for another ending."""
        if file.suffix not in ENDINGS:
            raise ValueError(f"{file}: give a file that ends in one of {', '.join(ENDINGS)}")
        self.file = file
        self._texts: list[str] = []
        self._picture = b""

    def add(self, plan: Plan, evidence: Evidence) -> None:
        """Add a plan with the precedents of its steps; a .svg or .png takes the best route of the first with one."""
        if self.file.suffix == ".json":
            self._texts.append(json.dumps(plan_document(plan, evidence), indent=1))
        elif self.file.suffix == ".md":
            self._texts.append(plan_to_markdown(plan, evidence))
        elif plan.routes and not self._picture:
            drawn = plan.routes[0], route_titles(plan.routes)[0], evidence
            self._picture = depict.to_png(*drawn) if self.file.suffix == ".png" else depict.to_svg(*drawn).encode()

    @property
    def lacks_route(self) -> bool:
        """Whether this is a picture of which no plan has a route yet."""
        return self.file.suffix in (".svg", ".png") and not self._picture

    def write(self, *, as_list: bool = False) -> None:
        """Write the plans so far, atomically, but no picture without a route.

        A .json has one plan as an object or, with `as_list`, a list.
        """
        if self._picture:
            write_bytes_atomic(self.file, self._picture)
        elif self.file.suffix == ".md":
            write_text_atomic(self.file, "\n".join(self._texts))
        elif self.file.suffix == ".json":
            listed = ",\n".join(indent(text, " ") for text in self._texts)
            text = f"[\n{listed}\n]" if listed else "[]"
            write_text_atomic(self.file, text if as_list else self._texts[0])


def write_plans(file: Path, plans: Sequence[tuple[Plan, Evidence]], *, as_list: bool = False) -> None:
    """Write plans, each with the precedents of its steps, as `PlanFile` does; several or none are a list."""
    output = PlanFile(file)
    for entry in plans:
        output.add(*entry)
    output.write(as_list=as_list or len(plans) != 1)
