"""Files for the browser: the app's own in assets/web, and third-party JavaScript, optional, built by hatch_build.py."""

import os
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from chemspec.asset_files import assets_folder


@cache
def web_file(name: str) -> str:
    """Return the text of a file of assets/web, such as "race.css"."""
    return (assets_folder() / "web" / name).read_text(encoding="utf-8")


@st.cache_resource(show_spinner=False)
def component(name: str, html: str = "") -> Any:
    """Return the component of `name`.html (or `html`), .css and .js, registered once per server process."""
    files = {kind: assets_folder() / "web" / f"{name}.{kind}" for kind in ("html", "css", "js")}
    parts: dict[str, Any] = {kind: web_file(file.name) for kind, file in files.items() if file.is_file()}
    parts.setdefault("html", html)
    return st.components.v2.component(f"chemspec_{name}", **parts)


# What each part cannot do without.
PARTS = {"ketcher": "index.html", "3dmol": "3Dmol-min.js"}
REMEDY = "with Node.js 18 or newer and a network, install chemspec again"


def vendor_dir() -> Path:
    """Return the folder of all parts: `CHEMSPEC_VENDOR`, or `assets/vendor` of the installation or the clone."""
    if chosen := os.environ.get("CHEMSPEC_VENDOR"):
        return Path(chosen).absolute()
    return assets_folder() / "vendor"


def part_folder(part: str) -> Path | None:
    """Return the folder of a part ("ketcher", "3dmol"); None where it was not built."""
    path = vendor_dir() / part
    return path if (path / PARTS[part]).is_file() else None


def missing_reason(part: str) -> str:
    """Return why a part is missing and what to do about it, in one line; empty if it is there."""
    if part_folder(part):
        return ""
    try:
        reason = " ".join((vendor_dir() / "why.txt").read_text(encoding="utf-8").split())
    except (OSError, UnicodeDecodeError):
        reason = ""
    return f"{reason or 'it was not built when chemspec was installed'} ({REMEDY})"
