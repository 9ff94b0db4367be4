"""The command line: parse, call one function, print.

Exit codes: 0 all went well; 1 something in the input could not be answered (some rows have another status than ok);
2 the command could not be carried out (bad option, missing file, unusable model); 130 interrupted.
"""

from chemspec.cli.base import app, main

# Each adds its commands; the order is that of --help.
from chemspec.cli import predict, race, check, importing, plan, precedents, serve, evaluate, bench  # isort: skip
from chemspec.cli import train, train_models, train_drafters  # isort: skip

__all__ = [
    "app",
    "bench",
    "check",
    "evaluate",
    "importing",
    "main",
    "plan",
    "precedents",
    "predict",
    "race",
    "serve",
    "train",
    "train_drafters",
    "train_models",
]
