"""A folder of shards holds each row once, refuses what is not its own, and loses nothing whenever its writer ends."""

from __future__ import annotations

import gzip
from pathlib import Path

import openpyxl
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from rdkit import Chem

from chemspec.cluster.dispatch import Piece
from chemspec.cluster.engines import results_to_table
from chemspec.cluster.job import predict_file
from chemspec.cluster.shards import ShardFolder, cut_into_shards, fit_shards, stored_shard_rows, stream_source
from chemspec.io.readers import FileError, read_queries
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

HOW = {"model": "d1", "n": 2}


def test_answers_do_not_lie_among_the_questions(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("smiles\nCC\n")
    with pytest.raises(FileError, match="is inside"):
        predict_file(tmp_path, tmp_path / "answers", DecodeSettings(), "retro")


def answers(piece: Piece) -> pyarrow.Table:
    return results_to_table(
        piece.first, [DecodeResult(query, "ok" if query != "x" else "invalid", "") for query in piece.queries]
    )


def write(folder: ShardFolder, piece: Piece) -> None:
    folder.add(piece, answers(piece), len(piece.queries))


@given(st.lists(st.text(max_size=3), max_size=30), st.integers(1, 8))
def test_rows_are_cut_into_shards_that_follow_each_other(queries: list[str], size: int) -> None:
    pieces = list(cut_into_shards(iter(queries), size))
    assert [query for piece in pieces for query in piece.queries] == queries
    assert [piece.first for piece in pieces] == list(range(0, len(queries), size))
    assert [piece.shard for piece in pieces] == list(range(len(pieces)))


@given(st.integers(1, 20_000), st.integers(1, 100))
def test_shards_fit_rows_and_engines(count: int, engines: int) -> None:
    rows, total, queries = fit_shards(map(str, range(count)), engines)
    assert sum(1 for _ in queries) == count
    assert total in (count, None) and (total is None) == (count >= engines * 4000)
    assert 32 <= rows <= 1000
    shards = -(-count // rows)
    assert shards >= min(engines, count // 32)  # every engine gets one, if there is a batch for each
    if 32 < rows < 1000:
        assert 3 * engines <= shards <= 4 * engines or count < 16 * engines


def test_a_folder_keeps_the_rows_of_its_shards(tmp_path: Path) -> None:
    assert stored_shard_rows(tmp_path) == 0
    with ShardFolder(tmp_path, {"format": 1, "shard_rows": 77}):
        assert stored_shard_rows(tmp_path) == 77
    for damaged in ("", "[]", '{"shard_rows": "7"}', '{"shard_rows": -1}'):
        (tmp_path / "manifest.json").write_text(damaged)
        assert stored_shard_rows(tmp_path) == 0


def test_all_files_of_a_folder_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no file of queries"):
        list(stream_source(tmp_path))
    (tmp_path / "b").mkdir()
    (tmp_path / "a.smi").write_text("C\nN\n\n")
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(b"id,smiles\n1,Cl\n"))
    (tmp_path / "d.sdf").write_text(f"{Chem.MolToMolBlock(Chem.MolFromSmiles('CCO'))}$$$$\n")
    parquet.write_table(pyarrow.table({"smiles": ["O", None]}), tmp_path / "b" / "b.parquet")
    book = openpyxl.Workbook()
    for row in (["smiles"], ["CN"]):
        book.active.append(row)
    book.save(tmp_path / "e.xlsx")
    (tmp_path / "notes.md").write_text("not this")
    assert list(stream_source(tmp_path)) == ["C", "N", "O", "", "Cl", "CCO", "CN"]
    assert list(stream_source(tmp_path / "a.smi")) == read_queries(tmp_path / "a.smi")


@given(data=st.data(), queries=st.lists(st.sampled_from(["C", "x", "é\n"]), min_size=1, max_size=20))
def test_parts_of_a_shard_make_one_file_in_order(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, queries: list[str]
) -> None:
    ends = sorted(data.draw(st.sets(st.integers(1, len(queries) - 1), max_size=5)) if len(queries) > 1 else [])
    bounds = list(zip([0, *ends], [*ends, len(queries)], strict=True))
    parts = [Piece(7, 100 + first, queries[first:end]) for first, end in data.draw(st.permutations(bounds))]
    with ShardFolder(tmp_path_factory.mktemp("out"), HOW) as folder:
        told = [folder.add(part, answers(part), len(queries)) for part in parts]
        assert told[:-1] == [None] * (len(parts) - 1)
        rows = parquet.read_table(folder.path(7)).to_pylist()
        assert [(row["row"], row["query"]) for row in rows] == [(100 + i, query) for i, query in enumerate(queries)]
        whole = Piece(7, 100, queries)
        assert told[-1] == folder.counts(whole)
        assert told[-1] is not None and told[-1]["invalid"] == queries.count("x")
        with pytest.raises(FileError, match="predictions for other rows"):
            folder.counts(Piece(7, 100, [*queries[:-1], "other"]))


def test_a_folder_goes_on_only_with_what_it_was_made_with(tmp_path: Path) -> None:
    with ShardFolder(tmp_path / "out", HOW) as folder:
        write(folder, Piece(0, 0, ["C"]))
    with ShardFolder(tmp_path / "out", HOW) as folder:
        assert folder.counts(Piece(0, 0, ["C"])) == {"ok": 1}
        assert folder.counts(Piece(1, 1, ["C"])) is None
    with pytest.raises(FileError, match="model d1 instead of d2"):
        ShardFolder(tmp_path / "out", {**HOW, "model": "d2"})
    (tmp_path / "out" / "manifest.json").write_text("{")
    with pytest.raises(FileError, match="damaged"):
        ShardFolder(tmp_path / "out", HOW)


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(FileError, match=r"precious\.txt"):
        ShardFolder(tmp_path, HOW)
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


def test_only_one_process_writes(tmp_path: Path) -> None:
    with ShardFolder(tmp_path, HOW), pytest.raises(FileError, match="another process"):
        ShardFolder(tmp_path, HOW)
    ShardFolder(tmp_path, HOW).__exit__(None, None, None)


def test_a_full_disk_leaves_no_half_a_shard_and_a_damaged_one_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    piece = Piece(0, 0, ["C"] * 5)
    with ShardFolder(tmp_path, HOW) as folder:
        with monkeypatch.context() as patch:
            patch.setattr("chemspec.system.files.os.fsync", full)
            with pytest.raises(OSError, match="No space"):
                write(folder, piece)
        assert folder.counts(piece) is None
        assert not [path for path in tmp_path.rglob("*") if path.suffix in (".partial", ".parquet")]
        write(folder, piece)
        assert folder.counts(piece) == {"ok": 5}
        raw = folder.path(0).read_bytes()
        folder.path(0).write_bytes(raw[: len(raw) // 2])
        assert folder.counts(piece) is None, "a damaged one is made again"


def test_shards_of_a_longer_input_are_refused_at_the_end(tmp_path: Path) -> None:
    with ShardFolder(tmp_path, HOW) as folder:
        for number in range(2):
            write(folder, Piece(number, number, ["C"]))
        folder.finish(2)
        with pytest.raises(FileError, match="2 shards, the input has 1"):
            folder.finish(1)
