"""A table model, and a function that runs decoders on it.

To test a drafter, compare `run` with and without it:

    table, decoder = Table(seed=0, copying=3.0), lambda _: beam_search(width=5, max_len=20)
    plain, _ = run(decoder, sources, table, NoDrafts(), max_len=20)
    drafted, passes = run(decoder, sources, table, MyDrafts(), max_len=20)
    assert drafted == plain
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from random import Random
from typing import Any

import numpy as np

from chemspec.decode.generate import open_decoding
from chemspec.decode.protocol import Decoder, LoopOptions
from chemspec.draft.base import Drafter
from chemspec.model.runner import Backend, Floats, Ints, NodeBatch, Runner
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import FinishedSequence, Pass, Prefix


class Table:
    """A backend without weights whose log-probs are a hash of source and prefix.

    Its runner reconstructs every node's prefix from the parents and depths given by the session and raises
    AssertionError if they are inconsistent.

    Attributes:
        calls: the (source, prefix) of each computed node, for every forward pass.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        vocab_size: int = 10,  # with the four special tokens; pad and bos are impossible
        sharpness: float = 3.0,  # spread of the logits
        copying: float = 0.0,  # added to the logit of the source's token at the predicted position
        levels: int = 0,  # if not 0, number of different logits, which causes ties; with 1 all tokens are equal
    ) -> None:
        self.seed, self.vocab_size = seed, vocab_size
        self.sharpness, self.copying, self.levels = sharpness, copying, levels
        self.calls: list[list[tuple[Prefix, Prefix]]] = []
        self.log_probs = cache(self._log_probs)

    def _log_probs(self, source: Prefix, prefix: Prefix) -> tuple[float, ...]:
        random = Random(f"{self.seed} {source} {prefix}")
        position = len(prefix) - 1
        logits = []
        for token in range(self.vocab_size):
            raw = random.randrange(self.levels) if self.levels else random.gauss(0.0, 1.0)
            logit = self.sharpness * raw
            if token == EOS and not self.levels:
                logit += self.sharpness * 0.1 * position
            if position < len(source) and token == source[position]:
                logit += self.copying
            logits.append(-math.inf if token in (PAD, BOS) else logit)
        top = max(logits)
        total = top + math.log(sum(math.exp(logit - top) for logit in logits))
        return tuple(logit - total for logit in logits)

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int) -> TableRunner:
        """Open a session."""
        return TableRunner(self, [tuple(source) for source in sources], min(top_k, self.vocab_size))

    @property
    def nodes(self) -> list[tuple[Prefix, Prefix]]:
        """The (source, prefix) of every node ever computed."""
        return [node for call in self.calls for node in call]


class TableRunner(Runner):
    """Session of a table; stores the prefix of every slot instead of keys and values."""

    can_join = True

    def __init__(self, table: Table, sources: list[Prefix], top_k: int) -> None:
        self.table, self.sources, self.top_k = table, sources, top_k
        self.slots: dict[int, list[Prefix]] = {query: [] for query in range(len(sources))}

    def run(self, nodes: NodeBatch) -> tuple[Ints, Floats]:
        """Look up the scores of nodes, asserting that the nodes are consistent."""
        assert list(nodes.queries) == sorted(nodes.queries), "nodes are not grouped by query"
        ids = np.zeros((len(nodes.tokens), self.top_k), dtype=np.int64)
        log_probs = np.zeros((len(nodes.tokens), self.top_k))
        call: list[tuple[Prefix, Prefix]] = []
        columns = zip(nodes.queries, nodes.tokens, nodes.depths, nodes.parents, strict=True)
        for node, (query, token, depth, parent) in enumerate(columns):
            source, slots = self.sources[query], self.slots[query]
            assert parent < len(slots), f"the parent of a node is slot {parent}, which is not taken yet"
            prefix = (*slots[parent], token) if parent >= 0 else (token,)
            assert depth == len(prefix) - 1, f"{prefix} does not end at depth {depth}"
            assert prefix[0] == BOS, f"{prefix} does not start with bos"
            slots.append(prefix)
            every = np.array(self.table.log_probs(source, prefix))
            best = np.argsort(-every, kind="stable")[: self.top_k]
            ids[node], log_probs[node] = best, every[best]
            call.append((source, prefix))
        self.table.calls.append(call)
        return ids, log_probs

    def join(self, sources: Sequence[Sequence[int]]) -> None:
        """Add sources."""
        for source in sources:
            self.slots[len(self.sources)] = []
            self.sources.append(tuple(source))

    def release(self, query: int) -> None:
        """Free the slots of a query."""
        del self.slots[query]

    def compact(self, query: int, slots: Ints) -> None:
        """Keep these slots of a query only, in this order."""
        self.slots[query] = [self.slots[query][slot] for slot in slots]


def assert_same(
    found: list[list[FinishedSequence]], expected: list[list[FinishedSequence]], *, within: float = 1e-9
) -> None:
    """Assert that every query has the same tokens in the same order, log-probs of every token and reasons to end."""
    for some, others in zip(found, expected, strict=True):
        assert [(one.tokens, one.ended) for one in some] == [(one.tokens, one.ended) for one in others]
        for one, other in zip(some, others, strict=True):
            np.testing.assert_allclose(one.log_probs, other.log_probs, rtol=0, atol=within)


def run(
    decoder: Callable[[int], Decoder],
    sources: Sequence[Sequence[int]],
    backend: Backend,
    drafter: Drafter,
    *,
    max_len: int,
    budget: int = 64,
    top_k: int = 1_000_000,
    compiled: bool = False,
    **options: Any,
) -> tuple[list[list[FinishedSequence]], list[list[Pass]]]:
    """Decode queries in one batch, with a clock that advances by one per reading.

    `decoder` creates the decoder of a query, given its number; `budget` is the maximum number of drafted nodes per
    query and forward pass, `top_k` the number of candidates per prefix; `compiled` uses the compiled loop instead of
    the Python loop. Returns the output sequences and the passes of each query.
    """
    ticks = count()
    run_options = LoopOptions(
        max_len=max_len,
        budget=budget,
        clock=lambda: float(next(ticks)),
        vocab_size=backend.vocab_size if isinstance(backend, Table) else sys.maxsize,
        compiled=compiled,
        **options,
    )
    decoders = [decoder(query) for query in range(len(sources))]
    run = open_decoding(backend, sources, decoders, run_options, drafter, top_k=top_k)
    while not run.is_finished:
        run.run_passes()
    results = [run.take_result(query) for query in range(len(sources))]
    return [result.answers for result in results], [result.passes for result in results]
