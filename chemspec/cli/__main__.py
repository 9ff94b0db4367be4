"""The program with all its commands; also `python -m chemspec.cli`."""

from chemspec.cli.base import app, main

# Each adds its commands; the order is that of --help.
from chemspec.cli import predict, race, check, plan, precedents, models, serve, config, bench, train  # noqa: F401  isort: skip

__all__ = ["app", "main"]

if __name__ == "__main__":
    main()
