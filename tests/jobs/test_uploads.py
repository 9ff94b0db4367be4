"""Uploaded files: what is read as what, and nothing in one can do harm."""

from __future__ import annotations

import gzip
import io
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow
import pytest
from helpers import warm_process
from helpers.case_tables import table
from helpers.thinned import every
from pyarrow import parquet

from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.molecules import parsing
from chemspec.io import structures
from chemspec.io.readers import FileError
from chemspec.jobs import uploads
from chemspec.jobs.uploads import Sheet


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files in forks of a process that has imported what it needs."""
    monkeypatch.setattr(uploads.subprocess, "run", warm_process.run)


def parquet_of(**columns: Any) -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), buffer, compression="zstd")
    return buffer.getvalue()


def book_of(lines: list[list[Any]]) -> bytes:
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    for line in lines:
        book.active.append(line)
    book.save(buffer)
    return buffer.getvalue()


def zip_of(**parts: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return buffer.getvalue()


def with_part(book: bytes, name: str, part: bytes) -> bytes:
    """A workbook with another content of one of its parts."""
    with zipfile.ZipFile(io.BytesIO(book)) as archive:
        return zip_of(**{each: part if each == name else archive.read(each) for each in archive.namelist()})


SHEET = "xl/worksheets/sheet1.xml"
LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "ha">%s]><worksheet
xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row><c t="str"><v>&a9;</v></c></row>
</sheetData></worksheet>""" % b"".join(
    b'<!ENTITY a%d "%s">' % (k, b"&a%d;" % (k - 1) * 10 if k else b"&a;" * 10) for k in range(10)
)
SDF = formats.to_sdf(
    [{"smiles": "CCO", "name": "spirit", "price": 3}, {"smiles": "[Na+].[OH-]", "name": "", "price": ""}]
)
SDF_ROWS = (("CCO", "spirit", "CCO", "spirit", "3"), ("[Na+].[OH-]", "", "[Na+].[OH-]", "", ""))
TABLE = b"id,smiles\n1,CCO\n2,\n"


@pytest.mark.parametrize(
    ("name", "raw", "columns", "cells"),
    [
        ("a.csv", TABLE, ("id", "smiles"), (("1", "CCO"), ("2", ""))),
        ("A.CSV.GZ", gzip.compress(TABLE, mtime=0), ("id", "smiles"), (("1", "CCO"), ("2", ""))),
        ("../../a.tsv", b"a\tb\nC\t\n", ("a", "b"), (("C", ""),)),
        ("<script>.smi", b"CCO ethanol\n\nCC\n", ("",), (("CCO ethanol",), ("",), ("CC",))),
        ("a.smiles", b"CCO.CC(=O)O ethyl acetate\n", ("",), (("CCO.CC(=O)O",),)),  # the product, not a reactant
        ("a.txt", b"CCO\r\nCC", ("",), (("CCO",), ("CC",))),
        ("a.parquet", parquet_of(id=[1, 2], s=["CCO", None]), ("id", "s"), (("1", "CCO"), ("2", ""))),
        ("a.parquet.gz", gzip.compress(parquet_of(s=['a,"b"\n']), mtime=0), ("s",), (('a,"b"\n',),)),
        ("a.parquet", parquet_of(**{"s;t;u": ["C", "C;C"]}), ("s;t;u",), (("C",), ("C;C",))),
        (
            "a.xlsx",
            book_of([["id", "name"], [], [1, "aniline"], [2.5]]),
            ("id", "name"),
            (("1", "aniline"), ("2.5", "")),
        ),
        ("a.xlsx", book_of([["a", "b"], ["=1+1", "CC"]]), ("a", "b"), (("", "CC"),)),  # no formula is computed
        ("a.sdf", SDF.encode(), ("smiles", "name", "smiles_given", "name_given", "price"), SDF_ROWS),
    ],
    ids=lambda part: part if isinstance(part, str) else "",  # pytest would name a test by its bytes
)
@pytest.mark.usefixtures("forked")
def test_the_rows_of_a_file(name: str, raw: bytes, columns: Any, cells: Any) -> None:
    assert uploads.read_upload(raw, name) == Sheet(columns, cells)


@pytest.mark.parametrize(
    ("name", "raw", "part"),
    [
        *((name, text.encode(), part) for name, text, part in table("jobs/refused_texts")),
        ("a.csv", b"x" * 50_000_000, "50 MB; 10 are the limit"),
        ("a.csv.gz", partial(gzip.compress, b"C\n" * 15_000_000, mtime=0), "more than 20 MB"),
        ("a.smi", b"C\n" * 10_001, "more than 10,000 rows"),
        ("a.smi", b"C\r" * 10_001, "more than 10,000 rows"),
        ("a.csv", b"s\n" + b"C\n" * 10_001, "more than 10,000 rows"),
        ("a.parquet", parquet_of(s=["C"] * 10_001), "more than 10,000 rows"),
        ("a.csv", b"a," * 50 + b"\n", "51 columns"),
        ("a.parquet", parquet_of(**{f"c{k}": ["C"] for k in range(51)}), "51 columns"),
        ("a.csv", b'a\n"' + b"C" * 200_000, "not a table"),
        ("a.parquet", parquet_of(), "no rows"),
        ("a.xlsx", zip_of(a=b"C"), "not a readable workbook"),
        ("a.xlsx", book_of([]), "is empty"),
        ("a.xlsx", book_of([["a"], ["C", "C"]]), "row 2 has 2 cells, the header 1"),
        ("a.xlsx", book_of([["C"] * 51]), "51 columns"),
        ("a.xlsx", with_part(book_of([["a"]]), SHEET, LAUGHS), "not a readable workbook|memory|damaged"),
        ("a.xlsx", partial(with_part, book_of([["a"]]), SHEET, bytes(250_000_000)), "to 25. MB; the limit is 200"),
        ("a.sdf", b"$$$$\n" * 20_001, "20,001 records"),
        ("a.xls", b"\xd0\xcf\x11\xe0", "cannot be read here"),
        ("a.gz", gzip.compress(b"C\n", mtime=0), "cannot be read here"),
        ("a.csv.gz.gz", gzip.compress(gzip.compress(b"C\n", mtime=0), mtime=0), "cannot be read here"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",  # as above
)
@pytest.mark.usefixtures("forked")
def test_a_file_beyond_a_limit_is_refused(name: str, raw: bytes | Callable[[], bytes], part: str) -> None:
    content = raw if isinstance(raw, bytes) else raw()
    with pytest.raises(FileError, match=part):
        uploads.read_upload(content, name)


@pytest.mark.usefixtures("forked")
def test_a_file_that_unfolds_to_gigabytes_takes_no_memory_here() -> None:
    zipped = gzip.compress(bytes(1_000_000) * 100, 1, mtime=0)
    strings = pyarrow.array(["C" * 1_000_000])
    table = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 5000, pyarrow.int32()), strings)
    bomb = parquet_of(smiles=table)  # 5 GB in a few hundred bytes
    long = parquet_of(
        smiles=pyarrow.DictionaryArray.from_arrays(
            pyarrow.array([0] * 64, pyarrow.int32()), pyarrow.array(["C" * 20_000_000])
        )
    )
    tracemalloc.start()
    with pytest.raises(FileError, match="more than 20 MB, the limit"):
        uploads.read_upload(zipped, "a.csv.gz")
    with pytest.raises(FileError, match="more than 20 MB of text"):
        uploads.read_upload(bomb, "a.parquet")
    with pytest.raises(FileError, match="memory"):
        uploads.read_upload(long, "a.parquet")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 250_000_000


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("name", ["a.sdf", "a.sdf.gz", "a.txt"])
def test_files_of_structures_are_read_by_a_process_of_their_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structures, "read_structure_rows", None)  # whoever reads them in this process fails
    raw = gzip.compress(SDF.encode(), mtime=0) if name.endswith(".gz") else SDF.encode()
    assert uploads.read_upload(raw, name).rows == SDF_ROWS


@pytest.mark.parametrize("case", every(4, [("a.smi", 2), ("a.csv", 1), ("a.tsv", 1), ("a.txt", 2), ("a.csv.gz", 1)]))
def test_lists_and_tables_are_read_by_another_process(case: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    name, rows = case
    monkeypatch.setattr(uploads.readers, "read_list", None)  # whoever reads them in this process fails
    monkeypatch.setattr(uploads, "read_table", None)
    raw = b"SMILE,b\nCC,b\n" if rows == 1 else b"CCO\nCC\n"
    raw = gzip.compress(raw, mtime=0) if name.endswith(".gz") else raw
    assert len(uploads.read_upload(raw, name).rows) == rows
    monkeypatch.setitem(uploads.KINDS, uploads.TEXT, ("json", 0.001))
    with pytest.raises(FileError, match=r"memory or time|too long to read"):
        uploads.read_upload(b"CCO,1\n" * 9000, name.removesuffix(".gz"))


@pytest.mark.parametrize("filler", ["1 - ", "1,", "a- ", "C1 ", "x" * 50 + "( ", "[", "CCO + ", "ethanol "])
def test_long_titles_of_a_list_take_no_time(filler: str) -> None:
    lines = ["CCO " + filler * (8000 // len(filler)) for _ in range(200)]
    began = time.process_time()
    read = list(uploads.readers.read_list([*lines, "CCC x"], titled=True))
    assert read[0] == "CCO" and read[-1] in ("CCC x", "CCC") and len(read) == 201
    assert time.process_time() - began < 1.0  # 5.9 s for one line of 32 kB when titles were read


def test_few_files_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "BUSY_SECONDS", 0.01)
    taken = 0
    while uploads.READING.acquire(blocking=False):
        taken += 1
    try:
        assert taken >= 2
        with pytest.raises(FileError, match="reading other files; try again"):
            uploads.read_upload(b"CCO\n", "a.smi")
    finally:
        uploads.READING.release(taken)
    assert uploads.read_upload(b"CCO\n", "a.smi").rows == (("CCO",),)


def test_columns_are_guessed_from_few_characters_and_few_hard_structures(monkeypatch: pytest.MonkeyPatch) -> None:
    parsing.try_in_process.cache_clear()
    tried: list[str] = []
    monkeypatch.setattr(parsing.SANDBOX, "ask", lambda _, text: tried.append(text) or "")
    rows = [(f"{number}", "N" * number + "Cc1ccccc1" * 10) for number in range(1, 40)]
    assert uploads.guess_query_column(("a", "b"), rows) == 1
    assert 0 < len(tried) <= uploads.SAMPLED_TRIALS and parsing.TRIALS.get() is None
    assert len(list(uploads.sample_rows([("C" * 3000,) * 50] * 50))) == 1


@pytest.mark.parametrize(
    ("fate", "seconds", "words"), [("kill -SEGV $$", 200, "damaged"), ("exec sleep 600", 0.1, "too long")]
)
def test_a_reader_that_dies_or_hangs_is_told(
    fate: str, seconds: float, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{fate}\n")
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setitem(uploads.KINDS, uploads.STRUCTURES, ("json", seconds))
    with pytest.raises(FileError, match=words):
        uploads.read_upload(SDF.encode(), "a.sdf")


@pytest.mark.usefixtures("forked")
def test_a_record_that_cannot_be_read_keeps_its_text_so_that_its_fault_is_told() -> None:
    broken = SDF.replace(" O  ", " Xx ", 1)
    (first, *_), (second, *_) = uploads.read_upload(broken.encode(), "a.sdf").rows
    assert "M  END" in first and second == "[Na+].[OH-]"
    fault = formats.read_input(first, task="forward")
    assert isinstance(fault, chem.Fault) and "Xx" in fault.message


@pytest.mark.usefixtures("forked")
def test_reactions_of_an_rdf_are_rows() -> None:
    whole = ["CC(=O)Cl.Nc1ccccc1>>CC(=O)Nc1ccccc1", "CCO>>CC=O"]
    records = [f"$RFMT\n{formats.to_rxn(*one.split('>>'))}$DTYPE yield\n$DATUM 9{n}\n" for n, one in enumerate(whole)]
    read = uploads.read_upload(f"$RDFILE 1\n$DATM now\n{''.join(records)}".encode(), "a.rdf")
    assert read == Sheet(("smiles", "name", "yield"), ((whole[0], "", "90"), (whole[1], "", "91")))


@pytest.mark.usefixtures("forked")
def test_a_first_line_may_be_a_row() -> None:
    assert uploads.read_upload(b"CCO,a\nCC,b\n", "a.csv").rows == (("CCO", "a"), ("CC", "b"))
    assert uploads.read_upload(b"CN,a\nCC,b\n", "a.csv").rows == (("CC", "b"),)
    assert uploads.read_upload(b"SMILES,CNS\nCC,b\n", "a.csv").columns == ("SMILES", "CNS")


@pytest.mark.parametrize(("columns", "cells", "place"), table("jobs/guessed_columns"))
def test_the_column_is_guessed(columns: Any, cells: Any, place: int) -> None:
    assert uploads.guess_query_column(columns, [cells]) == place


def test_as_many_rows_as_are_allowed_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MAX_ROWS", 3)
    lines = [["smiles"], ["CCO"], ["CCN"], ["CCC"]]
    assert len(uploads.make_sheet(iter(lines)).rows) == 3
    with pytest.raises(FileError, match="more than 3 rows"):
        uploads.make_sheet(iter([*lines, ["CCCC"]]))


def test_the_form_names_the_formats() -> None:
    for name in ("CSV", "TSV", "XLSX", "Parquet", "SDF", "RXN", "SMI", "TXT"):
        assert name in uploads.LIMITS.replace(",", "").split(), name


def test_texts_that_are_too_hard_to_try_count_as_molecules(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> bool:
        raise parsing.TooManyTrialsError

    monkeypatch.setattr(chem, "is_valid", refuse)
    assert uploads.guess_query_column(["a", "b", "c"], [["1", "c1ccccc1" * 10, "2"]] * 3) == 1
