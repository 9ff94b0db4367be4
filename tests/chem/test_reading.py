"""What chemists paste: a table of texts (texts.jsonl) with the molecules that are meant, or why the text is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from paths import TESTS

from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.names.lookup import look_up

ROWS = [json.loads(line) for line in (TESTS / "chem" / "texts.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_texts_are_read_as_they_are_meant(row: dict[str, Any]) -> None:
    read = formats.read_any(row["text"], task=row["task"])
    if "fault" in row:
        assert isinstance(read, chem.Fault), read
        assert row["fault"] in read.message
        assert 0 <= read.start <= read.end <= len(row["text"])
    else:
        assert isinstance(read, formats.Input), read
        assert read.smiles == chem.canonical(row["smiles"])
        assert row.get("note", "") in " ".join(read.notes)
        assert chem.canonical(read.ordered) == read.smiles


def test_carbon_at_a_metal_is_no_radical() -> None:
    (metal, radical) = (formats.read_any(text, task="forward") for text in ("C[Mg]Br", "C[C](C)C"))
    assert isinstance(metal, formats.Input) and metal.notes == ()
    assert isinstance(radical, formats.Input) and "read as a radical" in radical.notes[0]


def test_a_descriptor_of_a_molecule_with_several_centres_is_no_name() -> None:
    assert look_up("(R)-glucose") is None
    assert look_up("(S)-ethanol") is None


@pytest.mark.parametrize("mark", ["@", "@@"])
def test_a_bridgehead_nitrogen_is_read_without_its_stereo_and_says_so(mark: str) -> None:
    read = formats.read_any(f"COc1ccc2nccc([C@@H](O)[C@H]3C[C@@H]4CC[N{mark}]3C[C@@H]4C=C)c2c1", task="retro")
    assert isinstance(read, formats.Input)
    assert read.smiles == "C=C[C@H]1CN2CC[C@H]1C[C@@H]2[C@H](O)c1ccnc2ccc(OC)cc12"
    assert any("nitrogen left out" in note for note in read.notes)
    ammonium = formats.read_any("CCC[N@+](C)(CC)c1ccccc1", task="retro")  # a stereocentre of its own
    assert isinstance(ammonium, formats.Input) and "[N@" in ammonium.smiles
