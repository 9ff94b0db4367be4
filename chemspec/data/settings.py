"""What to make of reaction files; apart from the code that does it, because that needs RDKit."""

from __future__ import annotations

from dataclasses import dataclass

from chemspec.settings import Task


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """What makes a data set; written beside it, so that a different request does not reuse old shards.

    Attributes:
        variants: ways in which each reaction is written (the first has the canonical source).
        flat_share: share of the variants without stereochemistry.
        leave_out: columns; a row with "1" in one of them is not used (test products, say).
        clean: files without the columns of `leave_out`, because none of their rows has to be left out.
        only: columns; a row without "1" in one of them is not used (those with reagents, say).
        guess_maps: rows without atom maps get guessed ones (`atom_maps.py`) instead of being left out.
        max_tokens: longer sources or targets are left out.
        min_count: rarer tokens are no part of the vocabulary, and rows with them are left out.
        limit: use only so many rows of each file; 0 means all.
    """

    task: Task
    variants: int = 4
    flat_share: float = 0.0
    leave_out: tuple[str, ...] = ()
    clean: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    guess_maps: bool = False
    max_tokens: int = 200
    min_count: int = 5
    seed: int = 0
    limit: int = 0

    def __post_init__(self) -> None:
        if self.task not in ("forward", "retro"):
            raise ValueError(f"task {self.task!r} is not forward or retro")
        for name, least in (("variants", 1), ("max_tokens", 1), ("min_count", 1), ("limit", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        if not 0 <= self.flat_share <= 1:
            raise ValueError(f"flat_share is {self.flat_share}; it is a share between 0 and 1")
        for name in ("leave_out", "clean", "only"):
            columns = getattr(self, name)
            if isinstance(columns, str):
                raise ValueError(f"{name} is a tuple of columns; write ({columns!r},)")
