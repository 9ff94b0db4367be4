"""A reaction as a paper prints it: drawings, plus signs, an arrow with the reagents above it; safe HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from typing import Any

from rdkit import rdBase

from chemspec.chem.names.short_names import split_drawn_and_named
from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.salts import group_salts
from chemspec.ui.common import draw
from chemspec.ui.common.web_files import web_file

CHANGED = "#E69F00"  # behind atoms that change
FEW = 3
MAX_DRAWN = 8  # molecules of one side; more are counted

CSS = web_file("scheme.css")
_LINE = '<span class="cs-line" aria-hidden="true"></span>'


@dataclass(frozen=True)
class Side:
    """One side of an arrow.

    Attributes:
        smiles: canonical.
        atoms: to highlight (`chem.atom_tokens`).
        labels: a text below each molecule, for a salt that of any of its ions.
        bold: bonds to draw thick.
        like: a molecule whose layout is taken over, and pairs of an atom here and one there.
        origins: marks that tell where atoms came from; they take the place of the highlight.
    """

    smiles: str
    atoms: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    bold: draw.Bonds = ()
    like: draw.Alike | None = None
    origins: draw.Colouring | None = None


def reaction_html(left: Side, right: Side, *, dark: bool = False, apart: bool = False, over: str = "") -> str:
    """Return left side, arrow, right side, as HTML.

    Args:
        left: what reacts.
        right: what is made.
        dark: for a dark page.
        apart: write common reagents of the left side above the arrow instead of drawing them, but not those with atoms
            to highlight: they are reactants.
        over: a text above the arrow, after those.
    """
    drawn, names = split_drawn_and_named(left.smiles.split("."), reacting_parts(left)) if apart else (None, ())
    return (
        '<div class="cs-scheme">'
        + side_html(left, dark=dark, only=drawn)
        + arrow_html(", ".join(filter(None, (*names, over))))
        + side_html(right, dark=dark)
        + "</div>"
    )


def reacting_parts(what: Side) -> set[str]:
    """Return the parts with atoms to highlight; a lone ion or water stays a reagent even so."""
    first, reacting = 0, set()
    for part in what.smiles.split("."):
        size = _atom_count(part)
        if size > 2 and any(first <= atom < first + size for atom in what.atoms):
            reacting.add(part)
        first += size
    return reacting


def molecules_html(smiles: str, *, dark: bool = False) -> str:
    """Return molecules with plus signs between them, common reagents left out, as HTML."""
    drawn, _ = split_drawn_and_named(smiles.split("."))
    return f'<div class="cs-scheme">{side_html(Side(smiles), dark=dark, only=drawn)}</div>'


def side_html(what: Side, *, dark: bool = False, only: Sequence[int] | None = None) -> str:
    """Return the molecules of one side, with plus signs between them."""
    figures = [
        molecule_figure(
            part,
            label=next(filter(None, (what.labels[ion] for ion in ions if ion < len(what.labels))), ""),
            dark=dark,
            **options,
        )
        for ions, part, options in side_molecules(what, only)
    ]
    more = len(figures) - MAX_DRAWN
    if more > 0:
        figures = [*figures[:MAX_DRAWN], f"<span>{more} more</span>"]
    few = " cs-few" if len(figures) <= FEW else ""  # they shrink to stay on one line
    return f'<div class="cs-side{few}">{_PLUS.join(figures)}</div>'


def side_drawings(what: Side, only: Sequence[int] | None = None) -> list[str]:
    """Return the molecules of one side as SVG."""
    return [_molecule_svg(part, **options) for _, part, options in side_molecules(what, only)]


def side_molecules(
    what: Side, only: Sequence[int] | None = None
) -> Iterator[tuple[tuple[int, ...], str, dict[str, Any]]]:
    """Yield positions, SMILES and drawing options of each molecule; the ions of a salt are one molecule."""
    parts = what.smiles.split(".")
    ends = [*accumulate(map(_atom_count, parts), initial=0)]
    positions = [position for position in range(len(parts)) if only is None or position in only]
    model, pairs = what.like or ("", ())
    for salt in group_salts([parts[position] for position in positions]):
        ions = tuple(positions[ion] for ion in salt)
        atoms = (atom for ion in ions for atom in range(ends[ion], ends[ion + 1]))
        here = {atom: number for number, atom in enumerate(atoms)}
        shown = () if what.origins else what.atoms
        fills = {here[atom]: CHANGED for atom in shown if atom in here}
        origins = what.origins.renumbered(here) if what.origins else None
        bold = tuple((here[a], here[b]) for a, b in what.bold if a in here and b in here)
        like = (model, tuple((here[atom], there) for atom, there in pairs if atom in here)) if model else None
        yield (
            ions,
            ".".join(parts[ion] for ion in ions),
            {"fills": fills, "bold": bold, "like": like, **({"origins": origins} if origins else {})},
        )


_PLUS = '<span class="cs-plus">+</span>'


def _molecule_svg(smiles: str, *, origins: draw.Colouring | None = None, **options: Any) -> str:
    return draw.molecule_svg(smiles, width=-1, height=-1, colouring=origins or draw.NO_COLOURS, **options)


def molecule_figure(
    smiles: str,
    *,
    fills: Mapping[int, str] = {},
    label: str = "",
    dark: bool = False,
    bold: draw.Bonds = (),
    notes: tuple[str, ...] = (),
    like: draw.Alike | None = None,
    origins: draw.Colouring | None = None,
) -> str:
    """Return one molecule, sized by its bonds, with its SMILES as alternative text.

    The arguments are those of `draw.molecule_svg`; the label is written below, `origins` are its colouring.
    """
    svg = _molecule_svg(smiles, dark=dark, fills=fills, bold=bold, notes=notes, like=like, origins=origins)
    note = f"; {len(fills)} atoms that change are highlighted" if fills else ""
    if origins:
        note = f"; coloured by origin: {len(origins.fills)} atoms from drafts, {len(origins.ringed)} ringed"
    alt = escape(f"drawing of {smiles}{note}", quote=True)
    inside = (
        f'<img src="{draw.svg_data_uri(svg)}" alt="{alt}">'
        if svg
        else f'<div class="cs-undrawn">{escape(smiles)}</div>'
    )
    caption = f"<figcaption>{escape(label)}</figcaption>" if label else ""
    return f"<figure>{inside}{caption}</figure>"


def arrow_html(text: str = "") -> str:
    """Return a reaction arrow with a text above it."""
    over = f"<span>{escape(text)}</span>" if text else ""
    return f'<div class="cs-arrow">{over}{_LINE}<span class="cs-unseen">gives</span></div>'


def _atom_count(smiles: str) -> int:
    with rdBase.BlockLogs():
        mol = mol_from_smiles(smiles)
    return 0 if mol is None else int(mol.GetNumAtoms())
