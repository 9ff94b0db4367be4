"""Where a visitor asks for routes: target, stock, limits, bonds to keep; what the link holds, and what disk keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from time import localtime, strftime

import streamlit as st

from chemspec import chem
from chemspec.chem import formats
from chemspec.plan import bonds
from chemspec.plan import stock as lists
from chemspec.plan.bonds import Bonds
from chemspec.plan.search import ALGORITHMS, PlanSettings
from chemspec.plan.stock import Keys, Stock
from chemspec.ui.common import bond_picker, buyable, question, safe, uploads
from chemspec.ui.common.question import QueryText
from chemspec.ui.plan import projects
from chemspec.ui.plan.projects import Project, ProjectError

BOX = QueryText("plan")
DEFAULTS = {
    "plan_lists": list(lists.BUILT_IN),
    "plan_seconds": 60,
    "plan_expansions": 100,
    "plan_depth": 6,
    "plan_algorithm": ALGORITHMS[0],
}
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
        project: as it is kept on disk.
        own: the visitor's own list of stock.
    """

    target: str
    stock: Stock
    stock_key: str
    settings: PlanSettings
    project: Project
    own: Keys | None = None

    @property
    def key(self) -> tuple[str, str, PlanSettings]:
        """What the result depends on."""
        return self.target, self.stock_key, self.settings


def ask() -> Asked | None:
    """Draw everything a visitor asks with; return the search, once there is one."""
    state = st.session_state
    for name, value in DEFAULTS.items():
        state.setdefault(name, value)
    if "plan_target" not in state:  # the visitor has just arrived
        _arrive()
    text, read = BOX.draw("retro", typed=BOX.typed, asked=_start, moved=_moved)
    hint = st.empty()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button("Search", type="primary", shortcut="Ctrl+Enter", on_click=_start, args=(None,))
        stock, stock_key, own = _stock()
        settings = _limits()
        keep = _keep(state.plan_target if isinstance(read, formats.Input) else "")
        _searches()
    if problem := state.pop("plan_problem", ""):
        st.error(safe.plain(problem))
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
    is_asked = bool(target) and stock is not None and isinstance(read, formats.Input)
    projects.remember(state.plan_project if is_asked else "")
    if not is_asked or stock is None:
        return None
    only, without = state.plan_only, state.plan_without
    st.query_params.from_dict({"smi": target, "use": only, "drop": without, "keep": state.plan_keep})
    _choices()
    if keep and settings.algorithm == "mcts":
        st.warning("The search mcts cannot keep bonds; choose another under Limits.")
        return None
    settings = replace(settings, only=only, without=without, keep=keep)
    own_name, own_keys = own or ("", None)
    project = Project(state.plan_project, target, tuple(state.plan_lists), own_name, settings)
    return Asked(target, stock, stock_key, settings, project, own_keys)


def _arrive() -> None:
    """Take over what the address says: a search on this server, or a target with choices."""
    state = st.session_state
    if name := st.query_params.get("plan", ""):
        open_search(name)
        return
    text = question.link()[1]
    BOX.put(text)
    read = formats.read_any(text, task="retro")
    state.plan_target = read.smiles if isinstance(read, formats.Input) else ""
    state.plan_only, state.plan_without = (tuple(st.query_params.get_all(name)) for name in ("use", "drop"))
    state.plan_keep = st.query_params.get_all("keep")
    state.plan_project = projects.new_id()


def open_search(name: str) -> None:
    """Go on with a search that was kept; a callback for buttons."""
    state = st.session_state
    state.plan_target, state.plan_only, state.plan_without, state.plan_keep = "", (), (), []
    state.plan_project = projects.new_id()
    state.plan_stopped = None
    try:
        kept = projects.load(name)
        state.plan_own = (kept.own, projects.own_list(name)) if kept.own else None
    except ProjectError as error:
        state.plan_problem = f"This search cannot be opened: {error}."
        return
    if name not in projects.own_ids():
        state.plan_ids.insert(0, name)
    BOX.put(kept.target)
    how, names = kept.settings, {pair: bond for bond, pair in bonds.bonds_by_name(kept.target).items()}
    state.plan_project, state.plan_target, state.plan_lists = name, kept.target, list(kept.lists)
    state.plan_only, state.plan_without = how.only, how.without
    state.plan_keep = [names[pair] for pair in how.keep if pair in names]
    state.plan_seconds, state.plan_expansions = int(how.seconds), how.expansions
    state.plan_depth, state.plan_algorithm = how.depth, how.algorithm


def search_on() -> None:
    """Go on where a search has ended: a stopped one as it was, another with twice the limits; a callback."""
    state = st.session_state
    if state.get("plan_stopped"):
        state.plan_stopped = None
        state.pop("_plans", None)
    else:
        state.plan_seconds = min(3600, 2 * state.plan_seconds)
        state.plan_expansions = min(5000, 2 * state.plan_expansions)


def _choices() -> None:
    """Say which steps and bonds the visitor has chosen, and offer to forget that."""
    state = st.session_state
    count, left_out = len(state.plan_only), len(state.plan_without)
    told = [f"{count} step{'s' * (count != 1)} fixed"] * bool(count)
    told += [f"{left_out} left out"] * bool(left_out)
    told += [f"bonds kept: {', '.join(state.plan_keep)}"] * bool(state.plan_keep)
    if told:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(", ".join(told))
            st.button("Forget these choices", on_click=_forget_choices)


def _forget_choices() -> None:
    choose(only=(), without=())
    st.session_state.plan_keep = []


def _searches() -> None:
    """Offer the visitor's searches that are on disk."""
    state = st.session_state
    own = projects.own_ids()
    with st.popover("Your searches", disabled=not own):
        for name in own:
            try:
                kept = projects.load(name)
            except ProjectError:
                continue
            with st.container(horizontal=True, vertical_alignment="center"):
                at = strftime("%Y-%m-%d %H:%M", localtime(kept.changed))
                is_open = " (open now)" * (name == state.plan_project)
                ended = safe.plain(kept.ended or "not finished")
                st.caption(f"`{kept.target}`{is_open}, {at}: {ended} ([link](plan?plan={name}))")
                st.button("Open", key=f"plan_open_{name}", on_click=open_search, args=(name,))
                st.button("Delete", key=f"plan_delete_{name}", on_click=projects.forget, args=(name,))
        st.caption(
            f"Kept on this server for {projects.DAYS} days after the last change; this browser remembers which are "
            "yours. Who has its link may change a search; to share one as it is, copy the address of this page."
        )


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
    state.plan_project = projects.new_id()
    choose(only=(), without=())


def _moved() -> None:
    del st.session_state["plan_target"]


def _example(smiles: str) -> None:
    BOX.put(smiles)
    _start(None)


@st.cache_resource(show_spinner="Reading the stock …", max_entries=4)
def _own(raw: bytes, name: str) -> Stock:
    return buyable.own_stock(raw, name)


def _stock() -> tuple[Stock | None, str, tuple[str, Keys] | None]:
    """Draw the choice of stock; return it with what it depends on, and the visitor's own list.

    The stock is None where there is none that can be used.
    """
    state = st.session_state
    with st.popover("Stock"):
        names = tuple(st.multiselect("Lists", lists.BUILT_IN, key="plan_lists", persist_state="session"))
        st.caption("Building blocks of routes in patents (PaRoutes, Apache-2.0); not a catalogue.")
        file = st.file_uploader(
            "Your own: SMILES or InChIKeys, with prices if you like, .csv, .xlsx, .smi or .txt, also gzipped "
            f"(at most {uploads.MAX_STOCK_MB} MB)",
            max_upload_size=uploads.MAX_STOCK_MB,
            key="plan_stock_file",
        )
        own: tuple[str, Keys] | None = state.get("plan_own")
        if own and file is None:
            st.caption(f"With {safe.plain(own[0])}, {len(own[1]):,} molecules, from the search that was opened.")
            st.button("Without it", on_click=state.update, kwargs={"plan_own": None})
    offers: Mapping[str, object] = {}
    if file is not None:
        try:
            uploaded = _own(file.getvalue(), file.name)
            own, offers = (file.name, uploaded.lists[file.name]), uploaded.offers
        except ValueError as error:
            st.error(safe.plain(str(error)))
            return None, "", None
    found, key = dict(buyable.built_in(names).lists), " ".join(names)
    if own:
        found[own[0]] = own[1]
        content = own[1].tobytes() if file is None else file.getvalue()  # with prices
        key += own[0] + hashlib.sha256(content).hexdigest()
    if not found:
        st.warning("Nothing can be bought: choose a list of stock, or upload one.")
        return None, "", None
    return Stock(found, offers), key, own


def _keep(target: str) -> Bonds:
    """Draw the target, to mark bonds that no step may make."""
    state = st.session_state
    if not target:
        return ()
    offered = bonds.bonds_by_name(target)
    state.plan_keep = [name for name in state.plan_keep if name in offered]
    count = f" ({len(state.plan_keep)})" * bool(state.plan_keep)
    with st.popover(f"Keep bonds{count}"):
        bond_picker.picker(
            target,
            ((), tuple(state.plan_keep)),
            key="plan_bonds",
            on_change=_marked,
            kinds=("keep",),
            hint="Click a bond that no step shall make.",
        )
    return tuple(offered[name] for name in state.plan_keep)


def _marked(target: str, marks: bond_picker.Marks) -> None:
    state = st.session_state
    if target == state.plan_target:
        state.plan_keep = list(marks[1])
        state.plan_stopped = None


def _limits() -> PlanSettings:
    with st.popover("Limits"):
        seconds = st.number_input("Seconds", 5, 3600, step=5, key="plan_seconds", persist_state="session")
        expansions = st.number_input(
            "Molecules expanded", 1, 5000, step=10, key="plan_expansions", persist_state="session"
        )
        depth = st.number_input("Steps one after the other", 1, 12, key="plan_depth", persist_state="session")
        algorithm = st.selectbox("Search", ALGORITHMS, key="plan_algorithm", persist_state="session")
    return PlanSettings(algorithm=algorithm, seconds=float(seconds), expansions=int(expansions), depth=int(depth))
