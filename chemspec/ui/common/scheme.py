"""Reactions as safe HTML in the colours of the page: drawings that wrap, plus signs, an arrow and what is above it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from chemspec.chem.names.short_names import split_drawn_and_named
from chemspec.depict.molecules import Depiction
from chemspec.depict.schemes import Side, side_molecules
from chemspec.ui.common import theme
from chemspec.ui.common.web_files import web_file

FEW = 3
MAX_DRAWN = 8  # molecules of one side; more are counted

CSS = web_file("scheme.css")
_LINE = '<span class="cs-line" aria-hidden="true"></span>'
_PLUS = '<span class="cs-plus">+</span>'


def reaction_html(left: Side, right: Side, *, apart: bool = False, over: str = "") -> str:
    """Return left side, arrow, right side, as HTML.

    Args:
        left: what reacts.
        right: what is made.
        apart: write common reagents of the left side above the arrow instead of drawing them, but not those with atoms
            to highlight: they are reactants.
        over: a text above the arrow, after those.
    """
    drawn, names = left.drawn_and_named() if apart else (None, ())
    return (
        '<div class="cs-scheme">'
        + side_html(left, only=drawn)
        + arrow_html(", ".join(filter(None, (*names, over))))
        + side_html(right)
        + "</div>"
    )


def molecules_html(smiles: str) -> str:
    """Return molecules with plus signs between them, common reagents left out, as HTML."""
    drawn, _ = split_drawn_and_named(smiles.split("."))
    return f'<div class="cs-scheme">{side_html(Side(smiles), only=drawn)}</div>'


def side_html(what: Side, *, only: Sequence[int] | None = None) -> str:
    """Return the molecules of one side, with plus signs between them."""
    figures = [
        molecule_figure(molecule, next(filter(None, (what.labels[ion] for ion in ions if ion < len(what.labels))), ""))
        for ions, molecule in side_molecules(what, only, dark=theme.is_dark())
    ]
    more = len(figures) - MAX_DRAWN
    if more > 0:
        figures = [*figures[:MAX_DRAWN], f"<span>{more} more</span>"]
    few = " cs-few" if len(figures) <= FEW else ""  # they shrink to stay on one line
    return f'<div class="cs-side{few}">{_PLUS.join(figures)}</div>'


def molecule_figure(molecule: Depiction, label: str = "") -> str:
    """Return one molecule with a label below and its SMILES as alternative text."""
    marks = molecule.colouring
    note = f"; {len(marks.fills)} atoms that change are highlighted" if marks.fills else ""
    if marks.ringed or marks.notes:
        note = f"; coloured by origin: {len(marks.fills)} atoms from drafts, {len(marks.ringed)} ringed"
    inside = picture_html(molecule.data_uri, f"drawing of {molecule.smiles}{note}")
    inside = inside or f'<div class="cs-undrawn">{escape(molecule.smiles)}</div>'
    caption = f"<figcaption>{escape(label)}</figcaption>" if label else ""
    return f"<figure>{inside}{caption}</figure>"


def arrow_html(text: str = "") -> str:
    """Return a reaction arrow with a text above it."""
    over = f"<span>{escape(text)}</span>" if text else ""
    return f'<div class="cs-arrow">{over}{_LINE}<span class="cs-unseen">gives</span></div>'


def picture_html(data_uri: str, alt: str) -> str:
    """Return a picture with its alternative text, as HTML; empty without one."""
    return f'<img src="{data_uri}" alt="{escape(alt, quote=True)}">' if data_uri else ""
