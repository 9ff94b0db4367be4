"""Pictures: SVG and PNG of one layout, with the same marks, and safe in any page."""

from __future__ import annotations

import re
from io import BytesIO
from xml.etree.ElementTree import fromstring

import pytest
from PIL import Image
from rdkit.Chem import BondDir
from rdkit.Chem.Draw import rdMolDraw2D

from chemspec.chem.reactions.step_class import classify_step
from chemspec.depict import canvas, schemes
from chemspec.depict.canvas import Item, Picture
from chemspec.depict.molecules import Depiction, svg_size

FLASK, AMIDE = "CC(=O)Cl.Nc1ccccc1.C1CCOC1", "CC(=O)Nc1ccccc1"


def opened(data: bytes) -> Image.Image:
    with Image.open(BytesIO(data)) as image:
        return image.convert("RGBA")


def colours(image: Image.Image) -> set[tuple[int, ...]]:
    return {colour for _, colour in image.getcolors(1 << 24) or ()}


def test_a_png_is_the_svg_at_a_scale_and_has_its_marks() -> None:
    plain = Depiction(AMIDE)
    marked = Depiction(AMIDE, fills=((0, "#E69F00"),))
    width, height = svg_size(plain.svg)
    images = [opened(drawing.png(2.0)) for drawing in (plain, marked)]
    assert images[0].size == (round(2 * width), round(2 * height))
    assert images[0].getpixel((0, 0))[3] == 0, "no ground"
    assert colours(images[1]) - colours(images[0])


STEREO = """
CC[C@H](F)Cl CC[C@@H](F)Cl N[C@@H](C)C(=O)O N[C@H](C)C(=O)O O[C@@H]1CCCC[C@H]1N=[N+]=[N-]
O[C@H]1CCCC[C@H]1N=[N+]=[N-] O=C(O)[C@@H]1C[C@@H](F)CN1C(=O)OC(C)(C)C O=C(O)[C@@H]1C[C@H](F)CN1C(=O)OC(C)(C)C
CO[C@@H]1O[C@H](COC(C)=O)[C@@H](OC(C)=O)[C@H](OC(C)=O)[C@H]1OC(C)=O C[S@](=O)c1ccccc1 C[S@@](=O)c1ccccc1
C[P@](=O)(c1ccccc1)C1CC1 F/C=C/Cl F/C=C\\Cl FC=CCl C[C@H]1CC[C@@H](C#N)CC1 CC(F)Cl
"""


def strokes(svg: str, bond: int) -> list[tuple[str, float]]:
    """The lines and wedges of a bond, without the shading behind it: paths and widths of their strokes."""
    paths = re.findall(rf"<path class='bond-{bond} [^>]*d='([^']*)' style='([^']*)'", svg)
    return [(line, float(re.findall(r"stroke-width:([\d.]+)", style)[0])) for line, style in paths]


@pytest.mark.parametrize("shaded", [False, True])
def test_a_stereo_bond_is_drawn_alike_thick_and_plain(shaded: bool) -> None:
    """The strokes of a hashed wedge once merged into a solid one; every bond of every molecule is marked in turn."""
    seen = set()
    for smiles in STEREO.split():
        mol = Depiction(smiles).molecule()
        assert mol is not None
        fills = tuple((atom, "#E69F00") for atom in range(mol.GetNumAtoms())) if shaded else ()
        plain = Depiction(smiles, fills=fills).svg
        for bond in rdMolDraw2D.PrepareMolForDrawing(mol).GetBonds():
            if bond.GetIdx() >= mol.GetNumBonds():
                continue  # of a hydrogen atom that is only drawn
            ends, way = (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()), bond.GetBondDir()
            marked = Depiction(smiles, fills=fills, bold=(ends,)).svg
            before, after = (strokes(svg, bond.GetIdx()) for svg in (plain, marked))
            assert [line for line, _ in before] == [line for line, _ in after] != []
            seen.add(way)
            if way in (BondDir.BEGINWEDGE, BondDir.BEGINDASH):
                assert after == before, (smiles, ends)
                assert marked == plain
                hashes = [line for line, _ in after if re.fullmatch(r"M \S+ L \S+", line)]
                assert (len(hashes) >= 3) == (way == BondDir.BEGINDASH), (smiles, ends)
            else:
                assert max(width for _, width in after) > max(width for _, width in before), (smiles, ends)
    assert {BondDir.BEGINWEDGE, BondDir.BEGINDASH, BondDir.NONE} <= seen


def test_a_scheme_is_one_picture_in_both_formats() -> None:
    change = classify_step(FLASK, AMIDE)
    svg = schemes.scheme_to_svg(FLASK, AMIDE, change, "Et₃N")
    root = fromstring(svg)
    image = opened(schemes.scheme_to_png(FLASK, AMIDE, change, "Et₃N"))
    assert image.size == (round(2 * float(root.get("width", 0))), round(2 * float(root.get("height", 0))))
    assert image.getpixel((0, 0)) == (255, 255, 255, 255)
    assert any(r > 200 and 120 < g < 230 and b < 150 for r, g, b, _ in colours(image)), "atoms that change"
    assert sorted(re.findall(r"<text[^>]*>([^<]*)</text>", svg)) == ["+", "THF, Et₃N"]


def test_what_does_not_move_has_no_animation_and_texts_are_escaped() -> None:
    item = Item(0, 0, 50, 20, text="<b>&", fill="#000000")
    text = canvas.to_svg(Picture(60, 20, (item,), description='"<script>'))
    assert "<style" not in text and "<b>" not in text and "<script" not in text
    assert fromstring(text).get("width") == "60"


def test_subscripts_are_lower_and_smaller_than_digits() -> None:
    def ink(text: str) -> tuple[int, int, int, int]:
        picture = Picture(40, 40, (Item(0, 0, 40, 40, text=text, size=20, fill="#000000"),))
        box = Image.eval(opened(canvas.to_png(picture, scale=1.0)).convert("L"), lambda value: 255 - value).getbbox()
        assert box
        return box

    digit, subscript = ink("2"), ink("₂")
    assert subscript[3] - subscript[1] < digit[3] - digit[1] and subscript[3] >= digit[3]


def test_labels_stand_in_the_drawing_and_change_nothing_else() -> None:
    plain, labelled = (Depiction("COc1ccccc1", labels=labels).svg for labels in ((), ((5, "79 %"), (6, "11 %"))))
    assert labelled.count("class='note'") > plain.count("class='note'") == 0
    assert min(map(float.__ge__, svg_size(labelled), svg_size(plain)))
    assert re.findall("class='bond-[^']*'", plain) == re.findall("class='bond-[^']*'", labelled)


@pytest.mark.parametrize(
    "smiles", ["[N-]=[N+]=[N-].[Na+]", "O=C([O-])[O-].[Cs+].[Cs+]", "[Cl-].C[N+](C)(C)Cc1ccccc1", "[K+].[O-]c1ccccc1"]
)
def test_ions_stand_beside_the_charge_that_they_balance(smiles: str) -> None:
    mol = Depiction(smiles).molecule()
    assert mol is not None
    positions = mol.GetConformer().GetPositions()
    atoms = list(mol.GetAtoms())
    rest = positions[[atom.GetIdx() for atom in atoms if atom.GetDegree()], 0]
    for ion in (atom for atom in atoms if not atom.GetDegree()):
        x, y, _ = positions[ion.GetIdx()]
        charges = [atom.GetIdx() for atom in atoms if atom.GetFormalCharge() * ion.GetFormalCharge() < 0]
        assert min(abs(positions[other, 1] - y) for other in charges) < 0.1
        assert x < rest.min() - 1 or x > rest.max() + 1
