"""A chemistry of a dozen reactions, asked like a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path

from chemspec import chem
from chemspec.settings import DecodeSettings
from chemspec.stock.lists import Stock, load_stock
from chemspec.types import DecodeResult, Hypothesis, Trace
from helpers.case_tables import table

AMIDE, ESTER_AMIDE, ACID_AMIDE = "CC(=O)Nc1ccc(C(=O)NC)cc1", "COC(=O)c1ccc(NC(C)=O)cc1", "CC(=O)Nc1ccc(C(=O)O)cc1"
RETRO = dict(table("plan/toy_reactions"))
BOUGHT = ["CN", "CO", "CC(=O)Cl", "O=C(O)c1ccc([N+](=O)[O-])cc1", "[Na+].[OH-]"]


@dataclass
class Toy:
    """Answers from a table; remembers what it was asked."""

    table: Mapping[str, Sequence[tuple[str, float]]]
    digest: str = "toy"
    full_digest: str = "toy"
    dtype: str = "fp32"
    device: str = "cpu"
    runtime: str = "native"
    asked: list[list[str]] = field(default_factory=list)

    def predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
        self.asked.append(list(queries))
        return [self._answer(query, settings.n) for query in queries]

    def _answer(self, query: str, n: int) -> DecodeResult:
        if "Si" in query:
            return DecodeResult(query, "invalid", "no such token: [Si]")
        found = []
        for text, chance in self.table.get(query, [])[:n]:
            canonical = chem.canonical(text) or ""
            found.append(Hypothesis(text, canonical, bool(canonical), (), (), log(chance), chance, chance))
        return DecodeResult(query, "ok", "", tuple(found), Trace((), {}, (), 0.01))


def retro() -> Toy:
    return Toy({str(chem.canonical(product)): ways for product, ways in RETRO.items()})


def stock(folder: Path, molecules: Sequence[str] = BOUGHT) -> Stock:
    file = folder / "mine.smi"
    file.write_text("\n".join(molecules))
    return load_stock([str(file)])
