"""Train a model on packed batches of several data folders together, as the last stages of the shipped models were.

    python assets/docs/recipes/packed_training.py --start MODEL --data FOLDER FOLDER --minutes 4.1 --out FOLDER

The trainer is `chemspec.train.packed_run`, which `chemspec train` runs by recipes with `trainer = "packed"`, on one
folder. `val.npz` of the last folder is validated on.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from chemspec.settings import TrainSettings
from chemspec.train.packed_run import PackedRun

TOKENS = 65_280


def train(arguments: argparse.Namespace) -> Path:
    """Train by the arguments of the command line; returns the model's folder."""
    names = ("minutes", "hold", "lr", "warmup", "dropout", "seed", "tokens")
    settings = TrainSettings(steps=10_000_000, **{name: getattr(arguments, name) for name in names})
    layers = arguments.encoder_layers
    run = PackedRun(arguments.start, arguments.data, arguments.out, settings, encoder_layers=layers, tell=print)
    return run.train()


def parse(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", type=Path, required=True, help="model folder to go on from")
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="data folders; the last has val.npz")
    parser.add_argument("--out", type=Path, required=True, help="run folder")
    parser.add_argument("--encoder-layers", type=int, default=0, help="layers of the encoder; default: as the start")
    parser.add_argument("--minutes", type=float, default=4.1, help="duration of the run")
    parser.add_argument("--share", "--hold", dest="hold", type=float, default=0.3, help="share at the peak rate")
    parser.add_argument("--lr", type=float, default=1.2e-3, help="peak learning rate")
    parser.add_argument("--warmup", type=int, default=500, help="steps of warm-up")
    parser.add_argument("--dropout", type=float, default=0.1, help="dropout of every sub-layer")
    parser.add_argument("--seed", type=int, default=5, help="seed of the order of the data")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="tokens of a batch, both sides")
    return parser.parse_args(given)


if __name__ == "__main__":
    train(parse())
