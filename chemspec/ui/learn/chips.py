"""Tokens as chips, and other small pieces of the pictures of the page Learn, as HTML text.

Lines and letters take the page's text colour, so that one picture serves light and dark; only drawings are made for
either.
What is told apart by colour is told apart by a mark as well: kept underlined, own framed, rejected struck through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape

from chemspec.ui.common import draw, look

CSS = """
.cl {font-size: .92rem; line-height: 1.35}
.cl-row {display: flex; flex-wrap: wrap; gap: 3px; align-items: flex-end; margin: .15rem 0 .55rem}
.cl-label {font-size: .78rem; opacity: .72; margin-top: .35rem}
.cl-t {font-family: ui-monospace, SFMono-Regular, Menlo, monospace; font-size: .84rem; line-height: 1.25; padding: 1px 4px; min-width: .62rem;
  text-align: center; border-radius: 4px; background: color-mix(in srgb, currentColor 7%, transparent); border: 1px solid transparent; border-bottom-width: 3px}
.cl-t.kept {background: color-mix(in srgb, var(--c) 24%, transparent); border-bottom-color: var(--c)}
.cl-t.own {border: 2px solid currentColor; font-weight: 700; background: transparent; padding: 1px 3px}
.cl-t.lost {text-decoration: line-through; opacity: .55; border-bottom-style: dotted; border-bottom-color: currentColor}
.cl-t.before {opacity: .5}
.cl-t.end {font-family: inherit; font-style: italic; font-size: .74rem; padding-top: 3px}
.cl-key {display: flex; flex-wrap: wrap; gap: .3rem 1rem; font-size: .78rem; margin: .3rem 0 .2rem; align-items: center}
.cl-key span.k {display: inline-flex; gap: .35rem; align-items: center; opacity: .9}
.cl-card {border: 1px solid color-mix(in srgb, currentColor 18%, transparent); border-radius: 10px; padding: .7rem .9rem .5rem}
.cl-cards {display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: .8rem}
.cl-head {display: flex; justify-content: space-between; gap: .6rem; font-weight: 600; margin-bottom: .2rem}
.cl-head small {font-weight: 400; opacity: .75}
.cl-verdict {font-size: .84rem; margin: .1rem 0 .2rem}
.cl-reaction {display: flex; align-items: center; justify-content: center; gap: .6rem; margin-bottom: .4rem}
.cl-reaction > .cl-img {flex: 0 1 auto; min-width: 0; margin: 0}
.cl-reaction > b {font-size: 1.7rem; font-weight: 400; opacity: .6}
@media (max-width: 640px) {.cl-reaction {flex-direction: column; gap: 0} .cl-reaction > b {transform: rotate(90deg); line-height: 1}}
.cl-bars {display: flex; flex-wrap: wrap; gap: 3px; align-items: flex-end}
.cl-bar {display: flex; flex-direction: column; align-items: center; gap: 2px}
.cl-bar i {display: block; width: 11px; border-radius: 3px 3px 0 0; background: currentColor; opacity: .38}
.cl-bar.low i {opacity: 1; background: #D55E00}
.cl-bar em {font-size: .68rem; font-style: normal; min-height: .8rem; opacity: .85}
.cl-lane {display: grid; grid-template-columns: 6.4rem 1fr; gap: .5rem; align-items: start; margin: .35rem 0}
.cl-lane > b {font-weight: 600; font-size: .86rem}
.cl-lane small {display: block; font-weight: 400; opacity: .75}
.cl-passes {display: flex; flex-wrap: wrap; gap: 4px}
.cl-pass {display: flex; gap: 1px; border: 1px solid color-mix(in srgb, currentColor 35%, transparent); border-radius: 5px; padding: 1px}
.cl-pass .cl-t {padding: 0 2px; border-bottom-width: 2px; font-size: .78rem}
.cl-pass .cl-t.own {border-width: 1px}
.cl-scroll {overflow-x: auto}
.cl table {border-collapse: collapse; font-size: .86rem}
.cl td, .cl th {padding: .22rem .5rem; text-align: left; border-bottom: 1px solid color-mix(in srgb, currentColor 14%, transparent); font-weight: 400; vertical-align: top}
.cl th {opacity: .72}
.cl .n {text-align: right !important; font-variant-numeric: tabular-nums; white-space: nowrap}
.cl td.s {font-family: ui-monospace, monospace; font-size: .8rem; overflow-wrap: anywhere}
.cl tr.other td {background: color-mix(in srgb, #E69F00 20%, transparent)}
.cl-check td {text-align: center !important; padding: .15rem .12rem}
.cl-check th {white-space: nowrap; padding-left: 0}
.cl-check tr.why td {text-align: left !important; font-size: .76rem; opacity: .75; padding-bottom: .5rem}
.cl-check tr:not(.why) td, .cl-check tr:not(.why) th {border-bottom: 0}
.cl-two {display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); gap: .4rem 1.6rem}
.cl-meter {height: .8rem; border-radius: 3px; background: currentColor; opacity: .35}
.cl-meter.now {background: #0f766e; opacity: 1}
.cl-tree .cl-img {min-width: 500px; margin: 0}
.cl-img {display: block; max-width: 100%; height: auto; margin: 0 auto}
@keyframes cl-show {from {opacity: .06} to {opacity: 1}}
"""

# What `currentColor` is inside a picture, which does not inherit the page's.
INK = {False: "#14211f", True: "#e6efed"}

Marks = Callable[[int], tuple[str, int]]  # place of a token -> (class, number of its colour)


def figure(body: str, alt: str) -> str:
    """A picture that a screen reader announces by `alt`."""
    return f'<div class="cl" role="img" aria-label="{escape(alt, quote=True)}">{body}</div>'


def picture(svg: str, alt: str) -> str:
    """An SVG as an image: Streamlit drops SVG elements from HTML."""
    return f'<img class="cl-img" src="{draw.data_uri(svg)}" alt="{escape(alt, quote=True)}">'


def token(text: str, kind: str = "", color: int = 0, style: str = "") -> str:
    """One token as a chip."""
    kind += " end" if text == "end" else ""
    style += f"--c:{look.span_color(color)}" if "kept" in kind else ""
    return f'<span class="cl-t {kind}" style="{style}">{escape(text, quote=True)}</span>'


def row(tokens: Iterable[str], marks: Marks = lambda _: ("", 0)) -> str:
    return f'<div class="cl-row">{"".join(token(text, *marks(k)) for k, text in enumerate(tokens))}</div>'


def key(*entries: tuple[str, str]) -> str:
    """A legend: (class of a chip, meaning)."""
    chips = (f'<span class="k">{token("C", kind, 0)}{escape(text)}</span>' for kind, text in entries)
    return f'<div class="cl-key">{"".join(chips)}</div>'


def label(text: str) -> str:
    return f'<div class="cl-label">{escape(text)}</div>'
