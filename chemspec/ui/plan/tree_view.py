"""The tree of a search as cards: what is bought in green, what is open in amber; the words on the cards say it too."""

from __future__ import annotations

from html import escape

import streamlit as st

from chemspec.depict.molecules import Depiction
from chemspec.plan.expand import Proposal
from chemspec.plan.tree import Seen
from chemspec.ui.common import scheme, theme

CSS = """
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
    dark = theme.is_dark()
    note = f"the likeliest {len(tree)} molecules of the tree; from left to right what each can be made from"
    st.html(
        f'<style>{CSS}</style><div class="cs-tree" tabindex="0" role="group" aria-label="{note}">'
        f"{_molecule_html(tree, dark=dark, root=True)}</div>"
    )


def _molecule_html(seen: Seen, *, dark: bool, root: bool = False) -> str:
    if seen.stock:
        kind, word = "bought", escape(seen.stock)
    elif seen.ways:
        kind, word = "made", ""
    else:
        kind, word = ("made", f"{seen.more} ways, not shown") if seen.more else ("open", "open")
    if root:
        word = "target" + f", also in stock: {word}" * bool(seen.stock)
    alt = f"{seen.smiles}: {word or 'made'}"
    picture = scheme.picture_html(Depiction(seen.smiles, 130, 84, dark=dark).data_uri, alt) or escape(alt)
    card = f'<div class="card {kind}" title="{escape(seen.smiles, quote=True)}">{picture}{word}</div>'
    if not seen.ways:
        return f'<div class="mol">{card}</div>'
    rows = "".join(_step_html(step, parts, dark=dark) for step, parts in seen.ways)
    rest = f'<div class="told">{seen.more} more way{"s" * (seen.more != 1)}</div>' if seen.more else ""
    return f'<div class="mol">{card}<div class="ways">{rows}{rest}</div></div>'


def _step_html(step: Proposal, parts: list[Seen], *, dark: bool) -> str:
    back = f"<br>forward {step.opinion}" if step.opinion else ""
    inside = "".join(_molecule_html(part, dark=dark) for part in parts)
    label = f'<span class="told">probability {step.chance:.2f}{back}</span>'
    return f'<div class="way">{label}<div class="parts">{inside}</div></div>'
