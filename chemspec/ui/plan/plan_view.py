"""What a search found: routes by group, each with its scheme, its steps and their alternatives; and its tree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from itertools import groupby

import streamlit as st

from chemspec.chem.names.reagents import name_of
from chemspec.depict.molecules import Depiction, svg_data_uri
from chemspec.plan import depict
from chemspec.plan import routes as values
from chemspec.plan.constraints import need_avoided
from chemspec.plan.expand import Expander, Proposal
from chemspec.plan.routes import Node, Plan, Route, Seen
from chemspec.precedents import Precedents, installed, installed_if_usable
from chemspec.review.suggestions import format_percent
from chemspec.ui.common import scheme, theme
from chemspec.ui.common.escaping import plain_text
from chemspec.ui.common.web_files import web_file
from chemspec.ui.plan import search_form

CSS = web_file("plan.css")
FIRST_GROUPS = 5  # groups that are shown at once
MOST_COMPARED = 3  # routes side by side
VIEWS = ("Routes", "Compare", "Search tree")
Titled = tuple[str, Route]


def show_plan(plan: Plan, models: Expander) -> None:
    """Draw the whole result."""
    st.html(f"<style>{CSS}</style>")
    show_status = {"solved": st.success, "open": st.warning, "refused": st.error}[plan.status]
    with st.container(key="plan_status"):
        show_status(plain_text(plan.message[:1].upper() + plan.message[1:] + "."))
    if plan.status == "refused":
        return
    titled = sorted(zip(values.route_titles(plan.routes), plan.routes, strict=True), key=_group_number)
    with st.container(horizontal=True, vertical_alignment="center"):
        view = st.segmented_control("View", VIEWS, default=VIEWS[0], key="plan_view", label_visibility="collapsed")
        about = "Resumes a stopped search; otherwise doubles the limits."
        st.button("Continue search", on_click=search_form.continue_search, help=about)
        if titled:
            _offer_all(plan)
    if view == "Search tree" and plan.tree:
        show_tree(plan.tree)
    elif view == "Compare" and titled:
        _show_comparison(titled)
    else:
        _show_groups(titled, models)
    st.caption(
        "Ranked by the product of the steps' calibrated probabilities, reduced to a tenth where the forward model, "
        "without reagents and with proposed ones, predicts another product. Conditions are those of the nearest patent "
        "reactions, else proposed by a model. The address of this page holds the target and your constraints. "
        + ("" if precedent_index() else "No index of patent reactions is installed, so steps come without precedents. ")
        + _effort(plan)
    )


def _show_groups(titled: Sequence[Titled], models: Expander) -> None:
    """Draw the routes, similar ones together."""
    groups = [list(routes) for _, routes in groupby(titled, _group_number)]
    for (title, best), *variants in groups[: None if st.session_state.get("plan_all") else FIRST_GROUPS]:
        with st.container(border=True, key=f"plan_route_{best.group}"):
            if _show_route(best, title, models, similar=len(variants)):
                for variant, route in variants:
                    _show_route(route, variant, models)
    if len(groups) > FIRST_GROUPS:
        st.toggle(f"All {len(groups)} groups of routes", key="plan_all")


def _offer_all(plan: Plan) -> None:
    """Draw the menu of files with all routes."""
    with st.popover("Save all"):
        st.download_button(
            "JSON",
            lambda: json.dumps(values.plan_document(plan, _evidence(plan.routes)), indent=1),
            "routes.json",
            on_click="ignore",
        )
        st.download_button(
            "Markdown", lambda: values.plan_to_markdown(plan, _evidence(plan.routes)), "routes.md", on_click="ignore"
        )


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


def _effort(plan: Plan) -> str:
    """Return what the models did for the search, in words."""
    counts = plan.counts
    text = f"{plan.expansions} molecules expanded, {counts.molecules} of them decoded now, the others known"
    text += f"; {counts.checks} steps checked; {counts.calls} calls of the models, {counts.seconds:.1f} s"
    if counts.passes:
        text += f"; {counts.tokens / counts.passes:.2f} tokens a pass (standard decoding: 1)"
    return f"{text}."


def show_route_scheme(route: Route, title: str) -> None:
    """Draw a route; where it is wider than the page, it scrolls in its own frame, and a hint says so."""
    svg = _route_svg(route, theme.is_dark())
    width = svg.partition(' width="')[2].partition('"')[0]
    start = ", ".join(name_of(leaf.smiles) or leaf.smiles for leaf in route.leaves)
    picture = scheme.picture_html(svg_data_uri(svg), f"{title}: {route.summary}; from {start}")
    st.html(
        f"<style>@container (max-width: {width}px) {{.cs-route-frame .cs-wider-{width} {{display: block}}}}</style>"
        f'<div class="cs-route-frame"><div class="cs-route-hint cs-wider-{width}">scroll sideways to the target →</div>'
        f'<div class="cs-route" tabindex="0">{picture}</div></div>'
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
            name = title.lower().replace(" ", "-").replace(",", "")
            for label, make, ending in (
                ("SVG", lambda: depict.to_svg(route, title, _evidence([route])), "svg"),
                ("PNG", lambda: depict.to_png(route, title, _evidence([route])), "png"),
                ("JSON", lambda: json.dumps(values.route_document(route, title, _evidence([route])), indent=1), "json"),
            ):
                st.download_button(label, make, f"{name}.{ending}", key=f"plan_{ending}_{key}", on_click="ignore")
        more = bool(similar) and st.toggle(f"Show {similar} similar", key=f"plan_like_{route.group}")
    if chosen:
        _show_step(route, int(chosen) - 1, models, key)
    return more


def _show_comparison(titled: Sequence[Titled]) -> None:
    """Draw up to three routes side by side: steps, the weakest, what no list has, classes and building blocks."""
    titles = [title for title, _ in titled]
    first = [title for title in titles if "variant" not in title]
    chosen = st.multiselect("Routes to compare", titles, first[:MOST_COMPARED], max_selections=MOST_COMPARED)
    st.html(f'<div class="cs-compare">{"".join(_facts_html(*pair) for pair in titled if pair[0] in chosen)}</div>')


def _facts_html(title: str, route: Route) -> str:
    """Return what a comparison says of a route."""
    evidence = _evidence([route])
    unlisted = [name_of(leaf.smiles) or leaf.smiles for leaf in route.leaves if not leaf.stock]
    facts = {
        "Steps": f"{len(route.steps)}" + f", longest line {route.depth}" * (route.depth < len(route.steps)),
        "Weakest step": format_percent(route.weakest),
        "In no list": ", ".join(unlisted) or "nothing",
    }
    steps = (
        f"<li>{escape(values.step_class(node) or 'One step')}, {escape(values.step_percent(node.step))}"
        f"<small>{escape(values.step_conditions(node, evidence))}</small></li>"
        for node in route.steps
        if node.step
    )
    return (
        f"<section><h2>{escape(title)}</h2>"
        f"<dl>{''.join(f'<dt>{name}</dt><dd>{escape(fact)}</dd>' for name, fact in facts.items())}</dl>"
        f'<ol>{"".join(steps)}</ol><div class="cs-leaves">{"".join(map(_leaf_html, route.leaves))}</div></section>'
    )


def _leaf_html(leaf: Node) -> str:
    name = escape(name_of(leaf.smiles))
    picture = scheme.picture_html(Depiction(leaf.smiles, 110, 74, dark=theme.is_dark()).data_uri, leaf.smiles)
    mark = f'<span class="cs-{"listed" if leaf.stock else "unlisted"}">{escape(values.stock_text(leaf.stock))}</span>'
    lines = "<br>".join(filter(None, (name, mark)))
    return f"<figure>{picture or escape(leaf.smiles)}<figcaption>{lines}</figcaption></figure>"


def _show_step(route: Route, number: int, models: Expander, key: str) -> None:
    """Draw a step with its numbers and precedents, and the other proposals for its product."""
    node = route.steps[number]
    assert node.step
    now, index = node.step.reaction(node.smiles), installed_if_usable()
    seen = values.precedents_of(node, index) if index else None
    row = values.step_table(route, {now: seen} if seen else {})[number]
    lines = ("| " + " | ".join(map(plain_text, cells)) + " |" for cells in (row, row.values()))
    st.markdown(("\n" + "|---" * len(row) + "|\n").join(lines))
    if seen:
        st.caption(plain_text(seen.in_words[:1].upper() + seen.in_words[1:] + "."))
        for precedent in seen.nearest:
            source = ", ".join(
                filter(None, (precedent.source, f"product {precedent.similarity:.0%} alike", precedent.text))
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


def show_tree(tree: Seen) -> None:
    """Draw a tree; it scrolls in its own frame."""
    note = f"the likeliest {len(tree)} molecules of the tree; from left to right what each can be made from"
    st.html(
        f'<style>{CSS}</style><div class="cs-tree" tabindex="0" role="group" aria-label="{note}">'
        f"{_molecule_html(tree, root=True)}</div>"
    )


def _molecule_html(seen: Seen, *, root: bool = False) -> str:
    if seen.stock:
        kind, word = "bought", escape(values.stock_text(seen.stock))
    elif seen.ways:
        kind, word = "made", ""
    else:
        kind, word = ("made", f"{seen.more} ways, not shown") if seen.more else ("open", "open")
    if root:
        word = "target" + f", also {word}" * bool(seen.stock)
    alt = f"{seen.smiles}: {word or 'made'}"
    picture = scheme.picture_html(Depiction(seen.smiles, 130, 84, dark=theme.is_dark()).data_uri, alt) or escape(alt)
    card = f'<div class="card {kind}" title="{escape(seen.smiles, quote=True)}">{picture}{word}</div>'
    if not seen.ways:
        return f'<div class="mol">{card}</div>'
    rows = "".join(_step_html(step, parts) for step, parts in seen.ways)
    rest = f'<div class="told">{seen.more} more way{"s" * (seen.more != 1)}</div>' if seen.more else ""
    return f'<div class="mol">{card}<div class="ways">{rows}{rest}</div></div>'


def _step_html(step: Proposal, parts: list[Seen]) -> str:
    inside = "".join(_molecule_html(part) for part in parts)
    label = f'<span class="told">{escape(values.step_percent(step))}</span>'
    return f'<div class="way">{label}<div class="parts">{inside}</div></div>'
