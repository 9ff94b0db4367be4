"""Test kit for decoders and drafters: naive reference decoders, and a table model.

The naive decoders share no code with `chemspec.decode`: no KV cache, no batching, no top-k and no pruning. Every prefix
is recomputed from its first token, and the whole vocabulary is ranked at every step.

To test a drafter, compare `run` with and without it:

    table, decoder = Table(seed=0, copying=3.0), lambda _: beam_search(width=5, max_len=20)
    plain, _ = run(decoder, sources, table, NoDrafts(), max_len=20)
    drafted, passes = run(decoder, sources, table, MyDrafts(), max_len=20)
    assert drafted == plain
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import count
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chemspec.decode.generate import open_decoding
from chemspec.decode.protocol import Decoder
from chemspec.draft.base import Drafter
from chemspec.model.runner import Backend, Floats, Ints, NodeBatch, Runner
from chemspec.model.transformer import Transformer
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import FinishedSequence, Pass, Prefix

# Models ------------------------------------------------------------------------------------------


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
        assert nodes.queries == sorted(nodes.queries), "nodes are not grouped by query"
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


Target = Transformer | Table

# Naive decoders ----------------------------------------------------------------------------------


ReadPrefixes = Callable[[Sequence[Prefix]], Tensor]


def naive_log_probs(model: Target, source: Sequence[int], prefix: Sequence[int]) -> Tensor:
    """Return the log-probs (V,) of each token after `prefix`, by a full forward pass in the model's precision."""
    return naive_reader(model, source)([tuple(prefix)])[0]


def naive_reader(model: Target, source: Sequence[int]) -> ReadPrefixes:
    """Return a function from prefixes of equal length to the log-probs (prefixes, V) of their next tokens.

    Every call recomputes each prefix from its first token without a KV cache; only the encoder runs once.
    """
    if isinstance(model, Table):
        find = partial(model.log_probs, tuple(source))
        return lambda prefixes: torch.tensor([find(prefix) for prefix in prefixes], dtype=torch.float64)
    read = model.config.encoder_ids(source)
    device = model.embedding.weight.device
    with torch.inference_mode():
        memory, real = model.encode(torch.tensor([read], device=device))

    @torch.inference_mode()
    def log_probs(prefixes: Sequence[Prefix]) -> Tensor:
        # One memory serves all rows; a GPU's fused attention wants one each.
        rows = len(prefixes) if memory.is_cuda else 1
        logits = model.decode(
            torch.tensor(prefixes, device=device), memory.expand(rows, -1, -1), real.expand(rows, -1, -1, -1)
        )
        return model.log_softmax(logits[:, -1]).cpu()

    return log_probs


def naive_greedy(model: Target, source: Sequence[int], max_len: int) -> FinishedSequence:
    """Decode greedily until eos or `max_len` tokens; ties are broken by id."""
    read = naive_reader(model, source)
    tokens: list[int] = []
    log_probs: list[float] = []
    while len(tokens) < max_len and (not tokens or tokens[-1] != EOS):
        every = read([(BOS, *tokens)])[0].tolist()
        best = every.index(max(every))
        tokens.append(best)
        log_probs.append(every[best])
    return _finish_sequence(tokens, log_probs)


def naive_beam(
    model: Target,
    source: Sequence[int],
    width: int,
    max_len: int,
    length_penalty: float = 0.0,
    lean: Callable[[tuple[int, ...]], float] = lambda _: 0.0,
) -> list[FinishedSequence]:
    """Straightforward beam search; see `chemspec.decode.beam` for the rules.

    To simulate rounding errors, `lean` returns nats that are added to the total of a sequence (tokens after bos) when
    ranking; the returned log-probs do not include them.
    """
    read = naive_reader(model, source)

    def total(text: _Text) -> float:
        return sum(text[1]) + lean(text[0])

    def rank(text: _Text) -> tuple[float, tuple[int, ...]]:
        return -total(text) / len(text[1]) ** length_penalty, text[0]

    def can_overtake(text: _Text, last: _Text) -> bool:
        hope, bar = total(text), -rank(last)[0]  # log-probs only fall: at best the sum stays
        lengths = range(len(text[1]) + 1, max_len + 1)
        return any(hope / length**length_penalty >= bar for length in lengths)

    live: list[_Text] = [((), ())]
    finished: list[_Text] = []
    for _ in range(max_len):
        grown: list[_Text] = []
        every = read([(BOS, *tokens) for tokens, _ in live]).tolist()
        for (tokens, log_probs), gains in zip(live, every, strict=True):
            grown += [((*tokens, token), (*log_probs, gain)) for token, gain in enumerate(gains) if gain > -math.inf]
        grown.sort(key=lambda text: (-total(text), text[0]))
        finished += [text for text in grown[:width] if text[0][-1] == EOS]
        finished.sort(key=rank)
        live = [text for text in grown if text[0][-1] != EOS][:width]
        if len(finished) >= width and not any(can_overtake(text, finished[width - 1]) for text in live):
            break
    return [_finish_sequence(*text) for text in [*finished, *live][:width]]


_Text = tuple[tuple[int, ...], tuple[float, ...]]  # tokens after bos, and a log-prob for each


def _finish_sequence(tokens: Iterable[int], log_probs: Iterable[float]) -> FinishedSequence:
    tokens = tuple(tokens)
    return FinishedSequence(tokens, tuple(log_probs), "eos" if tokens[-1:] == (EOS,) else "length")


# Driving -----------------------------------------------------------------------------------------


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
    run = open_decoding(
        backend,
        sources,
        [decoder(query) for query in range(len(sources))],
        drafter,
        top_k=top_k,
        max_len=max_len,
        budget=budget,
        clock=lambda: float(next(ticks)),
        vocab_size=backend.vocab_size if isinstance(backend, Table) else sys.maxsize,
        compiled=compiled,
        **options,
    )
    return run.run_to_end(), run.passes_by_query
