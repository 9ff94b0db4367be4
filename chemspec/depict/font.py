"""The font that files carry, so that a picture is the same on every machine: its measures, and what it can write."""

import struct
import unicodedata
from dataclasses import dataclass
from functools import cache, cached_property

from chemspec.asset_files import assets_folder

FAMILY = "chemspec sans"
BOLD = 0.035  # width of the outline of bold letters, as a share of the size of the font


@dataclass(frozen=True, eq=False)
class Font:
    """A TrueType font."""

    data: bytes

    @cached_property
    def _tables(self) -> dict[str, int]:
        """Offsets of the tables."""
        (count,) = struct.unpack_from(">H", self.data, 4)
        records = (struct.unpack_from(">4s4xI", self.data, 12 + 16 * number) for number in range(count))
        return {name.decode("ascii"): offset for name, offset in records}

    @cached_property
    def units(self) -> int:
        """Units of an em."""
        return int(struct.unpack_from(">H", self.data, self._tables["head"] + 18)[0])

    @cached_property
    def box(self) -> tuple[int, int, int, int]:
        """The box around all glyphs, in thousandths of an em."""
        sides = struct.unpack_from(">4h", self.data, self._tables["head"] + 36)
        left, low, right, high = (round(1000 * side / self.units) for side in sides)
        return left, low, right, high

    @cached_property
    def glyphs(self) -> dict[str, int]:
        """Number of the glyph of each character: the segments of a table of format 4."""
        table = self._tables["cmap"]
        at = table + struct.unpack_from(">I", self.data, table + 8)[0]
        form, _, _, doubled = struct.unpack_from(">4H", self.data, at)
        assert form == 4
        ends, starts, deltas, ranges = (at + 14, at + 16 + doubled, at + 16 + 2 * doubled, at + 16 + 3 * doubled)
        glyphs = {}
        for number in range(0, doubled, 2):
            end, start, delta, skip = (
                struct.unpack_from(">H", self.data, each + number)[0] for each in (ends, starts, deltas, ranges)
            )
            for code in range(start, end + 1 if end < 0xFFFF else start):
                glyph = code + delta
                if skip:
                    (raw,) = struct.unpack_from(">H", self.data, ranges + number + skip + 2 * (code - start))
                    glyph = raw + delta if raw else 0
                if glyph % 65536:
                    glyphs[chr(code)] = glyph % 65536
        return glyphs

    @cached_property
    def _advances(self) -> tuple[int, ...]:
        """Widths of the glyphs in units; the last one stands for all others."""
        (count,) = struct.unpack_from(">H", self.data, self._tables["hhea"] + 34)
        return struct.unpack_from(">" + "H2x" * count, self.data, self._tables["hmtx"])

    def advance(self, character: str) -> float:
        """Return the width of a character at size 1."""
        glyph = self.glyphs.get(character, 0)
        return self._advances[min(glyph, len(self._advances) - 1)] / self.units

    def width(self, text: str, size: float) -> float:
        """Return the width of a text."""
        return size * sum(map(self.advance, text))

    def writable(self, text: str) -> str:
        """Return a text on one line, in characters of the font: without accents it lacks, "?" for foreign letters."""
        written = []
        for character in " ".join(text.split()):
            if character in self.glyphs:
                written.append(character)
            elif unicodedata.category(character)[0] != "C":  # no control characters
                plain = "".join(each for each in unicodedata.normalize("NFKD", character) if each in self.glyphs)
                written.append(plain or "?")
        return "".join(written)


@cache
def sans() -> Font:
    """Return the font of `assets/fonts`."""
    return Font((assets_folder() / "fonts" / "sans.ttf").read_bytes())
