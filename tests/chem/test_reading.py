"""What chemists paste: a table of texts (texts.jsonl) with the molecules that are meant, or why the text is refused."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from helpers.case_tables import table
from helpers.reading import fault, read

from chemspec import chem
from chemspec.chem.reading.molfile import label_refusal
from chemspec.chem.reading.names.lookup import look_up

CHAPTERS: dict[str, list[dict[str, Any]]] = defaultdict(list)  # a test for each row takes three times as long
for row in (*table("chem/texts"), *table("chem/paper_texts"), *table("chem/fresh_texts")):
    CHAPTERS[row["id"].partition(".")[0]].append(row)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_texts_are_read_as_they_are_meant(chapter: str) -> None:
    wrong = []
    for row in CHAPTERS[chapter]:
        try:
            check(row)
        except AssertionError as error:
            wrong.append(f"{row['id']}: {error}")
    assert not wrong, "\n".join(wrong)


def check(row: dict[str, Any]) -> None:
    """A text of the table."""
    if "fault" in row:
        why = fault(row["text"], row["task"])
        assert row["fault"] in why.message
        assert 0 <= why.start <= why.end <= len(row["text"])
    else:
        found = read(row["text"], row["task"])
        assert found.smiles == chem.canonical(row["smiles"])
        assert row.get("note", "") in " ".join(found.notes)
        assert chem.canonical(found.ordered) == found.smiles


def test_carbon_at_a_metal_is_no_radical() -> None:
    assert read("C[Mg]Br", "forward").notes == ()
    assert "read as a radical" in read("C[C](C)C", "forward").notes[0]


def test_a_descriptor_of_a_molecule_with_several_centres_is_no_name() -> None:
    assert look_up("(R)-glucose") is None
    assert look_up("(S)-ethanol") is None


@pytest.mark.parametrize("mark", ["@", "@@"])
def test_a_bridgehead_nitrogen_is_read_without_its_stereo_and_says_so(mark: str) -> None:
    found = read(f"COc1ccc2nccc([C@@H](O)[C@H]3C[C@@H]4CC[N{mark}]3C[C@@H]4C=C)c2c1")
    assert found.smiles == "C=C[C@H]1CN2CC[C@H]1C[C@@H]2[C@H](O)c1ccnc2ccc(OC)cc12"
    assert any("nitrogen left out" in note for note in found.notes)
    assert "[N@" in read("CCC[N@+](C)(CC)c1ccccc1").smiles  # a stereocentre of its own


def test_a_paragraph_has_twelve_words_or_more() -> None:
    words = "Benzoic acid (1.0 g) was stirred with aniline (0.8 g) at reflux."
    assert len(words.split()) == 12
    assert "paragraph" in " ".join(read(words, "forward").notes)


@pytest.mark.parametrize("symbol", ["*", "(C", "C"])
def test_a_label_is_refused_on_an_atom_of_any_symbol(symbol: str) -> None:
    assert f"stands on an atom {symbol};" in label_refusal("Boc", symbol)
    assert not label_refusal(f"{symbol}12", symbol)
