"""Draw the README's two figures from what was measured: `python assets/docs/figures.py` (standard library only).

Speed comes from the tables of benchmarks.md, section "The shipped models"; accuracy from the models' evaluation.json.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #334155 } .head { font-weight: 600 } .value { font-size: 12px }
.bar { fill: #94a3b8 } .ours { fill: #0f766e } .line { stroke: #0f766e; stroke-width: 2; fill: none }
.other { stroke: #b45309 } .dot { fill: #0f766e } .dot.other { fill: #b45309; stroke: none } .axis { stroke: #cbd5e1 }
@media (prefers-color-scheme: dark) { text { fill: #cbd5e1 } .axis { stroke: #475569 } .ours, .dot { fill: #2dd4bf }
.line { stroke: #2dd4bf } .bar { fill: #64748b } .other { stroke: #f59e0b } .dot.other { fill: #f59e0b } }
</style>"""
WAYS = (
    ("naive", "none", "no cache"),
    ("ctranslate2", "none", "CTranslate2"),
    ("chemspec", "none", "chemspec, standard"),
    ("chemspec", "auto", "chemspec, drafts"),
)
GROUPS = (("forward", "greedy", "1"), ("retro", "greedy", "1"), ("retro", "beam", "10"))


def measured() -> dict[tuple[str, ...], float]:
    """Milliseconds a query, by (task, decoder, n, engine, drafter): one query at a time, fp32."""
    text = (HERE / "benchmarks.md").read_text(encoding="utf-8").split("\n## The shipped models\n")[1].split("\n## ")[0]
    found: dict[tuple[str, ...], float] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) >= 20 and cells[3] == "1" and cells[7] in ("fp32", "float32"):
            key = (*cells[:3], cells[4].split()[0], cells[6])
            found.setdefault(key, float(cells[9]))
    return found


def speed() -> str:
    """Bars, the naive decoder's cut off."""
    times, parts, y, widest = measured(), [], 24.0, 60.0
    for group in GROUPS:
        name = f"{group[0]}, {group[1]}" + (f" {group[2]}" if group[1] == "beam" else "")
        parts.append(f'<text class="head" x="8" y="{y}">{name}</text>')
        for engine, drafter, label in WAYS:
            value = times[(*group, engine, drafter)]
            y += 22
            width = 6.5 * min(value, widest)
            kind = "ours" if drafter == "auto" else "bar"
            cut = " »" if value > widest else ""
            parts.append(f'<text x="8" y="{y}">{escape(label)}</text>')
            parts.append(f'<rect class="{kind}" x="160" y="{y - 12}" width="{width:.0f}" height="15" rx="2"/>')
            parts.append(f'<text class="value" x="{166 + width:.0f}" y="{y}">{value:.3g} ms{cut}</text>')
        y += 34
    return picture(660, y - 14, parts, "Milliseconds a query, median")


def accuracy() -> str:
    """Top-k of both models."""
    parts = []
    for share in range(40, 101, 20):
        y = 250 - 2.2 * share
        parts.append(f'<line class="axis" x1="60" x2="560" y1="{y:.0f}" y2="{y:.0f}"/>')
        parts.append(f'<text x="20" y="{y + 4:.0f}">{share}%</text>')
    for task, kind in (("forward", ""), ("retro", " other")):
        file = HERE.parent / "models" / task / "evaluation.json"
        top = json.loads(file.read_text(encoding="utf-8"))["accuracy"]["top"]
        dots = [(60 + 50 * int(k), 250 - 220 * found["value"], found["value"]) for k, found in top.items()]
        path = " ".join(f"{x:.0f},{y:.1f}" for x, y, _ in dots)
        parts.append(f'<polyline class="line{kind}" points="{path}"/>')
        for x, y, value in dots:
            parts.append(f'<circle class="dot{kind}" cx="{x}" cy="{y:.1f}" r="4"/>')
            down = 20 if kind else -10
            parts.append(f'<text class="value" x="{x - 14}" y="{y + down:.1f}">{100 * value:.1f}</text>')
        parts.append(
            f'<text class="head" x="{dots[-1][0] + 12}" y="{dots[-1][1] + (14 if kind else -4):.1f}">{task}</text>'
        )
    parts += [f'<text x="{60 + 50 * k - 14}" y="200">top-{k}</text>' for k in (1, 2, 3, 5, 10)]
    return picture(660, 212, parts, "Share of test reactions whose answer is among the first k")


def picture(width: int, height: float, parts: list[str], title: str) -> str:
    """An SVG that follows the reader's light or dark setting."""
    size = f'width="{width}" height="{height:.0f}" viewBox="0 0 {width} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{title}">'
    return "\n".join([head, f"<title>{title}</title>", STYLE, *parts, "</svg>", ""])


if __name__ == "__main__":
    for name, drawing in (("speed", speed()), ("accuracy", accuracy())):
        file = HERE / "charts" / f"readme-{name}.svg"
        file.write_text(drawing, encoding="utf-8")
        print(file)
