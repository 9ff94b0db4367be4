"""Decode a model folder with numpy alone, straight from its files: a second opinion that shares no code with the first.

This module imports nothing of chemspec, torch or safetensors; it reads `model.safetensors` byte by byte and computes
greedy decoding and beam search as the textbook has them, without drafts. What it has of the rest is a definition in
words: the architecture (pre-norm, ReLU, sinusoids), the rules of the search, and of int8 the rounding and the order of
sums (`assets/docs/how-it-works.md`). It knows the options that the shipped models use and refuses others.

Shapes: Q queries, W hypotheses of each, S source tokens, T tokens so far, H heads, d width of a head, D = H * d, V
vocabulary.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
F32 = np.float32
ASSUMED = {
    "activation": "relu",
    "norm_first": True,
    "final_norms": True,
    "scale_embedding": True,
    "shared_embedding": True,
    "output_bias": True,
    "source_specials": False,
}
# Options that folders written before them do not name.
ASSUMED_IF_NAMED = {
    "gated": False,
    "head_width": 0,
    "rms_norm": False,
    "embedding_norm": False,
    "source_first": -1,
    "source_last": -1,
    "forced_first": -1,
    "stored_positions": False,
    "relative_positions": 0,
}
START, END = 1, 2  # ids of bos and eos; 0 is padding


class Text(NamedTuple):
    """Tokens after bos, eos included, and the log-probability of each."""

    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]


def read_tensors(file: Path) -> dict[str, Array]:
    """Return the tensors of a safetensors file in fp32: eight bytes of size, a JSON header, and the numbers."""
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    found = {}
    for name, entry in json.loads(content[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        raw = content[8 + size + start : 8 + size + end]
        if entry["dtype"] == "BF16":  # the upper half of an fp32 number
            flat = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(F32)
        else:
            flat = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[entry["dtype"]]).astype(F32)
        found[name] = flat.reshape(entry["shape"])
    return found


# --- int8: whole numbers, and sums in a fixed order -----------------------------------------------


def rounded(x: Array) -> tuple[Array, Array]:
    """Return rows as whole numbers from -127 to 127 (as floats), and their scales."""
    largest = np.abs(x).max(-1, keepdims=True)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        factor = np.where(largest > F32(1e-30), F32(127) / largest, F32(0))
    return np.rint(x * factor), largest / F32(127)


def folded(x: Array) -> Array:
    """Add the upper half of the last axis to the lower until one is left."""
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        x = x[..., :half] + x[..., half:]
    return x


def in_lanes(x: Array) -> Array:
    """Add rows in 16 lanes, each from left to right, then the lanes by halves."""
    x = np.concatenate([x, np.zeros((*x.shape[:-1], -x.shape[-1] % 16), F32)], -1)
    total = np.zeros((*x.shape[:-1], 16), F32)
    for start in range(0, x.shape[-1], 16):
        total = total + x[..., start : start + 16]
    return folded(total)


def power(x: Array) -> Array:
    """Return e^x of x <= 0 by the polynomial that int8 prescribes."""
    x = np.maximum(x, F32(-87))
    n = np.rint(x * F32(1.44269504))
    r = x - n * F32(0.693359375) + n * F32(2.12194440e-4)
    p = np.full_like(x, 1.9875691500e-4)
    for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = p * r + F32(c)
    p = p * r * r + r + F32(1)
    scale: Array = ((n.astype(np.int32) + 127) << 23).view(F32)
    return p * scale


# --- the network ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Linear:
    """A linear layer; in int8 its weight holds whole numbers."""

    weight: Array  # (out, in)
    bias: Array
    scale: Array | None = None

    @classmethod
    def of(cls, weight: Array, bias: Array, int8: bool) -> Linear:
        """Make a layer of a file's tensors."""
        if not int8:
            return cls(weight, bias)
        whole, scale = rounded(weight)
        return cls(whole, bias, scale[:, 0])

    def __call__(self, x: Array) -> Array:
        """Compute rows (..., in) -> (..., out)."""
        if self.scale is None:
            return x @ self.weight.T + self.bias
        whole, scale = rounded(x)
        # Products of whole numbers below 128: fp64 holds their sums to the last digit, in any order.
        kind = F32 if x.shape[-1] * 127 * 127 <= 2**24 else np.float64
        sums: Array = (whole.astype(kind) @ self.weight.T.astype(kind)).astype(F32) * scale * self.scale + self.bias
        return sums


class IndependentModel:
    """A model folder's network: int8 to the last bit, or what fp32 comes near to, in fp64."""

    def __init__(self, folder: Path, *, int8: bool = False) -> None:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        for key, value in (ASSUMED | ASSUMED_IF_NAMED).items():
            if config.get(key, ASSUMED_IF_NAMED.get(key)) != value:
                raise ValueError(f"{folder}: {key} is {config[key]!r}; numpy decodes models with {value!r} only")
        self.int8, self.eps = int8, F32(config["layer_norm_eps"])
        self.heads, self.depths = config["heads"], (config["encoder_layers"], config["decoder_layers"])
        # In fp32 numpy's sums would depend on the processor, for each adds in another order; in fp64 it does not show.
        kind: Any = F32 if int8 else np.float64
        read = read_tensors(folder / "model.safetensors")
        self.tensors: dict[str, Array] = {name: tensor.astype(kind) for name, tensor in read.items()}
        self.table = self.tensors["embedding.weight"]
        self.width = self.table.shape[1]
        place = np.arange(config["max_positions"], dtype=np.float64)[:, None]
        wave = np.exp(np.arange(0, self.width, 2, dtype=np.float64) * (-math.log(10000.0) / self.width))
        self.places = np.zeros((config["max_positions"], self.width), F32)
        self.places[:, 0::2], self.places[:, 1::2] = np.sin(place * wave), np.cos(place * wave)[:, : self.width // 2]
        last = self.table if config["tied_output"] else self.tensors["output.weight"]
        self.output = Linear.of(last, self.tensors["output.bias"], int8)
        self.layers = {
            name.removesuffix(".weight").removesuffix("_weight"): self._layer(name)
            for name in self.tensors
            if name.endswith((".linear1.weight", ".linear2.weight", "out_proj.weight", "in_proj_weight"))
        }

    def _layer(self, name: str) -> Linear:
        bias = name.removesuffix("weight") + "bias"
        return Linear.of(self.tensors[name], self.tensors[bias], self.int8)

    def embed(self, ids: Array, positions: Array | int) -> Array:
        """Embed tokens (...) -> (..., D)."""
        return self.table[ids] * F32(math.sqrt(self.width)) + self.places[positions]

    def norm(self, x: Array, name: str) -> Array:
        """Layer norm of rows."""
        weight, bias = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        if not self.int8:
            off = x - x.mean(-1, keepdims=True)
            plain: Array = off / np.sqrt((off * off).mean(-1, keepdims=True) + self.eps) * weight + bias
            return plain
        off = x - in_lanes(x) / F32(self.width)
        variance = in_lanes(off * off) / F32(self.width) + self.eps
        ordered: Array = bias + off * (F32(1) / np.sqrt(variance.astype(np.float64)).astype(F32)) * weight
        return ordered

    def feed(self, x: Array, name: str, norm: str) -> Array:
        """Add the feed-forward sub-layer."""
        inner = self.layers[f"{name}.linear1"](self.norm(x, f"{name}.{norm}"))
        return x + self.layers[f"{name}.linear2"](np.maximum(inner, F32(0)))

    def split(self, x: Array) -> Array:
        """Split rows (..., T, D) into heads (..., H, T, d)."""
        return np.ascontiguousarray(np.swapaxes(x.reshape(*x.shape[:-1], self.heads, -1), -2, -3))

    def attend(self, q: Array, k: Array, v: Array, mask: Array) -> Array:
        """Attend (..., H, Tq, d) to (..., H, Tk, d) where the mask (..., 1, Tq, Tk) is true; returns (..., Tq, D)."""
        width = q.shape[-1]
        if not self.int8:
            scores = np.where(mask, q @ np.swapaxes(k, -1, -2) * F32(width**-0.5), F32(-np.inf))
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            mixed = (weights / weights.sum(-1, keepdims=True)) @ v
        else:
            step = 1 if 16 % self.heads or width % (16 // self.heads) else 16 // self.heads
            qs, ks = (np.ascontiguousarray(np.moveaxis(x, -1, 0)) for x in (q, k))  # numpy is quick along the last axis
            sums = [[F32(0)] * step, [F32(0)] * step]
            for feature in range(width):
                number, lane = divmod(feature, step)
                sums[number % 2][lane] = sums[number % 2][lane] + qs[feature][..., None] * ks[feature][..., None, :]
            lanes = [even + odd for even, odd in zip(*sums, strict=True)]
            while len(lanes) > 1:
                lanes = [low + high for low, high in zip(lanes, lanes[len(lanes) // 2 :], strict=False)]
            scores = np.where(mask, lanes[0] * (F32(1) / F32(math.sqrt(width))), F32(-np.inf))
            weights = np.where(mask, power(scores - scores.max(-1, keepdims=True)), F32(0))
            total, mixed = F32(0), F32(0)
            vs, ws = (np.ascontiguousarray(np.moveaxis(x, axis, 0)) for x, axis in ((v, -2), (weights, -1)))
            for value, weight in zip(vs, ws, strict=True):
                total = total + weight[..., None]
                mixed = mixed + weight[..., None] * value[..., None, :]
            mixed = mixed * (F32(1) / total)
        joined = np.swapaxes(mixed, -2, -3)
        flat: Array = joined.reshape(*joined.shape[:-2], -1)
        return flat

    def encode(self, sources: Sequence[Sequence[int]]) -> tuple[list[tuple[Array, Array]], Array]:
        """Return of every decoder layer keys and values of the encoded queries (Q, 1, H, S, d); and what is no padding.

        The axis of one is for the hypotheses of a query, which share them.
        """
        longest = max(map(len, sources))
        ids = np.array([[*source, *[0] * (longest - len(source))] for source in sources])
        real = (ids != 0)[:, None, None, :]
        x = self.embed(ids, np.arange(longest))
        for index in range(self.depths[0]):
            name = f"encoder.layers.{index}"
            q, k, v = np.split(self.layers[f"{name}.self_attn.in_proj"](self.norm(x, f"{name}.norm1")), 3, -1)
            mixed = self.attend(self.split(q), self.split(k), self.split(v), real)
            x = self.feed(x + self.layers[f"{name}.self_attn.out_proj"](mixed), name, "norm2")
        x = self.norm(x, "encoder.norm")
        memory = []
        for index in range(self.depths[1]):
            whole = self.layers[f"decoder.layers.{index}.multihead_attn.in_proj"](x)
            memory.append((self.split(whole[..., self.width : -self.width]), self.split(whole[..., -self.width :])))
        return [(k[:, None], v[:, None]) for k, v in memory], real[:, None]


class _State:
    """Queries under way: what their hypotheses have written, as keys and values (Q, W, H, T, d) of every layer."""

    def __init__(self, model: IndependentModel, sources: Sequence[Sequence[int]]) -> None:
        self.model, self.length = model, 0
        self.memory, self.real = model.encode(sources)
        self.cache: list[tuple[Array, Array] | None] = [None] * model.depths[1]

    def choose(self, queries: Array, parents: Array) -> None:
        """Go on with these queries (by place), and of each with these hypotheses (Q, W)."""
        rows = queries[:, None]
        if len(queries) != len(self.real):
            self.memory, self.real = [(k[queries], v[queries]) for k, v in self.memory], self.real[queries]
        self.cache = [held and (held[0][rows, parents], held[1][rows, parents]) for held in self.cache]

    def step(self, tokens: Array) -> Array:
        """Write one token (Q, W) each; returns the log-probs (Q, W, V) of the next."""
        model = self.model
        x = model.embed(tokens, self.length)[:, :, None]  # (Q, W, 1, D)
        everything = np.ones((1, 1, 1, 1, self.length + 1), bool)
        for index in range(model.depths[1]):
            name = f"decoder.layers.{index}"
            rows = model.layers[f"{name}.self_attn.in_proj"](model.norm(x, f"{name}.norm1"))
            q, k, v = (model.split(part) for part in np.split(rows, 3, -1))
            if (held := self.cache[index]) is not None:
                k, v = np.concatenate([held[0], k], -2), np.concatenate([held[1], v], -2)
            self.cache[index] = k, v
            x = x + model.layers[f"{name}.self_attn.out_proj"](model.attend(q, k, v, everything))
            rows = model.layers[f"{name}.multihead_attn.in_proj"](model.norm(x, f"{name}.norm2"))
            mixed = model.attend(model.split(rows[..., : model.width]), *self.memory[index], self.real)
            x = model.feed(x + model.layers[f"{name}.multihead_attn.out_proj"](mixed), name, "norm3")
        self.length += 1
        logits = model.output(model.norm(x, "decoder.norm"))[:, :, 0]
        shifted = logits - logits.max(-1, keepdims=True)
        if not model.int8:
            natural: Array = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
            return natural
        padded = np.full((*shifted.shape[:-1], -shifted.shape[-1] % 16), -np.inf, F32)
        total = in_lanes(power(np.concatenate([shifted, padded], -1)))
        log_probs: Array = shifted - np.log(total.astype(np.float64)).astype(F32)
        return log_probs


# --- decoding -------------------------------------------------------------------------------------


def greedy(model: IndependentModel, sources: Sequence[Sequence[int]], max_len: int) -> list[Text]:
    """The most probable token, ties by id, until eos or `max_len` tokens; of several queries at once."""
    state, live = _State(model, sources), np.arange(len(sources))
    tokens: list[list[int]] = [[] for _ in sources]
    log_probs: list[list[float]] = [[] for _ in sources]
    last = np.full((len(sources), 1), START)
    while len(live):
        every = state.step(last)[:, 0]
        best = every.argmax(-1)
        for place, query in enumerate(live):
            tokens[query].append(int(best[place]))
            log_probs[query].append(float(every[place, best[place]]))
        going = np.flatnonzero((best != END) & (state.length < max_len))
        live, last = live[going], best[going, None]
        state.choose(going, np.zeros((len(going), 1), int))
    return [Text(tuple(ids), tuple(each)) for ids, each in zip(tokens, log_probs, strict=True)]


def beam(model: IndependentModel, sources: Sequence[Sequence[int]], width: int, max_len: int) -> list[list[Text]]:
    """Beam search, ranked by plain log-probability, ties by tokens; of several queries at once, best first.

    At every step the best `width` continuations count: those that end are finished. The best `width` that do not end go
    on, until `width` are finished and no live one is as probable as the worst of those.
    """
    state = _State(model, sources)
    queries = list(range(len(sources)))
    live: list[list[Text]] = [[Text((), ())] for _ in sources]
    finished: list[list[Text]] = [[] for _ in sources]
    last = np.full((len(sources), 1), START)

    def rank(text: Text) -> tuple[float, tuple[int, ...]]:
        return -sum(text.log_probs), text.tokens

    while queries:
        every = state.step(last).astype(np.float64)
        going, parents, written = [], [], []
        for place, query in enumerate(list(queries)):
            hypotheses = live[query]
            totals = np.array([sum(text.log_probs) for text in hypotheses])[:, None] + every[place, : len(hypotheses)]
            # Of each hypothesis one continuation ends, so among twice the width enough go on; ties at the edge stay in.
            wanted = min(totals.size, 2 * width)
            edge = np.partition(totals.ravel(), totals.size - wanted)[totals.size - wanted]
            rows, ids = np.nonzero(totals >= edge)
            grown = [
                (Text((*text.tokens, int(token)), (*text.log_probs, float(every[place, row, token]))), int(row))
                for row, token, text in ((row, token, hypotheses[row]) for row, token in zip(rows, ids, strict=True))
            ]
            grown.sort(key=lambda pair: rank(pair[0]))
            finished[query] += [text for text, _ in grown[:width] if text.tokens[-1] == END]
            finished[query].sort(key=rank)
            kept = [pair for pair in grown if pair[0].tokens[-1] != END][:width]
            live[query] = [text for text, _ in kept]
            enough = len(finished[query]) >= width and not any(
                rank(text)[0] <= rank(finished[query][width - 1])[0] for text in live[query]
            )
            if state.length >= max_len or enough:
                continue
            going.append(place)
            spare = [0] * (width - len(kept))  # where there are fewer, the first is computed again and not looked at
            parents.append([row for _, row in kept] + spare)
            written.append([text.tokens[-1] for text, _ in kept] + spare)
        queries = [queries[place] for place in going]
        if queries:
            last = np.array(written)
            state.choose(np.array(going), np.array(parents))
    return [[*done, *going][:width] for done, going in zip(finished, live, strict=True)]
