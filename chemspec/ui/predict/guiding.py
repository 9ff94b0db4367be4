"""Guide the cut on the page Predict: marks on the drawn target, classes of steps, and what that leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

import streamlit as st

from chemspec.chem import guide
from chemspec.chem.guide import Guide
from chemspec.chem.strategy import families
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.common import bond_picker, draw
from chemspec.ui.predict.verdicts import percent

_KEY = "predict_guide"  # in the session: the target, and its guide as text
LINK = "guide"  # in the address
MOST_CHARS = 2000


def of(target: str) -> Guide:
    """Return what this visitor wants for a target."""
    kept: tuple[str, str] = st.session_state.get(_KEY, ("", ""))
    return guide.parse_guide(kept[1]) if kept[0] == target else Guide()


def put(target: str, wanted: Guide) -> None:
    """Want this for a target from now on; a callback for buttons."""
    st.session_state[_KEY] = (target, str(wanted))
    st.session_state["predict_only"] = list(wanted.only)
    asked = st.session_state.get("predict_asked")
    if asked and asked[1] == target:
        st.query_params.from_dict({**st.query_params.to_dict(), LINK: str(wanted)} if str(wanted) else _without())


def _without() -> dict[str, str]:
    return {name: value for name, value in st.query_params.to_dict().items() if name != LINK}


def follow_link(target: str) -> None:
    """Take over the guide that the address holds for a target; one that does not fit it is dropped."""
    text = st.query_params.get(LINK, "")[:MOST_CHARS]
    if not text:
        return
    try:
        wanted = guide.parse_guide(text)
        guide.guide_predicate(wanted, target)
    except ValueError:
        return
    put(target, wanted)


def link(target: str) -> dict[str, str]:
    """Return what the address says of the guide for a target."""
    text = str(of(target))
    return {LINK: text} if text else {}


def apply(settings: DecodeSettings, target: str) -> DecodeSettings:
    """Return settings with the guide for a target."""
    return replace(settings, guide=str(of(target)))


# --- drawing ---------------------------------------------------------------------------------------


def picker(target: str, marked: Sequence[tuple[tuple[int, int], str]], colouring: draw.Colouring = draw.PLAIN) -> None:
    """Draw the target, to mark its bonds.

    Args:
        target: canonical, one molecule.
        marked: bonds with a text, to draw thick.
        colouring: of its atoms.
    """
    wanted = of(target)
    told = {
        guide.bonds_by_name(target)[name] for name in wanted.cut
    }  # which all answers break: no numbers under the mark
    plain = [(pair, text) for pair, text in marked if pair not in told]
    bond_picker.picker(
        target,
        (wanted.cut, wanted.keep),
        key="predict_bonds",
        on_change=lambda smiles, marks: put(smiles, replace(of(smiles), cut=marks[0], keep=marks[1])),
        bold=tuple(pair for pair, _ in plain),
        notes=tuple(text for _, text in plain),
        colouring=colouring,
    )


def classes(target: str) -> None:
    """Draw the choice of classes."""
    wanted = of(target)
    st.session_state["predict_only"] = list(wanted.only)
    count = f" ({len(wanted.only)})" * bool(wanted.only)
    with st.popover(f"Classes{count}", type="tertiary"):
        st.multiselect(
            "Only these classes of steps",
            list(families()),
            format_func=families().__getitem__,
            key="predict_only",
            on_change=lambda: put(target, replace(of(target), only=tuple(st.session_state.predict_only))),
            placeholder="all",
        )
        st.caption(
            "Classes are guessed by comparing structures. Bonds that must break or stay are marked on the drawing. "
            "If too few answers fit, the model searches up to 100 wide."
        )


def only(target: str, family: str) -> None:
    """Want steps of one class only; a callback for buttons."""
    put(target, replace(of(target), only=(family,)))


def told(result: DecodeResult, target: str) -> None:
    """Say what the guide left out."""
    wanted = of(target)
    if result.distinct is None or not str(wanted):
        return
    barred, width = result.distinct.barred, result.distinct.widths[-1]
    head = f"{_words(wanted)}: {len(barred)} other answers left out, searched {width} wide."
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="predict_guided"):
        rows = "".join(
            f"<li>{percent(one.probability)} <code>{escape(one.canonical)}</code></li>" for one in barred[:20]
        )
        more = f"<li>and {len(barred) - 20} more</li>" if len(barred) > 20 else ""
        inside = f"<details><summary>{escape(head)}</summary><ul>{rows}{more}</ul></details>" if rows else escape(head)
        st.html(f'<div class="cs-aside" role="status">{inside}</div>', width="stretch")
        st.button("Lift", key="predict_unguide", type="tertiary", on_click=put, args=(target, Guide()))


def _words(wanted: Guide) -> str:
    parts = {"breaking": wanted.cut, "keeping": wanted.keep, "only": tuple(families()[name] for name in wanted.only)}
    text = ", ".join(f"{verb} {' or '.join(names)}" for verb, names in parts.items() if names)
    return text[:1].upper() + text[1:]
