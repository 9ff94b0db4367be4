"""Reactions as safe HTML in the colours of the page: drawings that wrap, plus signs, an arrow and what is above it."""

from collections.abc import Sequence

from chemspec.chem.reading.names.short_names import split_drawn_and_named
from chemspec.depict.molecules import Depiction
from chemspec.depict.schemes import Side, side_molecules
from chemspec.ui.common import theme
from chemspec.ui.common.escaping import Html, join, tag
from chemspec.ui.common.web_files import web_file

FEW = 3
MAX_DRAWN = 8  # molecules of one side; more are counted
CSS = web_file("scheme.css")


def reaction_html(left: Side, right: Side, *, apart: bool = False, over: str = "") -> Html:
    """Return left side, arrow, right side, as HTML.

    `apart` writes common reagents of the left side above the arrow instead of drawing them, but not those with atoms
    to highlight, which are reactants; `over` is a text above the arrow, after those.
    """
    drawn, names = left.drawn_and_named() if apart else (None, ())
    arrow = arrow_html(", ".join(filter(None, (*names, over))))
    return tag("div.cs-scheme", side_html(left, only=drawn), arrow, side_html(right))


def molecules_html(smiles: str) -> Html:
    """Return molecules with plus signs between them, common reagents left out, as HTML."""
    return tag("div.cs-scheme", side_html(Side(smiles), only=split_drawn_and_named(smiles.split("."))[0]))


def side_html(what: Side, *, only: Sequence[int] | None = None) -> Html:
    """Return the molecules of one side, with plus signs between them."""
    figures = [
        molecule_figure(molecule, next(filter(None, (what.labels[ion] for ion in ions if ion < len(what.labels))), ""))
        for ions, molecule in side_molecules(what, only, dark=theme.is_dark())
    ]
    few = ".cs-few" if len(figures) <= FEW else ""  # they shrink to stay on one line
    if len(figures) > MAX_DRAWN:
        figures = [*figures[:MAX_DRAWN], tag("span", f"{len(figures) - MAX_DRAWN} more")]
    return tag(f"div.cs-side{few}", Html(tag("span.cs-plus", "+").join(figures)))


def molecule_figure(molecule: Depiction, label: str = "") -> Html:
    """Return one molecule with a label below and its SMILES as alternative text."""
    note = f"; {len(molecule.fills)} atoms that change are highlighted" if molecule.fills else ""
    picture = picture_html(molecule.data_uri, f"drawing of {molecule.smiles}{note}")
    caption = tag("figcaption", label) if label else ""
    return tag("figure", picture or tag("div.cs-undrawn", molecule.smiles), caption)


def arrow_html(text: str = "") -> Html:
    """Return a reaction arrow with a text above it."""
    over = tag("span", text) if text else ""
    return tag("div.cs-arrow", over, tag("span.cs-line", aria_hidden="true"), tag("span.cs-unseen", "gives"))


def picture_html(data_uri: str, alt: str, **attributes: str) -> Html:
    """Return a picture with its alternative text, as HTML; empty without one."""
    return tag("img", src=data_uri, alt=alt, **attributes) if data_uri else join()
