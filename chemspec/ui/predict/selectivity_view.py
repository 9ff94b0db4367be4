"""Where the new bond forms: one drawn reactant with the probability of each product at the atom that gets the bond."""

from __future__ import annotations

from html import escape

import streamlit as st

from chemspec.depict.molecules import Colouring, Depiction, svg_size
from chemspec.review.selectivity import Selectivity
from chemspec.review.suggestions import format_percent
from chemspec.ui.common import scheme, theme

SITE = "#56B4E9"  # behind the atoms that get the bond
SCALE = 1.35  # of the drawing, so that its numbers are as large as the text next to it


def show_selectivity(choices: tuple[Selectivity, ...]) -> None:
    """Draw each reactant whose atoms compete for the new bond."""
    for number, choice in enumerate(choices):
        with st.container(border=True, gap=None, key=f"predict_sites_{number}_card"):
            st.html(selectivity_html(choice))


def selectivity_html(choice: Selectivity) -> str:
    """Return the drawn reactant with its percentages, and the answers that they belong to, as safe HTML."""
    sites = choice.shown
    marks = Colouring(
        fills=tuple((atom, SITE) for site in sites for atom in site.equivalent),
        labels=tuple((site.atom, format_percent(site.probability)) for site in sites),
    )
    drawing = Depiction(choice.reactant, dark=theme.is_dark(), colouring=marks)
    picture = scheme.picture_html(drawing.data_uri, f"Drawing with percentages at its atoms: {choice.text}")
    picture = picture.replace("<img", f'<img width="{SCALE * svg_size(drawing.svg)[0]:.0f}"')
    rows = "".join(
        f"<li><b>{format_percent(site.probability)}</b> answer{'s' * (len(site.ranks) > 1)} "
        f"{', '.join(map(str, site.ranks))}</li>"
        for site in sites
    )
    same = " Atoms that are alike share one percentage." if any(len(site.equivalent) > 1 for site in sites) else ""
    meaning = choice.meaning[0].upper() + choice.meaning[1:]
    return (
        '<div class="cs-sites"><figure>' + (picture or escape(choice.reactant)) + "</figure><div>"
        f"<h3>Where the model puts the new bond</h3><ul>{rows}</ul>"
        f'<p class="cs-hint">{escape(meaning)}.{same}</p></div></div>'
    )
