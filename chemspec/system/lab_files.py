"""A lab's own things: files in folders of CHEMSPEC_HOME, and files that installed packages add.

The folders `stock`, `names`, `hazards` and `classes` of CHEMSPEC_HOME are read at every door. A package adds a file by
an entry point of the group `chemspec.stock`, `chemspec.names`, ...: a path, or a function that returns one. A text file
may begin with lines such as `# title: Freezer`, `# currency: EUR` and `# date: 2026-11-01`.
"""

import csv
import gzip
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Literal

from chemspec.system.files import home_folder
from chemspec.system.stand_ins import refuse_stand_in

Kind = Literal["stock", "names", "hazards", "classes"]
BINARY = (".xlsx",)  # endings of files without lines
MAX_HEAD = 4096  # bytes in which the facts of a file stand
_FACT = re.compile(r"#\s*(title|currency|date)\s*:\s*(.*\S)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class LabFile:
    """A file of a lab, and what its first lines say."""

    path: Path
    title: str  # the name of the file by default
    currency: str = ""  # currency of prices that state none; empty if unknown
    date: str = ""  # date of the last change of the file by default
    stamp: tuple[int, int] = field(default=(0, 0), repr=False)  # time of the last change, and size

    @property
    def label(self) -> str:
        """Title, date and currency, for menus."""
        return f"{self.title} ({', '.join(filter(None, (self.date, self.currency)))})"


def lab_folder(kind: Kind) -> Path:
    """Return the folder of a kind of files; it may be missing."""
    return home_folder() / kind


def lab_files(kind: Kind) -> dict[str, LabFile]:
    """Return the files of a kind by name: those of plug-ins, and those of CHEMSPEC_HOME, which replace them."""
    paths = {path.name: path for path in _plugin_files(kind)}
    try:
        in_home = sorted(path for path in lab_folder(kind).iterdir() if path.is_file() and path.name[0] not in "._~")
    except (OSError, RuntimeError):  # there is no such folder, or no home
        in_home = []
    return {name: described for name, path in (paths | {path.name: path for path in in_home}).items()
            if (described := _describe(path))}  # fmt: skip


def split_facts(raw: bytes, name: str) -> tuple[dict[str, str], bytes]:
    """Return what the first lines of a text say about it, and the bytes behind them."""
    facts: dict[str, str] = {}
    if name.lower().endswith(BINARY):
        return facts, raw
    body = raw.removeprefix(b"\xef\xbb\xbf")
    while body.startswith(b"#"):
        line, _, rest = body.partition(b"\n")
        if not (match := _FACT.fullmatch(line.decode("utf-8", "replace").strip())):
            break
        facts[match[1].lower()] = match[2]
        body = rest
    return facts, body if facts else raw


def read_lab_table(kind: Kind, columns: range, check: Callable[[Sequence[str]], object]) -> list[list[str]]:
    """Return the rows of all tables of a kind, CSV or parted by tabs, with a warning for each that cannot be used.

    `columns`: how many cells a row may have. `check` raises ValueError for a row that cannot be used.
    """
    rows = []
    for name, file in lab_files(kind).items():
        for number, row in _numbered_rows(file.path):
            try:
                if len(row) not in columns:
                    raise ValueError(f"it has {len(row)} cells, not {columns[0]} to {columns[-1]}")
                check(row)
            except ValueError as error:
                warnings.warn(f"{kind}/{name}, line {number} is not used: {error}", RuntimeWarning, stacklevel=2)
            else:
                rows.append(row)
    return rows


def _numbered_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        refuse_stand_in(path, "it")
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        warnings.warn(f"{path} is not used: {error}", RuntimeWarning, stacklevel=3)
        return
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            cells = next(csv.reader([line])) if path.suffix.lower() == ".csv" else line.split("\t")
            if number == 1 + sum(each.startswith("#") for each in lines[: number - 1]) and cells[0].lower() in HEADINGS:
                continue
            yield number, [cell.strip() for cell in cells]


HEADINGS = ("smiles", "patterns", "pattern", "smarts", "family")  # names of the first column in a line of headings


def _describe(path: Path) -> LabFile | None:
    try:
        state = path.stat()
        return _described(path, (state.st_mtime_ns, state.st_size))
    except OSError as error:
        warnings.warn(f"{path} cannot be read: {error.strerror}", RuntimeWarning, stacklevel=3)
        return None


@cache
def _described(path: Path, stamp: tuple[int, int]) -> LabFile:
    """Return a file with its facts, read again only after a change."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        try:
            head = file.read(MAX_HEAD)
        except (OSError, EOFError):  # no gzip, which is reported when the whole file is read
            head = b""
    facts, _ = split_facts(head, path.name)
    changed = datetime.fromtimestamp(stamp[0] / 1e9, UTC).date().isoformat()
    title = facts.get("title") or path.name.partition(".")[0]
    return LabFile(path, title, facts.get("currency", ""), facts.get("date", changed), stamp)


@cache
def _plugin_files(kind: Kind) -> tuple[Path, ...]:
    from importlib.metadata import entry_points  # slow to import

    paths = []
    for entry in entry_points(group=f"chemspec.{kind}"):
        try:
            value = entry.load()
            path = Path(value() if callable(value) else value)
            if not path.is_file():
                raise FileNotFoundError(f"there is no file {path}")
        except Exception as error:  # a faulty plug-in must not break chemspec
            what = f"the {kind} {entry.name!r} of {entry.value} cannot be used: {error}"
            warnings.warn(what, RuntimeWarning, stacklevel=3)
        else:
            paths.append(path)
    return tuple(paths)
