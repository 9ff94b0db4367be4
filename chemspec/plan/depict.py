"""Draw routes as SVG or PNG: target on the left, building blocks on the right.

Frames are green for molecules in stock and amber for others, as their captions state too.
"""

from __future__ import annotations

from chemspec.depict import canvas
from chemspec.depict.canvas import Item, Picture
from chemspec.depict.molecules import Depiction
from chemspec.plan.routes import Node, Route
from chemspec.plan.stock import TITLES

WIDTH, HEIGHT, GAP, ROW = 230, 180, 60, 20  # size of a molecule with its caption; gap between columns; gap between rows
CAPTION, MAX_CAPTION = 28, 40  # height of a caption, and its characters
GREY, GREEN, AMBER = "#99a8a6", "#0a804d", "#bf6b00"


def to_svg(route: Route, *, dark: bool = False) -> str:
    """Return a route as SVG, without a ground."""
    return canvas.to_svg(_draw_route(route.root, dark=dark)).strip()


def to_png(route: Route) -> bytes:
    """Return a route as PNG, on white."""
    return canvas.to_png(_draw_route(route.root, dark=False))


def _draw_route(root: Node, *, dark: bool) -> Picture:
    """Lay out a tree: one row per leaf, other molecules centred on their precursors."""
    items: list[Item] = []
    leaves, columns = 0, 0

    def draw_node(node: Node, column: int) -> float:
        """Draw a node with all below it; return the vertical position of its middle."""
        nonlocal leaves, columns
        columns = max(columns, column + 1)
        below = [draw_node(child, column + 1) for child in node.children]
        if not below:
            leaves += 1
        middle = (below[0] + below[-1]) / 2 if below else ROW + (leaves - 1) * (HEIGHT + ROW) + HEIGHT / 2
        left, top = ROW + column * (WIDTH + GAP), middle - HEIGHT / 2
        stroke = GREEN if node.stock else GREY if node.step else AMBER
        drawing = Depiction(node.smiles, WIDTH, HEIGHT - CAPTION, dark=dark)
        items.append(Item(left, top, WIDTH, HEIGHT, stroke=stroke))
        items.append(Item(left, top, WIDTH, HEIGHT - CAPTION, molecule=drawing))
        text, text_top = caption(node), top + HEIGHT - CAPTION
        text = text if len(text) <= MAX_CAPTION else text[: MAX_CAPTION - 1] + "…"
        fill = "#e6efed" if dark else "#12201e"
        items.append(Item(left, text_top, WIDTH, CAPTION, text=text, size=12, anchor="middle", fill=fill))
        turn = left + WIDTH + GAP / 2
        if below:
            items.append(Item(left + WIDTH, middle - 1, GAP / 2, 2, fill=GREY))
            items.append(Item(turn - 1, below[0] - 1, 2, below[-1] - below[0] + 2, fill=GREY))
        items.extend(Item(turn, at - 1, GAP / 2, 2, fill=GREY) for at in below)
        return middle

    draw_node(root, 0)
    return Picture(columns * (WIDTH + GAP) - GAP + 2 * ROW, leaves * (HEIGHT + ROW) + ROW, tuple(items))


def caption(node: Node) -> str:
    """Return the stock of a molecule, or the probability of the step that forms it."""
    if node.step is None:
        return f"in {TITLES.get(node.stock, node.stock)}" if node.stock else "in no list"
    opinion = node.step.opinion
    return f"{100 * node.step.chance:.0f} %" + (f", forward {opinion}" if opinion else "")
