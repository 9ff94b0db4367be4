"""Where a visitor asks for routes: target, stock, limits; and the link that holds them with the steps chosen so far."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import streamlit as st
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D

from chemspec import chem
from chemspec.chem import formats
from chemspec.plan import bonds
from chemspec.plan import stock as lists
from chemspec.plan.bonds import Bonds
from chemspec.plan.search import ALGORITHMS, PlanSettings
from chemspec.plan.stock import Stock
from chemspec.ui.common import draw, question, safe, theme
from chemspec.ui.common.question import QueryText

BOX = QueryText("plan")
MOST_MEGABYTES = 50
EXAMPLES = {
    "lidocaine": "CCN(CC)CC(=O)Nc1c(C)cccc1C",
    "imatinib": "Cc1ccc(NC(=O)c2ccc(CN3CCN(C)CC3)cc2)cc1Nc1nccc(-c2cccnc2)n1",
    "celecoxib": "Cc1ccc(cc1)-c1cc(nn1-c1ccc(cc1)S(N)(=O)=O)C(F)(F)F",
}


@dataclass(frozen=True)
class Asked:
    """A search that can be made.

    Attributes:
        stock_key: changes with the stock's content.
    """

    target: str
    stock: Stock
    stock_key: str
    settings: PlanSettings

    @property
    def key(self) -> tuple[str, str, PlanSettings]:
        """What the result depends on."""
        return self.target, self.stock_key, self.settings


def ask() -> Asked | None:
    """Draw everything a visitor asks with; return the search, once there is one."""
    state = st.session_state
    if "plan_target" not in state:  # the visitor has just arrived
        text = question.link()[1]
        BOX.put(text)
        state.plan_target = chem.canonical(text) or text
        state.plan_only, state.plan_without = (tuple(st.query_params.get_all(name)) for name in ("use", "drop"))
        state.plan_keep = st.query_params.get_all("keep")
    text, read = BOX.draw("retro", typed=BOX.typed, asked=_start, moved=_moved)
    hint = st.empty()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button("Search", type="primary", shortcut="Ctrl+Enter", on_click=_start, args=(None,))
        stock, stock_key = _stock()
        settings = _limits()
        keep = _keep(state.plan_target if isinstance(read, formats.Input) else "")
    if isinstance(read, chem.Fault):
        hint.html(question.fault_html(text, read))
    elif read is None:
        hint.html('<div class="cs-hint" role="status">SMILES, InChI, molfile or a name. Enter searches.</div>')
        with st.container(horizontal=True):
            for name, smiles in EXAMPLES.items():
                st.button(name, on_click=_example, args=(smiles,))
    else:
        hint.html(f'<div class="cs-hint" role="status">{escape("; ".join(read.notes))}</div>')
    target = state.plan_target
    if not target or stock is None or not isinstance(read, formats.Input):
        return None
    only, without = state.plan_only, state.plan_without
    st.query_params.from_dict({"smi": target, "use": only, "drop": without, "keep": state.plan_keep})
    if only or without:
        told = [f"{len(only)} step{'s' * (len(only) != 1)} fixed"] * bool(only)
        told += [f"{len(without)} left out"] * bool(without)
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(", ".join(told))
            st.button("Forget these choices", on_click=choose, kwargs={"only": (), "without": ()})
    if keep and settings.algorithm == "mcts":
        st.warning("The search mcts cannot keep bonds; choose another under Limits.")
        return None
    return Asked(target, stock, stock_key, replace(settings, only=only, without=without, keep=keep))


def choose(*, only: tuple[str, ...], without: tuple[str, ...]) -> None:
    """Fix and leave out these steps from now on; a callback for buttons."""
    st.session_state.plan_only, st.session_state.plan_without = only, without


def use(reaction: str) -> None:
    """Make a product by this step only."""
    product = reaction.partition(">>")[2]
    others = tuple(one for one in st.session_state.plan_only if one.partition(">>")[2] != product)
    left_out = tuple(one for one in st.session_state.plan_without if one != reaction)
    choose(only=(*others, reaction), without=left_out)


def drop(reaction: str) -> None:
    """Leave out a step."""
    only = tuple(one for one in st.session_state.plan_only if one != reaction)
    choose(only=only, without=(*st.session_state.plan_without, reaction))


def _start(text: str | None) -> None:
    if text is not None:
        BOX.typed(text)
    state = st.session_state
    read = formats.read_any(str(state.get("plan_text", "")), task="retro")
    state.plan_target = read.smiles if isinstance(read, formats.Input) else ""
    state.plan_stopped = None
    state.plan_keep = []
    choose(only=(), without=())


def _moved() -> None:
    del st.session_state["plan_target"]


def _example(smiles: str) -> None:
    BOX.put(smiles)
    _start(None)


@st.cache_resource(show_spinner=False)
def _built_in(names: tuple[str, ...]) -> Stock:
    return lists.load(names)


@st.cache_resource(show_spinner="Reading the stock …", max_entries=4)
def _own(raw: bytes, name: str) -> Stock:
    return Stock({name: lists.parse(raw, name)})


def _stock() -> tuple[Stock | None, str]:
    """Draw the choice of stock; return it with what it depends on, None where there is none that can be used."""
    with st.popover("Stock"):
        names = tuple(
            st.multiselect("Lists", lists.BUILT_IN, lists.BUILT_IN, key="plan_lists", persist_state="session")
        )
        st.caption("Building blocks of routes in patents (PaRoutes, Apache-2.0); not a catalogue.")
        file = st.file_uploader(
            f"Your own: SMILES or InChIKeys, .csv, .smi or .txt, also gzipped (at most {MOST_MEGABYTES} MB)",
            max_upload_size=MOST_MEGABYTES,
            key="plan_stock_file",
        )
    found, key = dict(_built_in(names).lists) if names else {}, " ".join(names)
    if file is not None:
        raw = file.getvalue()
        try:
            found |= _own(raw, file.name).lists
        except ValueError as error:
            st.error(safe.plain(str(error)))
            return None, ""
        key += hashlib.sha256(raw).hexdigest()
    if not found:
        st.warning("Nothing can be bought: choose a list of stock, or upload one.")
        return None, ""
    return Stock(found), key


def _keep(target: str) -> Bonds:
    """Draw the choice of bonds that no step may make."""
    state = st.session_state
    if not target:
        return ()
    offered = bonds.named(target)
    state.plan_keep = [name for name in state.plan_keep if name in offered]
    with st.popover("Keep bonds"):
        st.html(draw.labelled(_numbered(target, theme.dark()), "the target with its atoms numbered"))
        chosen = st.multiselect("No step shall make these bonds", list(offered), state.plan_keep)
        state.plan_keep = chosen
    return tuple(offered[name] for name in chosen)


def _numbered(smiles: str, dark: bool) -> str:
    drawer = rdMolDraw2D.MolDraw2DSVG(460, 320)
    if dark:
        rdMolDraw2D.SetDarkMode(drawer)
    options: Any = drawer.drawOptions()
    options.addAtomIndices = True
    options.clearBackground = False
    rdMolDraw2D.PrepareAndDrawMolecule(drawer, Chem.MolFromSmiles(smiles))
    drawer.FinishDrawing()
    return str(drawer.GetDrawingText())


def _limits() -> PlanSettings:
    with st.popover("Limits"):
        seconds = st.number_input("Seconds", 5, 3600, 60, 5, key="plan_seconds", persist_state="session")
        expansions = st.number_input(
            "Molecules expanded", 1, 5000, 100, 10, key="plan_expansions", persist_state="session"
        )
        depth = st.number_input("Steps one after the other", 1, 12, 6, key="plan_depth", persist_state="session")
        algorithm = st.selectbox("Search", ALGORITHMS, key="plan_algorithm", persist_state="session")
    return PlanSettings(algorithm=algorithm, seconds=float(seconds), expansions=int(expansions), depth=int(depth))
