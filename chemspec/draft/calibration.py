"""Calibration of a model's drafters, fitted by `chemspec train calibrate`.

The edit table is in `drafting.safetensors`, everything else in `drafting.json`. A model without a table uses its task's
default (`assets/drafting`), whose tokens are matched by their text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chemspec.asset_files import assets_folder
from chemspec.draft.tree.edit_ngrams import EDGES, EditNgramTable
from chemspec.system.files import write_text_atomic
from chemspec.system.untrusted import read_untrusted_json

FILE, TABLE_FILE = "drafting.json", "drafting.safetensors"
# Default acceptance rates by the class of the edit table's probability, see `edit_ngrams.probability_class`.
DEFAULT_ACCEPT_RATES = (0.03, 0.07, 0.15, 0.27, 0.42, 0.57, 0.72, 0.85, 0.92, 0.965, 0.99)


@dataclass(frozen=True)
class DrafterCalibration:
    """Calibration of a model's drafters; a model without files has the defaults."""

    # Acceptance rates by the class of the edit table's probability, on validation queries.
    accept_rates: tuple[float, ...] = DEFAULT_ACCEPT_RATES
    edit_table: EditNgramTable | None = None  # the edit table, if there is one
    made: str = ""  # command and data it was made with, for people

    def save(self, folder: Path) -> None:
        """Write the files to a model folder, atomically."""
        from chemspec.draft.tree.table_file import save_table  # imports numpy, which listing the names does not need

        values: dict[str, Any] = {"made": self.made, "by_chance": [round(rate, 4) for rate in self.accept_rates]}
        if self.edit_table is None:
            (folder / TABLE_FILE).unlink(missing_ok=True)
        else:
            save_table(folder / TABLE_FILE, self.edit_table)
        lines = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in values.items()]
        write_text_atomic(folder / FILE, "{\n" + ",\n".join(lines) + "\n}\n")

    @classmethod
    def load(cls, folder: Path, *, vocab_size: int) -> DrafterCalibration:
        """Load the files of a model folder, if there are any; raises ValueError, naming the file, for unusable ones.

        Attention weights and tables in `drafting.json`, as of versions before 0.3, are ignored.
        """
        file, table_file = folder / FILE, folder / TABLE_FILE
        try:
            values = read_untrusted_json(file) if file.is_file() else {}
            if not isinstance(values, dict):
                raise ValueError("it does not hold a JSON object")
            rates, edit_table = values.get("by_chance", DEFAULT_ACCEPT_RATES), None
            if len(rates) != len(EDGES) + 1 or not all(0 <= float(rate) <= 1 for rate in rates):
                raise ValueError(f"by_chance does not hold {len(EDGES) + 1} shares between 0 and 1")
            if table_file.is_file():
                from chemspec.draft.tree.table_file import load_table

                file = table_file
                edit_table = load_table(file, vocab_size)
        except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
            remedy = "remove it, or create it again with `chemspec train calibrate`"
            raise ValueError(f"{file}: {error}; {remedy}") from error
        return cls(tuple(map(float, rates)), edit_table, str(values.get("made", "")))


def default_table(task: str, tokens: Sequence[str]) -> EditNgramTable | None:
    """Return a task's default edit table for a vocabulary; None if that is too different, ValueError if damaged."""
    file = _default_file(task)
    if not file.is_file():
        return None
    from chemspec.draft.tree.table_file import load_shared_table

    try:
        return load_shared_table(file, tokens)
    except (OSError, ValueError) as error:
        raise ValueError(f"{file}: {error}; install chemspec again") from error


def source_of_edits(folder: Path, task: str) -> str:
    """Return the source of a model's edit table: "own", "default", or "none" if it only copies."""
    if (folder / TABLE_FILE).is_file():
        return "own"
    return "default" if _default_file(task).is_file() else "none"


def _default_file(task: str) -> Path:
    return assets_folder() / "drafting" / f"{task}.safetensors"
