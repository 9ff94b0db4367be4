"""The command line in this process: its result, the document of --json, and its refusals."""

from __future__ import annotations

import json
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from chemspec.cli.__main__ import app


def call(*words: object, stdin: str | bytes | None = "") -> Result:
    """Run a command; fails where it ends with a traceback."""
    result = CliRunner().invoke(app, list(map(str, words)), input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def last(result: Result) -> Any:
    """The document in the last line."""
    return json.loads(result.stdout.rstrip("\n").split("\n")[-1])


def refusal(*words: object) -> str:
    """Run a command that must be refused; returns its message on one line."""
    result = call(*words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return " ".join(result.stderr.split())
