"""Times Spec-Drafters of other shapes (X, table 2) with random weights: `python tests/programs/drafter_shapes.py`.

The time of a network depends on its shape, not on what its weights are. So each shape gets random weights, and drafts
for the model `retro`: what it computes is thrown away, and in its place it drafts what the answer goes on with, as many
tokens, right ones and wrong ones, as the trained network of this shape did (`raw/tables/spec-drafter.csv`). All shapes
and standard decoding take turns, query by query. Printed are passes, milliseconds of processor time a pass for
drafting (t_d, with the drafter's encoder) and for all the rest (t_v), and the speed-up over standard decoding, the
median over the queries with its 95 % interval. The answers are compared: a drafter never changes one.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from programs.by_turns import timed_by_turns

from chemspec import load
from chemspec.asset_files import bench_queries
from chemspec.bench.sweep import paired_ratio
from chemspec.draft.base import Drafter
from chemspec.draft.learned.network import Blockwise, LearnedDrafter, SpecDrafter
from chemspec.draft.learned.small import SourcePrefix
from chemspec.engine.engine import Engine
from chemspec.model import checkpoint
from chemspec.model.heads import Heads, HeadsConfig
from chemspec.model.runners.native.runner import NativeBackend
from chemspec.model.spec_drafter import MaskFiller, drafter_config
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings
from chemspec.tokenizer import EOS
from chemspec.types import Draft

TABLE = Path(__file__).parents[2] / "assets" / "docs" / "raw" / "tables" / "spec-drafter.csv"
MASKS = 20
Answers = Mapping[tuple[int, ...], tuple[int, ...]]


@dataclass
class Shape:
    """A row of the table: a network with random weights, and how often the trained one was right.

    Attributes:
        layers: "4 + 2, width 256", or "9 heads".
        accepted: accepted tokens of a draft, mean.
        drafted: drafted tokens of a draft, mean.
        is_counted: whether these are counts; of a shape that was not trained they are another's.
        seconds: processor time of its network so far.
    """

    network: str
    layers: str
    accepted: float
    drafted: float
    is_counted: bool = True
    seconds: float = 0.0

    def maker(self, engine: Engine) -> Callable[[], LearnedDrafter]:
        """Return what makes drafters, one a run, of this shape for the engine's model, with random weights."""
        target = checkpoint.load(engine.folder).config
        torch.manual_seed(0)
        encoder, decoder, width = (*map(int, re.findall(r"\d+", self.layers)), 0, 0)[:3]
        if not decoder:
            size = HeadsConfig(vocab_size=target.vocab_size, d_model=target.d_model, heads=encoder)
            return partial(Blockwise, Heads(size).best, heads=encoder)
        width = 0 if width == target.d_model else width
        model = Transformer(drafter_config(target, encoder=encoder, decoder=decoder, width=width)).eval()
        backend = NativeBackend(model, threads=1)
        return lambda: SpecDrafter(MaskFiller(model, MASKS, backend).fill, masks=MASKS)


class TimedDrafts(Drafter):
    """Computes the drafts of a network, times them, and proposes others, of which as many are accepted as counted."""

    has_hooks = True

    def __init__(self, shape: Shape, network: LearnedDrafter, answers: Answers) -> None:
        self.shape, self.network, self.answers = shape, network, answers
        self.name, self.reads_states = network.name, network.reads_states
        self.turn, self.drafts = 0, dict[SourcePrefix, list[Draft]]()

    def watch(self, session: Any) -> None:
        """Read the hidden states from this session; see `Drafter.watch`."""
        self.network.watch(session)

    def prepare(self, requested: Sequence[tuple[Sequence[int], tuple[int, ...], int]]) -> None:
        """Compute the network's drafts, and replace them; see `Drafter.prepare`."""
        began = time.process_time()
        self.network.prepare(requested)
        self.shape.seconds += time.process_time() - began
        self.turn += 1
        accepted, drafted = (
            int(mean * self.turn) - int(mean * (self.turn - 1)) for mean in (self.shape.accepted, self.shape.drafted)
        )
        self.drafts = {
            (tuple(source), prefix): scripted_draft(self.answers[tuple(source)][len(prefix) - 1 :], accepted, drafted)
            for source, prefix, _ in requested
        }

    def propose(self, source: Sequence[int], prefix: tuple[int, ...], max_new_tokens: int) -> Sequence[Draft]:
        """Return the draft made for a prefix; see `Drafter.propose`."""
        return self.drafts.get((tuple(source), prefix), ())


def scripted_draft(rest: Sequence[int], accepted: int, drafted: int) -> list[Draft]:
    """Return a draft whose first `accepted` tokens are the answer's, and the next, if it is longer, another one."""
    tokens = list(rest[:drafted])
    for place in range(accepted, len(tokens)):
        tokens[place] = EOS if tokens[place] != EOS else rest[0] if rest[0] != EOS else EOS + 1
    return [Draft(tuple(tokens), "scripted")] if tokens else []


def read_shapes(table: Path = TABLE) -> list[Shape]:
    """Return the networks of the table with their accepted and drafted tokens a pass, or those of the row above."""
    shapes: list[Shape] = []
    with table.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if is_counted := bool(row["passes"]):
                accepted = float(row["tokens per pass"]) - 1
                drafted = accepted / float(row["hit rate"].rstrip(" %")) * 100
            shapes.append(Shape(row["network"], row["layers"], accepted, drafted, is_counted))
    return shapes


def measure(shapes: Sequence[Shape], queries: Sequence[str], repeats: int) -> list[dict[str, str]]:
    """Return a row per shape; raises AssertionError if an answer changes."""
    torch.set_num_threads(1)
    engine = load("retro", dtype="fp32", threads=1)
    settings = DecodeSettings(decoder="greedy", n=1, batch_size=1, drafter="none", drafting="fixed")
    networks = [shape.maker(engine) for shape in shapes]
    answers: dict[tuple[int, ...], tuple[int, ...]] = {}
    sums = [[0.0, 0.0, 0.0] for _ in shapes]  # passes, seconds of drafting and of everything
    pairs: list[list[tuple[float, float]]] = [[] for _ in shapes]

    def decode(text: str, shape: Shape, network: Callable[[], LearnedDrafter]) -> Any:
        before = shape.seconds
        drafting = replace(engine, build_drafter=lambda *_: TimedDrafts(shape, network(), answers))
        result = drafting.predict(text, settings, drafter="copy")
        spent[shape.network].append(shape.seconds - before)
        return result

    for text in queries:
        source, spent = engine.prepare(text).ids, defaultdict[str, list[float]](list)
        answers[source] = engine.generate_ids([source], settings)[0][0].tokens
        calls = [partial(engine.predict, text, settings)]
        calls += [partial(decode, text, shape, network) for shape, network in zip(shapes, networks, strict=True)]
        best, (expected, *results) = timed_by_turns(calls, repeats, time.process_time)
        for shape, result, seconds, row, times in zip(shapes, results, best[1:], sums, pairs, strict=True):
            assert result.hypotheses[0].tokens == expected.hypotheses[0].tokens, (shape.layers, text)
            times.append((best[0], seconds))
            for place, value in enumerate((len(result.trace.passes), min(spent[shape.network]), seconds)):
                row[place] += value
    rows = []
    for shape, (passes, drafting, seconds), times in zip(shapes, sums, pairs, strict=True):
        ratio, low, high = paired_ratio(*map(list, zip(*times, strict=True)))
        counted = {"passes": f"{passes / len(queries):.1f}", "times": f"{ratio:.2f} ({low:.2f}-{high:.2f})"}
        t_d, t_v = 1e3 * drafting / passes, 1e3 * (seconds - drafting) / passes
        about = {"network": shape.network, "layers": shape.layers, "t_d": f"{t_d:.2f}", "t_v": f"{t_v:.2f}"}
        rows.append(about | (counted if shape.is_counted else dict.fromkeys(counted, "")))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    for row in measure(read_shapes(), bench_queries("retro")[: options.queries], options.repeats):
        print(" | ".join(row.values()), flush=True)


if __name__ == "__main__":
    main()
