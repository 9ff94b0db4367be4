"""The form of the page Plan: target, stock, limits, constraints; and its link."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import streamlit as st

from chemspec.chem import formats
from chemspec.chem.reactions.guide import bonds_by_name
from chemspec.chem.reading.names.reagents import name_of
from chemspec.plan import constraints
from chemspec.plan.orders import PROBABILITY
from chemspec.plan.question import plan_question
from chemspec.plan.settings import PlanSettings
from chemspec.stock.lists import Stock, default_lists
from chemspec.ui.common import bond_picker, escaping, query_box, stock_menu
from chemspec.ui.common.escaping import tag
from chemspec.ui.common.query_box import QueryText

BOX = QueryText("plan")
NO_STOCK = Stock({})
LINKED = ("smi", "use", "drop", "keep", "through", "avoid")  # parameters of the address
CHOICES = ("only", "without", "keep", "through", "avoid")  # settings that the visitor chooses for one target
DEFAULTS = {  # those of the command line
    "plan_seconds": round(PlanSettings.seconds),
    "plan_expansions": PlanSettings.expansions,
    "plan_depth": PlanSettings.depth,
}
EXAMPLES = {
    "lidocaine": "CCN(CC)CC(=O)Nc1c(C)cccc1C",
    "imatinib": "Cc1ccc(NC(=O)c2ccc(CN3CCN(C)CC3)cc2)cc1Nc1nccc(-c2cccnc2)n1",
    "celecoxib": "Cc1ccc(cc1)-c1cc(nn1-c1ccc(cc1)S(N)(=O)=O)C(F)(F)F",
}


@dataclass(frozen=True)
class SearchRequest:
    """A target, and what the visitor chose for it: `CHOICES` of the settings; to run it, limits and stock too."""

    target: str
    settings: PlanSettings
    stock: Stock = NO_STOCK
    stock_key: Hashable = None  # changes with the stock's content

    @property
    def key(self) -> Hashable:
        """What the result depends on."""
        return self.target, self.stock_key, self.settings


def show_search_form() -> SearchRequest | None:
    """Draw the form; return the search, once there is one."""
    state = st.session_state
    for name, value in DEFAULTS.items():
        state.setdefault(name, value)
    if "plan_search" not in state or (BOX.is_new and _names_another_search()):
        _follow_address()
    text, read = BOX.show_box("retro", on_submit=_start_search, on_navigate=_follow_address, preview_model="")
    submitted: SearchRequest | None = state.plan_search if isinstance(read, formats.Input) else None
    hint = st.empty()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button("Search", type="primary", shortcut="Ctrl+Enter", on_click=_start_search)
        stock_menu.show_stock_menu("secondary")
        limits = _choose_limits()
        if submitted:
            _choose_constraints(submitted)
    if problem := state.get("plan_problem"):
        st.error(escaping.plain_text(problem))
    if read is None:
        intro = "SMILES, InChI, molfile or a name. The search finds routes of several steps from building blocks."
        hint.html(tag("div.cs-hint", intro, role="status"))
        with st.container(horizontal=True):
            for name, smiles in EXAMPLES.items():
                st.button(name, on_click=_use_example, args=(smiles,))
    else:
        with hint:
            query_box.show_reading(text, read)
        query_box.show_choices(text, read, BOX.set_text, key="plan")
    if submitted is None:
        return None
    stock, (names, uploaded) = stock_menu.visitor_stock(), stock_menu.visitor_lists()
    if not stock.lists:
        st.warning("No building-block stock selected. Choose a list or upload your own.")
        return None
    st.query_params.from_dict(_search_link(submitted))
    _show_choices(submitted)
    settings = replace(limits, **{name: getattr(submitted.settings, name) for name in CHOICES})
    chosen_lists = () if names == default_lists() else names
    order = str(state.get("plan_order", PROBABILITY)).replace(PROBABILITY, "")
    state.plan_question = plan_question(submitted.target, settings, stock=chosen_lists, order=order)
    return replace(submitted, settings=settings, stock=stock, stock_key=(names, uploaded and uploaded.stock))


def _search_link(search: SearchRequest) -> dict[str, list[str]]:
    chosen, through = search.settings, [search.settings.through] if search.settings.through else []
    lists = ([search.target], [*chosen.only], [*chosen.without], _kept_bonds(search), through, [*chosen.avoid])
    return dict(zip(LINKED, lists, strict=True))


def _kept_bonds(search: SearchRequest) -> list[str]:
    return [name for name, pair in bonds_by_name(search.target).items() if pair in search.settings.keep]


def _names_another_search() -> bool:
    """Return whether the address names a search that is not the one of this visit: Back skips pages."""
    named, search = st.query_params, st.session_state.plan_search
    link = _search_link(search) if search else {}
    return "smi" in named and any(named.get_all(name) != link.get(name) for name in LINKED)


def _follow_address() -> None:
    """Read the address: a target with choices."""
    BOX.set_text(query_box.linked_query()[1])
    _new_search({name: tuple(st.query_params.get_all(name)) for name in LINKED})


def _new_search(named: Mapping[str, tuple[str, ...]] = MappingProxyType({})) -> None:
    """Ask for routes to the molecule in the box, with the choices of an address; none where it cannot be read."""
    state = st.session_state
    read = formats.read_input(str(state.get("plan_text", "")), task="retro")
    state.plan_search = state.plan_problem = None
    if isinstance(read, formats.Input):
        only, without, keep, through, avoid = (named.get(name, ()) for name in LINKED[1:])
        pairs = tuple(pair for name, pair in bonds_by_name(read.smiles).items() if name in keep)
        state.plan_search = SearchRequest(read.smiles, PlanSettings())
        _change_choices(only=only, without=without, keep=pairs, through="".join(through[:1]), avoid=avoid)
        if state.plan_problem:
            state.plan_search = None


def continue_search() -> None:
    """Continue a search: resume a stopped one, or double the limits of another; a callback."""
    state = st.session_state
    if not _forget_stop():
        state.plan_seconds = min(3600, 2 * state.plan_seconds)
        state.plan_expansions = min(5000, 2 * state.plan_expansions)


def _forget_stop() -> bool:
    """Let a stopped search go on; return whether there is one."""
    state = st.session_state
    if not state.get("plan_stopped"):
        return False
    state.plan_stopped = None
    state.pop("_plans", None)
    return True


def _show_choices(search: SearchRequest) -> None:
    chosen, count, marked = search.settings, len(search.settings.only), _kept_bonds(search)
    texts = {
        f"{count} step{'s' * (count != 1)} fixed": count,
        f"{len(chosen.without)} left out": chosen.without,
        f"bonds kept: {', '.join(marked)}": marked,
        f"through {name_of(chosen.through) or chosen.through}": chosen.through,
        f"without {', '.join(chosen.avoid)}": chosen.avoid,
    }
    if any(texts.values()):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(escaping.plain_text(", ".join(text for text, values in texts.items() if values)))
            nothing = {name: getattr(PlanSettings, name) for name in CHOICES}
            st.button("Clear these choices", on_click=_change_choices, kwargs=nothing)


def _change_choices(**choices: Any) -> None:
    """Change some of `CHOICES`, or tell why that is not possible; a callback for buttons."""
    state = st.session_state
    state.plan_problem = None
    try:
        settings = replace(state.plan_search.settings, **choices)
    except ValueError as error:
        state.plan_problem = f"{error}."[:1].upper() + f"{error}."[1:]
        return
    state.plan_search = replace(state.plan_search, settings=settings)
    state.plan_through, state.plan_avoid = settings.through, " ".join(settings.avoid)


def chosen_settings() -> PlanSettings:
    """Return the settings of this visitor's search."""
    settings: PlanSettings = st.session_state.plan_search.settings
    return settings


def use_step(reaction: str) -> None:
    """Use only this step to make its product; a callback for buttons."""
    chosen, product = chosen_settings(), reaction.partition(">>")[2]
    others = tuple(step for step in chosen.only if step.partition(">>")[2] != product)
    _change_choices(only=(*others, reaction), without=tuple(step for step in chosen.without if step != reaction))


def drop_step(reaction: str) -> None:
    """Leave out a step; a callback for buttons."""
    chosen = chosen_settings()
    only = tuple(step for step in chosen.only if step != reaction)
    _change_choices(only=only, without=(*chosen.without, reaction))


def _start_search() -> None:
    _forget_stop()
    _new_search()


def _use_example(smiles: str) -> None:
    BOX.set_text(smiles)
    _start_search()


def _choose_constraints(search: SearchRequest) -> None:
    """Draw what every route must contain, and what no step may form or need."""
    marked, chosen = _kept_bonds(search), search.settings
    count = len(marked) + bool(chosen.through) + len(chosen.avoid)
    with st.popover("Constraints" + f" ({count})" * bool(count)):
        st.text_input(
            "Through this intermediate (SMILES or name)",
            key="plan_through",
            on_change=_constraints_typed,
            help="It may be a building block, too. Without stereochemistry, any stereoisomer counts.",
        )
        st.text_input(
            "Without this substructure (SMARTS)",
            key="plan_avoid",
            max_chars=constraints.MAX_PATTERNS * (constraints.MAX_CHARS + 1),
            on_change=_constraints_typed,
            placeholder="[N+](=O)[O-]",
            help="No intermediate or building block has it; the target may. Up to five, with blanks between them.",
        )
        bond_picker.show_bond_picker(
            search.target,
            ((), tuple(marked)),
            key="plan_bonds",
            on_change=_bonds_marked,
            kinds=("keep",),
            hint="Click a bond to keep: no step will form it.",
        )


def _constraints_typed() -> None:
    state = st.session_state
    if state.plan_search:
        _change_choices(through=state.plan_through.strip(), avoid=tuple(state.plan_avoid.split()))
        state.plan_stopped = None


def _bonds_marked(target: str, marks: bond_picker.Marks) -> None:
    state = st.session_state
    if state.plan_search and target == state.plan_search.target:
        offered = bonds_by_name(target)
        _change_choices(keep=tuple(offered[name] for name in marks[1] if name in offered))
        state.plan_stopped = None


def _choose_limits() -> PlanSettings:
    keep: Any = {"persist_state": "session"}
    with st.popover("Limits"):
        seconds = st.number_input("Time, in seconds", 5, 3600, step=5, key="plan_seconds", **keep)
        expansions = st.number_input("Molecules expanded", 1, 5000, step=10, key="plan_expansions", **keep)
        depth = st.number_input("Longest sequence, in steps", 1, 12, key="plan_depth", **keep)
    return PlanSettings(seconds=float(seconds), expansions=int(expansions), depth=int(depth))
