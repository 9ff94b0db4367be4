"""Text whose characters keep their positions in the original, so that a fault points into what was typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from chemspec.chem.molecules.smiles_syntax import Fault


@dataclass(frozen=True)
class TracedText:
    """Characters, each with its position in the text that the user typed."""

    chars: str
    positions: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> TracedText:
        """Trace a whole text."""
        return cls(text, tuple(range(len(text))))

    def __getitem__(self, cut: slice) -> TracedText:
        return TracedText(self.chars[cut], self.positions[cut])

    def strip(self, chars: str | None = None) -> TracedText:
        """Strip white space, or these characters, from both ends."""
        start = len(self.chars) - len(self.chars.lstrip(chars))
        return self[start : start + len(self.chars.strip(chars))]

    def substitute(self, pattern: re.Pattern[str], replacement: Callable[[re.Match[str]], str]) -> TracedText:
        """Replace matches of a pattern; a replacement has the position where its match began."""
        chars: list[str] = []
        positions: list[int] = []
        end = 0
        for match in pattern.finditer(self.chars):
            new = replacement(match)
            chars += (self.chars[end : match.start()], new)
            positions += self.positions[end : match.start()]
            positions += [self.positions[match.start()] if match.start() < len(self.positions) else 0] * len(new)
            end = match.end()
        if not end:
            return self
        return TracedText("".join((*chars, self.chars[end:])), (*positions, *self.positions[end:]))

    def split(self, pattern: re.Pattern[str]) -> Iterator[TracedText]:
        """Split at matches of a pattern; yields stripped pieces that are not empty."""
        start = 0
        for match in pattern.finditer(self.chars):
            if piece := self[start : match.start()].strip():
                yield piece
            start = match.end()
        if piece := self[start:].strip():
            yield piece

    def __bool__(self) -> bool:
        return bool(self.chars)

    @property
    def span(self) -> tuple[int, int]:
        """Where this text begins and ends in what the user typed."""
        return (self.positions[0], self.positions[-1] + 1) if self.positions else (0, 0)

    def fault(self, message: str, kind: str = "other", choices: tuple[str, ...] = ()) -> Fault:
        """Return a fault of all of this text, and what may be meant instead."""
        return Fault(message, *self.span, kind, choices)

    def restore(self, fault: Fault) -> Fault:
        """Return the same fault, pointing into the text that the user typed."""
        covered = self.positions[fault.start : fault.end] or self.positions[-1:] or (0,)
        return Fault(fault.message, covered[0], covered[-1] + 1, fault.kind, fault.choices)
