"""Texts in a file's place: the pointer of Git LFS that a clone without it has, and the page of a failed download."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

START = 200  # bytes that tell
_PAGE = "a web page, not the file itself: the download was refused, or the address is that of a page"
_MARKS = {
    b"version https://git-lfs": "a Git LFS pointer, not the file itself; run git lfs pull",
    b"<!doctype html": _PAGE,
    b"<html": _PAGE,
}


def describe_stand_in(content: bytes) -> str:
    """Return what a file that begins with these bytes is if something else was meant to be in its place; else empty."""
    start = content[:START].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return next((what for mark, what in _MARKS.items() if start.startswith(mark)), "")


def refuse_stand_in(source: Path | bytes, where: object, error: type[ValueError] = ValueError) -> None:
    """Raise an error that names what stands in the place of a file, if anything does; unreadable files pass."""
    content = source if isinstance(source, bytes) else _start_of(source)
    if what := describe_stand_in(content):
        raise error(f"{where} is {what}")


def find_stand_in(files: Iterable[Path]) -> str:
    """Return the first of some files that is none itself, and what stands in its place; empty if there is none."""
    return next((f"{file} is {what}" for file in files if (what := describe_stand_in(_start_of(file)))), "")


def _start_of(path: Path) -> bytes:
    with suppress(OSError), path.open("rb") as file:
        return file.read(START)
    return b""
