"""Tables from templates."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from chemspec.io import tables

COLUMNS = {"name": "{name}", "": "{kind}", "speed-up": "{speedup:.2f}x", "share": "{share[value]:.0%}"}
ROW = {"name": "a", "kind": None, "speedup": 1.234, "share": {"value": 0.5}}


def test_templates_are_filled_and_what_is_not_known_stays_empty() -> None:
    assert tables.cells(COLUMNS, ROW) == ["a", "", "1.23x", "50%"]
    assert tables.cells({"speed-up": "{speedup:.2f}"}, {"speedup": None}) == [""]
    with pytest.raises(KeyError, match="speedup"):
        tables.cells(COLUMNS, {"name": "a", "kind": ""})


def test_markdown_has_a_line_a_row() -> None:
    whole = tables.markdown(COLUMNS, [ROW, {**ROW, "name": "b"}])
    assert whole.split("\n") == [
        "| name |  | speed-up | share |",
        "| --- | --- | --- | --- |",
        "| a |  | 1.23x | 50% |",
        "| b |  | 1.23x | 50% |",
    ]


def test_remarks_stand_below_a_table_for_a_terminal() -> None:
    console = Console(width=80)
    with console.capture() as shown:
        console.print(tables.terminal(COLUMNS, [ROW], remarks=["one", "two"]))
    lines = [line.strip() for line in shown.get().splitlines()]
    assert lines[0].split() == ["name", "speed-up", "share"]
    assert lines[-2:] == ["one", "two"]


def test_a_smiles_is_no_markup_on_a_terminal() -> None:
    out = io.StringIO()
    content = tables.terminal({"answer": "{smiles}"}, [{"smiles": "c1cc[nH]c1"}], remarks=["differs for C[nH]"])
    Console(file=out, width=80).print(content)
    assert "c1cc[nH]c1" in out.getvalue() and "C[nH]" in out.getvalue()
