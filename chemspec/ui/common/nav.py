"""The shell around every page: title, theme, navigation.

Streamlit knows two ways to have several pages: a folder `pages/`, and `st.navigation`. The first visitor of a fresh
server who opens a deep link gets the folder way, with a bare page, because the script that calls `st.navigation` has
not run yet. So a page file does not draw: it hands its body to `run_page`, which draws it inside the shell, starting
the shell if needed.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from chemspec.asset_files import app_script, assets_folder
from chemspec.system import gpu
from chemspec.ui.common import escaping, login, queued_engine, theme
from chemspec.ui.common.web_files import web_file
from chemspec.ui.launch import DEPTHS, middleware

# File in pages/, which is also the address (of the first: /); title.
PAGES = (
    ("predict", "Predict"),
    ("plan", "Plan"),
    ("batch", "Batch"),
    ("chemistry", "Your chemistry"),
    ("collections", "Collections"),
    ("learn", "How it works"),  # this and the rest stand at the right of the bar, see theme.css
    ("models", "Models"),
)
ICON = "⌬"
_INSIDE = "_inside_the_shell"


def run_app_shell(folder: Path) -> None:
    """Draw navigation and the chosen page; `folder` is where app.py lies."""
    middleware.hide_log_messages()
    st.set_page_config(page_icon=ICON, layout="wide", initial_sidebar_state="collapsed")
    st.html(assets_folder() / "web" / "theme.css")  # first: what is drawn before it arrives would move
    pages = [
        st.Page(folder / "pages" / f"{name}.py", title=title, url_path=name if number else None, default=number == 0)
        for number, (name, title) in enumerate(PAGES)
    ]
    for depth in DEPTHS:
        pages.append(
            st.Page(partial(open_learn_depth, depth), title="How it works", url_path=depth, visibility="hidden")
        )
    chosen = st.navigation(pages, position="top")
    st.set_page_config(page_title=f"{chosen.title} · chemspec")
    st.logo(str(assets_folder() / "web" / f"logo_{'dark' if theme.is_dark() else 'light'}.svg"), size="large")
    with st.container(key="shell"):  # theme.css hides it
        st.html(f"<script>{web_file('shell.js')}</script>", unsafe_allow_javascript=True)
    login.require_login()
    if notices := unseen_notices():  # before models are loaded, which would give it to the log
        st.toast(escaping.plain_text(notices.pop()), icon="ℹ️", duration="infinite")
    queued_engine.warm_up_models()
    st.session_state[_INSIDE] = True
    try:
        chosen.run()
    finally:
        st.session_state[_INSIDE] = False


@st.cache_resource(show_spinner=False)
def unseen_notices() -> list[str]:
    """Return what the first visitor is shown once: that a GPU of this machine is not used, and the remedy."""
    return [notice] if (notice := gpu.first_gpu_notice()) else []


def run_page(body: Callable[[], None]) -> None:
    """Draw a page's body inside the shell; a file in pages/ ends with this call."""
    context = get_script_run_ctx()
    main = Path(context.main_script_path) if context else Path()
    if st.session_state.get(_INSIDE) or main.name != "app.py":
        body()
    else:
        run_app_shell(main.parent)


def open_learn_depth(name: str) -> None:
    """Open a depth of How it works with the rest of the address."""
    query = {key: [*st.query_params.get_all(key)] for key in st.query_params}
    open_page("learn", **query | {"depth": [name]})


def open_page(name: str, **query: str | list[str]) -> None:
    """Open another page with query parameters, as a link to it would."""
    st.switch_page(app_script().parent / "pages" / f"{name}.py", query_params=query)
