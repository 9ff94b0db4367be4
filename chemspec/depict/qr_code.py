"""QR codes as drawings, made by segno (extra plan)."""

from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO

from PIL import Image

MAX_CHARS = 900  # characters: of more the squares are too small to be read from paper


@dataclass(frozen=True)
class QrCode:
    """The QR code of a text, of `modules` × `modules` squares; it needs a white margin of four of them."""

    text: str

    @property
    def modules(self) -> int:
        """Number of squares of a side."""
        return len(_matrix(self.text))

    @property
    def svg(self) -> str:
        """The code as SVG: one path, a pixel for each square."""
        rows = enumerate(_matrix(self.text))
        squares = ((x, y) for y, row in rows for x, dark in enumerate(row) if dark)
        path = " ".join(f"M {x},{y} L {x + 1},{y} L {x + 1},{y + 1} L {x},{y + 1} Z" for x, y in squares)
        side = self.modules
        size = f"width='{side}px' height='{side}px' viewBox='0 0 {side} {side}'"
        head = f"<svg xmlns='http://www.w3.org/2000/svg' {size} shape-rendering='crispEdges'>"
        return f"{head}<path d='{path}' fill='#000000'/></svg>"

    def png(self, scale: float = 1.0) -> bytes:
        """Return the code as PNG, `scale` pixels for each square."""
        side = self.modules
        image = Image.new("1", (side, side), 1)
        image.putdata([not dark for row in _matrix(self.text) for dark in row])
        file = BytesIO()
        image.resize((round(scale * side),) * 2, Image.Resampling.NEAREST).convert("RGBA").save(file, "png")
        return file.getvalue()


@lru_cache(maxsize=20)
def _matrix(text: str) -> tuple[bytes, ...]:
    """Return the rows of the code, 1 for dark squares."""
    import segno

    return tuple(map(bytes, segno.make(text, error="m", micro=False, boost_error=False).matrix))
