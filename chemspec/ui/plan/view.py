"""What a search found: routes by group, each with its scheme, its steps and their alternatives."""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import groupby

import streamlit as st

from chemspec.plan import draw as drawing
from chemspec.plan import routes as values
from chemspec.plan.expand import Expander
from chemspec.plan.routes import Node, Plan, Route
from chemspec.ui.common import draw, theme
from chemspec.ui.common.safe import plain
from chemspec.ui.plan import ask

CSS = ".cs-route {overflow-x: auto} .cs-route img {max-width: none; max-height: 460px; min-height: 200px}"
FIRST = 5  # groups that are shown at once
TABLE = "| " + " | ".join(("step", "product", "from", "chance", "forward agrees")) + " |\n|---|---|---|---|---|"


def show(plan: Plan, models: Expander) -> None:
    """Draw the whole result."""
    st.html(f"<style>{CSS}</style>")
    told = {"solved": st.success, "open": st.warning, "refused": st.error}[plan.status]
    told(plain(plan.message[:1].upper() + plan.message[1:] + "."))
    if plan.status == "refused":
        return
    _effort(plan)
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
        st.download_button(
            "Save all as JSON", json.dumps(values.document(plan), indent=1), "routes.json", on_click="ignore"
        )
        st.download_button("Save all as text", values.to_markdown(plan), "routes.md", on_click="ignore")
    st.caption(
        "Ranked by the product of the steps' chances: how often an answer with such a score is the recorded one, a "
        "tenth of it where the forward model, asked without reagents, predicts something else. Conditions are not "
        "predicted. The link in the address bar holds the target and the steps that you chose."
    )


def _effort(plan: Plan) -> None:
    """What the models did for the search."""
    counts = plan.counts
    told = f"{plan.expansions} molecules expanded, {counts.molecules} of them decoded now, the others known"
    told += f"; {counts.checks} steps checked; {counts.calls} calls of the models, {counts.seconds:.1f} s"
    if counts.passes:
        told += f"; {counts.tokens / counts.passes:.2f} tokens a pass (standard decoding: 1)"
    st.caption(told)


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
        chosen = st.pills("Look at a step", [row["step"] for row in values.rows(route)], key=f"plan_step_{key}")
        with st.popover("Save"):
            name = title.lower().replace(" ", "-").replace(",", "")
            for label, make, ending in (
                ("SVG", lambda: drawing.to_svg(route), "svg"),
                ("PNG", lambda: drawing.to_png(route), "png"),
                ("JSON", lambda: json.dumps(values.to_tree(route.root), indent=1), "json"),
            ):
                st.download_button(label, make, f"{name}.{ending}", key=f"plan_{ending}_{key}", on_click="ignore")
    if chosen:
        _step(route.steps[int(chosen) - 1], values.rows(route)[int(chosen) - 1], models, key)


def _step(node: Node, row: dict[str, str], models: Expander, key: str) -> None:
    """Draw a step with its numbers, and the other proposals for its product."""
    assert node.step
    st.markdown(TABLE + "\n| " + " | ".join(plain(cell) for cell in row.values()) + " |")
    now = node.step.reaction(node.smiles)
    st.button("Search without this step", key=f"plan_drop_{key}", on_click=ask.drop, args=(now,))
    ways = [models.checked(node.smiles, way) for way in models.expand([node.smiles])[0]]
    others = [way for way in ways if way.reactants != node.step.reactants]
    if not others:
        st.caption("The model proposes no other way to this molecule.")
    for number, way in enumerate(others):
        with st.container(horizontal=True, vertical_alignment="center"):
            smiles = ".".join(way.reactants)
            st.html(draw.labelled(draw.molecule(smiles, width=340, height=130, dark=theme.dark()), smiles), width=350)
            back = way.round_trip
            agrees = "" if back is None else ", forward agrees" if back else ", forward differs"
            st.caption(f"chance {way.chance:.2f}{agrees}")
            reaction = way.reaction(node.smiles)
            st.button("Use this instead", key=f"plan_use_{key}_{number}", on_click=ask.use, args=(reaction,))
