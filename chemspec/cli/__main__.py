"""The program with all its commands; also `python -m chemspec.cli`."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from chemspec.cli import base

# Each adds its commands; the order is that of --help.
MODULES = ("predict", "race", "check", "plan", "make", "precedents", "models", "serve", "config", "bench", "train")


def main() -> None:
    """Run the command line; a command with the name of its module does not wait for the others."""
    _add_commands([name for name in MODULES if name in sys.argv[1:2]] or MODULES)
    base.main()


def _add_commands(modules: Sequence[str]) -> None:
    for name in modules:
        import_module(f"chemspec.cli.{name}")


def __getattr__(name: str) -> Any:
    """Return the program, `app`, with all commands."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _add_commands(MODULES)
    return base.app


if __name__ == "__main__":
    main()
