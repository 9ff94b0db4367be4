"""Read the app's HTML, CSS, JavaScript and texts: one file of a component or page each, in assets/web."""

from __future__ import annotations

from functools import cache

from chemspec.asset_files import assets_folder


@cache
def web_file(name: str) -> str:
    """Return the text of a file of assets/web, such as "race.css"."""
    return (assets_folder() / "web" / name).read_text(encoding="utf-8")
