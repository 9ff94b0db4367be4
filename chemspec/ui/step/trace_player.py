"""The decode theatre: one element in which a visitor steps through a decode, all in the browser.

Python turns a story into plain data and draws the molecules; `trace_player.js` does the rest, and no click comes back
here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import streamlit as st

from chemspec import chem
from chemspec.types import DecodeResult, to_json
from chemspec.ui.common import draw, look
from chemspec.ui.step.prefix_tree import drawing
from chemspec.ui.step.trace_view import Answer, Step, TraceView

MOST_ANSWERS = 20  # drawn; more are not told apart by anybody
WIDTH, HEIGHT = 520, 280  # of a drawing, pixels


@cache
def _element() -> Callable[..., Any]:
    here = Path(__file__).parent
    return st.components.v2.component(
        "chemspec_theatre",
        html='<div id="theatre"></div>',
        css=(here / "trace_player.css").read_text("utf-8"),
        js=(here / "trace_player.js").read_text("utf-8"),
    )


def theatre(result: DecodeResult, told: TraceView, *, step: int = 0) -> None:
    """Put the theatre on the page, at first after `step` passes."""
    _element()(key="step_theatre", data=scene(result, told, dark=look.dark(), step=step))


def scene(result: DecodeResult, told: TraceView, *, dark: bool, step: int = 0) -> dict[str, Any]:
    """All that the browser needs, as JSON values."""
    return {
        "id": sha256(to_json(result).encode()).hexdigest()[:16],
        "dark": dark,
        "step": step,
        "several": told.several,
        "colors": list(look.SPANS),
        "query": {
            "tokens": list(told.query),
            "atoms": list(told.atoms),
            "smiles": "".join(told.query),
            "svg": _svg("".join(told.query), dark),
        },
        "answers": [_answer(item, dark) for item in told.answers[:MOST_ANSWERS]],
        "steps": [_step(item) for item in told.steps],
        "tree": _tree(told),
    }


def _svg(smiles: str, dark: bool) -> str:
    # What RDKit takes for a molecule with a name or an extension behind it is not drawn.
    if not chem.is_valid(smiles):
        return ""
    return draw.molecule(smiles, width=WIDTH, height=HEIGHT, dark=dark, tags=True)


def _answer(item: Answer, dark: bool) -> dict[str, Any]:
    return {"smiles": item.smiles, "svg": _svg(item.smiles, dark), "pieces": [asdict(piece) for piece in item.pieces]}


def _step(item: Step) -> dict[str, Any]:
    shown = ("written", "emitted", "accepted", "drafted", "hidden", "says")
    return {
        **{name: getattr(item, name) for name in shown},
        "proposals": [asdict(one) for one in item.proposals],
        "rate": item.so_far.acceptance_rate,
        "saved": item.so_far.emitted - item.so_far.passes,
    }


def _tree(told: TraceView) -> dict[str, Any] | None:
    grove = told.grove
    if grove is None or len(grove.answers) < 2:
        return None
    needed, everything = drawing(grove), drawing(grove, spare=True)
    unused = sum(kept > len(grove.beams) for kept in grove.kept)
    return {
        "needed": asdict(needed),
        "all": asdict(everything),
        "unused": unused,
        "cut": max(0, needed.left_out - unused),
    }
