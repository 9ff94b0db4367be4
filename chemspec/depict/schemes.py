"""A reaction as a paper prints it: drawings, plus signs, an arrow with the reagents above it; as SVG, PNG and CDXML."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from chemspec.chem import formats
from chemspec.chem.formats import DrawnStep
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.molecules.salts import group_salts
from chemspec.chem.reactions.step_class import StepClass
from chemspec.chem.reading.names.short_names import split_drawn_and_named
from chemspec.depict import canvas
from chemspec.depict.canvas import Item, Picture
from chemspec.depict.molecules import Alike, Bonds, Depiction, svg_size

CHANGED = "#E69F00"  # behind atoms that change
GAP, ARROW = 26, 110  # pixels between molecules, and of the arrow
WRAP = 18  # characters of a line over it
LINE = 13  # pixels between these lines


@dataclass(frozen=True)
class Side:
    """One side of an arrow."""

    smiles: str  # canonical
    atoms: tuple[int, ...] = ()  # highlighted atoms (`chem.atom_tokens`)
    labels: tuple[str, ...] = ()  # a text below each molecule, for a salt that of any of its ions
    bold: Bonds = ()  # bonds to draw thick
    like: Alike | None = None  # a molecule whose layout is taken over, and pairs of an atom here and one there

    @property
    def reacting_parts(self) -> set[str]:
        """The parts with atoms to highlight; a lone ion or water stays a reagent even so."""
        first, reacting = 0, set()
        for part in self.smiles.split("."):
            size = _atom_count(part)
            if size > 2 and any(first <= atom < first + size for atom in self.atoms):
                reacting.add(part)
            first += size
        return reacting

    def drawn_and_named(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Return the positions of the molecules to draw, and the names of the common reagents that are not drawn."""
        return split_drawn_and_named(self.smiles.split("."), self.reacting_parts)


def side_molecules(
    side: Side, only: Sequence[int] | None = None, *, dark: bool = False
) -> Iterator[tuple[tuple[int, ...], Depiction]]:
    """Yield positions and drawing of each molecule; the ions of a salt are one molecule."""
    parts = side.smiles.split(".")
    ends = [*accumulate(map(_atom_count, parts), initial=0)]
    positions = [position for position in range(len(parts)) if only is None or position in only]
    model, pairs = side.like or ("", ())
    for salt in group_salts([parts[position] for position in positions]):
        ions = tuple(positions[ion] for ion in salt)
        atoms = (atom for ion in ions for atom in range(ends[ion], ends[ion + 1]))
        here = {atom: number for number, atom in enumerate(atoms)}
        yield (
            ions,
            Depiction(
                ".".join(parts[ion] for ion in ions),
                dark=dark,
                bold=tuple((here[a], here[b]) for a, b in side.bold if a in here and b in here),
                like=(model, tuple((here[atom], there) for atom, there in pairs if atom in here)) if model else None,
                fills=tuple((here[atom], CHANGED) for atom in side.atoms if atom in here),
            ),
        )


def _atom_count(smiles: str) -> int:
    mol = mol_from_smiles(smiles)
    return 0 if mol is None else int(mol.GetNumAtoms())


def scheme_sides(reactants: str, product: str, change: StepClass | None) -> tuple[Side, Side]:
    """Return both sides of a reaction: atoms that change, bonds that are made, reactants laid out like the product."""
    if change is None:
        return Side(reactants), Side(product)
    pairs = tuple((origin, atom) for atom, origin in enumerate(change.origin) if origin >= 0)
    return Side(reactants, change.before, like=(product, pairs)), Side(product, change.after, bold=change.made)


def scheme_to_svg(reactants: str, product: str, change: StepClass | None, over: str = "") -> str:
    """Return the scheme of a reaction, reagents over its arrow, as one SVG; empty where nothing can be drawn."""
    picture = _draw_scheme(reactants, product, change, over)
    return canvas.to_svg(picture).strip() if picture else ""


def scheme_to_png(reactants: str, product: str, change: StepClass | None, over: str = "") -> bytes:
    """Return the scheme of a reaction as PNG on white; empty where nothing can be drawn."""
    picture = _draw_scheme(reactants, product, change, over)
    return canvas.to_png(picture) if picture else b""


def _draw_scheme(reactants: str, product: str, change: StepClass | None, over: str) -> Picture | None:
    left, right = scheme_sides(reactants, product, change)
    drawn, names = left.drawn_and_named()
    sides = [[molecule for _, molecule in side_molecules(*side)] for side in ((left, drawn), (right, None))]
    sizes = {molecule: svg_size(molecule.svg) for side in sides for molecule in side}
    if not all(width for width, _ in sizes.values()):
        return None
    lines = textwrap.wrap(", ".join(filter(None, (*names, over))), WRAP)
    height = max([40.0 + 2 * LINE * len(lines), *(high for _, high in sizes.values())]) + 8
    middle, x = height / 2, 4.0
    items: list[Item] = []
    for number, side in enumerate(sides):
        if number:
            for up, text in enumerate(reversed(lines)):
                top = middle - 20 - LINE * up
                items.append(Item(x, top, ARROW, LINE, text=text, size=11, anchor="middle", fill="#000"))
            items += canvas.arrow(x + 4, x + ARROW - 4, middle, "#000")
            x += ARROW + GAP
        for position, molecule in enumerate(side):
            if position:
                items.append(Item(x - GAP, middle - 9, GAP, 18, text="+", size=18, anchor="middle", fill="#000"))
            wide, high = sizes[molecule]
            items.append(Item(x, middle - high / 2, wide, high, molecule=molecule))
            x += wide + GAP
    return Picture(round(x), height, tuple(items))


def scheme_to_cdxml(reactants: str, product: str, change: StepClass | None, over: str = "") -> str:
    """Return the scheme of a reaction as ChemDraw file, reagents over its arrow; empty where it cannot be drawn."""
    left, _ = scheme_sides(reactants, product, change)
    drawn, names = left.drawn_and_named()
    mols = [molecule.molecule() for _, molecule in side_molecules(left, drawn)]
    target = Depiction(product).molecule()
    if target is None or None in mols:
        return ""
    return formats.to_reaction_cdxml([DrawnStep(mols, [target], ", ".join(filter(None, (*names, over))))])
