"""Systematic names by OPSIN: here a program in Java's place, as neither has to be installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from reading import fault, read

from chemspec.chem.names import lookup

NAMES = {"spiro[4.5]decan-8-one": "O=C1CCC2(CCCC2)CC1"}


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A program that answers for `NAMES`, and writes what it is asked into the file `asked`."""
    program = tmp_path / "java"
    answers = "".join(f"  {name!r}) echo '{smiles}';;\n" for name, smiles in NAMES.items())
    program.write_text(f'#!/bin/sh\nread name\necho "$name" >>{tmp_path}/asked\ncase "$name" in\n{answers}esac\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(lookup, "_opsin_jar", lambda: tmp_path / "opsin.jar")
    lookup.read_by_opsin.cache_clear()
    yield
    lookup.read_by_opsin.cache_clear()


def test_a_systematic_name_is_read_alone_and_in_a_list(java: None) -> None:
    for text, smiles in (
        ("spiro[4.5]decan-8-one", "O=C1CCC2(CCCC2)CC1"),
        ("spiro[4.5]decan-8-one; NaBH4; MeOH", "CO.O=C1CCC2(CCCC2)CC1.[BH4-].[Na+]"),
    ):
        found = read(text, "forward")
        assert found.smiles == smiles
        assert any("read by OPSIN" in note for note in found.notes)


def test_words_that_nobody_knows_cost_two_starts_of_java_at_most(tmp_path: Path, java: None) -> None:
    many = "; ".join(f"{letter}anolane" for letter in "qwxyz")
    assert fault(many, "forward")
    assert not (tmp_path / "asked").exists()
    assert fault("qanolane; wanolane; CCO", "forward")
    assert len((tmp_path / "asked").read_text().splitlines()) <= 2
