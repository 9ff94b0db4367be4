"""Pictures of several answers: a tree of what they have in common, passes against their width, two lists compared."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

from chemspec import chem
from chemspec.metrics import numbers
from chemspec.types import DecodeResult, Hypothesis
from chemspec.ui.learn.chips import INK, figure, picture

CHAR, LINE, GAP = 7.3, 30.0, 24.0  # of the tree's letters and lines, in SVG units


def tree(result: DecodeResult, dark: bool) -> str:
    """All answers of a beam as one tree: what they have in common is drawn once."""
    order = _grouped(result.hypotheses)
    lines: list[str] = []
    _branch(order, list(range(len(order))), 0, 8.0, None, lines)
    width = max(_right(order, k) for k in range(len(order)))
    for k, one in enumerate(order):
        rank = result.hypotheses.index(one) + 1
        lines.append(
            f'<text x="{width + 16:.0f}" y="{_y(k) + 4:.0f}" font-size="12">#{rank}  {100 * one.probability:.1f}%</text>'
        )
    total, height = width + 100, LINE * len(order) + 8
    alt = "Tree of the answers: " + "; ".join(f"{rank}: {one.smiles}" for rank, one in enumerate(result.hypotheses, 1))
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total:.0f}" height="{height:.0f}" viewBox="0 0 {total:.0f} {height:.0f}" '
        f'fill="{INK[dark]}" stroke="none" font-family="ui-monospace, Menlo, DejaVu Sans Mono, monospace">{"".join(lines)}</svg>'
    )
    return figure(f'<div tabindex="0" class="cl-scroll cl-tree">{picture(svg, alt)}</div>', alt)


def _grouped(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """In an order in which common beginnings are neighbours, better branches first."""

    def sort(items: list[Hypothesis], depth: int) -> list[Hypothesis]:
        if len(items) < 2:
            return items
        heads: dict[str, list[Hypothesis]] = {}
        for item in items:
            heads.setdefault("".join(item.tokens[depth : depth + 1]), []).append(item)
        if heads.keys() == {""}:
            return items
        return [one for group in heads.values() for one in sort(group, depth + 1)]

    return sort(list(hypotheses), 0)


def _branch(
    order: Sequence[Hypothesis],
    rows: list[int],
    depth: int,
    x: float,
    origin: tuple[float, float] | None,
    lines: list[str],
) -> None:
    """Draw the branch that `rows` have in common from `depth` on, and what grows from it."""
    first, end = order[rows[0]].tokens, depth
    while end < len(first) and all(order[k].tokens[: end + 1] == first[: end + 1] for k in rows):
        end += 1
    text = "".join(first[depth:end])
    y = sum(_y(k) for k in rows) / len(rows)
    if origin:
        ox, oy = origin
        bend = f"C{ox + 12:.1f} {oy:.1f} {x - 14:.1f} {y:.1f} {x - 3:.1f} {y:.1f}"
        lines.append(f'<path d="M{ox:.1f} {oy:.1f} {bend}" fill="none" stroke="#7d8b88" stroke-width="1.3"/>')
    if text:
        # The width is told, because not every machine has the same letters.
        length = CHAR * len(text)
        lines.append(
            f'<text x="{x:.1f}" y="{y + 4:.1f}" font-size="12" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
        )
    after = x + CHAR * len(text)
    if len(rows) > 1 and end < max(len(order[k].tokens) for k in rows):
        for _, group in groupby(rows, lambda k: order[k].tokens[end : end + 1]):
            _branch(order, list(group), end, after + GAP, (after + 2, y), lines)


def _y(k: int) -> float:
    return LINE * k + LINE / 2 + 4


def _right(order: Sequence[Hypothesis], k: int) -> float:
    """Where the text of a row ends: its letters, and a gap for every fork on its way."""
    forks, rows, depth = 0, list(range(len(order))), 0
    own = order[k].tokens
    while len(rows) > 1 and depth < len(own):
        same = [r for r in rows if order[r].tokens[depth : depth + 1] == own[depth : depth + 1]]
        forks += len(same) < len(rows)
        rows, depth = same, depth + 1
    return 8 + CHAR * len("".join(own)) + GAP * forks


def passes(standard: DecodeResult, drafted: DecodeResult) -> str:
    """Passes and their width, with and without looking ahead, as bars."""
    first, second = numbers([standard.trace]), numbers([drafted.trace])
    same = [one.smiles for one in standard.hypotheses] == [one.smiles for one in drafted.hypotheses]
    rows = ""
    for name, a, b in (
        ("passes", first.passes, second.passes),
        ("places a pass", first.nodes_per_pass, second.nodes_per_pass),
    ):
        for kind, value, tag in (("", a, "standard"), ("now", b, "looking ahead")):
            rows += (
                f'<tr><td>{name}, {tag}</td><td style="width:55%"><div class="cl-meter {kind}" '
                f'style="width:{100 * value / max(a, b):.0f}%"></div></td><td class="n">{value:.0f}</td></tr>'
            )
    note = "All answers equal." if same else "The answers differ."
    alt = f"{first.passes} passes of {first.nodes_per_pass:.0f} places become {second.passes} of {second.nodes_per_pass:.0f}. {note}"
    table = f'<table style="width:100%">{rows}</table><div class="cl-verdict">{note}</div>'
    return figure(table, alt)


def lists(exact: DecodeResult, relaxed: DecodeResult) -> str:
    """Two lists of answers side by side; rows that differ are marked."""

    def table(name: str, result: DecodeResult, other: DecodeResult) -> str:
        rows = ""
        for k, one in enumerate(result.hypotheses):
            differs = k >= len(other.hypotheses) or one.smiles != other.hypotheses[k].smiles
            mark = "≠" if differs else "="
            rows += (
                f'<tr class="{"other" if differs else ""}"><td class="n">{k + 1}</td><td class="s">{escape(one.smiles)}</td>'
                f'<td class="n">{100 * one.probability:.1f}%</td><td>{mark}</td></tr>'
            )
        return f'<div><b>{name}</b><table style="width:100%">{rows}</table></div>'

    query = escape("".join(exact.trace.query))
    body = f'<div class="cl-label">query <span class="cl-mono">{query}</span></div><div class="cl-two">{table("Exact: beam search", exact, relaxed)}{table("Relaxed: speculative beam search", relaxed, exact)}</div>'
    count = sum(a.smiles != b.smiles for a, b in zip(exact.hypotheses, relaxed.hypotheses, strict=False))
    copy = [one.canonical for one in exact.hypotheses].count(chem.canonical("".join(exact.trace.query)) or "?")
    if copy:
        body += '<div class="cl-verdict">Among the exact answers is the query itself: a habit of the model, which no way of decoding mends.</div>'
    return figure(body, f"Two lists of answers; {count} of {len(exact.hypotheses)} differ.")
