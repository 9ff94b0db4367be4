"""What readers return: the molecules of a text, or of each side of a reaction, and the query made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import chemspec.chem as chem
from chemspec.chem.molecules.smiles_syntax import Fault

OTHER_SIDE = "the other side cannot be read"
EXPORT = "export the structure as molfile, RXN or SMILES"
DRAW = "draw the one that is meant"


class RefusedError(ValueError):
    """A part of a drawing that stands for no certain molecule; `kind` is that of the fault."""

    def __init__(self, message: str, kind: str = "other") -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Input:
    """A query read from some format."""

    smiles: str  # canonical, without atom maps
    kind: str  # "SMILES", "reaction SMILES", "molfile", "SDF", "RXN", "RDF", "InChI", "CDXML", "KET" or "name"
    notes: tuple[str, ...]  # what was changed or left out
    ordered: str = ""  # the same molecules in the order of the text, the ions of a salt side by side
    # of a reaction the side that is not the query, ordered likewise: its product, or its reactants and agents; empty of
    # anything else, and where the whole reaction is the query
    other: str = ""
    steps: tuple[str, ...] = ()  # texts of the further steps that stood in the text, of which this is the first
    agents: str = ""  # what stands between the arrows of a whole reaction, which is no part of the query

    @property
    def reaction(self) -> str:
        """The whole reaction as SMILES, the query on its side of the arrow; empty where none was read."""
        if chem.ARROW in self.ordered:
            return self.ordered.replace(chem.ARROW, f">{self.agents}>")
        sides = (self.other, self.ordered) if side_note("retro") in self.notes else (self.ordered, self.other)
        return ">>".join(sides) if self.other else ""


@dataclass(frozen=True)
class Molecules:
    """Molecules or SMILES that were read, and what to say about them."""

    parts: Sequence[Any]
    notes: tuple[str, ...] = ()
    kind: str = ""  # kind of what was typed: "SMILES", "InChI" or "name"
    span: tuple[int, int] | None = None  # where they stand in the text; None: they are all of it
    query: chem.Query | None = None  # if they are that of one SMILES
    steps: tuple[str, ...] = ()  # the texts of further steps, each with the product of the one before


@dataclass(frozen=True)
class Reaction:
    """A reaction that was read: what stands on its sides, and the place of its arrow in the text."""

    sides: Mapping[str, Molecules | Fault]  # "reactant", "product", "agent" in this order, as far as they are there
    notes: tuple[str, ...]
    arrow: tuple[int, int]


def side_note(task: str) -> str:
    """Return the note that one side of a reaction was read."""
    if task == "retro":
        return "reaction: its product is the query, the rest is left out"
    return "reaction: its reactants and agents are the query, the product is left out"
