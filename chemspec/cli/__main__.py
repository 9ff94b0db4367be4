"""The program with all its commands; also `python -m chemspec.cli`."""

from chemspec.cli.base import app, main

# Each adds its commands; the order is that of --help.
from chemspec.cli import predict, race, check, verify, importing, plan, precedents, serve, evaluate, bench  # noqa: F401  isort: skip
from chemspec.cli import train, train_models, train_drafters  # noqa: F401  isort: skip

__all__ = ["app", "main"]

if __name__ == "__main__":
    main()
