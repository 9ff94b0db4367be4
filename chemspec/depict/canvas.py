"""Pictures of texts, boxes and molecules: as SVG, PNG, and with times at which parts appear, as animated WebP or GIF.

An SVG needs no script and no other file. Lengths are in pixels. `depict.pdf` makes PDF of them.
"""

import re
import unicodedata
from base64 import b64encode
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from io import BytesIO
from math import ceil
from typing import Any, Literal, Protocol

from PIL import Image, ImageDraw, ImageFont

from chemspec.depict.font import BOLD, FAMILY, sans
from chemspec.depict.molecules import svg_size

MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace"
SANS = "system-ui,-apple-system,Segoe UI,Roboto,Helvetica,Arial,DejaVu Sans,sans-serif"
BASELINE = 0.35  # share of the font size from the middle of a line to its baseline
FRAME_SECONDS = 0.1
SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")

Anchor = Literal["start", "middle", "end"]


class Drawing(Protocol):
    """What is drawn by itself, such as a molecule."""

    @property
    def svg(self) -> str:
        """Paths in an SVG with width and height; empty for what cannot be drawn."""

    def png(self, scale: float = 1.0) -> bytes:
        """Return the drawing as PNG, `scale` times as large; empty where there is none."""


@dataclass(frozen=True)
class Item:
    """A part of a picture, which appears `at` seconds after the start and stays."""

    left: float  # the rectangle, in which a text is centred vertically
    top: float
    width: float
    height: float
    at: float = 0.0  # time of appearance in seconds; 0 for what is always there
    text: str = ""  # words of a text
    size: float = 15.0  # size of its font; `bold` and `mono` are its style
    bold: bool = False
    mono: bool = False
    anchor: Anchor = "start"  # the part of the rectangle to which a text is aligned
    fill: str = ""  # colour of a rectangle or text; empty for none
    stroke: str = ""  # colour of the outline of a rectangle; empty for none
    molecule: Drawing | None = None  # a drawing, which is scaled to the width
    corners: tuple[tuple[float, float], ...] = ()  # corners of a polygon in place of the rectangle

    @property
    def side(self) -> float:
        """Horizontal position to which a text is aligned."""
        return self.left + self.width * {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor]

    @property
    def middle(self) -> float:
        """Vertical position of a text's middle."""
        return self.top + self.height / 2


def arrow(left: float, right: float, middle: float, color: str, size: float = 1.0) -> tuple[Item, Item]:
    """Return the shaft and the head of an arrow to the right."""
    back, half = right - 11 * size, 4.5 * size
    corners = ((right, middle), (back, middle - half), (back, middle + half))
    shaft = Item(left, middle - 0.8 * size, right - 10 * size - left, 1.6 * size, fill=color)
    return shaft, Item(0, 0, 0, 0, corners=corners, fill=color)


@dataclass(frozen=True)
class Picture:
    """A picture of `width` × `height`."""

    width: float
    height: float
    items: tuple[Item, ...]
    page: str = ""  # colour of the ground; empty for none
    seconds: float = 0.0  # playing time; 0 for a picture that does not move
    description: str = ""  # text for screen readers
    has_font: bool = False  # whether texts are in the font that the file carries, all of whose characters it has
    unit: str = ""  # unit of width and height in an SVG; empty for pixels


def to_svg(picture: Picture) -> str:
    """Return a picture as SVG; an animated one repeats, and is complete for readers who want reduced motion."""
    times = sorted({item.at for item in picture.items if item.at > 0})
    names = {at: f"t{number}" for number, at in enumerate(times)}
    rules = "".join(
        f"@keyframes {name}{{0%{{opacity:0}}{100 * at / picture.seconds:.2f}%,100%{{opacity:1}}}}"
        f".{name}{{animation:{name} {picture.seconds:g}s step-end infinite}}"
        for at, name in names.items()
    )
    if rules:
        rules = f"<style>{rules}@media (prefers-reduced-motion:reduce){{*{{animation:none!important}}}}</style>"
    parts = [_svg_item(item, names.get(item.at, ""), has_font=picture.has_font) for item in picture.items]
    title = f"<title>{escape(picture.description)}</title>" if picture.description else ""
    family = f"'{FAMILY}',{SANS}" if picture.has_font else SANS
    if picture.has_font:
        data = b64encode(sans().data).decode()
        rules += f"<style>@font-face{{font-family:'{FAMILY}';src:url(data:font/ttf;base64,{data})}}</style>"
    ground = f'<rect width="100%" height="100%" fill="{picture.page}"/>' if picture.page else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {picture.width:g} {picture.height:g}" '
        f'width="{picture.width:g}{picture.unit}" height="{picture.height:g}{picture.unit}" role="img" '
        f'font-family="{family}">'
        f"{title}{rules}{ground}{''.join(parts)}</svg>\n"
    )


def _svg_item(item: Item, name: str, *, has_font: bool) -> str:
    appears = f' class="{name}"' if name else ""
    if item.molecule:
        drawing = item.molecule.svg.replace("<svg", f'<svg x="{item.left:g}" y="{item.top:g}"', 1)
        if (width := svg_size(drawing)[0]) and width != item.width:
            size = f'width="{item.width:g}" height="{item.height:g}"'
            drawing = re.sub(r"width='[\d.]+px' height='[\d.]+px'", size, drawing, count=1)
        return f"<g{appears}>{drawing}</g>"
    if item.text:
        style = f'font-size="{item.size:g}"' + ' font-weight="600"' * (item.bold and not has_font)
        if has_font:  # the width is that of the font, in any other
            style += f' textLength="{sans().width(item.text, item.size):.2f}"'
            style += f' stroke="{item.fill}" stroke-width="{BOLD * item.size:.2f}"' * item.bold
        style += f' text-anchor="{item.anchor}"' * (item.anchor != "start")
        if item.mono:  # the width is exact in any font
            style += f' font-family="{MONO}" textLength="{item.width:g}" lengthAdjust="spacingAndGlyphs"'
        at = f'x="{item.side:g}" y="{item.middle + BASELINE * item.size:g}"'
        return f'<text{appears} {at} fill="{item.fill}" {style}>{escape(item.text)}</text>'
    if item.corners:
        points = " ".join(f"{x:g},{y:g}" for x, y in item.corners)
        return f'<polygon{appears} points="{points}" fill="{item.fill}"/>'
    stroke = f' stroke="{item.stroke}" stroke-width="1.5"' * bool(item.stroke)
    return (
        f'<rect{appears} x="{item.left:g}" y="{item.top:g}" width="{item.width:g}" height="{item.height:g}" rx="3" '
        f'fill="{item.fill or "none"}"{stroke}/>'
    )


def to_png(picture: Picture, *, scale: float = 2.0) -> bytes:
    """Return a complete picture as PNG, on white where it has no ground of its own."""
    frame, file = _blank_frame(picture, scale), BytesIO()
    for item in picture.items:
        _draw_item(frame, item, scale, has_font=picture.has_font)
    dots = round(72 * scale) if picture.unit == "pt" else 0
    frame.save(file, "png", **({"dpi": (dots, dots)} if dots else {}))
    return file.getvalue()


def to_frames(picture: Picture, kind: str) -> bytes:
    """Return an animated WebP or GIF, with a frame for each change, at most one in `FRAME_SECONDS`."""
    starts = [FRAME_SECONDS * ceil(item.at / FRAME_SECONDS - 1e-6) for item in picture.items]
    times = sorted({0.0, *starts})
    ends = [*times[1:], picture.seconds]
    frame = _blank_frame(picture)
    frames = []
    for at in times:
        for item in (item for item, start in zip(picture.items, starts, strict=True) if start == at):
            _draw_item(frame, item)
        frames.append(frame.copy())
    durations = [max(20, round(1000 * (end - at))) for at, end in zip(times, ends, strict=True)]
    file = BytesIO()
    if kind == "gif":  # one palette of 64 colours for all frames
        colours = frames[-1].quantize(64, dither=Image.Dither.NONE)
        frames = [frame.quantize(palette=colours, dither=Image.Dither.NONE) for frame in frames]
    options: dict[str, Any] = {"duration": durations, "loop": 0, "lossless": True, "method": 2}
    frames[0].save(file, kind, save_all=True, append_images=frames[1:], **options)
    return file.getvalue()


def _blank_frame(picture: Picture, scale: float = 1.0) -> Image.Image:
    size = round(scale * picture.width), round(scale * picture.height)
    return Image.new("RGB", size, picture.page or "white")


def _draw_item(frame: Image.Image, item: Item, scale: float = 1.0, *, has_font: bool = False) -> None:
    draw = ImageDraw.Draw(frame)
    if item.molecule:
        width = svg_size(item.molecule.svg)[0]
        if data := item.molecule.png(scale * item.width / width if width else scale):
            with Image.open(BytesIO(data)) as drawing:
                frame.paste(drawing, (round(scale * item.left), round(scale * item.top)), drawing.convert("RGBA"))
    elif item.text and has_font:
        face = _sized_font(round(scale * item.size))
        at = scale * item.side, scale * (item.middle + BASELINE * item.size)
        anchor = {"start": "ls", "middle": "ms", "end": "rs"}[item.anchor]
        stroke = BOLD / 2 * scale * item.size if item.bold else 0
        draw.text(at, item.text, item.fill, face, anchor=anchor, stroke_width=stroke)
    elif item.text and item.mono:  # Pillow's own font is proportional
        font = ImageFont.load_default(scale * item.size)
        step = item.width / len(item.text)
        for index, letter in enumerate(item.text):
            at = scale * (item.left + (index + 0.5) * step), scale * item.middle
            draw.text(at, letter, item.fill, font, anchor="mm")
    elif item.text:
        _draw_text(draw, item, scale)
    elif item.corners:
        draw.polygon([(scale * x, scale * y) for x, y in item.corners], fill=item.fill)
    elif item.fill or item.stroke:  # without both, Pillow draws an outline of its own
        corners = (item.left, item.top, item.left + item.width, item.top + item.height)
        box = tuple(scale * side for side in corners)
        draw.rounded_rectangle(box, 3 * scale, item.fill or None, item.stroke or None, round(2 * scale))


@lru_cache(maxsize=50)
def _sized_font(size: int) -> ImageFont.FreeTypeFont:
    """Return the font that files carry, in a size in pixels."""
    return ImageFont.truetype(BytesIO(sans().data), size, layout_engine=ImageFont.Layout.BASIC)


# Characters that Pillow's own font lacks, in those that it has; of others the letter without accents.
_PLAIN = {
    "–": "-", "—": "-", "−": "-", "‑": "-", "⚠": "!", "●": "", "○": "", "◐": "", "→": "to", "′": "'", "″": '"', "✓": "",
    "×": "x", "µ": "u", "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ω": "omega", "€": "EUR",
    "£": "GBP", "¥": "JPY", "ß": "ss", "²": "2", "³": "3",
}  # fmt: skip


@lru_cache(maxsize=1000)
def _drawable(character: str) -> str:
    """Return a character in the letters of Pillow's own font."""
    font = ImageFont.load_default(24)
    missing = bytes(font.getmask("\uffff"))
    if bytes(font.getmask(character)) != missing:
        return character
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return _PLAIN.get(character, plain or "?")


def _draw_text(draw: ImageDraw.ImageDraw, item: Item, scale: float) -> None:
    """Draw a text, its subscripts smaller and lower: Pillow's own font has none."""
    font, small = ImageFont.load_default(scale * item.size), ImageFont.load_default(0.7 * scale * item.size)
    written = "".join(letter if letter in "₀₁₂₃₄₅₆₇₈₉" else _drawable(letter) for letter in item.text)
    runs = re.findall(r"[₀-₉]+|[^₀-₉]+", written)
    pieces = [(run.translate(SUBSCRIPTS), small if "₀" <= run[0] <= "₉" else font) for run in runs]
    widths = [face.getlength(text) for text, face in pieces]
    left = scale * item.side - sum(widths) * {"start": 0.0, "middle": 0.5, "end": 1.0}[item.anchor]
    for (text, face), width in zip(pieces, widths, strict=True):
        lowered = 0.2 * scale * item.size if face is small else 0.0
        at = left, scale * item.middle + lowered
        draw.text(at, text, item.fill, face, anchor="lm", stroke_width=0.4 * item.bold)
        left += width
