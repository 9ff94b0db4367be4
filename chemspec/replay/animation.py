"""Animated SVG, WebP and GIF of a replay; the files need no script and no other file."""

from __future__ import annotations

import re
from html import escape
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import Any

from PIL import Image, ImageColor, ImageDraw, ImageFont
from rdkit import rdBase
from rdkit.Chem.Draw import rdMolDraw2D

from chemspec.chem.layout import add_layout
from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.trial import RDKIT_ERRORS
from chemspec.replay.picture import DARK, Item, Picture

FORMATS = (".svg", ".webp", ".gif")
MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace"
SANS = "system-ui,-apple-system,Segoe UI,Roboto,Helvetica,Arial,DejaVu Sans,sans-serif"
BASELINE = 0.35  # of the font size: from the middle of a line to its baseline
CENTRED = "mm"  # anchors of Pillow: horizontal middle, left and right, at the vertical middle
LEFT, RIGHT = "lm", "rm"
FRAME_SECONDS = 0.1


def write_replay(picture: Picture, path: Path) -> None:
    """Write a replay to a file whose ending is one of `FORMATS`.

    Raises:
        ValueError: for another ending.
        OSError: if the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"{path}: the ending must be one of {', '.join(FORMATS)}")
    path.write_bytes(to_svg(picture).encode() if suffix == ".svg" else to_frames(picture, suffix[1:]))


def to_svg(picture: Picture) -> str:
    """Return an animated SVG that repeats; it shows the complete picture to readers who want reduced motion."""
    palette, seconds = picture.palette, picture.seconds
    times = sorted({item.at for item in picture.items if item.at > 0})
    names = {at: f"t{number}" for number, at in enumerate(times)}
    rules = [
        f"@keyframes {name}{{0%{{opacity:0}}{100 * at / seconds:.2f}%,100%{{opacity:1}}}}"
        f".{name}{{animation:{name} {seconds:g}s step-end infinite}}"
        for at, name in names.items()
    ]
    still = "@media (prefers-reduced-motion:reduce){*{animation:none!important}}"
    parts = [_svg_item(item, names.get(item.at, ""), dark=palette == DARK) for item in picture.items]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {picture.width:g} {picture.height:g}" '
        f'width="{picture.width:g}" height="{picture.height:g}" role="img" font-family="{SANS}">'
        f"<title>{escape(picture.description)}</title><style>{''.join(rules)}{still}</style>"
        f'<rect width="100%" height="100%" fill="{palette.page}"/>{"".join(parts)}</svg>\n'
    )


def _svg_item(item: Item, name: str, *, dark: bool) -> str:
    appears = f' class="{name}"' if name else ""
    if item.smiles:
        drawing = _svg_molecule(item.smiles, int(item.width), int(item.height), dark=dark)
        return f'<g{appears} transform="translate({item.left:g} {item.top:g})">{drawing}</g>'
    if item.text:
        side = item.left + item.width if item.right else item.left
        style = f'font-size="{item.size:g}"' + ' font-weight="600"' * item.bold + ' text-anchor="end"' * item.right
        if item.mono:  # the width is exact in any font
            style += f' font-family="{MONO}" textLength="{item.width:g}" lengthAdjust="spacingAndGlyphs"'
        middle = item.top + item.height / 2 + BASELINE * item.size
        return f'<text{appears} x="{side:g}" y="{middle:g}" fill="{item.fill}" {style}>{escape(item.text)}</text>'
    stroke = f' stroke="{item.stroke}" stroke-width="1.5"' * bool(item.stroke)
    return (
        f'<rect{appears} x="{item.left:g}" y="{item.top:g}" width="{item.width:g}" height="{item.height:g}" rx="3" '
        f'fill="{item.fill or "none"}"{stroke}/>'
    )


def to_frames(picture: Picture, kind: str) -> bytes:
    """Return an animated WebP or GIF, with a frame for each change, at most one in `FRAME_SECONDS`."""
    starts = [FRAME_SECONDS * ceil(item.at / FRAME_SECONDS - 1e-6) for item in picture.items]
    times = sorted({0.0, *starts})
    ends = [*times[1:], picture.seconds]
    palette = picture.palette
    frame = Image.new("RGB", (round(picture.width), round(picture.height)), palette.page)
    frames = []
    for at in times:
        for item in (item for item, start in zip(picture.items, starts, strict=True) if start == at):
            _draw_item(frame, item, dark=palette == DARK)
        frames.append(frame.copy())
    durations = [max(20, round(1000 * (end - at))) for at, end in zip(times, ends, strict=True)]
    file = BytesIO()
    if kind == "gif":  # one palette of 64 colours for all frames
        colours = frames[-1].quantize(64, dither=Image.Dither.NONE)
        frames = [frame.quantize(palette=colours, dither=Image.Dither.NONE) for frame in frames]
    options: dict[str, Any] = {"duration": durations, "loop": 0, "lossless": True, "method": 2}
    frames[0].save(file, kind, save_all=True, append_images=frames[1:], **options)
    return file.getvalue()


def _draw_item(frame: Image.Image, item: Item, *, dark: bool) -> None:
    draw = ImageDraw.Draw(frame)
    if item.smiles:
        data = _png_molecule(item.smiles, int(item.width), int(item.height), dark=dark)
        if data:
            with Image.open(BytesIO(data)) as drawing:
                frame.paste(drawing.convert("RGB"), (round(item.left), round(item.top)))
    elif item.text:
        font = ImageFont.load_default(item.size)
        middle = item.top + item.height / 2
        if item.mono:  # Pillow's own font is proportional
            step = item.width / len(item.text)
            for index, letter in enumerate(item.text):
                draw.text((item.left + (index + 0.5) * step, middle), letter, item.fill, font, anchor=CENTRED)
        else:
            side, anchor = (item.left + item.width, RIGHT) if item.right else (item.left, LEFT)
            draw.text((side, middle), item.text, item.fill, font, anchor=anchor, stroke_width=0.4 * item.bold)
    else:
        corners = (item.left, item.top, item.left + item.width, item.top + item.height)
        draw.rounded_rectangle(corners, 3, fill=item.fill or None, outline=item.stroke or None, width=2)


def _svg_molecule(smiles: str, width: int, height: int, *, dark: bool) -> str:
    text = str(_draw_molecule(rdMolDraw2D.MolDraw2DSVG(width, height), smiles, dark=dark) or "")
    inner = re.search(r"<svg[^>]*>(.*)</svg>", text, flags=re.DOTALL)
    return re.sub(r"<!--.*?-->|<rect[^>]*>\s*</rect>|\n", "", inner[1]) if inner else ""


def _png_molecule(smiles: str, width: int, height: int, *, dark: bool) -> bytes:
    return bytes(_draw_molecule(rdMolDraw2D.MolDraw2DCairo(width, height), smiles, dark=dark) or b"")


def _draw_molecule(drawer: Any, smiles: str, *, dark: bool) -> Any:
    """Return the drawer's text or bytes, or None if the molecule cannot be drawn."""
    options = drawer.drawOptions()
    options.bondLineWidth = 1.6
    options.padding = 0.06
    options.fixedBondLength = 24  # small molecules are not enlarged
    if dark:
        rdMolDraw2D.SetDarkMode(drawer)
        options.setBackgroundColour(tuple(part / 255 for part in ImageColor.getrgb(DARK.page)))
    with rdBase.BlockLogs():
        mol = mol_from_smiles(smiles)
    if mol is None:
        return None
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(0)
    add_layout(mol)
    try:
        rdMolDraw2D.PrepareAndDrawMolecule(drawer, mol)
    except RDKIT_ERRORS:
        return None
    drawer.FinishDrawing()
    return drawer.GetDrawingText()
