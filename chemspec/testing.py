"""Offer what tests need, and users who write drafters: naive decoders, tiny models, a table for a model.

The naive decoders are the oracle of the fast ones. They share no code with `chemspec.decode`: no
cache, no batch of queries, no top-k and no pruning; every prefix is read anew from its first token,
and the whole vocabulary is ranked at every step.

To test a drafter of your own, compare `run` with it and without it:

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

from chemspec.decode.decoding import Decoding
from chemspec.decode.planner import Planner
from chemspec.decode.protocol import Decoder
from chemspec.draft.base import Drafter, SessionReader, required_outputs
from chemspec.model.session import DENSE, Backend, Floats, Ints, NodeBatch, Session
from chemspec.model.transformer import Transformer
from chemspec.settings import ModelConfig
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import FinishedSequence, Pass, Prefix

# Models ------------------------------------------------------------------------------------------


def tiny_model(seed: int, vocab_size: int = 12, *, sharpness: float = 3.0, **options: Any) -> Transformer:
    """A random encoder-decoder in float64 with opinions: its answers end, and its beams differ.

    Args:
        seed: of all weights; biases and norms are random too, lest one be forgotten unnoticed.
        vocab_size: tokens, the four special ones included; pad and bos are improbable.
        sharpness: spread of the logits; at 3 the best token has a probability of about 0.7.
        options: fields of `ModelConfig`; by default the width is 16 and each side has two layers.
    """
    shape = {"d_model": 16, "heads": 2, "feedforward": 24, "encoder_layers": 2, "decoder_layers": 2}
    defaults = {**shape, "max_positions": 64, "tied_output": False}
    config = ModelConfig(vocab_size=vocab_size, **{**defaults, **options})
    model = Transformer(config).double().eval().requires_grad_(False)
    if not config.shared_positions:
        model.target_positions.mul_(-1)
    random = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=random, dtype=torch.float64)
        if weight.ndim == 2:
            gain = 2.0 if "layers" in name else 1.0  # so that the place and the source have a say
            weight.copy_(noise * gain * weight.shape[1] ** -0.5)
        elif "norm" in name and name.endswith("weight"):
            weight.copy_(1 + 0.2 * noise)
        else:
            weight.copy_(0.2 * noise)
    # Centred and scaled, or one token would be the favourite in every context.
    size = (64, 12)
    source, target = (torch.randint(EOS, vocab_size, size, generator=random) for _ in range(2))
    logits = model(source, target).flatten(0, 1)
    norm, factor = model.decoder.norm, sharpness / float(logits.std(dim=0).mean())
    for part in tuple(norm.parameters()) or (model.output.weight,):  # an identity has none
        part.mul_(factor)
    if config.output_bias:
        model.output.bias.copy_(-factor * (logits - model.output.bias).mean(dim=0))
        model.output.bias[[PAD, BOS]] -= 10.0
        model.output.bias[EOS] += 0.5 * sharpness
    return model


class Table:
    """A model without weights: log-probs are a hash of source and prefix. It is its own backend.

    Its runner works out every node's prefix from the mask and the depths that the session hands it
    and raises AssertionError where those do not spell one: no faulty session passes unnoticed.

    Attributes:
        calls: for every model call, the (source, prefix) of each node computed in it.
    """

    def __init__(
        self, seed: int = 0, *, vocab_size: int = 10, sharpness: float = 3.0, copying: float = 0.0, levels: int = 0
    ) -> None:
        """Choose the table.

        Args:
            seed: two tables of one seed are equal.
            vocab_size: tokens, the four special ones included; pad and bos are impossible.
            sharpness: spread of the logits.
            copying: added to the logit of the source's token at the place to be filled, so that
                copied drafts pay.
            levels: if not 0, logits take only so many values, which makes ties; 1 makes every
                token equally probable.
        """
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
        """Start a session."""
        return TableRunner(self, [tuple(source) for source in sources], min(top_k, self.vocab_size))

    @property
    def nodes(self) -> list[tuple[Prefix, Prefix]]:
        """The (source, prefix) of every node ever computed."""
        return [node for call in self.calls for node in call]


class TableRunner:
    """One session on a table: keeps the prefix of every slot, as a cache keeps keys and values."""

    compaction_threshold = DENSE
    attention = None
    hidden_states = None

    def __init__(self, table: Table, sources: list[Prefix], top_k: int) -> None:
        self.table, self.sources, self.top_k = table, sources, top_k
        self.slots: dict[int, list[Prefix]] = {query: [] for query in range(len(sources))}

    def run(self, nodes: NodeBatch) -> tuple[Ints, Floats]:
        """Look the nodes up, asserting that they spell prefixes."""
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
        """Take on more sources."""
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


def naive_log_probs(model: Target, source: Sequence[int], prefix: Sequence[int]) -> Tensor:
    """Log-probs (V,) of each token after `prefix`: a full forward pass in the model's precision."""
    return naive_reader(model, source)([tuple(prefix)])[0]


ReadPrefixes = Callable[[Sequence[Prefix]], Tensor]


def naive_reader(model: Target, source: Sequence[int]) -> ReadPrefixes:
    """What reads prefixes of one length for one query: log-probs (prefixes, V) of each one's next tokens.

    Every prefix is read from its first token to its last at every call; nothing of the decoder is kept. Only the
    encoder, which sees no prefix, runs once.
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
    """The most probable token, ties by id, until eos or `max_len` tokens."""
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
    """Beam search by its rules and nothing else; see `chemspec.decode.beam` for the rules.

    Args:
        model: the target.
        source: token ids of the query.
        width: of the beam.
        max_len: most tokens of an answer.
        length_penalty: see `DecodeSettings`.
        lean: nats added to the total of a text (tokens after bos) wherever it is ranked: what the search would have
            found, had rounding moved the scores so far. The log-probs returned are without it.
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
    planner: Planner | None = None,
) -> tuple[list[list[FinishedSequence]], list[list[Pass]]]:
    """Decode queries together, with a clock that ticks once a look.

    Args:
        decoder: makes the decoder of the query of that number.
        sources: token ids of the queries.
        backend: opens the session.
        drafter: the drafter of the run.
        max_len: most tokens of an answer.
        budget: most drafted nodes of a query in a pass.
        top_k: tokens that the scores of a prefix hold; all of them by default.
        compiled: run the compiled loop, instead of the one in Python.
        planner: of the run; without one drafts add what the budget allows.

    Returns:
        Of each query its answers, and its passes.
    """
    ticks = count()
    needs = required_outputs(drafter)
    session = Session(backend, sources, top_k=top_k, heads=needs.heads, states=needs.hidden_states)
    if isinstance(drafter, SessionReader):
        drafter.watch(session)
    decoders = [decoder(query) for query in range(len(sources))]
    run = Decoding(
        sources,
        decoders,
        session,
        drafter,
        max_len=max_len,
        budget=budget,
        clock=lambda: float(next(ticks)),
        vocab_size=backend.vocab_size if isinstance(backend, Table) else sys.maxsize,
        compiled=compiled,
        planner=planner,
    )
    return run.run_to_end(), run.passes_by_query
