"""Own reactions: rows of a table become reactions or faults, and precedents at every door.

Each table is kept in the folder `reactions` of CHEMSPEC_HOME: NAME.csv and, for searches, its index NAME.safetensors.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import chemspec.chem as chem
from chemspec.chem import formats
from chemspec.chem.reactions.stoichiometry import missing_elements
from chemspec.precedents.build import build_index
from chemspec.precedents.change import change_of
from chemspec.precedents.installation import own_folder
from chemspec.system.files import make_private_folder, write_bytes_atomic, write_text_atomic
from chemspec.types import Progress, ignore

MAX_REACTIONS = 10_000
SECONDS = 2.0  # of processor time for the atom map of a reaction
COLUMNS = ("row", "label", "product", "reactants", "reactants_and_reagents", "main_product")


@dataclass(frozen=True)
class OwnReaction:
    """A reaction of a table."""

    row: int  # its row, the first below the header being 1
    product: str  # canonical SMILES of one molecule
    reactants: str  # canonical SMILES of the molecules that give atoms to the product
    flask: str  # canonical SMILES of all that was in the flask
    label: str  # what the table calls it, or its row

    @property
    def cells(self) -> dict[str, str]:
        """The reaction as a row of a table with the columns that training and the index read."""
        cells = (str(self.row), self.label, self.product, self.reactants, self.flask, self.product)
        return dict(zip(COLUMNS, cells, strict=True))


def reaction_of_cells(cells: Sequence[str]) -> OwnReaction:
    """Return the reaction of cells in the order of `COLUMNS`."""
    row, label, product, reactants, flask, _ = cells
    return OwnReaction(int(row), product, reactants, flask, label)


@dataclass(frozen=True)
class OwnTable:
    """What a table holds."""

    reactions: tuple[OwnReaction, ...]
    faults: tuple[tuple[int, str], ...]  # row and what is wrong with it


def read_reactions(texts: Sequence[str], labels: Sequence[str] = (), *, progress: Progress = ignore) -> OwnTable:
    """Read reactions such as `A.B>C>D`, also by names, one text per row; a row that cannot be used is a fault."""
    if len(texts) > MAX_REACTIONS:
        raise ValueError(f"the table has {len(texts):,} rows; {MAX_REACTIONS:,} are the limit, so split it")
    reactions: list[OwnReaction] = []
    faults: list[tuple[int, str]] = []
    rows: dict[tuple[str, str], int] = {}
    for row, text in enumerate(texts, 1):
        label = "".join(labels[row - 1 : row]).strip()[:60] or f"row {row}"
        try:
            reaction = _read_reaction(text, row, label)
            if (first := rows.setdefault((reaction.product, reaction.flask), row)) != row:
                raise ValueError(f"the same reaction as in row {first}; it counts once")
        except ValueError as error:
            faults.append((row, str(error)))
        else:
            reactions.append(reaction)
        progress(row, len(texts))
    return OwnTable(tuple(reactions), tuple(faults))


LABELS = re.compile(r"\b(eln|id|label|entry|experiment|notebook|name|code|number|no)\b", re.IGNORECASE)


def find_labels(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return what a table calls its rows: the cells of the first column with such a heading; none without it."""
    index = next((index for index, name in enumerate(columns) if LABELS.search(name.replace("_", " "))), None)
    return [] if index is None else [row[index] for row in rows]


def _read_reaction(text: str, row: int, label: str) -> OwnReaction:
    """Return the reaction of a text; ValueError says why there is none."""
    if not text.strip():
        raise ValueError("there is no reaction")
    read = formats.read_input(text, task="reagents")
    if not isinstance(read, formats.Input):
        raise ValueError(read.message)
    left, _, right = read.smiles.partition(chem.ARROW)
    product, flask = chem.main_product(right), chem.canonical(".".join(filter(None, (left, read.agents))))
    if not product or not flask:
        raise ValueError("one side of the reaction cannot be read")
    if product in flask.split("."):
        raise ValueError("the product is among the reactants")
    if lacking := missing_elements(flask, product):
        atoms = ", ".join(f"{count} {element}" for element, count in sorted(lacking.items()))
        raise ValueError(f"the reactants lack atoms of the product: {atoms}")
    change = change_of(flask, product, seconds=SECONDS)
    if change is None:
        raise ValueError("it cannot be seen which atoms change")
    return OwnReaction(row, product, ".".join(change.givers), flask, label)


def keep_reactions(name: str, reactions: Iterable[OwnReaction], *, progress: Progress = ignore) -> Path:
    """Keep a table under this name, in place of an older one; its reactions are precedents from then on.

    Returns its file. ValueError without a usable reaction, OSError if it cannot be written.
    """
    folder = make_private_folder(own_folder())
    file = folder / f"{table_name(name)}.csv"
    write_reactions(file, reactions)
    index = file.with_suffix(".safetensors")
    new = folder / f".{file.stem}.safetensors"
    build_index([file], new, workers=1, progress=progress)
    write_bytes_atomic(index, new.read_bytes(), private=True)
    new.unlink()
    return file


def write_reactions(file: Path, reactions: Iterable[OwnReaction]) -> None:
    """Write reactions as a CSV."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(reaction.cells for reaction in reactions)
    write_text_atomic(file, text.getvalue(), private=True)


def load_reactions(file: Path) -> list[OwnReaction]:
    """Read a CSV of `write_reactions`."""
    with file.open(encoding="utf-8", newline="") as lines:
        return [reaction_of_cells(cells) for cells in islice(csv.reader(lines), 1, None)]


def kept_tables() -> dict[str, int]:
    """Return the kept tables by name, with the number of their reactions."""
    files = sorted(own_folder().glob("*.csv"))
    return {file.stem: max(0, file.read_text(encoding="utf-8").count("\n") - 1) for file in files}


def forget_table(name: str) -> None:
    """Remove a table; what was taught with it stays."""
    for ending in (".safetensors", ".csv"):
        (own_folder() / f"{table_name(name)}{ending}").unlink(missing_ok=True)


def table_name(name: str) -> str:
    """Return a name that a file can have: letters, digits, hyphens."""
    return re.sub(r"[^\w-]+", "-", name).strip("-_")[:40] or "reactions"
