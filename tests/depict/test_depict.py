"""Pictures: SVG and PNG of one layout, with the same marks, and safe in any page."""

from __future__ import annotations

import re
from io import BytesIO
from itertools import combinations
from xml.etree.ElementTree import fromstring

from PIL import Image

from chemspec.chem.strategy import strategy
from chemspec.depict import canvas, schemes
from chemspec.depict.canvas import Item, Picture
from chemspec.depict.molecules import Colouring, Depiction, svg_size

FLASK, AMIDE = "CC(=O)Cl.Nc1ccccc1.C1CCOC1", "CC(=O)Nc1ccccc1"


def opened(data: bytes) -> Image.Image:
    with Image.open(BytesIO(data)) as image:
        return image.convert("RGBA")


def colours(image: Image.Image) -> set[tuple[int, ...]]:
    return {colour for _, colour in image.getcolors(1 << 24) or ()}


def test_a_png_is_the_svg_at_a_scale_and_has_its_marks() -> None:
    plain = Depiction(AMIDE)
    marked = Depiction(AMIDE, colouring=Colouring(((0, "#E69F00"),)))
    width, height = svg_size(plain.svg)
    images = [opened(drawing.png(2.0)) for drawing in (plain, marked)]
    assert images[0].size == (round(2 * width), round(2 * height))
    assert images[0].getpixel((0, 0))[3] == 0, "no ground"
    assert colours(images[1]) - colours(images[0])


def test_a_scheme_is_one_picture_in_both_formats() -> None:
    change = strategy(FLASK, AMIDE)
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


def test_labels_beside_atoms_cover_no_atom_and_no_other_label_and_lie_in_the_drawing() -> None:
    """An aromatic ring with three labels in a row, ends of a chain, a nitrogen whose hydrogens take room."""
    for smiles, texts in (
        ("COc1ccccc1", {5: "79 %", 6: "11 %", 7: "6 %"}),
        ("Nc1cccc(O)c1", {0: "over 99 %", 6: "1 %"}),
        ("c1ccc2[nH]ncc2c1", {4: "41 %", 5: "20 %", 6: "5 %"}),
        ("C", {0: "<b>"}),
    ):
        drawing = Depiction(smiles, colouring=Colouring(labels=tuple(texts.items())), tags=True)
        root = fromstring(drawing.svg)
        left, top, width, height = map(float, root.get("viewBox", "").split())
        found = {
            (node.text or ""): (float(node.get("x", 0)), float(node.get("y", 0)))
            for node in root.iter()
            if node.tag.endswith("text") and "font:700" in node.get("style", "")
        }
        assert set(found) == set(texts.values())
        centres = [(float(node.get("cx", 0)), float(node.get("cy", 0))) for node in root.iter() if "circle" in node.tag]
        for text, (x, y) in found.items():
            wide = 3.3 * len(text)
            assert left - 0.1 <= x - wide and x + wide <= left + width + 0.1
            assert top <= y - 5 and y <= top + height
            assert all(abs(u - x) > wide or abs(v - y + 4) > 6 for u, v in centres), (smiles, text)
        for (text, (x, y)), (other, (u, v)) in combinations(found.items(), 2):
            assert abs(x - u) > 3.3 * (len(text) + len(other)) or abs(y - v) > 12
