"""The command-line program; its sister modules add the commands."""

import io
import re
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from chemspec.cli.options import expand_options
from chemspec.terminal import console
from chemspec.terminal.errors import report_expected_errors
from chemspec.version import __version__

UNUSED = {"rich.markdown": "Markdown", "rich.traceback": "Traceback"}  # what Typer's help imports of rich, for others


def import_help_printer() -> None:
    """Import Typer's printer of help without the parts of rich that only other programs use: a fifth of `--help`."""
    absent = {name: used for name, used in UNUSED.items() if name not in sys.modules}
    for name, used in absent.items():
        sys.modules[name] = ModuleType(name)
        setattr(sys.modules[name], used, type(used, (), {}))
    try:
        import_module("typer.rich_utils")
    finally:
        for name in absent:
            del sys.modules[name]


class QuickHelp(TyperCommand):
    """A command; see `import_help_printer`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        import_help_printer()
        super().format_help(ctx, formatter)


class GuardedGroup(TyperGroup):
    """Commands whose expected errors become a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; see `report_expected_errors`."""
        with report_expected_errors():
            return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help with one line per command, so that it fits a screen; the epilog mentions shell completion."""
        for command in self.commands.values():
            command.short_help = _first_clause(command.help or "")
        for option in self.get_params(ctx):
            if option.name in ("install_completion", "show_completion"):
                option.hidden = True  # type: ignore[attr-defined]
        import_help_printer()
        super().format_help(ctx, formatter)


def _first_clause(text: str) -> str:
    """Return the part of a docstring before its first colon, semicolon or paragraph break."""
    return re.split(r"[:;]\s|\.?(?:\n\s*\n|\s*$)", text, maxsplit=1)[0] + "."


app = typer.Typer(
    cls=GuardedGroup,
    help="Reaction prediction and retrosynthesis with lossless speculative decoding.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog="Exit codes: 0 success; 1 some query failed; "
    "2 the command failed; 130 interrupted. Shell completion: --install-completion.",
)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Queries may contain characters that the terminal's encoding lacks.
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = lambda message, *_, **__: console.print_note(f"note: {message}")
    app()


@app.callback(invoke_without_command=True)
def _print_version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def command(name: str, panel: str, group: typer.Typer = app) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Return a decorator that adds a function to the program as a command; see `options.expand_options`."""
    return lambda function: group.command(name, cls=QuickHelp, rich_help_panel=panel)(expand_options(function))


def refuse_group_options(context: typer.Context) -> None:
    """Raise a ValueError if options of a command group precede the name of a subcommand, which has its own options."""
    given = [name for name in context.params if context.get_parameter_source(name).name == "COMMANDLINE"]  # type: ignore[union-attr]
    if given:
        raise ValueError(f"options of {context.invoked_subcommand} must follow its name")
