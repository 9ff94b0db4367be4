"""Traces drawn in the browser by `trace_player.js`: a player, and still figures for the cards of answers."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

import streamlit as st

from chemspec import chem
from chemspec.depict.molecules import Depiction
from chemspec.replay.prefix_tree import lay_out_tree
from chemspec.replay.symbols import view_symbols
from chemspec.replay.trace_view import TraceView, view_trace
from chemspec.types import DecodeResult, to_json
from chemspec.ui.common import theme, web_files

MAX_ANSWERS = 20  # drawn; more cannot be told apart
WIDTH, HEIGHT = 520, 280  # pixels of a drawing
HTML = '<div id="trace"></div>'


@dataclass(frozen=True)
class Frame:
    """A picture of one trace."""

    parts: tuple[str, ...]  # what it shows, from top to bottom: names of the table `parts` in trace_player.js
    scene: int = 0  # number of the trace
    step: int = -1  # after how many passes; -1 for all
    style: str = ""  # CSS class: "wide"
    whole: bool = False  # mark all that was copied up to here, not only in this pass


PLAYER = ("controls", "summary", "pictures", "query", "drafts", "answer", "hint", "legend", "tree", "counters", "keys")


def show_player(result: DecodeResult, view: TraceView) -> None:
    """Put a trace and its view on the page to step through; at a visitor's first one it plays by itself."""
    data = player_data([result], [view], [Frame(PLAYER, step=0)], alt="Trace player")
    played = st.session_state.setdefault("step_played", data["id"])
    data["autoplay"] = played == data["id"]
    web_files.component("trace_player", HTML)(key="trace_player", data=data)


def show_figure(results: Sequence[DecodeResult], shown: Sequence[Frame], *, alt: str, key: str) -> None:
    """Put frames of some results on the page; `alt` is read to who cannot see them."""
    data = player_data(results, [view_trace(result) for result in results], shown, alt=alt)
    web_files.component("trace_player", HTML)(key=key, data=data)


def player_data(
    results: Sequence[DecodeResult], views: Sequence[TraceView], shown: Sequence[Frame], *, alt: str
) -> dict[str, Any]:
    """Return the frames `shown` of some traces, with their `views`, as JSON values; `alt` is read to who sees none."""
    steps = [len(views[frame.scene].passes) if frame.step < 0 else frame.step for frame in shown]
    dark = theme.is_dark()
    return {
        "id": sha256("".join(map(to_json, results)).encode()).hexdigest()[:16],
        "alt": alt,
        "dark": dark,
        "colors": list(theme.SPANS),
        "scenes": [scene_data(view, dark=dark) for view in views],
        "frames": [{**asdict(frame), "step": step} for frame, step in zip(shown, steps, strict=True)],
    }


def scene_data(view: TraceView, *, dark: bool) -> dict[str, Any]:
    """Return a trace as JSON values, in symbols, with drawings of its molecules."""
    view = view_symbols(view)
    shown = asdict(replace(view, answers=view.answers[:MAX_ANSWERS], tree=None))
    for answer in shown["answers"]:
        answer["svg"] = _molecule_svg(answer["smiles"], dark)
    query = "".join(view.query)
    drawn = {"tokens": view.query, "atoms": view.atoms, "smiles": query, "svg": _molecule_svg(query, dark)}
    return shown | {"query": drawn, "tree": _tree_data(view)}


def _molecule_svg(smiles: str, dark: bool) -> str:
    # What RDKit takes for a molecule with a name or an extension behind it is not drawn.
    return Depiction(smiles, WIDTH, HEIGHT, dark=dark, tags=True).svg if chem.is_valid(smiles) else ""


def _tree_data(view: TraceView) -> dict[str, Any] | None:
    tree = view.tree
    if tree is None:
        return None
    forked = any(len(children) > 1 for children in tree.children)  # more than one line was drafted
    if len(tree.answers) < 2 and (view.several or not forked):
        return None
    needed, everything = lay_out_tree(tree), lay_out_tree(tree, spare=True)
    unused = sum(number > len(tree.beams) for number in tree.accepted)
    cut = max(0, needed["left_out"] - unused)
    return {"needed": needed, "all": everything, "unused": unused, "cut": cut}
