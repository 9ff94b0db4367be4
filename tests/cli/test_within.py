"""`--within`: durations, the printed width, and what does not go with it."""

from __future__ import annotations

import pytest
import typer
from click.testing import Result
from helpers import command_line
from helpers.command_line import last

from chemspec.cli.options import parse_duration
from chemspec.types import Within

pytestmark = pytest.mark.usefixtures("models")


def call(*words: object) -> Result:
    common = ["CCO", "-t", "retro", "--threads", 1, "-n", 3, "--max-len", 12, "--no-distinct"]
    return command_line.call("predict", *common, "--within", *words)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("50ms", 0.05), ("5s", 5.0), ("2", 2.0), ("1.5 s", 1.5), (".5", 0.5), ("2min", 120.0), (3.0, 3.0)],
)
def test_durations(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "-1s", "0", "0ms", "1h", "1e3", "nan", "5 s s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="no duration"):
        parse_duration(text)


def test_the_width_is_printed_and_in_the_json() -> None:
    done = call("60s", "--json")
    assert done.exit_code == 0, done.output
    assert "beam of width 3 within 60000 ms" not in done.output  # JSON alone
    assert last(done)["results"][0]["within"]["width"] == 3
    assert "beam of width 3 within 60000 ms" in call("60s").output
    late = call("0.001ms")
    assert (late.exit_code, "no answer was complete" in late.output) == (1, True)


def test_widths_as_text() -> None:
    assert Within(0.05, 1, 5, 30).text == ("greedy answer within 50 ms; a beam of width 5 was abandoned")
    assert Within(2.0, 7, 0, 30).text == "beam of width 7 within 2000 ms"
