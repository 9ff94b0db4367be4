"""A search while it runs, and what it found: routes by group with their steps and alternatives.

It runs in the visitor's script, which a click ends; what was decoded stays on disk, and the same link goes on from
there.
"""

import json
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import groupby
from threading import Event
from typing import Any

import msgspec
import streamlit as st

from chemspec.asset_files import assets_folder
from chemspec.chem.reading.names.reagents import name_of
from chemspec.depict.molecules import Depiction, svg_data_uri
from chemspec.io import tables
from chemspec.plan import depict, orders
from chemspec.plan import routes as values
from chemspec.plan.constraints import need_avoided
from chemspec.plan.expand import Expander
from chemspec.plan.outline import procedure_outline
from chemspec.plan.postcard import postcard_file
from chemspec.plan.routes import Node, Plan, Route
from chemspec.plan.search import RouteSearch
from chemspec.plan.search import plan as plan_routes
from chemspec.precedents import Precedents, installed, installed_if_usable
from chemspec.review.suggestions import format_percent
from chemspec.system import extras
from chemspec.ui.common import asked_text, queued_engine, scheme, theme
from chemspec.ui.common.escaping import plain_text, tag
from chemspec.ui.common.queued_engine import QueuedEngine
from chemspec.ui.common.web_files import web_file
from chemspec.ui.plan import search_form
from chemspec.ui.plan.search_form import SearchRequest

CSS = web_file("plan.css")
REDRAW_SECONDS = 2.0  # between two drawings of the best route
FIRST_GROUPS = 5  # groups that are shown at once
VIEWS = ("Routes", "Compare")
ENDINGS = {"Markdown": "md", "Outline": "outline.md"}
Titled = tuple[str, Route]


def show_plan(plan: Plan, models: Expander) -> None:
    """Draw the whole result."""
    st.html(f"<style>{CSS}</style>")
    show_status = {"solved": st.success, "open": st.warning, "refused": st.error}[plan.status]
    with st.container(key="plan_status"):
        groups = len({route.group for route in plan.routes})
        counted = f" {groups} group{'s' * (groups > 1)} of similar routes." if groups < len(plan.routes) else ""
        show_status(plain_text(plan.message[:1].upper() + plan.message[1:] + "." + counted))
    if plan.status == "refused":
        return
    if plan.status == "open" and plan.routes:
        _show_missing(plan.routes[0])
    order = st.session_state.get("plan_order", orders.PROBABILITY)
    plan = orders.order_plan(plan, order)
    titled = sorted(zip(values.route_titles(plan.routes), plan.routes, strict=True), key=_group_number)
    with st.container(horizontal=True, vertical_alignment="center"):
        view = st.segmented_control("View", VIEWS, default=VIEWS[0], key="plan_view", label_visibility="collapsed")
        if len(plan.routes) > 1:
            st.selectbox(
                "Order",
                list(orders.ORDERS),
                format_func=lambda name: f"Order: {name}",
                key="plan_order",
                label_visibility="collapsed",
                width=190,
            )
        about = "Resumes a stopped search; otherwise doubles the limits."
        st.button("Continue search", on_click=search_form.continue_search, help=about)
        if titled:
            with st.popover("Save all"):
                _offer_files(
                    "routes",
                    JSON=lambda: json.dumps(values.plan_document(plan, _evidence(plan.routes)), indent=1),
                    Markdown=lambda: values.plan_to_markdown(plan, _evidence(plan.routes)),
                )
                asked_text.show_text(st.session_state.plan_question)
    if view == "Compare" and titled:
        _show_comparison(titled)
    else:
        _show_groups(titled, models)
    st.caption(
        f"Order of the routes: {orders.ORDERS[order][0]}; those from stock come first. "
        "Percent at a step: how often predictions with this score were the recorded route, not a yield; for the order "
        "by probability a tenth of it counts where the forward model, with and without reagents, predicts another "
        "product. ⚠: another functional group, stereochemistry or atoms speak against the step. "
        "Conditions are those that confirmed the step, or those of the nearest patent reactions, or proposed by a "
        "model. The address of this page holds the target and your constraints. "
        + ("" if precedent_index() else "No index of patent reactions is installed, so steps come without precedents. ")
        + f"{plan.effort}."
    )


def _show_missing(route: Route) -> None:
    """Draw what the closest route lacks, each molecule with its name and what it is."""
    with st.container(border=True, key="plan_missing"):
        st.markdown("**What the closest route lacks**")
        with st.container(horizontal=True, vertical_alignment="bottom"):
            for leaf in (leaf for leaf in route.leaves if not leaf.stock):
                with st.container(width="content", horizontal_alignment="center"):
                    drawing = Depiction(leaf.smiles, dark=theme.is_dark())
                    st.html(
                        scheme.picture_html(drawing.data_uri, leaf.smiles) if drawing.svg else plain_text(leaf.smiles)
                    )
                    name = name_of(leaf.smiles) or ("" if drawing.svg else leaf.smiles)
                    st.caption(plain_text(", ".join(filter(None, (name, values.stock_text(leaf))))))


def _show_groups(titled: Sequence[Titled], models: Expander) -> None:
    groups = [list(routes) for _, routes in groupby(titled, _group_number)]
    for (title, best), *variants in groups[: None if st.session_state.get("plan_all") else FIRST_GROUPS]:
        with st.container(border=True, key=f"plan_route_{best.group}"):
            if _show_route(best, title, models, similar=len(variants)):
                for variant, route in variants:
                    _show_route(route, variant, models)
    if len(groups) > FIRST_GROUPS:
        st.toggle(f"Show all {len(groups)} groups of routes", key="plan_all")


def _offer_files(name: str, **makers: Callable[[], Any]) -> None:
    """Draw a button for each format; a file is made when its button is pressed."""
    with st.container(horizontal=True, gap="small"):
        for label, make in makers.items():
            file = f"{name}.{ENDINGS.get(label, label.lower())}"
            st.download_button(label, make, file, key=f"plan_file_{file}", on_click="ignore")


def _offer_postcards(name: str, route: Route, title: str) -> None:
    """Draw the buttons for the page of a route."""
    question = str(st.session_state.get("plan_question", ""))  # files are made outside of the session

    def make(ending: str) -> bytes:
        return postcard_file(ending, route, title, _evidence([route]), question)

    st.caption("Postcard: a page of A5 with conditions, patents and a QR code of the question")
    with st.container(horizontal=True, gap="small"):
        for ending in ("pdf", "svg", "png"):
            file = f"{name}.pdf" if ending == "pdf" else f"{name}.postcard.{ending}"
            data = partial(make, ending)
            label = f"Postcard {ending.upper()}"
            st.download_button(label, data, file, key=f"plan_file_{file}", on_click="ignore", type="tertiary")


def _group_number(titled: Titled) -> int:
    return titled[1].group


def _evidence(routes: Sequence[Route]) -> values.Evidence:
    return values.find_evidence(routes, installed_if_usable())


def precedent_index() -> Precedents | None:
    """Return the installed index; None without one, with a warning if it cannot be read."""
    try:
        return installed()
    except (OSError, ValueError) as error:
        st.warning(plain_text(f"Steps come without precedents: {error}"))
        return None


def show_example() -> None:
    """Draw a recorded route, before there is a question."""
    st.html(f"<style>{CSS}</style>")
    raw = (assets_folder() / "examples" / "route.json").read_bytes()
    route = Route(msgspec.json.decode(raw, type=Node))
    st.subheader(f"Example: lidocaine in {route.summary}")
    show_route_scheme(route, "Example")
    st.caption(
        "Building blocks stand on the left, the target on the right. On each arrow: reaction class, conditions, the "
        "probability of the recorded step, and whether the forward model gives the product."
    )


def show_route_scheme(route: Route, title: str) -> None:
    """Draw a route; where it is wider than the page, it scrolls in its own frame, and a hint says so."""
    svg = _route_svg(route, theme.is_dark())
    width = svg.partition(' width="')[2].partition('"')[0]
    start = ", ".join(name_of(leaf.smiles) or leaf.smiles for leaf in route.leaves)
    picture = scheme.picture_html(svg_data_uri(svg), f"{title}: {route.summary}; from {start}")
    hint = tag(f"div.cs-route-hint.cs-wider-{width}", "scroll sideways to the target →")
    st.html(
        f"<style>@container (max-width: {width}px) {{.cs-route-frame .cs-wider-{width} {{display: block}}}}</style>"
        + tag("div.cs-route-frame", hint, tag("div.cs-route", picture, tabindex="0"))
    )


@lru_cache(maxsize=500)
def _route_svg(route: Route, dark: bool) -> str:
    return depict.to_svg(route, evidence=_evidence([route]), dark=dark)


def _show_route(route: Route, title: str, models: Expander, *, similar: int = 0) -> bool:
    """Draw a route with its steps and files; return whether its similar ones are to be shown too."""
    st.subheader(f"{title}: {route.summary}")
    show_route_scheme(route, title)
    key = title.replace(" ", "_")
    with st.container(horizontal=True, vertical_alignment="center"):
        steps = [*map(str, route.numbers.values())]
        chosen = st.pills("Look at a step", steps, format_func="Step {}".format, key=f"plan_step_{key}")
        with st.popover("Save"):
            file = title.lower().replace(" ", "-").replace(",", "")
            makers: dict[str, Callable[[], Any]] = {
                "SVG": lambda: depict.to_svg(route, title, _evidence([route])),
                "PNG": lambda: depict.to_png(route, title, _evidence([route])),
                "CDXML": lambda: depict.to_cdxml(route, _evidence([route])),
                "JSON": lambda: json.dumps(values.route_document(route, title, _evidence([route])), indent=1),
            }
            if depict.has_large_molecule(route):
                del makers["CDXML"]
            _offer_files(file, **makers)
            if extras.is_installed("segno"):
                _offer_postcards(file, route, title)
            grams = st.number_input("Grams of the target", 0.001, 1e6, 1.0, key=f"plan_grams_{key}")
            _offer_files(file, Outline=lambda: procedure_outline(route, title, _evidence([route]), grams=grams))
        more = bool(similar) and st.toggle(
            f"Show {similar} similar route{'s' * (similar > 1)}", key=f"plan_like_{route.group}"
        )
    if chosen:
        _show_step(route, int(chosen) - 1, models, key)
    return more


def _show_comparison(titled: Sequence[Titled]) -> None:
    """Show the routes as a table: steps, the weakest, what no list has, classes, conditions and building blocks."""
    rows = []
    for title, route in titled:
        evidence, nodes = _evidence([route]), [node for node in route.steps if node.step]
        names = {leaf.smiles: name_of(leaf.smiles) or leaf.smiles for leaf in route.leaves}
        row = {
            "Route": title,
            "Steps": len(route.steps),
            "Longest line": route.depth,
            "Weakest step": format_percent(route.weakest),
            "Not in stock": [names[leaf.smiles] for leaf in route.leaves if not leaf.stock],
            "Problems": [
                f"{number}: {problem}"
                for number, node in enumerate(nodes, 1)
                for problem in values.node_problems(node, evidence, route.avoid)
            ],
            "Reactions": [values.step_class(node) or "One step" for node in nodes],
            "Conditions": [values.step_conditions(node, evidence, route.avoid) or "–" for node in nodes],
            "Building blocks": [f"{names[leaf.smiles]}, {values.stock_text(leaf)}" for leaf in route.leaves],
        }
        rows.append(row)
    st.dataframe(rows, hide_index=True, alt="The routes side by side")


def _show_step(route: Route, number: int, models: Expander, key: str) -> None:
    node = route.steps[number]
    assert node.step
    now = node.step.reaction(node.smiles)
    seen = _evidence([route]).get(now)
    row = values.step_table(route, {now: seen} if seen else {})[number]
    st.markdown(tables.lines([[*map(plain_text, row)], [*map(plain_text, row.values())]]))
    if seen:
        st.caption(plain_text(seen.in_words[:1].upper() + seen.in_words[1:] + "."))
        for precedent in seen.nearest:
            source = ", ".join(
                filter(None, (precedent.source, f"product {100 * precedent.similarity:.0f} % alike", precedent.text))
            )
            st.markdown(f"- `{precedent.reactants}>>{precedent.product}`: {plain_text(source)}")
    st.button("Search without this step", key=f"plan_drop_{key}", on_click=search_form.drop_step, args=(now,))
    ways = [models.with_checks(node.smiles, proposal) for proposal in models.expand([node.smiles])[0]]
    avoid = search_form.chosen_settings().avoid
    others = [
        proposal
        for proposal in ways
        if proposal.reactants != node.step.reactants and not need_avoided(proposal.reactants, avoid)
    ]
    if not others:
        st.caption("The model proposes no other step to this molecule.")
    for number, proposal in enumerate(others):
        with st.container(horizontal=True, vertical_alignment="center"):
            smiles = ".".join(proposal.reactants)
            if svg := Depiction(smiles, 340, 130, dark=theme.is_dark()).svg:
                st.image(svg, alt=smiles)
            kind = values.step_class(Node(node.smiles, step=proposal))
            st.caption(plain_text(", ".join(filter(None, (kind, values.step_percent(proposal))))))
            reaction = proposal.reaction(node.smiles)
            st.button(
                "Use this instead", key=f"plan_use_{key}_{number}", on_click=search_form.use_step, args=(reaction,)
            )


# --- a running search ------------------------------------------------------------------------------


def session_expander() -> Expander:
    """Return the session's `Expander`, with counters of its own."""
    retro = QueuedEngine(queued_engine.require_engine(queued_engine.model_names("retro")[0]))
    forward, reagents = queued_engine.find_engine("forward"), queued_engine.find_engine("reagents")
    return Expander(retro, forward, reagents=reagents, index=precedent_index())


def run_search(request: SearchRequest, models: Expander) -> Plan:
    """Return the result of a search, cached for this visitor; of a stopped one, what it had found."""
    state, key = st.session_state, (request.key, *models.models)
    if state.get("plan_stopped") == request.key:
        queued_engine.session_cached("_plans", key, lambda: _stopped_plan(request, models))
    else:
        state.plan_stopped = None  # it was of another search
    return queued_engine.session_cached("_plans", key, lambda: _search_with_progress(request, models), most=10)


def _stopped_plan(request: SearchRequest, models: Expander) -> Plan:
    running: tuple[object, RouteSearch, Event] | None = st.session_state.get("plan_under_way")
    if running is None or running[0] != request.key:  # it was stopped before its first report
        return plan_routes(request.target, models, request.stock, request.settings, lambda _: True)
    _, search, ended = running
    line = st.empty()
    while not ended.wait(1.0):  # the script that searches adds to the tree until its next report
        line.caption("Stopping after the molecule that is being expanded …")  # here a newer run can end this one
    line.empty()
    return search.result("stopped")


def _search_with_progress(request: SearchRequest, models: Expander) -> Plan:
    placeholder = st.empty()
    with placeholder.container():
        with st.container(horizontal=True, vertical_alignment="center"):
            line = st.empty()
            st.button("Stop", key="plan_stop", on_click=st.session_state.update, kwargs={"plan_stopped": request.key})
        picture = st.empty()
    drawn = time.monotonic() - REDRAW_SECONDS / 2  # the first drawing comes early
    ended = Event()

    def watch(now: RouteSearch) -> bool:
        nonlocal drawn
        st.session_state.plan_under_way = (request.key, now, ended)
        line.caption(f"{now.expansions} of {request.settings.expansions} molecules expanded, {now.seconds:.0f} s")
        if now.expansions and time.monotonic() - drawn > REDRAW_SECONDS:
            if routes := now.routes():
                title = "The best route so far" if routes[0].solved else "The closest so far"
                with picture.container():
                    show_route_scheme(routes[0], title)
            drawn = time.monotonic()
        return False

    try:
        plan = plan_routes(request.target, models, request.stock, request.settings, watch)
    finally:
        ended.set()
    placeholder.empty()
    return plan
