"""Tables of others: Parquet, workbooks, SDF and RDF as files of queries, and price lists."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from random import Random

from programs.fuzzing.mutate import broken, mutated
from programs.fuzzing.tools import Tools

WHEN = b"2026-01-01T00:00:00Z"  # every time, so that a seed gives the same cases
MOL = "\n  x\n\n  2  1  0  0  0  0  0  0  0  0999 V2000\n{0}C  {1}\n{0}O  {1}\n  1  2  1  0\nM  END\n".format(
    "    0.0000    0.0000    0.0000 ", " 0  0  0  0  0  0  0  0  0  0  0  0"
)
RXN = "$RXN\n\n\n\n  1  1\n$MOL\n" + MOL + "$MOL\n" + MOL
SDF = MOL + "> <name>\nx\n\n> <smiles>\nCCO\n\n$$$$\n" + MOL + "$$$$\n"
RDF = "$RDFILE 1\n$DATM 01/01/01\n$RFMT\n" + RXN + "$DTYPE note\n$DATUM x\n$RFMT\n" + RXN
PRICES = (
    "smiles,price,currency,amount,supplier\nCCO,12.50,EUR,g,Acme\nNc1ccccc1,1.250,USD,5 g,Other\naspirin,-1,,,\n",
    "InChIKey;EUR/g;Vendor\nLFQSCWFLJHTTHZ-UHFFFAOYSA-N;12,50;x\nx;1 000;y\n",
    "name\tcost\nethanol\t£3 for 100 mg\nwater\tfree\n",
)


@cache
def parquet() -> tuple[bytes, ...]:
    """Return Parquet files of several makes: texts, numbers, dates, lists, dictionaries."""
    import pyarrow as pa
    from pyarrow import parquet as files

    found = []
    for compression, kind in (("none", pa.string()), ("snappy", pa.large_string()), ("zstd", pa.binary())):
        into = io.BytesIO()
        columns = {
            "smiles": pa.array(["CCO", "CN", None], pa.string()).cast(kind),
            "n": pa.array([1, 2, 3], pa.int64()),
            "when": pa.array([0, 1, None], pa.timestamp("ns")),
            "list": pa.array([["a"], [], None], pa.list_(pa.string())),
            "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
        }
        files.write_table(pa.table(columns), into, compression=compression)
        found.append(into.getvalue())
    return tuple(found)


@cache
def workbook() -> bytes:
    """Return a workbook of one sheet."""
    from chemspec.io import spreadsheets

    made = spreadsheets.write_workbook(["smiles", "price", "supplier"], [["CCO", 12.5, "Acme"], ["CN", "=1+1", "x"]])
    with zipfile.ZipFile(io.BytesIO(made)) as old:
        return _zipped({name: re.sub(rb"\d{4}-\d\d-\d\dT[\d:]+Z", WHEN, old.read(name)) for name in old.namelist()})


def _zipped(parts: dict[str, bytes]) -> bytes:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as new:
        for name, part in parts.items():
            new.writestr(zipfile.ZipInfo(name), part)  # without the time of today
    return into.getvalue()


def _workbook(random: Random) -> bytes:
    """Return a workbook of which the parts, or the whole, are changed."""
    if random.random() < 0.4:
        return broken(workbook(), random)
    with zipfile.ZipFile(io.BytesIO(workbook())) as old:
        parts = {name: old.read(name) for name in old.namelist() if random.random() > 0.02}
    chosen = random.choice([*parts])
    text = mutated(parts[chosen].decode("utf-8"), random, 6)
    parts[chosen] = text.encode("utf-8", "replace") if random.random() < 0.8 else b""
    return _zipped(parts)


def table(random: Random) -> bytes:
    """Return the ending of a file's name, a line end, and its content."""
    ending = random.choice((".parquet", ".xlsx", ".sdf", ".rdf", ".sd"))
    if ending == ".parquet":
        raw = broken(random.choice(parquet()), random, 3)
    elif ending == ".xlsx":
        raw = _workbook(random)
    else:
        text = RDF if ending == ".rdf" else SDF
        raw = mutated(text, random, 6).encode(random.choice(("utf-8", "utf-16", "latin-1")), "replace")
    if ending != ".parquet" and random.random() < 0.15:
        ending, raw = f"{ending}.gz", _packed(raw, random)
    return ending.encode() + b"\n" + raw


def _packed(raw: bytes, random: Random) -> bytes:
    raw = gzip.compress(raw, mtime=0)
    return broken(raw, random, 2) if random.random() < 0.5 else raw


def read_table(case: bytes, tools: Tools) -> None:
    """Read a file as the command line does, and as the app's process for such files does."""
    from chemspec.io import readers
    from chemspec.jobs import uploads

    head, _, raw = case.partition(b"\n")
    ending = head.decode()
    path = tools.work / f"file{ending}"
    path.write_bytes(raw)
    for column in ("", "smiles", "n", "when", "list", "kind"):
        with suppress(readers.FileError):
            assert all(isinstance(text, str) for text in readers.read_queries(path, column))
    if ending in uploads.COMPRESSED or ".xlsx" not in ending:
        kind = ending if ending in uploads.COMPRESSED else uploads.TEXT
        with suppress(ValueError, MemoryError):  # what a process of its own tells, or is ended by
            for row in uploads.READERS[kind](raw, path.name):
                assert all(isinstance(cell, str) for cell in row)


def prices(random: Random) -> bytes:
    """Return the name of a price list, a line end, and its content."""
    ending = random.choice((".csv", ".csv", ".tsv", ".txt", ".xlsx"))
    if ending == ".xlsx":
        raw = _workbook(random)
    else:
        text = random.choice(PRICES)
        raw = mutated(text, random, 6).encode(random.choice(("utf-8", "utf-16", "latin-1")), "replace")
    if random.random() < 0.2:
        ending, raw = f"{ending}.gz", _packed(raw, random)
    return f"prices{ending}".encode() + b"\n" + raw


def read_prices(case: bytes, __: Tools) -> None:
    """Read a price list, and the same file as a list of what can be bought."""
    from chemspec.stock import lists, offers

    head, _, raw = case.partition(b"\n")
    name = head.decode()
    readings: tuple[Callable[[], object], ...] = (
        lambda: offers.read_price_list(raw, name),
        lambda: lists.parse_offers(raw, name),
        lambda: lists.parse_stock(raw, name),
    )
    for reading in readings:
        with suppress(ValueError):
            found = reading()
            if isinstance(found, offers.PriceList):
                assert all(lists.KEY.fullmatch(key) for key in found.offers)
                assert all(len(str(offer)) < 500 for offer in found.offers.values())
