"""What an index is made of: each reaction once, with all that its rows know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.precedents_index import FORWARD, RETRO, files, make, write

from chemspec.precedents import build as building
from chemspec.precedents.build import build_index


def test_rows_of_one_reaction_are_put_together(tmp_path: Path) -> None:
    index, told = make(tmp_path)
    assert (told.rows, told.repeated, told.reactions, len(index)) == (6, 1, 5, 5)
    assert (told.with_reagents, told.with_patent, told.left_out) == (3, 3, 0)
    same = index.find("CC(=O)Cl.Nc1ccccc1", "CC(=O)Nc1ccccc1").same
    assert same is not None
    # The flask without maps was known to be this reaction, and brought its reagents; the first patent stays.
    assert same.reagents == "CCN(CC)CC.ClCCl"
    assert same.files == ("retro_train", "forward_train")
    assert same.patent == "US01000001"


def test_other_files_may_only_add_to_what_is_known(tmp_path: Path) -> None:
    retro, forward = files(tmp_path)
    told = build_index([retro], tmp_path / "index", reagents_from=[forward], workers=1)
    assert (told.reactions, told.with_reagents) == (3, 1)


def test_the_number_of_processes_and_of_chunks_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = files(tmp_path)
    build_index(tables, tmp_path / "one", workers=1)
    monkeypatch.setattr(building, "CHUNK", 2)
    build_index(tables, tmp_path / "two", workers=2)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_without_guessing_only_maps_count(tmp_path: Path) -> None:
    told = build_index(files(tmp_path), tmp_path / "index", guess=False, workers=1)
    assert (told.reactions, told.left_out) == (1, 4)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"product": "CCO", "reactants": "CCO"}], "no usable reaction"),
        ([{"product": "nonsense", "reactants": "CC("}], "no usable reaction"),
        ([{"smiles": "CCO"}], "has a product and reactants"),
    ],
)
def test_files_without_reactions_are_refused(rows: list[dict[str, str]], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        build_index([write(tmp_path / "a.csv.gz", rows)], tmp_path / "index", workers=1)
    assert not (tmp_path / "index").exists()


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    table = write(tmp_path / "a.csv.gz", RETRO)
    table.write_bytes(table.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"a\.csv\.gz is damaged"):
        build_index([table], tmp_path / "index", workers=1)


def test_bad_numbers_are_refused(tmp_path: Path) -> None:
    table = write(tmp_path / "a.csv.gz", FORWARD)
    with pytest.raises(ValueError, match="multiple of 64"):
        build_index([table], tmp_path / "index", bits=100)
    with pytest.raises(ValueError, match="1 to 8"):
        build_index([table] * 9, tmp_path / "index")


def test_an_interrupted_build_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = files(tmp_path)
    build_index(tables, tmp_path / "whole", workers=1)
    monkeypatch.setattr(building, "CHUNK", 1)
    measured: list[int] = []
    measure = building.measure_reactions

    def count(rows: Any, **options: Any) -> Any:
        if len(measured) == 2:
            raise KeyboardInterrupt
        measured.append(len(rows))
        return measure(rows, **options)

    monkeypatch.setattr(building, "measure_reactions", count)
    with pytest.raises(KeyboardInterrupt):
        build_index(tables, tmp_path / "parts", workers=1)
    stored = len(list((tmp_path / "parts.partial").glob("reactions-*")))
    assert stored == 2 and not (tmp_path / "parts").exists()
    done: list[tuple[int, int]] = []
    monkeypatch.setattr(building, "measure_reactions", measure)
    build_index(tables, tmp_path / "parts", workers=1, progress=lambda *numbers: done.append(numbers))
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not (tmp_path / "parts.partial").exists() and done[0][0] == 1
