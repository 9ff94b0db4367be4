"""Tell of a pass what a stream's reader can use: the text so far, and what the pass did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from chemspec.types import Pass


class Decodes(Protocol):
    """A tokenizer, as far as it is needed."""

    def decode(self, ids: Sequence[int]) -> str: ...  # noqa: D102


class Progress:
    """The tree of prefixes, as it grows from pass to pass."""

    def __init__(self, tokenizer: Decodes) -> None:
        self._tokenizer = tokenizer
        self._parents: list[int] = []
        self._tokens: list[int] = []
        self._passes = 0

    def told(self, event: Pass) -> dict[str, Any]:
        """Return the text of the leading hypothesis with which the pass began, and counts."""
        self._passes += 1
        text = ""
        if event.grown is not None:
            if event.grown.parents[:1] == (-1,):  # bos: another search has begun
                self._parents, self._tokens = [], []
            self._parents += event.grown.parents
            self._tokens += event.grown.tokens
            text = self._text(event.grown.beam[0]) if event.grown.beam else ""
        counts = ("asked", "computed", "drafted", "emitted", "accepted", "width")
        return {"pass": self._passes, "text": text, **{name: getattr(event, name) for name in counts}}

    def _text(self, node: int) -> str:
        ids = []
        while node >= 0:
            ids.append(self._tokens[node])
            node = self._parents[node]
        return self._tokenizer.decode(ids[-2::-1])  # without bos, which comes last here
