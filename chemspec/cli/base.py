"""Define the program, and which errors become messages and exit codes; the modules beside this one add commands."""

from __future__ import annotations

import _thread
import io
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from chemspec.cli import show
from chemspec.version import __version__


@contextmanager
def expected_errors() -> Iterator[None]:
    """Turn errors that a user can act on into a line on standard error and an exit code."""
    before, sys.unraisablehook = sys.unraisablehook, _ask_again
    try:
        yield
    except KeyboardInterrupt:
        show.note("interrupted; what was written to files stays valid, the same command goes on from there")
        raise typer.Exit(130) from None
    except BrokenPipeError:  # whoever reads the output has left, as `head` does: no error of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed
        raise typer.Exit(0) from None
    except (ValueError, OSError, ModuleNotFoundError) as error:
        show.note(f"error: {_told(error)}")
        raise typer.Exit(2) from None
    finally:
        sys.unraisablehook = before


class GuardedGroup(TyperGroup):
    """Commands whose expected errors become a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; see `expected_errors`."""
        with expected_errors():
            return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help: a line a command, so that it fits a screen; how to complete words is told at its end."""
        for command in self.commands.values():
            command.short_help = _first_clause(command.help or "")
        for option in self.get_params(ctx):
            if option.name in ("install_completion", "show_completion"):
                option.hidden = True  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def _first_clause(text: str) -> str:
    """Return a docstring as far as its first colon, semicolon or paragraph."""
    return re.split(r"[:;]\s|\.?(?:\n\s*\n|\s*$)", text, maxsplit=1)[0] + "."


def _told(error: Exception) -> str:
    """Return what an error says, without the number that the system has for it."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no file {error.filename}"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _ask_again(unraisable: Any) -> None:
    """Send a Ctrl-C once more that hit a destructor, because Python only prints what is raised there."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        threading.Timer(0.01, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(unraisable)


app = typer.Typer(
    cls=GuardedGroup,
    help="Predict products and reactants with SMILES-to-SMILES transformers, fast and without changing an answer.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 fine; 1 some query could not be answered; "
    "2 the command could not be carried out; 130 interrupted. Words can be completed: --install-completion.",
)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Queries may hold what a terminal cannot show.
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = lambda message, *_, **__: show.note(f"note: {message}")
    app()


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def refuse_options_before(context: typer.Context) -> None:
    """Raise a ValueError if options of a group stand before the name of one of its commands, which has its own."""
    given = [name for name in context.params if context.get_parameter_source(name).name == "COMMANDLINE"]  # type: ignore[union-attr]
    if given:
        raise ValueError(f"options of {context.invoked_subcommand} stand after its name, not before it")
