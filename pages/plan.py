"""Search routes of several steps from a molecule to things that one can buy."""

import streamlit as st

from chemspec.engine.engine import models_dir
from chemspec.system import extras
from chemspec.ui.common import nav, queued_engine


def body() -> None:
    """Draw the page."""
    st.title("Plan a synthesis")
    if not all(map(extras.is_installed, ("syntheseus", "apted"))):
        st.info("Planning needs two more packages: `pip install 'chemspec[plan]'`, then start the app again.")
        return
    if not queued_engine.models("retro"):
        st.info(f"No retro model is installed. Put a model folder into `{models_dir()}`; the page *Models* says more.")
        return
    from chemspec.ui.plan import ask, live, view  # Syntheseus takes seconds to import

    if asked := ask.ask():
        expander = live.expander()
        if plan := live.search(asked, expander):
            view.show(plan, expander)


nav.page(body)
