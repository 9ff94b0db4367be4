"""Saved answers, searched by text and by structure."""

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta
from rdkit import rdBase

from chemspec.chem.molecules.parsing import mol_from_smarts, mol_from_smiles
from chemspec.chem.molecules.query import has_substructure
from chemspec.jobs.store import Documents, hashed_id

Status = Literal["idea", "ordered", "tried", "worked", "failed"]
STATUSES: tuple[Status, ...] = get_args(Status)
MAX_CHARS = {"question": 100, "note": 2000}  # characters


@dataclass(frozen=True)
class SavedAnswer:
    """An answer in a collection; at most one of a query is kept under a name."""

    question: str  # the name under which it is kept
    task: str  # as of the prediction
    model: str  # as of the prediction
    query: str  # canonical SMILES
    answer: str  # canonical SMILES
    label: str = ""  # the class of the step
    chance: Annotated[float, Meta(ge=0, le=2)] = 0.0  # the probability, as it was shown; a key of saved files
    note: str = ""  # what its owner writes
    status: Status = "idea"
    added: Annotated[float, Meta(ge=0, le=4e9)] = field(default_factory=time.time)  # seconds since 1970

    @property
    def id(self) -> str:
        """The same for the same answer to the same query under the same name."""
        return hashed_id(self.question, self.task, self.query, self.answer)

    @property
    def reaction(self) -> str:
        """The reaction SMILES."""
        return f"{self.query}>>{self.answer}" if self.task == "forward" else f"{self.answer}>>{self.query}"


ANSWERS = Documents("answers", "saved answer", SavedAnswer, most=5000)


def find_matching(answers: Iterable[SavedAnswer], *, text: str = "", structure: str = "") -> list[SavedAnswer]:
    """Return the answers that match all words, also of the status, and a substructure (SMILES or SMARTS).

    Raises:
        ValueError: if the structure cannot be read.
    """
    words = text.lower().split()
    pattern = _read_pattern(structure.strip()) if structure.strip() else None
    matches = []
    for answer in answers:
        texts = (answer.question, answer.note, answer.label, answer.status, answer.query, answer.answer)
        about = " ".join(texts).lower()
        if all(word in about for word in words) and (
            pattern is None or any(has_substructure(smiles, pattern) for smiles in (answer.query, answer.answer))
        ):
            matches.append(answer)
    return matches


def _read_pattern(text: str) -> Any:
    with rdBase.BlockLogs():
        pattern = (mol_from_smiles(text) or mol_from_smarts(text)) if len(text) <= 500 else None
    if pattern is None:
        raise ValueError("the structure is neither a SMILES nor a SMARTS")
    return pattern


def answer_row(answer: SavedAnswer) -> dict[str, object]:
    """Return an answer as a row of a table."""
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(answer.added))
    cells = asdict(answer) | {"probability": f"{answer.chance:.6g}", "added": when, "reaction": answer.reaction}
    del cells["chance"]
    return {"collection": cells.pop("question"), **cells}
