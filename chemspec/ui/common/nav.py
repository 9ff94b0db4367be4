"""The shell around every page: title, theme, navigation.

The pages are in `app_pages/`: those of a folder named `pages/` Streamlit would draw by itself, without the shell.
"""

from pathlib import Path

import streamlit as st

from chemspec.asset_files import app_script, assets_folder
from chemspec.ui.common import login, queued_engine, theme
from chemspec.ui.common.web_files import web_file
from chemspec.ui.launch import middleware

# File in app_pages/, which is also the address (of the first: /); title.
PAGES = (
    ("predict", "Predict"),
    ("plan", "Plan"),
    ("batch", "Batch"),
    ("collections", "Collections"),
    ("learn", "How it works"),  # from here on at the right of the bar, see theme.css
    ("step", "Step through"),
    ("speed", "Speed"),
    ("models", "Models"),
)
ICON = "⌬"


def run_app() -> None:
    """Draw navigation and the chosen page."""
    middleware.hide_log_messages()
    st.set_page_config(page_icon=ICON, layout="wide", initial_sidebar_state="collapsed")
    st.html(assets_folder() / "web" / "theme.css")  # first: what is drawn before it arrives would move
    pages = [
        st.Page(page_script(name), title=title, url_path=name if number else None, default=number == 0)
        for number, (name, title) in enumerate(PAGES)
    ]
    chosen = st.navigation(pages, position="top")
    st.set_page_config(page_title=f"{chosen.title} · chemspec")
    st.logo(str(assets_folder() / "web" / f"logo_{'dark' if theme.is_dark() else 'light'}.svg"), size="large")
    with st.container(key="shell"):  # which theme.css hides
        st.html(f"<script>{web_file('shell.js')}</script>", unsafe_allow_javascript=True)
    login.require_login()
    queued_engine.warm_up_models()
    chosen.run()


def open_page(name: str, **query: str) -> None:
    """Open another page with query parameters, as a link to it would."""
    st.switch_page(page_script(name), query_params=query)


def page_script(name: str) -> Path:
    """Return the script of a page."""
    return app_script().parent / "app_pages" / f"{name}.py"
