"""What is dangerous in a reaction, as far as structures show it, by a table written by hand (`hazards.tsv`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path

from rdkit import rdBase

from chemspec.chem.flask_check import Patterns, holds, read_patterns

TABLE = Path(__file__).with_name("hazards.tsv")


@lru_cache(maxsize=4000)
def hazards(left: str, right: str) -> tuple[str, ...]:
    """Return what is dangerous about a reaction of canonical SMILES, in words; empty if the table has nothing about it.

    Amounts, concentrations and conditions are not known: no word is no proof of safety.
    """
    parts = dict.fromkeys([*left.split("."), *right.split(".")])
    with rdBase.BlockLogs():
        return tuple(sentence for patterns, sentence in _rows() if holds(tuple(parts), patterns))


@cache
def _rows() -> Sequence[tuple[Patterns, str]]:
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return [(read_patterns(patterns), sentence) for patterns, sentence in (line.split("\t") for line in lines)]
