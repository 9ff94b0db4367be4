"""Progress events of a stream: the text so far, and the counts of a forward pass."""

from __future__ import annotations

from typing import Any

from chemspec.importers.base import TextTokenizer
from chemspec.types import Pass


class Progress:
    """Tree of prefixes over the passes of a search."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self._parents: list[int] = []
        self._tokens: list[int] = []
        self._passes = 0

    def describe_pass(self, event: Pass) -> dict[str, Any]:
        """Return the text of the leading hypothesis before the pass, and the counts of the pass."""
        self._passes += 1
        text = ""
        if event.grown is not None:
            if event.grown.parents[:1] == (-1,):  # bos: a new search has started
                self._parents, self._tokens = [], []
            self._parents += event.grown.parents
            self._tokens += event.grown.tokens
            text = self._text_of_node(event.grown.beam[0]) if event.grown.beam else ""
        counts = ("asked", "computed", "drafted", "emitted", "accepted", "width")
        return {"pass": self._passes, "text": text, **{name: getattr(event, name) for name in counts}}

    def _text_of_node(self, node: int) -> str:
        ids = []
        while node >= 0:
            ids.append(self._tokens[node])
            node = self._parents[node]
        return self._tokenizer.decode(ids[-2::-1])  # reversed, without bos
