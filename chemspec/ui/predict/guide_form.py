"""Guided disconnection: marked bonds, reaction classes, and the predictions they exclude."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

import streamlit as st

from chemspec.chem import guide
from chemspec.chem.guide import Guide
from chemspec.chem.strategy import families
from chemspec.review.suggestions import format_percent
from chemspec.types import DecodeResult
from chemspec.ui.common import bond_picker, draw

_KEY = "predict_guide"  # in the session: the target, and its guide as text
LINK = "guide"  # in the address
MAX_GUIDE_CHARS = 2000


def current_guide(target: str) -> Guide:
    """Return this visitor's constraints for a target."""
    stored: tuple[str, str] = st.session_state.get(_KEY, ("", ""))
    return guide.parse_guide(stored[1]) if stored[0] == target else Guide()


def set_guide(target: str, constraints: Guide) -> None:
    """Set the constraints for a target; a callback for buttons."""
    st.session_state[_KEY] = (target, str(constraints))
    st.session_state["predict_only"] = list(constraints.only)
    submitted = st.session_state.get("predict_asked")
    if submitted and submitted[1] == target:
        others = {name: value for name, value in st.query_params.to_dict().items() if name != LINK}
        st.query_params.from_dict({**others, **guide_parameters(target)})


def follow_guide_link(target: str) -> None:
    """Read the constraints from the address; those that do not fit the target are dropped."""
    text = st.query_params.get(LINK, "")[:MAX_GUIDE_CHARS]
    if not text:
        return
    try:
        constraints = guide.parse_guide(text)
        guide.guide_predicate(constraints, target)
    except ValueError:
        return
    set_guide(target, constraints)


def guide_parameters(target: str) -> dict[str, str]:
    """Return the query parameters of the constraints for a target."""
    text = str(current_guide(target))
    return {LINK: text} if text else {}


# --- drawing ---------------------------------------------------------------------------------------


def show_guide_picker(
    target: str, marked: Sequence[tuple[tuple[int, int], str]], colouring: draw.Colouring = draw.NO_COLOURS
) -> None:
    """Draw the target, to mark its bonds."""
    constraints = current_guide(target)
    broken = {
        guide.bonds_by_name(target)[name] for name in constraints.cut
    }  # which all answers break: no numbers under the mark
    plain = [(pair, text) for pair, text in marked if pair not in broken]
    bond_picker.show_bond_picker(
        target,
        (constraints.cut, constraints.keep),
        key="predict_bonds",
        on_change=lambda smiles, marks: set_guide(smiles, replace(current_guide(smiles), cut=marks[0], keep=marks[1])),
        bold=tuple(pair for pair, _ in plain),
        notes=tuple(text for _, text in plain),
        colouring=colouring,
    )


def show_class_menu(target: str) -> None:
    """Draw the choice of reaction classes."""
    constraints = current_guide(target)
    st.session_state["predict_only"] = list(constraints.only)
    count = f" ({len(constraints.only)})" * bool(constraints.only)
    with st.popover(f"Classes{count}", type="tertiary"):
        st.multiselect(
            "Only these classes of steps",
            list(families()),
            format_func=families().__getitem__,
            key="predict_only",
            on_change=lambda: set_guide(
                target, replace(current_guide(target), only=tuple(st.session_state.predict_only))
            ),
            placeholder="all",
        )
        st.caption(
            "Classes are inferred by comparing structures. Bonds that must break or stay are marked on the drawing. "
            "If too few answers fit, the model searches up to 100 wide."
        )


def show_guide_effect(result: DecodeResult, target: str) -> None:
    """Show the predictions that the constraints exclude."""
    constraints = current_guide(target)
    if result.distinct is None or not str(constraints):
        return
    barred, width = result.distinct.barred, result.distinct.widths[-1]
    head = f"{_guide_words(constraints)}: {len(barred)} other answers left out, searched {width} wide."
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="predict_guided"):
        rows = "".join(
            f"<li>{format_percent(answer.probability)} <code>{escape(answer.canonical)}</code></li>"
            for answer in barred[:20]
        )
        more = f"<li>and {len(barred) - 20} more</li>" if len(barred) > 20 else ""
        inside = f"<details><summary>{escape(head)}</summary><ul>{rows}{more}</ul></details>" if rows else escape(head)
        st.html(f'<div class="cs-aside" role="status">{inside}</div>', width="stretch")
        st.button(
            "Clear constraints", key="predict_unguide", type="tertiary", on_click=set_guide, args=(target, Guide())
        )


def _guide_words(constraints: Guide) -> str:
    parts = {
        "breaking": constraints.cut,
        "keeping": constraints.keep,
        "only": tuple(families()[name] for name in constraints.only),
    }
    text = ", ".join(f"{verb} {' or '.join(names)}" for verb, names in parts.items() if names)
    return text[:1].upper() + text[1:]
