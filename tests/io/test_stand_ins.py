"""A pointer of Git LFS or a web page in the place of a file is refused by its name at every importer."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from chemspec.chem.reading.names import lab_names
from chemspec.data.shards import read_rows
from chemspec.io import readers
from chemspec.jobs import uploads
from chemspec.stock import lists, offers

CONTENTS = {
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
    "a web page": b"\xef\xbb\xbf\n<!DOCTYPE html>\n<html><title>Sign in</title></html>\n",
}
ENDINGS = [*readers.ENDINGS, ".csv.gz", ".pb.gz", ".json"]


@pytest.mark.parametrize("what", CONTENTS)
def test_what_stands_in_the_place_of_a_file_is_named(tmp_path: Path, what: str) -> None:
    content = CONTENTS[what]
    for ending in ENDINGS:
        file = tmp_path / f"file{ending}"
        file.write_bytes(content)
        importers: list[Callable[[], object]] = [
            lambda file=file: readers.read_queries(file),  # type: ignore[misc]
            lambda file=file: next(read_rows(file)),  # type: ignore[misc]
            lambda name=file.name: uploads.read_upload(content, name),  # type: ignore[misc]
            lambda name=file.name: offers.read_price_list(content, name),  # type: ignore[misc]
            lambda name=file.name: lists.parse_stock(content, name),  # type: ignore[misc]
            lambda file=file: lists.load_stock([str(file)]),  # type: ignore[misc]
        ]
        for read in importers:
            with pytest.raises(ValueError, match=f"is {re.escape(what)}, not the file itself"):
                read()


def test_names_of_a_lab_are_no_pointer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "ours.tsv").write_bytes(CONTENTS["a Git LFS pointer"])
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    lab_names.lab_names.cache_clear()
    with pytest.warns(RuntimeWarning, match="not used: it is a Git LFS pointer"):
        assert lab_names.lab_names() == {}
    lab_names.lab_names.cache_clear()
