"""What was fitted for a model's drafters, made by `chemspec train calibrate`.

A model's folder has it in two files: `drafting.safetensors` holds the table of edits, `drafting.json` all the rest. In
folders of version 0.2 the table is in `drafting.json` too. A model without a table of its own drafts with the default
one of its task (`assets/drafting`), whose tokens are matched by their texts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chemspec.asset_files import assets
from chemspec.draft.tree.edit_ngrams import EDGES, EditNgramTable
from chemspec.draft.tree.table_file import load_shared_table, load_table, save_table
from chemspec.system.untrusted import read_untrusted_json

FILE, TABLE_FILE = "drafting.json", "drafting.safetensors"
REACH = 8  # matches of this length or longer are counted as one class
# Without measurements: of tokens copied after no match one in three is accepted, after one token two in three, ...
BY_MATCH = (1 / 3, 0.62, 0.75, 0.82, 0.86, 0.9, 0.93, 0.93, 0.93)
# Acceptance rates by the class of the edit table's probability: see `edit_ngrams.chance_class`.
BY_CHANCE = (0.03, 0.07, 0.15, 0.27, 0.42, 0.57, 0.72, 0.85, 0.92, 0.965, 0.99)


@dataclass(frozen=True)
class Head:
    """A cross-attention head that points at what is being copied, and the weights of its log-attention.

    Attributes:
        layer: its decoder layer, counted from 0.
        head: its number in the layer, counted from 0.
        last: weight of its attention to the token before a position (the one just written, if it was copied).
        here: weight of its attention to the token at the position.
    """

    layer: int
    head: int
    last: float
    here: float


@dataclass(frozen=True)
class AttentionWeights:
    """A log-linear model of where copying goes on, by which `attention` ranks the positions in the query.

    Attributes:
        heads: what it reads, in order of layer and number.
        match: gain for a match of 0, 1, ... tokens with the last ones written; the last is for all longer ones.
        away: gain per ln(1 + tokens between the position and the pointer).
    """

    heads: tuple[Head, ...]
    match: tuple[float, ...]
    away: float


@dataclass(frozen=True)
class DrafterCalibration:
    """Everything that is stored; a model without a file has the defaults.

    Attributes:
        by_match: acceptance rates of tokens copied after a match of 0, 1, ... tokens, on validation queries.
        by_chance: acceptance rates of steps by the class of the probability that the edit table gave them.
        edit_table: the table of edits, if there is one.
        attention_weights: heads of the cross-attention and their weights, if fitted; "reading" in the file.
        made: the command and the data that made it, for people.
    """

    by_match: tuple[float, ...] = BY_MATCH
    by_chance: tuple[float, ...] = BY_CHANCE
    edit_table: EditNgramTable | None = None
    attention_weights: AttentionWeights | None = None
    made: str = ""

    def save(self, folder: Path) -> None:
        """Write the files of a model folder, each by way of a temporary one."""
        attention_weights = self.attention_weights
        values: dict[str, Any] = {
            "made": self.made,
            "by_match": [round(rate, 4) for rate in self.by_match],
            "by_chance": [round(rate, 4) for rate in self.by_chance],
            "reading": attention_weights
            and {
                "heads": [
                    [one.layer, one.head, round(one.last, 4), round(one.here, 4)] for one in attention_weights.heads
                ],
                "match": [round(gain, 4) for gain in attention_weights.match],
                "away": round(attention_weights.away, 4),
            },
        }
        if self.edit_table is None:
            (folder / TABLE_FILE).unlink(missing_ok=True)
        else:
            save_table(folder / TABLE_FILE, self.edit_table)
        lines = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in values.items()]
        partial = folder / f"{FILE}.partial"
        try:
            partial.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
            partial.replace(folder / FILE)
        finally:
            partial.unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: Path, *, vocab_size: int, layers: int, heads: int) -> DrafterCalibration:
        """Read a model folder's files; the defaults if there are none.

        Raises:
            ValueError: naming the file, if it is damaged or belongs to another model.
        """
        file, table_file = folder / FILE, folder / TABLE_FILE
        try:
            values = read_untrusted_json(file) if file.is_file() else {}
            if not isinstance(values, dict):
                raise ValueError("it does not hold a JSON object")
            attention_weights, edit_table = values.get("reading"), values.get("phrases")
            calibration = cls(
                by_match=_rates(values.get("by_match", BY_MATCH), REACH + 1, "by_match"),
                by_chance=_rates(values.get("by_chance", BY_CHANCE), len(EDGES) + 1, "by_chance"),
                edit_table=None if edit_table is None else EditNgramTable.from_json(edit_table, vocab_size),
                attention_weights=None
                if attention_weights is None
                else _attention_weights(attention_weights, layers, heads),
                made=str(values.get("made", "")),
            )
            if edit_table is None and table_file.is_file():
                file = table_file
                calibration = replace(calibration, edit_table=load_table(file, vocab_size))
        except (OSError, ValueError, TypeError, KeyError) as error:
            remedy = "remove it, or make it anew with `chemspec train calibrate`"
            raise ValueError(f"{file}: {error}; {remedy}") from error
        return calibration


def default_table(task: str, tokens: Sequence[str]) -> EditNgramTable | None:
    """Return the table that ships for a task, in the ids of a vocabulary; None where it is of no use to that.

    Raises:
        ValueError: naming the file, if it is damaged.
    """
    file = _default_file(task)
    if not file.is_file():
        return None
    try:
        return load_shared_table(file, tokens)
    except (OSError, ValueError) as error:
        raise ValueError(f"{file}: {error}; install chemspec again") from error


def source_of_edits(folder: Path, task: str) -> str:
    """Return whose table of edits a model drafts with: "own", "default", or "none" where it only copies."""
    file = folder / FILE
    if (folder / TABLE_FILE).is_file() or (file.is_file() and '"phrases": {' in file.read_text(errors="replace")):
        return "own"
    return "default" if _default_file(task).is_file() else "none"


def _default_file(task: str) -> Path:
    return assets() / "drafting" / f"{task}.safetensors"


def _rates(values: Sequence[float], count: int, name: str) -> tuple[float, ...]:
    if len(values) != count or not all(0 <= float(rate) <= 1 for rate in values):
        raise ValueError(f"{name} does not hold {count} shares between 0 and 1")
    return tuple(map(float, values))


def _attention_weights(values: dict[str, Any], layers: int, heads: int) -> AttentionWeights:
    found = tuple(
        sorted(
            (Head(int(layer), int(head), float(last), float(here)) for layer, head, last, here in values["heads"]),
            key=lambda one: (one.layer, one.head),
        )
    )
    for one in found:
        if not (0 <= one.layer < layers and 0 <= one.head < heads):
            raise ValueError(f"the model has no head {one.head} in a layer {one.layer}")
    match = tuple(map(float, values["match"]))
    if not match or not found:
        raise ValueError("the reading has no heads or no gains for matches")
    return AttentionWeights(found, match, float(values["away"]))
