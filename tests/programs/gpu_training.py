"""Steps a second of packed training, plain, with a fused loss and with a residual stream in bf16.

    python tests/programs/gpu_training.py --out gpu_training.jsonl
    python tests/programs/gpu_training.py --device cpu --tokens 240 --steps 2

Random pairs of the lengths of `forward`'s data train a random model of the preset; every way begins with the same
weights. A line per way: milliseconds a step, tokens a second, and the loss after the steps. Needs torch and numpy.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

import numpy as np
import torch

from chemspec.data.arrays import Pairs, RaggedArray
from chemspec.model.transformer import Transformer
from chemspec.settings import preset_config
from chemspec.train.packed import Optimizer, PackedModel, Step
from chemspec.train.packed_batches import Shape, load_batches

WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "running mean": {"ema": 0.999},
    "bf16 residual": {"residual": torch.bfloat16},
    "compiled": {"compiled": True},
    "compiled, bf16 residual": {"compiled": True, "residual": torch.bfloat16},
}
VOCABULARY = 280


def random_pairs(count: int) -> Pairs:
    """Return pairs of 20 to 80 tokens; answers are beginnings of queries, so there is something to learn."""
    rng = np.random.default_rng(0)
    sources = [rng.integers(4, VOCABULARY, size=rng.integers(20, 81)).tolist() for _ in range(count)]
    return Pairs(RaggedArray.pack(sources), RaggedArray.pack([source[: len(source) * 2 // 3] for source in sources]))


def measure(way: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return milliseconds a step and the last loss of one way."""
    how = dict(WAYS[way])
    residual = how.pop("residual", torch.float32)
    torch.manual_seed(0)
    model = Transformer(preset_config(options.preset, vocab_size=VOCABULARY)).to(options.device)
    pairs = random_pairs(options.pairs)
    shape = Shape.of([pairs], options.tokens)
    step = Step(PackedModel(model, shape, residual), Optimizer(model), **how)
    step.optimizer.lr.fill_(1e-3)
    batches = load_batches([pairs], shape, seed=0, workers=0)
    ready = [next(batches).to(options.device) for _ in range(min(options.steps, 20))]
    began = time.perf_counter()
    step.record(ready[0])
    recorded, began = time.perf_counter() - began, time.perf_counter()
    for number in range(options.steps):
        step(ready[number % len(ready)])
    loss = float(step.mean)  # waits for the device
    seconds = (time.perf_counter() - began) / options.steps
    tokens = shape.sources + shape.targets
    row = {
        "way": way,
        "ms": round(1e3 * seconds, 2),
        "tokens_per_second": round(tokens / seconds),
        "loss": round(loss, 4),
    }
    return {**row, "recording_seconds": round(recorded, 1), "torch": torch.__version__, "device": options.device}


def parse(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--preset", default="small-8x3")
    parser.add_argument("--tokens", type=int, default=65_280, help="of a batch")
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--ways", nargs="+", default=list(WAYS))
    parser.add_argument("--out", type=Path)
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Measure every way; a way that fails has its error in its line."""
    options = parse(given)
    rows = []
    for way in options.ways:
        try:
            rows.append(measure(way, options))
        except (RuntimeError, ImportError) as error:  # of a compiler, or too little memory
            rows.append({"way": way, "error": f"{type(error).__name__}: {error}"[:300]})
        print(line := json.dumps(rows[-1]), flush=True)
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
    return rows


if __name__ == "__main__":
    main()
