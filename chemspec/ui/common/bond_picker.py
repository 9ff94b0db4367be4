"""A drawing of a molecule whose bonds can be marked to break or to stay, by click or key."""

from collections.abc import Callable

import streamlit as st

from chemspec.chem.reactions.guide import bonds_by_name
from chemspec.depict.molecules import Bonds, Depiction
from chemspec.ui.common import theme, web_files

HINT = "Click a bond to require breaking it; click again to protect it."
NUMBERS = " Numbers: the answers that make the bond."

Marks = tuple[tuple[str, ...], tuple[str, ...]]  # names of bonds that must break, and that must stay


def show_bond_picker(
    smiles: str,
    marks: Marks,
    *,
    key: str,
    on_change: Callable[[str, Marks], None],
    bold: Bonds = (),
    notes: tuple[str, ...] = (),
    kinds: tuple[str, ...] = ("cut", "keep"),
    hint: str = HINT,
) -> None:
    """Draw a canonical molecule with marked bonds; every change calls `on_change` with SMILES and marks.

    `bold` bonds are thick, each with a text of `notes`; `kinds` are the marks that can be made, in the order of clicks;
    `hint` is shown where nothing is marked.
    """
    drawing = Depiction(smiles, dark=theme.is_dark(), tags=True, bold=bold, notes=notes)
    offered = bonds_by_name(smiles)

    def marks_changed() -> None:
        sent = (st.session_state.get(key) or {}).get("marks") or {}
        if sent.get("smiles") == smiles:  # a click may come after the molecule has changed
            cut, keep = (tuple(name for name in offered if name in (sent.get(kind) or ())) for kind in ("cut", "keep"))
            if isinstance(turn := sent.get("turn"), int):
                st.session_state[f"{key}_turn"] = turn
            on_change(smiles, (cut, keep))

    web_files.component("bonds")(
        key=key,
        data={
            "smiles": smiles,
            "turn": st.session_state.get(f"{key}_turn", 0),  # the last change that these marks include
            "svg": drawing.svg,
            "bonds": [[*pair, name] for name, pair in offered.items()],
            "cut": list(marks[0]),
            "keep": list(marks[1]),
            "kinds": list(kinds),
            "label": f"drawing of {smiles}; its bonds can be marked",
            "hint": f"{hint}{NUMBERS if notes else ''}",
            "dark": theme.is_dark(),
        },
        on_marks_change=marks_changed,
    )
