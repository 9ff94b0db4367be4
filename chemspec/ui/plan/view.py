"""What a search found: routes by group, each with its scheme, its steps and their alternatives."""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import groupby

import streamlit as st

from chemspec.plan import draw as drawing
from chemspec.plan import routes as values
from chemspec.plan.expand import Expander
from chemspec.plan.routes import Plan, Route
from chemspec.precedents import Precedents, installed
from chemspec.ui.common import draw, theme
from chemspec.ui.common.safe import plain
from chemspec.ui.plan import ask, tree_view

CSS = ".cs-route {overflow-x: auto} .cs-route img {max-width: none; max-height: 460px; min-height: 200px}"
FIRST = 5  # groups that are shown at once


def show(plan: Plan, models: Expander) -> None:
    """Draw the whole result."""
    st.html(f"<style>{CSS}</style>")
    told = {"solved": st.success, "open": st.warning, "refused": st.error}[plan.status]
    told(plain(plan.message[:1].upper() + plan.message[1:] + "."))
    if plan.status == "refused":
        return
    _effort(plan)
    if plan.tree and plan.tree.ways and st.toggle("The whole search as a tree", key="plan_tree"):
        tree_view.show(plan.tree)
    groups = [
        list(found) for _, found in groupby(sorted(plan.routes, key=lambda one: one.group), lambda one: one.group)
    ]
    for number, group in enumerate(groups[: None if st.session_state.get("plan_all") else FIRST], 1):
        with st.container(border=True):
            _route(group[0], f"Route {number}", models)
            if len(group) > 1 and st.toggle(f"{len(group) - 1} like it", key=f"plan_like_{number}"):
                for variant, route in enumerate(group[1:], 2):
                    _route(route, f"Route {number}, variant {variant}", models)
    if len(groups) > FIRST:
        st.toggle(f"All {len(groups)} groups of routes", key="plan_all")
    if plan.routes:
        with st.container(horizontal=True):
            st.download_button("Save all as JSON", lambda: _json(plan), "routes.json", on_click="ignore")
            st.download_button("Save all as text", lambda: _text(plan), "routes.md", on_click="ignore")
    st.caption(
        "Ranked by the product of the steps' chances: how often an answer with such a score is the recorded one, a "
        "tenth of it where the forward model, asked without reagents and with proposed ones, predicts something else. "
        "The address of this page holds the target and the steps that you chose. "
        + ("" if _index() else "No index of patent reactions is installed, so steps come without precedents.")
    )


def _json(plan: Plan) -> str:
    return json.dumps(values.plan_document(plan, values.find_evidence(plan.routes, _index())), indent=1)


def _text(plan: Plan) -> str:
    return values.plan_to_markdown(plan, values.find_evidence(plan.routes, _index()))


def _index() -> Precedents | None:
    try:
        return installed()
    except (OSError, ValueError) as error:
        st.warning(plain(f"Steps come without precedents: {error}"))
        return None


def _effort(plan: Plan) -> None:
    """Show what the models did for the search, and the button that continues it."""
    counts = plan.counts
    told = f"{plan.expansions} molecules expanded, {counts.molecules} of them decoded now, the others known"
    told += f"; {counts.checks} steps checked; {counts.calls} calls of the models, {counts.seconds:.1f} s"
    if counts.passes:
        told += f"; {counts.tokens / counts.passes:.2f} tokens a pass (standard decoding: 1)"
    st.caption(told)
    about = "Resumes a stopped search; otherwise doubles the limits."
    st.button("Continue search", on_click=ask.search_on, help=about)


def scheme(route: Route, title: str) -> None:
    """Draw a route."""
    svg = _svg(route, theme.dark())
    start = ", ".join(leaf.smiles for leaf in route.leaves)
    alt = f"{title}: {len(route.steps)} steps from {start}"
    st.html(f'<div class="cs-route" tabindex="0">{draw.labelled(svg, alt)}</div>')


@lru_cache(maxsize=500)
def _svg(route: Route, dark: bool) -> str:
    return drawing.to_svg(route, dark=dark)


def _route(route: Route, title: str, models: Expander) -> None:
    steps = len(route.steps)
    end = "all in stock" if route.solved else "not all in stock"
    st.subheader(f"{title}: {steps} step{'s' * (steps != 1)}, {end}")
    st.caption(f"score {route.score:.2g}")
    scheme(route, title)
    key = title.replace(" ", "_")
    with st.container(horizontal=True):
        chosen = st.pills("Look at a step", [row["step"] for row in values.step_table(route)], key=f"plan_step_{key}")
        with st.popover("Save"):
            name = title.lower().replace(" ", "-").replace(",", "")
            for label, make, ending in (
                ("SVG", lambda: drawing.to_svg(route), "svg"),
                ("PNG", lambda: drawing.to_png(route), "png"),
                ("JSON", lambda: _tree_json(route), "json"),
            ):
                st.download_button(label, make, f"{name}.{ending}", key=f"plan_{ending}_{key}", on_click="ignore")
    if chosen:
        _step(route, int(chosen) - 1, models, key)


def _tree_json(route: Route) -> str:
    return json.dumps(values.tree_document(route.root, values.find_evidence([route], _index())), indent=1)


def _step(route: Route, number: int, models: Expander, key: str) -> None:
    """Draw a step with its numbers and precedents, and the other proposals for its product."""
    node = route.steps[number]
    assert node.step
    now, index = node.step.reaction(node.smiles), _index()
    seen = values.precedents_of(node, index) if index else None
    row = values.step_table(route, {now: seen} if seen else {})[number]
    lines = ("| " + " | ".join(map(plain, cells)) + " |" for cells in (row, row.values()))
    st.markdown(("\n" + "|---" * len(row) + "|\n").join(lines))
    if seen:
        st.caption(plain(seen.in_words[:1].upper() + seen.in_words[1:] + "."))
        for one in seen.nearest:
            source = ", ".join(filter(None, (one.source, f"product {one.similarity:.0%} alike", one.text)))
            st.markdown(f"- `{one.reactants}>>{one.product}`: {plain(source)}")
    st.button("Search without this step", key=f"plan_drop_{key}", on_click=ask.drop, args=(now,))
    ways = [models.with_checks(node.smiles, way) for way in models.expand([node.smiles])[0]]
    others = [way for way in ways if way.reactants != node.step.reactants]
    if not others:
        st.caption("The model proposes no other way to this molecule.")
    for number, way in enumerate(others):
        with st.container(horizontal=True, vertical_alignment="center"):
            smiles = ".".join(way.reactants)
            st.html(draw.labelled(draw.molecule(smiles, width=340, height=130, dark=theme.dark()), smiles), width=350)
            st.caption(f"probability {way.chance:.2f}" + (f", forward {way.opinion}" if way.opinion else ""))
            reaction = way.reaction(node.smiles)
            st.button("Use this instead", key=f"plan_use_{key}_{number}", on_click=ask.use, args=(reaction,))
