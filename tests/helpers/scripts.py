"""Scripts: a function whose arguments are the options, with the command line's messages and exit codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

from chemspec.cli.options import expand_options
from chemspec.terminal.errors import report_expected_errors


class _Command(TyperCommand):
    def invoke(self, ctx: Any) -> Any:
        with report_expected_errors():
            return super().invoke(ctx)


def script(function: Callable[..., Any]) -> typer.Typer:
    """Return the function as a program of its own."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(cls=_Command)(expand_options(function))
    return app


def option(text: str, *names: str, **more: Any) -> Any:
    """Return a Typer option with this help text."""
    return typer.Option(*names, help=text, **more)
