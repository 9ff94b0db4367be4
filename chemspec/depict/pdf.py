"""Pictures as PDF of one page: lines and letters as vectors, texts to select, with the font in the file."""

import re
import zlib
from collections.abc import Iterator

from chemspec.depict.canvas import BASELINE, Item, Picture
from chemspec.depict.font import BOLD, FAMILY, sans
from chemspec.depict.molecules import svg_size

_PATH = re.compile(r"<path ([^>]*)/>")
_ATTRIBUTE = re.compile(r"""([\w-]+)\s*[=:]\s*['"]?([^'";]*)""")
_STEP = re.compile(r"[MLQZ]|-?\d+(?:\.\d+)?(?:e-?\d+)?")
_CAPS = {"butt": 0, "miter": 0, "round": 1, "square": 2, "bevel": 2}


def to_pdf(picture: Picture) -> bytes:
    """Return a complete picture as PDF; its lengths are points (1/72 inch)."""
    parts = [f"1 0 0 -1 0 {_number(picture.height)} cm"]  # y goes downward from here on, as in all pictures
    for item in picture.items:
        parts += _draw(item)
    used = sorted({letter for item in picture.items if not item.molecule for letter in item.text})
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R/Lang(en)>>",
        2: b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        3: (
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {_number(picture.width)} {_number(picture.height)}]"
            "/Resources<</Font<</F 5 0 R>>>>/Contents 4 0 R>>"
        ).encode(),
        4: _stream("\n".join(parts).encode()),
        **_font_objects(used),
        10: b"<</Title<" + b"\xfe\xff".hex().encode() + picture.description.encode("utf-16-be").hex().encode() + b">>>",
    }
    return _file(objects)


def _file(objects: dict[int, bytes]) -> bytes:
    """Return numbered objects as a file; 1 is the catalog, 10 the description."""
    file = bytearray(b"%PDF-1.5\n%\xe2\xe3\xcf\xd3\n")
    offsets = {}
    for number, content in objects.items():
        offsets[number] = len(file)
        file += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = len(file)
    rows = b"".join(b"%010d 00000 n \n" % offsets[number] for number in sorted(offsets))
    count = len(objects) + 1
    file += b"xref\n0 %d\n0000000000 65535 f \n%b" % (count, rows)
    file += b"trailer\n<</Size %d/Root 1 0 R/Info 10 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (count, table)
    return bytes(file)


def _stream(content: bytes, more: str = "") -> bytes:
    packed = zlib.compress(content, 9)
    return f"<</Length {len(packed)}/Filter/FlateDecode{more}>>stream\n".encode() + packed + b"\nendstream"


def _font_objects(used: list[str]) -> dict[int, bytes]:
    """Return the objects of the font, with the widths of the characters that are used, and what each of them means."""
    font = sans()
    name = FAMILY.title().replace(" ", "")
    glyphs = [(font.glyphs.get(letter, 0), letter) for letter in used]
    widths = " ".join(f"{glyph}[{_number(1000 * font.advance(letter))}]" for glyph, letter in glyphs)
    pairs = "\n".join(f"<{glyph:04x}> <{letter.encode('utf-16-be').hex()}>" for glyph, letter in glyphs)
    meaning = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /U def /CMapType 2 def\n"
        f"1 begincodespacerange <0000> <ffff> endcodespacerange\n{_in_hundreds(pairs)}endcmap end end"
    )
    box = " ".join(map(str, font.box))
    described = "/Flags 32/ItalicAngle 0/Ascent 928/Descent -236/CapHeight 729/StemV 80"
    system = "/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>"
    texts = {
        5: f"<</Type/Font/Subtype/Type0/BaseFont/{name}/Encoding/Identity-H/DescendantFonts[6 0 R]/ToUnicode 9 0 R>>",
        6: f"<</Type/Font/Subtype/CIDFontType2/BaseFont/{name}{system}/FontDescriptor 7 0 R/W[{widths}]"
        "/CIDToGIDMap/Identity>>",
        7: f"<</Type/FontDescriptor/FontName/{name}/FontBBox[{box}]{described}/FontFile2 8 0 R>>",
    }
    return {
        **{number: text.encode() for number, text in texts.items()},
        8: _stream(font.data, f"/Length1 {len(font.data)}"),
        9: _stream(meaning.encode()),
    }


def _in_hundreds(pairs: str) -> str:
    """Return lines of a character map in blocks of at most 100, as the format asks."""
    lines = pairs.split("\n") if pairs else []
    blocks = (lines[start : start + 100] for start in range(0, len(lines), 100))
    return "".join(f"{len(block)} beginbfchar\n" + "\n".join(block) + "\nendbfchar\n" for block in blocks)


def _draw(item: Item) -> Iterator[str]:
    """Yield the operators that draw an item."""
    if item.molecule:
        width, _ = svg_size(item.molecule.svg)
        scale = _number(item.width / width if width else 1.0, 5)
        yield f"q {scale} 0 0 {scale} {_number(item.left)} {_number(item.top)} cm"
        for attributes in _PATH.findall(item.molecule.svg):
            yield from _draw_path(dict(_ATTRIBUTE.findall(attributes.replace("style='", ""))))
        yield "Q"
    elif item.text:
        font = sans()
        width = font.width(item.text, item.size)
        left = item.side - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[item.anchor]
        codes = "".join(f"{font.glyphs.get(letter, 0):04x}" for letter in item.text)
        bold = f"{_color(item.fill, 'RG')} {_number(BOLD * item.size)} w 2 Tr" if item.bold else "0 Tr"
        base = _number(item.middle + BASELINE * item.size)
        yield f"BT /F {_number(item.size)} Tf {_color(item.fill, 'rg')} {bold}"
        yield f"1 0 0 -1 {_number(left)} {base} Tm <{codes}> Tj ET"
    elif item.corners:
        points = [f"{_number(x)} {_number(y)}" for x, y in item.corners]
        yield f"{_color(item.fill, 'rg')} {points[0]} m {' '.join(f'{point} l' for point in points[1:])} h f"
    else:
        box = " ".join(map(_number, (item.left, item.top, item.width, item.height)))
        if item.fill:
            yield f"{_color(item.fill, 'rg')} {box} re f"
        if item.stroke:
            yield f"{_color(item.stroke, 'RG')} 1.5 w {box} re S"


def _draw_path(path: dict[str, str]) -> Iterator[str]:
    """Yield the operators of a path of RDKit's drawings: lines, and curves of one control point."""
    fill, stroke = (path.get(name, "none") for name in ("fill", "stroke"))
    if fill != "none":
        yield _color(fill, "rg")
    if stroke != "none":
        width = path.get("stroke-width", "1").removesuffix("px")
        cap, join = (_CAPS.get(path.get(f"stroke-{name}", "butt"), 0) for name in ("linecap", "linejoin"))
        dashes = path.get("stroke-dasharray", "").replace(",", " ")
        yield f"{_color(stroke, 'RG')} {width} w {cap} J {join} j [{dashes}] 0 d"
    steps = iter(_STEP.findall(path["d"]))
    x = y = 0.0

    def point() -> tuple[float, float]:
        return float(next(steps)), float(next(steps))

    for step in steps:
        if step == "Z":
            yield "h"
        elif step == "Q":
            (cx, cy), (ex, ey) = point(), point()
            ends = (x + 2 * (cx - x) / 3, y + 2 * (cy - y) / 3, ex + 2 * (cx - ex) / 3, ey + 2 * (cy - ey) / 3, ex, ey)
            yield f"{' '.join(map(_number, ends))} c"
            x, y = ex, ey
        else:
            x, y = point()
            yield f"{_number(x)} {_number(y)} {step.lower()}"
    even = "*" if path.get("fill-rule") == "evenodd" else ""
    yield f"B{even}" if "none" not in (fill, stroke) else f"f{even}" if fill != "none" else "S"


def _color(text: str, operator: str) -> str:
    """Return the operator that sets a colour such as #rrggbb or #rgb."""
    digits = text.removeprefix("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    return " ".join([*(_number(int(digits[k : k + 2], 16) / 255, 3) for k in (0, 2, 4)), operator])


def _number(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") or "0"
