"""Pages of the app without a browser."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from paths import ROOT
from streamlit.testing.v1 import AppTest

PAGES = ROOT / "pages"


def open_page(name: str, query: dict[str, str] | None = None, state: dict[str, Any] | None = None) -> AppTest:
    """A page as a visitor finds it who comes with query parameters, or with values in the session."""
    app = AppTest.from_file(str(PAGES / f"{name}.py"), default_timeout=240)
    for key, value in (query or {}).items():
        app.query_params[key] = value
    for key, value in (state or {}).items():
        app.session_state[key] = value
    app.run()
    assert not app.exception
    return app


def page_figures(app: AppTest) -> dict[str, str]:
    """The big figures of a page by their words, see `widgets.figures`."""
    bodies = "".join(item.proto.body for item in app.get("html"))
    return {unescape(small): unescape(big) for small, big in re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", bodies)}
