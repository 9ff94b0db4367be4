"""Pictures: SVG and PNG of one layout, with the same marks, and safe in any page."""

from __future__ import annotations

import re
from io import BytesIO
from xml.etree.ElementTree import fromstring

from PIL import Image

from chemspec.chem.strategy import strategy
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


def test_labels_stand_in_the_drawing_and_change_nothing_else() -> None:
    plain, labelled = (Depiction("COc1ccccc1", labels=labels).svg for labels in ((), ((5, "79 %"), (6, "11 %"))))
    assert labelled.count("class='note'") > plain.count("class='note'") == 0
    assert min(map(float.__ge__, svg_size(labelled), svg_size(plain)))
    assert re.findall("class='bond-[^']*'", plain) == re.findall("class='bond-[^']*'", labelled)
