"""What a search found: routes by group, each with its scheme, its steps and their alternatives; and its tree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from itertools import groupby

import streamlit as st

from chemspec.depict.molecules import Depiction, svg_data_uri
from chemspec.plan import depict
from chemspec.plan import routes as values
from chemspec.plan.expand import Expander, Proposal
from chemspec.plan.routes import Plan, Route
from chemspec.plan.tree import Seen
from chemspec.precedents import Precedents, installed
from chemspec.ui.common import scheme, theme
from chemspec.ui.common.escaping import plain_text
from chemspec.ui.plan import search_form

CSS = """
[class*=st-key-plan_route_] {background: var(--cs-card)}
.cs-route {overflow-x: auto}
.cs-route img {max-width: none; max-height: 460px; min-height: 200px}
"""
FIRST_GROUPS = 5  # groups that are shown at once


def show_plan(plan: Plan, models: Expander) -> None:
    """Draw the whole result."""
    st.html(f"<style>{CSS}</style>")
    show_status = {"solved": st.success, "open": st.warning, "refused": st.error}[plan.status]
    show_status(plain_text(plan.message[:1].upper() + plan.message[1:] + "."))
    if plan.status == "refused":
        return
    _show_effort(plan)
    if plan.tree and plan.tree.ways and st.toggle("The whole search as a tree", key="plan_tree"):
        show_tree(plan.tree)
    titled = sorted(zip(values.route_titles(plan.routes), plan.routes, strict=True), key=_group_number)
    groups = [list(routes) for _, routes in groupby(titled, _group_number)]
    for (title, best), *variants in groups[: None if st.session_state.get("plan_all") else FIRST_GROUPS]:
        with st.container(border=True, key=f"plan_route_{best.group}"):
            _show_route(best, title, models)
            if variants and st.toggle(f"Show {len(variants)} similar", key=f"plan_like_{best.group}"):
                for variant, route in variants:
                    _show_route(route, variant, models)
    if len(groups) > FIRST_GROUPS:
        st.toggle(f"All {len(groups)} groups of routes", key="plan_all")
    if plan.routes:
        with st.container(horizontal=True):
            st.download_button(
                "Save all as JSON",
                lambda: json.dumps(values.plan_document(plan, _evidence(plan.routes)), indent=1),
                "routes.json",
                on_click="ignore",
            )
            st.download_button(
                "Save all as text",
                lambda: values.plan_to_markdown(plan, _evidence(plan.routes)),
                "routes.md",
                on_click="ignore",
            )
    st.caption(
        "Ranked by the product of the steps' calibrated probabilities, reduced to a tenth where the forward model, "
        "without reagents and with proposed ones, predicts another product. "
        "The address of this page holds the target and the steps that you chose. "
        + ("" if precedent_index() else "No index of patent reactions is installed, so steps come without precedents.")
    )


def _group_number(titled: tuple[str, Route]) -> int:
    return titled[1].group


def _evidence(routes: Sequence[Route]) -> values.Evidence:
    return values.find_evidence(routes, precedent_index())


def precedent_index() -> Precedents | None:
    """Return the installed index; None without one, with a warning if it cannot be read."""
    try:
        return installed()
    except (OSError, ValueError) as error:
        st.warning(plain_text(f"Steps come without precedents: {error}"))
        return None


def _show_effort(plan: Plan) -> None:
    """Show what the models did for the search, and the button that continues it."""
    counts = plan.counts
    text = f"{plan.expansions} molecules expanded, {counts.molecules} of them decoded now, the others known"
    text += f"; {counts.checks} steps checked; {counts.calls} calls of the models, {counts.seconds:.1f} s"
    if counts.passes:
        text += f"; {counts.tokens / counts.passes:.2f} tokens a pass (standard decoding: 1)"
    st.caption(text)
    about = "Resumes a stopped search; otherwise doubles the limits."
    st.button("Continue search", on_click=search_form.continue_search, help=about)


def show_route_scheme(route: Route, title: str) -> None:
    """Draw a route."""
    svg = _route_svg(route, theme.is_dark())
    start = ", ".join(leaf.smiles for leaf in route.leaves)
    alt = f"{title}: {route.summary} from {start}"
    st.html(f'<div class="cs-route" tabindex="0">{scheme.picture_html(svg_data_uri(svg), alt)}</div>')


@lru_cache(maxsize=500)
def _route_svg(route: Route, dark: bool) -> str:
    return depict.to_svg(route, dark=dark)


def _show_route(route: Route, title: str, models: Expander) -> None:
    end = "all in stock" if route.solved else "not all in stock"
    st.subheader(f"{title}: {route.summary}, {end}")
    show_route_scheme(route, title)
    key = title.replace(" ", "_")
    with st.container(horizontal=True):
        chosen = st.pills("Look at a step", [row["step"] for row in values.step_table(route)], key=f"plan_step_{key}")
        with st.popover("Save"):
            name = title.lower().replace(" ", "-").replace(",", "")
            for label, make, ending in (
                ("SVG", lambda: depict.to_svg(route), "svg"),
                ("PNG", lambda: depict.to_png(route), "png"),
                ("JSON", lambda: json.dumps(values.tree_document(route.root, _evidence([route])), indent=1), "json"),
            ):
                st.download_button(label, make, f"{name}.{ending}", key=f"plan_{ending}_{key}", on_click="ignore")
    if chosen:
        _show_step(route, int(chosen) - 1, models, key)


def _show_step(route: Route, number: int, models: Expander, key: str) -> None:
    """Draw a step with its numbers and precedents, and the other proposals for its product."""
    node = route.steps[number]
    assert node.step
    now, index = node.step.reaction(node.smiles), precedent_index()
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
    others = [proposal for proposal in ways if proposal.reactants != node.step.reactants]
    if not others:
        st.caption("The model proposes no other step to this molecule.")
    for number, proposal in enumerate(others):
        with st.container(horizontal=True, vertical_alignment="center"):
            smiles = ".".join(proposal.reactants)
            if svg := Depiction(smiles, 340, 130, dark=theme.is_dark()).svg:
                st.image(svg, alt=smiles)
            st.caption(
                f"probability {proposal.chance:.2f}" + (f", forward {proposal.opinion}" if proposal.opinion else "")
            )
            reaction = proposal.reaction(node.smiles)
            st.button(
                "Use this instead", key=f"plan_use_{key}_{number}", on_click=search_form.use_step, args=(reaction,)
            )


TREE_CSS = """
.cs-tree {overflow: auto; max-height: 60vh; padding: .4rem .2rem}
.cs-tree .mol, .cs-tree .way {display: flex; align-items: flex-start; gap: .5rem; width: max-content}
.cs-tree .ways, .cs-tree .parts {display: flex; flex-direction: column; gap: .45rem}
.cs-tree .ways {border-left: 2px solid #99a8a6; padding-left: .5rem}
.cs-tree .card {border: 2px solid #99a8a6; border-radius: .5rem; padding: .15rem .35rem; font-size: .75rem;
  line-height: 1.25; width: 138px; text-align: center; overflow-wrap: anywhere}
.cs-tree .card img {width: 130px; height: 84px; display: block}
.cs-tree .bought {border-color: #0a804d}
.cs-tree .open {border-color: #bf6b00; border-style: dashed}
.cs-tree .told {font-size: .72rem; width: 4.6rem; line-height: 1.2; opacity: .85; padding-top: .3rem}
"""


def show_tree(tree: Seen) -> None:
    """Draw a tree; it scrolls in its own frame."""
    note = f"the likeliest {len(tree)} molecules of the tree; from left to right what each can be made from"
    st.html(
        f'<style>{TREE_CSS}</style><div class="cs-tree" tabindex="0" role="group" aria-label="{note}">'
        f"{_molecule_html(tree, root=True)}</div>"
    )


def _molecule_html(seen: Seen, *, root: bool = False) -> str:
    if seen.stock:
        kind, word = "bought", escape(seen.stock)
    elif seen.ways:
        kind, word = "made", ""
    else:
        kind, word = ("made", f"{seen.more} ways, not shown") if seen.more else ("open", "open")
    if root:
        word = "target" + f", also in stock: {word}" * bool(seen.stock)
    alt = f"{seen.smiles}: {word or 'made'}"
    picture = scheme.picture_html(Depiction(seen.smiles, 130, 84, dark=theme.is_dark()).data_uri, alt) or escape(alt)
    card = f'<div class="card {kind}" title="{escape(seen.smiles, quote=True)}">{picture}{word}</div>'
    if not seen.ways:
        return f'<div class="mol">{card}</div>'
    rows = "".join(_step_html(step, parts) for step, parts in seen.ways)
    rest = f'<div class="told">{seen.more} more way{"s" * (seen.more != 1)}</div>' if seen.more else ""
    return f'<div class="mol">{card}<div class="ways">{rows}{rest}</div></div>'


def _step_html(step: Proposal, parts: list[Seen]) -> str:
    back = f"<br>forward {step.opinion}" if step.opinion else ""
    inside = "".join(_molecule_html(part) for part in parts)
    label = f'<span class="told">probability {step.chance:.2f}{back}</span>'
    return f'<div class="way">{label}<div class="parts">{inside}</div></div>'
