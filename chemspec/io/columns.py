"""Find the query column of a table by its usual names in data sets and vendors' lists (`TaskSpec.named`).

An arrow separates the columns of the two sides of a reaction, "|" alternative names of one column.
"""

import re
from collections.abc import Sequence

from chemspec.chem import ARROW
from chemspec.settings import Task
from chemspec.tasks import TASKS

FIRST = ("smiles", "query")  # these have priority
MOLECULES = (
    *("canonical", "isomeric", "isosmiles", "iso", "canonicalsmiles", "cansmiles", "isomericsmiles", "absolute"),
    *("connectivity", "connectivitysmiles", "pubchem_openeye_iso", "pubchem_openeye_can", "pubchem", "openeye"),
    *("pubchem_connectivity", "cxsmiles", "structure", "structures", "smi", "molecule_structure"),
)
SIDES = ("source|src>>target|tgt", "input>>output")  # of parallel files, for tasks about whole reactions
LAST = ("source", "src", "input")  # last resort: "source" may also mean a patent
EMPTY = {  # not Na, which is sodium
    "", "-", "--", "NA", "na", "N/A", "n/a", "n.a.", "N.A.", "#N/A", "#NA", "<NA>", "NaN", "nan", "NAN", "None", "none",
    "NONE", "null", "Null", "NULL", "nil", "NaT", "#VALUE!", "#REF!", "#NAME?",
}  # fmt: skip


def find_query_columns(names: Sequence[str], task: Task | None = None) -> tuple[int, ...]:
    """Return the index of the query column for a task (or for any task); empty if there is none.

    Two indices are the sides of a reaction, for tasks on whole reactions if no column has whole reactions.
    """
    index_of_key = {_normalise_name(name): index for index, name in reversed([*enumerate(names)])}
    task_names = [name for spec in TASKS.values() if task in (None, spec.name) for name in spec.named]
    sides = SIDES if task is not None and TASKS[task].whole else ()
    # With whole reactions, from which every task takes its side.
    reactions = [name for spec in TASKS.values() if spec.whole for name in spec.named if ARROW not in name]
    for name in (*FIRST, *task_names, *reactions, *MOLECULES, *sides, *LAST):
        indices = [
            next((index_of_key[alternative] for alternative in side.split("|") if alternative in index_of_key), None)
            for side in name.split(ARROW)
        ]
        if None not in indices:
            return tuple(index for index in indices if index is not None)
    written = [index for index, name in enumerate(names) if "smiles" in name.lower()]
    return tuple(written) if len(written) == 1 else ()


def find_header(rows: Sequence[Sequence[str]], column: str = "") -> int:
    """Return which of the first rows of a table holds the names of its columns: `column`, or else usual ones.

    Comments and titles may stand above it: rows that begin with `#`, or that fill fewer cells.
    """
    first = next((at for at, row in enumerate(rows) if not is_comment(row[0] if row else "")), 0)
    widest = 0
    for at, row in enumerate(rows[first:], first):
        filled = sum(bool(cell.strip()) for cell in row)
        if filled > widest and (columns_by_name(row, column) if column else find_query_columns(row)):
            return at
        widest = max(widest, 0 if is_comment(row[0] if row else "") else filled)
    return first


def columns_by_name(names: Sequence[str], column: str) -> tuple[int, ...]:
    """Return the index of a column by its name, or of two by "a>>b"; empty if there is none."""
    sides = [column] if column in names else column.split(ARROW)
    return tuple(map(names.index, sides)) if set(sides) <= set(names) else ()


def is_comment(line: str) -> bool:
    """Return whether a line is a comment: no SMILES and no name begins with `#`."""
    return line.lstrip('\ufeff \t"').startswith("#")


def ambiguity_note(names: Sequence[str], indices: Sequence[int]) -> str:
    """Return a note on which columns are read if other columns have usual names too; else empty."""
    usual_keys = {
        alternative for spec in TASKS.values() for name in spec.named for alternative in re.split(r">>|\|", name)
    } | {*FIRST}
    others = [name for index, name in enumerate(names) if index not in indices and _normalise_name(name) in usual_keys]
    if not others and len(indices) == 1:
        return ""
    columns_read = ARROW.join(names[index] for index in indices)
    return f"the queries are read from {columns_read}" + (f", not from {', '.join(others)}" if others else "")


def query_of_row(row: Sequence[str], indices: Sequence[int]) -> str:
    """Return the query of a row, empty for an empty row, or where a cell says that there is none (NaN, N/A)."""
    cells = ["" if row[index].strip() in EMPTY else row[index] for index in indices]
    return ARROW.join(cells) if any(cells) else ""


def _normalise_name(name: str) -> str:
    parted = re.sub(r"(?<=[a-z])(?=[A-Z][a-z]|SMILES)", "_", name.strip().strip("\ufeff\"'"))  # ReactionSmiles
    plain = re.sub(r"[\s().:/-]+", "_", parted.lower()).strip("_")
    return re.sub("(?<=.)(?:_string|_str)$", "", plain).removesuffix("_smiles")
