"""What all readers of files share: their error, and how a text is cut into lines."""

from __future__ import annotations


class FileError(ValueError):
    """A file that cannot be read or written as asked; the message says which and what to do."""


def split_lines(text: str) -> list[str]:
    """Lines, however they end; blank ones keep their place, but not at the end of the text."""
    # Not str.splitlines, which takes a good dozen other characters for line ends.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return lines
