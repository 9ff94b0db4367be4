"""The page Plan: multi-step routes from a molecule to purchasable building blocks."""

import streamlit as st

from chemspec.engine.engine import models_dir
from chemspec.system import extras
from chemspec.ui.common import nav, queued_engine


def draw_page() -> None:
    """Draw the page."""
    st.title("Plan a synthesis")
    if not all(map(extras.is_installed, ("syntheseus", "apted"))):
        st.info(f"Planning needs two more packages: `{extras.install_command('plan')}`, then start the app again.")
        return
    if not queued_engine.model_names("retro"):
        st.info(f"No retro model is installed. Put a model folder into `{models_dir()}`; the page *Models* says more.")
        return
    from chemspec.ui.plan import plan_view, search_form  # Syntheseus takes seconds to import

    if request := search_form.show_search_form():
        expander = plan_view.session_expander()
        if plan := plan_view.run_search(request, expander):
            plan_view.show_plan(plan, expander)
    elif not st.session_state.get("plan_text", "").strip():
        plan_view.show_example()


nav.run_page(draw_page)
