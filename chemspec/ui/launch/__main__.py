"""Serve the app: `python -m chemspec.ui.launch --server.port 8501`, with the options of `streamlit run`.

A file in a folder of its own, because Streamlit puts the folder of what is started onto the module path.
"""

from __future__ import annotations

import sys

import streamlit as st

from chemspec.asset_files import app_script, assets
from chemspec.ui.common.security import Headers
from chemspec.ui.launch import warm
from chemspec.ui.launch.head import StyledPage

EARLY = ("theme.css", "scheme.css", "answers.css", "early.css")  # of assets/web; the first page is Predict


def typed(value: str) -> bool | int | str:
    """Return an option's value as Streamlit's settings file would give it: a text "false" is no false."""
    if value in ("true", "false"):
        return value == "true"
    return int(value) if value.isdecimal() else value


def main(words: list[str]) -> int:
    """Serve until stopped."""
    from starlette.middleware import Middleware

    web = assets() / "web"
    styles = "".join((web / name).read_text(encoding="utf-8") for name in EARLY)
    config = {name.removeprefix("--"): typed(value) for name, value in zip(words[::2], words[1::2], strict=True)}
    sys.argv = sys.argv[:1]
    around = [Middleware(StyledPage, styles=f"<style>{styles}</style>"), Middleware(Headers)]
    app = st.App(app_script(), middleware=around)
    warm.start()
    app.run(config=config)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
