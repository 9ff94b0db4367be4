"""Settings of data preparation; a separate module, because the code needs RDKit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import chemspec.tasks as tasks
from chemspec.settings import Task


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Settings of a data set; stored with it, so that shards of other settings are not reused.

    Attributes:
        variants: number of SMILES variants per reaction (the first has the canonical source).
        variants_of: number of variants by file, if different.
        share_of: maximum share of all tokens by file; excess pairs are left out at random.
        flat_share: share of the variants without stereochemistry.
        leave_out: columns; a row with "1" in one of them is not used (test products, say).
        clean: files without the columns of `leave_out`, whose rows are all used.
        only: columns; a row without "1" in one of them is not used (those with reagents, say).
        guess_maps: rows without atom maps get guessed ones (`atom_maps.py`) instead of being left out.
        ignore_maps: rows with atom maps get guessed ones too, so that all targets follow one convention.
        hold_out: number of random products to hold out by file, with all reactions that form them; one reaction of each
            is written to `heldout.csv` in the output folder (`holdout.py`).
        apart_from: other files, whose products are held out.
        max_tokens: longer sources or targets are left out.
        min_count: rarer tokens are not in the vocabulary, and rows with them are left out.
        extend_vocabulary: extend the vocabulary of the initial model by new tokens.
        limit: number of rows used of each file; 0 means all.
    """

    task: Task
    variants: int = 4
    variants_of: Mapping[str, int] = field(default_factory=dict)
    share_of: Mapping[str, float] = field(default_factory=dict)
    flat_share: float = 0.0
    leave_out: tuple[str, ...] = ()
    clean: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    guess_maps: bool = False
    ignore_maps: bool = False
    hold_out: Mapping[str, int] = field(default_factory=dict)
    apart_from: tuple[str, ...] = ()
    max_tokens: int = 200
    min_count: int = 5
    extend_vocabulary: bool = False
    seed: int = 0
    limit: int = 0

    def __post_init__(self) -> None:
        tasks.check_task(self.task)
        for name, least in (("variants", 1), ("max_tokens", 1), ("min_count", 1), ("limit", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        if not 0 <= self.flat_share <= 1:
            raise ValueError(f"flat_share is {self.flat_share}; it is a share between 0 and 1")
        for name in ("variants_of", "hold_out"):
            for file, count in getattr(self, name).items():
                if count < 1:
                    raise ValueError(f"{name} of {file} is {count}; it must be at least 1")
        shares = self.share_of.values()
        if not all(0 < share < 1 for share in shares) or sum(shares) >= 1:
            raise ValueError(f"share_of is {dict(self.share_of)}; shares lie between 0 and 1 and leave something over")
        if self.ignore_maps and not self.guess_maps:
            raise ValueError("ignore_maps needs guess_maps: without either no row can be aligned")
        for name in ("leave_out", "clean", "only", "apart_from"):
            if isinstance(columns := getattr(self, name), str):
                raise ValueError(f"{name} is a tuple; write ({columns!r},)")
