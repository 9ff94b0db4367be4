"""Write plans to files: JSON, Markdown, a table, or a picture; those of many targets can be resumed."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

from chemspec.depict import canvas
from chemspec.depict.molecules import MAX_ATOMS
from chemspec.io.readers import FileError
from chemspec.io.writers import check_same_settings
from chemspec.plan import depict, library_diagram
from chemspec.plan.library import library_row, library_table
from chemspec.plan.outline import plan_outlines
from chemspec.plan.postcard import postcard_file
from chemspec.plan.routes import Evidence, Plan, plan_document, plan_to_markdown, route_titles
from chemspec.system import extras
from chemspec.system.files import open_atomic, write_bytes_atomic, write_text_atomic

POSTCARDS = (".pdf", ".postcard.svg", ".postcard.png")
DIAGRAMS = (".svg", ".png")  # of many targets: what they share
PICTURES = (*DIAGRAMS, ".cdxml", *POSTCARDS)  # of one route
ENDINGS = (".json", ".jsonl", ".csv", ".md", *PICTURES)


class PlanFile:
    """A file of plans in the format of its ending; each plan is rendered once, when it is added.

    A picture has the best route of the first plan with one or, as `.svg` or `.png` of many targets, the intermediates
    that their best routes share. Of many targets a `.jsonl` has a line for each plan, written when it is added. The
    others are written at the end, from such lines in FILE.partial.jsonl, which stays after an interruption.
    """

    def __init__(self, file: Path, grams: float = 0.0, question: Callable[[str], str] = lambda _: "") -> None:
        """Start without plans; raises ValueError for another ending.

        `grams`: amount of the target, for the outlines of procedures that a .md has then. `question`: returns the
        `chemspec:` text of a target, for postcards.
        """
        if file.suffix not in ENDINGS:
            raise ValueError(f"{file}: give a file that ends in one of {', '.join(ENDINGS)}")
        self.file, self.grams, self.question = file, grams, question
        if self.is_postcard:
            extras.require_packages("segno", what=f"{file} would be a postcard")
        self.statuses: list[str] = []  # of the plans that an earlier run has stored
        self._texts: list[str] = []
        self._picture = b""
        self._had_route = False
        self._lines: Path | None = None  # where plans of many targets are stored
        self._is_diagram = False  # whether it is the picture of many targets

    def resume(self, targets: Sequence[str], made_with: Mapping[str, Any]) -> None:
        """Go on with a file of many targets, of which `statuses` are stored already.

        FileError if it is complete, or belongs to other targets or settings; OSError if it cannot be written.
        """
        self._is_diagram = self.file.suffix in DIAGRAMS and not self.is_postcard
        if not self.keeps_plans:
            return
        lines = self.file if self.file.suffix == ".jsonl" else self.file.with_name(f"{self.file.name}.partial.jsonl")
        if self.file.exists() and not lines.exists():
            raise FileError(f"{self.file} already exists and is complete; choose another name or remove it")
        side = self._settings_file(lines)
        if lines.exists() and lines.stat().st_size:
            if not side.exists():
                raise FileError(f"{lines} exists, but its settings are unknown; choose another name or remove it")
            check_same_settings(json.loads(side.read_text(encoding="utf-8")), dict(made_with), self.file)
            self.statuses = _read_statuses(lines, targets)
        else:
            side.write_text(json.dumps(made_with, sort_keys=True), encoding="utf-8")
        self._lines = lines

    @staticmethod
    def _settings_file(lines: Path) -> Path:
        return lines.with_name(f"{lines.name}.settings.json")

    def add(self, plan: Plan, evidence: Evidence, target: str = "") -> None:
        """Add a plan with the precedents of its steps; a picture takes the best route of the first with one.

        `target`: as it was given.
        """
        if not self.keeps_plans:
            self._had_route |= bool(plan.routes)
            if plan.routes and not self._picture:
                self._picture = self._draw(plan, evidence)
            return
        if self.file.suffix == ".md":
            has_amounts = self.grams and plan.routes
            content: Any = (
                plan_outlines(plan, evidence, grams=self.grams) if has_amounts else plan_to_markdown(plan, evidence)
            )
        elif self._is_diagram or self.file.suffix == ".csv":
            content = library_row(plan, target)
        else:
            content = plan_document(plan, evidence)
        if self._lines is None:
            self._texts.append(content if isinstance(content, str) else json.dumps(content, indent=1))
            return
        entry = {"query": target, "status": plan.status}
        entry |= {"text": content} if isinstance(content, str) else content
        with self._lines.open("a", encoding="ascii") as lines:
            lines.write(json.dumps(entry) + "\n")
            lines.flush()
            os.fsync(lines.fileno())

    def _draw(self, plan: Plan, evidence: Evidence) -> bytes:
        """Return the picture of the best route."""
        drawn = plan.routes[0], route_titles(plan.routes)[0], evidence
        if self.is_postcard:
            return postcard_file(self.file.suffix[1:], *drawn, self.question(plan.target))
        if self.file.suffix == ".cdxml":
            return depict.to_cdxml(plan.routes[0], evidence).encode()
        return depict.to_png(*drawn) if self.file.suffix == ".png" else depict.to_svg(*drawn).encode()

    @property
    def is_postcard(self) -> bool:
        """Whether its name ends as that of a postcard."""
        return self.file.name.endswith(POSTCARDS)

    @property
    def keeps_plans(self) -> bool:
        """Whether it has something of all plans; other pictures have one route."""
        return self._is_diagram or not self.file.name.endswith(PICTURES)

    @property
    def lists_all_routes(self) -> bool:
        """Whether it has all routes of a plan, with the precedents of their steps."""
        return self.file.suffix in (".json", ".jsonl", ".md")

    @property
    def stored(self) -> int:
        """Number of plans that an earlier run has stored."""
        return len(self.statuses)

    @property
    def missing(self) -> str:
        """Why there is no picture to be written; empty for another file, and where there is one."""
        if self._picture or (self.keeps_plans and not self._is_diagram):
            return ""
        if self._is_diagram:
            return "no intermediate is in the best routes of several targets"
        large = f"a molecule of the route has more than {MAX_ATOMS} atoms"
        return large if self._had_route else "there is no route to draw"

    def write(self, *, as_list: bool = False) -> None:
        """Write the plans so far, atomically, but no picture without a route, or of nothing.

        A .json has one plan as an object or, with `as_list`, a list.
        """
        if self._is_diagram and (shared := library_diagram.draw_library(self._rows())):
            is_png = self.file.suffix == ".png"
            self._picture = canvas.to_png(shared) if is_png else canvas.to_svg(shared).encode()
        if self._picture:
            write_bytes_atomic(self.file, self._picture)
        elif self.file.suffix == ".md":
            self._write_pieces("\n".join(self._texts), "", "\n", "")
        elif self.file.suffix == ".json":
            listed = ",\n".join(indent(text, " ") for text in self._texts)
            text = f"[\n{listed}\n]" if listed else "[]"
            self._write_pieces(text if as_list else self._texts[0], "[\n", ",\n", "\n]")
        elif self.file.suffix == ".csv":
            write_text_atomic(self.file, library_table(self._rows()))
        elif self.file.suffix == ".jsonl" and self._lines is None:
            write_text_atomic(self.file, "".join(json.dumps(json.loads(text)) + "\n" for text in self._texts))

    def _rows(self) -> list[dict[str, Any]]:
        """Return the rows of the library's table."""
        if self._lines is None:
            return [*map(json.loads, self._texts)]
        stored = self._lines.read_text(encoding="ascii") if self._lines.exists() else ""
        return [*map(json.loads, stored.splitlines())]

    def _write_pieces(self, text: str, first: str, between: str, last: str) -> None:
        """Write a text, or of many targets what is stored, piece by piece."""
        if self._lines is None:
            write_text_atomic(self.file, text)
            return
        with open_atomic(self.file) as file:
            for number, piece in enumerate(self._pieces()):
                file.write(((between if number else first) + piece).encode())
            file.write(last.encode())

    def _pieces(self) -> Iterator[str]:
        if self._lines is None or not self._lines.exists():
            return
        with self._lines.open(encoding="ascii") as lines:
            for line in lines:
                entry = json.loads(line)
                del entry["query"]
                yield entry["text"] if "text" in entry else indent(json.dumps(entry, indent=1), " ")

    def finish(self) -> None:
        """Remove what resuming needs, when all targets are planned."""
        if self._lines is not None and self._lines != self.file:
            self._lines.unlink(missing_ok=True)
            self._settings_file(self._lines).unlink(missing_ok=True)


def _read_statuses(lines: Path, targets: Sequence[str]) -> list[str]:
    """Return the statuses of the plans of a file, of which an incomplete last line is removed."""
    statuses = []
    size = 0
    with lines.open("rb") as stored:
        for number, line in enumerate(stored):
            if not line.endswith(b"\n"):
                break
            entry = json.loads(line)
            if number >= len(targets) or entry.get("query") != targets[number]:
                message = f"{lines}: plan {number + 1} is of {entry.get('query')!r}"
                raise FileError(f"{message}; it belongs to other targets, choose another name or remove it")
            statuses.append(entry["status"])
            size += len(line)
    os.truncate(lines, size)
    return statuses


def write_plans(file: Path, plans: Sequence[tuple[Plan, Evidence]], *, as_list: bool = False) -> None:
    """Write plans, each with the precedents of its steps, as `PlanFile` does; several or none are a list."""
    output = PlanFile(file)
    for entry in plans:
        output.add(*entry)
    output.write(as_list=as_list or len(plans) != 1)
