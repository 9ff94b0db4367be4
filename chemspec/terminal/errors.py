"""Errors of commands: those that a user can act on become a message and an exit code."""

import _thread
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from chemspec.system.extras import as_missing_extra
from chemspec.terminal import console


@contextmanager
def report_expected_errors() -> Iterator[None]:
    """Report errors that a user can act on as one line on standard error and an exit code."""
    before, sys.unraisablehook = sys.unraisablehook, repeat_interrupt
    try:
        yield
    except KeyboardInterrupt:
        console.print_note("interrupted; files written so far stay valid, and the same command continues from there")
        raise typer.Exit(130) from None
    except BrokenPipeError:  # the reader closed the pipe, as `head` does: not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # receives what is flushed at exit
        raise typer.Exit(0) from None
    except (ValueError, OSError, ModuleNotFoundError) as error:
        console.print_note(f"error: {_error_message(error)}")
        raise typer.Exit(2) from None
    finally:
        sys.unraisablehook = before


def _error_message(error: Exception) -> str:
    """Return the message of an error, without the system's error number."""
    if isinstance(error, ModuleNotFoundError):
        return str(as_missing_extra(error))
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no file {error.filename}"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def repeat_interrupt(unraisable: Any) -> None:
    """Repeat a Ctrl-C that arrived in a destructor, where Python only prints exceptions."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        try:
            threading.Timer(0.1, _thread.interrupt_main).start()
        except KeyboardInterrupt:  # the timer may end before this hook on a busy machine, where Python drops it again
            repeat_interrupt(unraisable)
    else:
        sys.__unraisablehook__(unraisable)
