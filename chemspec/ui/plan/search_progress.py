"""A running search in the visitor's script, which a click ends: progress, tree and best route so far, a stop button.

The question and what was decoded stay on disk, and the same link goes on from there.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from threading import Event

import streamlit as st

from chemspec.plan.expand import Expander
from chemspec.plan.routes import Plan
from chemspec.plan.search import Search
from chemspec.plan.search import plan as plan_routes
from chemspec.ui.common import queued_engine
from chemspec.ui.common.queued_engine import QueuedEngine
from chemspec.ui.common.store import StoreError
from chemspec.ui.plan import plan_view, saved_searches
from chemspec.ui.plan.search_form import SearchRequest

REDRAW_SECONDS = 2.0  # seconds between two drawings of tree and best route


def visitor_expander() -> Expander:
    """Return the models of a search, with counters of its own."""
    retro = QueuedEngine(queued_engine.require_engine(queued_engine.model_names("retro")[0]))
    forward, reagents = (
        QueuedEngine(engine) if (engine := queued_engine.find_engine(task)) else None
        for task in ("forward", "reagents")
    )
    return Expander(retro, forward, reagents=reagents, index=plan_view.precedent_index())


def run_search(request: SearchRequest, models: Expander) -> Plan:
    """Return the result of a search, cached for this visitor; of a stopped one, what it had found."""
    state = st.session_state
    if state.get("plan_stopped") == request.key:
        queued_engine.session_cached("_plans", request.key, lambda: _stopped_plan(request, models))
        _save_search(request, "stopped")
    else:
        state.plan_stopped = None  # that was another search
    return queued_engine.session_cached("_plans", request.key, lambda: _search_with_progress(request, models), most=10)


def _stopped_plan(request: SearchRequest, models: Expander) -> Plan:
    running: tuple[object, Search, Event] | None = st.session_state.get("plan_under_way")
    if running is None or running[0] != request.key:  # it was stopped before its first report
        return plan_routes(request.project.target, models, request.stock, request.project.settings, lambda _: True)
    _, search, ended = running
    _wait_for_end(ended)
    return search.result("stopped")


def _wait_for_end(ended: Event) -> None:
    """Wait for the script that searches: it adds to the tree until its next report, where Streamlit ends it."""
    line = st.empty()
    while not ended.wait(1.0):
        line.caption("Stopping after the molecule that is being expanded …")  # here a newer run can end this one
    line.empty()


def _search_with_progress(request: SearchRequest, models: Expander) -> Plan:
    _save_search(request, "")
    placeholder = st.empty()
    with placeholder.container():
        with st.container(horizontal=True, vertical_alignment="center"):
            line = st.empty()
            st.button("Stop", key="plan_stop", on_click=st.session_state.update, kwargs={"plan_stopped": request.key})
        tree, picture = st.empty(), st.empty()
    drawn = time.monotonic() - REDRAW_SECONDS / 2  # the first drawing comes early
    ended = Event()

    def watch(now: Search) -> bool:
        nonlocal drawn
        st.session_state.plan_under_way = (request.key, now, ended)
        line.caption(
            f"{now.expansions} of {request.project.settings.expansions} molecules expanded, {now.seconds:.0f} s"
        )
        if now.expansions and time.monotonic() - drawn > REDRAW_SECONDS:
            with tree.container():
                plan_view.show_tree(now.tree())
            if routes := now.routes():
                with picture.container():
                    plan_view.show_route_scheme(
                        routes[0], "The best route so far" if routes[0].solved else "The closest so far"
                    )
            drawn = time.monotonic()
        return False

    try:
        plan = plan_routes(request.project.target, models, request.stock, request.project.settings, watch)
    finally:
        ended.set()
    placeholder.empty()
    _save_search(request, plan.message)
    return plan


def _save_search(request: SearchRequest, ended: str) -> None:
    """Store a search and its outcome; where nothing can be written, the search goes on."""
    with suppress(OSError, StoreError):
        saved_searches.save_search(replace(request.project, ended=ended[:200]), None if ended else request.own_stock)
