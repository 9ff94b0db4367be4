"""Read the HTML, CSS, JavaScript and text that lie beside a module, under its name."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def web_file(module: str, kind: str) -> str:
    """Return the text of the file beside a module that differs from it in its ending only.

    Args:
        module: `__file__` of the module.
        kind: the ending: "html", "css", "js", "md", "txt".
    """
    return Path(module).with_suffix(f".{kind}").read_text(encoding="utf-8")
