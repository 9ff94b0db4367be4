"""Systematic names by OPSIN: rules with a program in Java's place, and real names where OPSIN is installed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.case_tables import table
from helpers.reading import fault, read

from chemspec import chem
from chemspec.chem.reading.names import lookup, opsin

NAMES = {"spiro[4.5]decan-8-one": "O=C1CCC2(CCCC2)CC1", "dibromocubane": "BrC12C3C4C1C5C2(Br)C3C45"}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A program that answers for `NAMES` line by line, warns of one, and notes its starts in a file."""
    script = tmp_path / "opsin"
    cases = "".join(f"  {name!r}) echo '{smiles}';;\n" for name, smiles in NAMES.items())
    warning = 'case "$name" in dibromo*) echo "APPEARS_AMBIGUOUS: Connection of bromo";; esac'
    unknown = '  stop) exit;;\n  *) echo "$name is unparsable"; echo;;\n'
    loop = f'while read -r name; do\n{warning}\ncase "$name" in\n{cases}{unknown}esac\ndone\n'
    script.write_text(f"#!/bin/sh\necho start >>{tmp_path}/starts\n{loop}")
    script.chmod(0o700)
    monkeypatch.setattr(opsin, "opsin_command", lambda: (str(script),))
    _forget()
    yield tmp_path
    opsin.close()
    _forget()


def _forget() -> None:
    for function in (opsin.parse_name, lookup.look_up_systematic):
        function.cache_clear()


def test_a_systematic_name_is_read_alone_and_in_a_list_by_one_process(program: Path) -> None:
    for text, smiles in (
        ("spiro[4.5]decan-8-one", "O=C1CCC2(CCCC2)CC1"),
        ("spiro[4.5]decan-8-one; NaBH4; MeOH", "CO.O=C1CCC2(CCCC2)CC1.[BH4-].[Na+]"),
    ):
        found = read(text, "forward")
        assert found.smiles == smiles
        assert any("read by OPSIN" in note for note in found.notes)
    assert "not in the built-in list" in fault("qanolane; wanolane; CCO", "forward").message
    assert (program / "starts").read_text() == "start\n"


def test_an_ambiguous_name_is_refused(program: Path) -> None:
    assert opsin.read_by_opsin("dibromocubane") == opsin.Parsed(NAMES["dibromocubane"], is_ambiguous=True)
    assert fault("dibromocubane", "forward")


def test_a_process_that_ended_is_started_again(program: Path) -> None:
    assert opsin.read_by_opsin("stop") is None
    assert opsin.read_by_opsin("spiro[4.5]decan-8-one") is not None
    assert (program / "starts").read_text() == "start\nstart\n"


@pytest.fixture
def real_opsin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """OPSIN itself, which the other tests do without."""
    monkeypatch.delenv(opsin.OFF, raising=False)
    opsin.opsin_command.cache_clear()
    _forget()
    if not opsin.opsin_command():
        opsin.opsin_command.cache_clear()
        pytest.skip("OPSIN or Java is not installed (extra names)")
    yield
    opsin.close()
    _forget()
    monkeypatch.setenv(opsin.OFF, "1")
    opsin.opsin_command.cache_clear()


@pytest.mark.slow  # starts Java
def test_names_that_only_opsin_reads(real_opsin: None) -> None:
    start = time.monotonic()
    read("spiro[4.5]decan-8-one")
    first = time.monotonic() - start
    rows: list[Any] = table("chem/opsin_names")
    for row in rows:
        if "fault" in row:
            assert row["fault"] in fault(row["text"], row["task"]).message, row
        else:
            assert read(row["text"], row["task"]).smiles == chem.canonical(row["smiles"]), row
    assert first < 20
