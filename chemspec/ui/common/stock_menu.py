"""The stock of building blocks that a visitor chose on any page: lists of the lab, built-in lists, an uploaded list."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import streamlit as st

from chemspec.jobs import uploads
from chemspec.stock import lists
from chemspec.stock.building_blocks import MAX_ATOMS
from chemspec.stock.lists import Stock
from chemspec.stock.offers import KINDS, TEXTS, PriceList
from chemspec.system.files import write_bytes_atomic
from chemspec.system.lab_files import lab_files, lab_folder
from chemspec.ui.common import escaping
from chemspec.ui.common.login import is_local_only

LIST_TYPES = [ending.removeprefix(".") for ending in (*KINDS, *TEXTS)]  # endings of lists of one's own
_LISTS, OWN = "stock_lists", "stock_own"  # where a session keeps the choice
EXAMPLE = "smiles,price,currency,amount,supplier\nNc1ccccc1,12.50,EUR,g,Example Chemicals\n"


class OwnList(NamedTuple):
    """An uploaded list."""

    name: str
    prices: PriceList
    stock: Stock


@st.cache_resource(show_spinner=False)
def cached_stock(stamped: tuple[tuple[str, tuple[int, int]], ...]) -> Stock:
    """Load lists once for all sessions, until their files change."""
    return lists.load_usable_stock([name for name, _ in stamped])


def stock_of_lists(names: tuple[str, ...]) -> Stock:
    """Return the lists of these names, read again only after a change of one of them."""
    return cached_stock(lists.list_stamps(names)) if names else Stock({})


def visitor_lists() -> tuple[tuple[str, ...], OwnList | None]:
    """Return the names of the lists that the visitor chose, and the visitor's own list."""
    there = {*lists.CHOICES, *lab_files("stock")}  # a list may have been removed meanwhile
    names = tuple(name for name in st.session_state.get(_LISTS, lists.default_lists()) if name in there)
    return names if set(names) - {lists.INTERMEDIATES} else (), st.session_state.get(OWN)


def choose_lists(names: Sequence[str]) -> list[str]:
    """Choose the lists of these names, those by default if there is none; return which are missing here."""
    there = {*lists.CHOICES, *lab_files("stock")}
    if chosen := [name for name in names if name in there]:
        st.session_state[_LISTS] = chosen
    return [f"stock {name}" for name in names if name not in there]


def visitor_stock() -> Stock:
    """Return what the visitor can buy; a molecule in several lists counts as one of the visitor's own."""
    names, uploaded = visitor_lists()
    listed = stock_of_lists(names)
    if not uploaded:
        return listed
    offers = lists.merge_offers(listed.offers, uploaded.stock.offers)
    return replace(listed, lists={**uploaded.stock.lists, **listed.lists}, offers=offers)


def show_stock_menu(look: Literal["secondary", "tertiary"] = "tertiary") -> None:
    """Draw the choice of lists, and the upload of a list with its unread lines, behind a button of this `look`."""
    with st.popover("Stock", type=look):
        of_lab = lab_files("stock")
        st.multiselect(
            "Lists",
            [*of_lab, *lists.CHOICES],
            lists.default_lists(),
            key=_LISTS,
            persist_state="session",
            format_func=lambda name: of_lab[name].label if name in of_lab else name,
        )
        st.caption(
            "common: what nearly every catalogue sells; paroutes: what routes in patents started from (Apache-2.0). "
            f"Of the latter, molecules above {MAX_ATOMS} heavy atoms or with unusual protecting groups are marked as "
            f"patent intermediates, and count as stock only with {lists.INTERMEDIATES}. Most of what can be bought is "
            "in none of these lists."
        )
        st.file_uploader(
            f"Your own list: {', '.join(LIST_TYPES).upper()}, also gzipped",
            type=[*LIST_TYPES, "gz"],
            max_upload_size=uploads.MAX_STOCK_MB,
            key="stock_file",
            on_change=read_uploaded_list,
        )
        st.caption(
            "One molecule per line: SMILES, name, CAS number or InChIKey. A table has a header; price, currency, "
            "amount, supplier and, for an inventory, location and date are optional. Lines at the top such as "
            "# title: Freezer, # currency: EUR and # date: 2026-11-01 say more."
        )
        if is_local_only():  # lists that are kept are everybody's
            st.checkbox(
                "Keep this list",
                key="stock_keep",
                on_change=_keep_uploaded_list,
                help=f"Store it in {lab_folder('stock')}, where every page, the command line and the service find it. "
                "Otherwise it is kept for this tab only.",
            )
        else:
            st.caption("It is kept for this tab only.")
        st.download_button("Download an example", EXAMPLE, "prices.csv", "text/csv", on_click="ignore", type="tertiary")
        if fault := st.session_state.get("stock_fault"):
            st.error(escaping.plain_text(fault))
        if uploaded := visitor_lists()[1]:
            _show_own_list(uploaded)


def _keep_uploaded_list() -> None:
    """Move the uploaded list to the lab's folder, where it is a list like others."""
    state, file = st.session_state, st.session_state.get("stock_file")
    uploaded: OwnList | None = state.get(OWN)
    if not (state.get("stock_keep") and file is not None and uploaded and is_local_only()):
        return
    try:
        name = keep_list(file.getvalue(), uploaded.name)
    except OSError as error:
        state.stock_fault = f"{uploaded.name} cannot be kept: {error.strerror or error}"
        return
    state[_LISTS] = [*dict.fromkeys([*state.get(_LISTS, lists.default_lists()), name])]
    del state[OWN]


def keep_list(raw: bytes, name: str) -> str:
    """Store a list in the lab's folder, under another name if there is one of this name; returns its name there."""
    folder = lab_folder("stock")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    stem, dot, endings = re.sub(r"[^\w.+-]", "_", name).strip("._-+").partition(".")
    for number in count(1):
        path = folder / f"{stem or 'list'}{f'-{number}' if number > 1 else ''}{dot}{endings}"
        if not path.exists() or path.read_bytes() == raw:
            break
    write_bytes_atomic(path, raw, private=True)
    return path.name


def _show_own_list(uploaded: OwnList) -> None:
    offers, faults = uploaded.prices.offers, uploaded.prices.faults
    priced = sum(offer.price is not None for offer in offers.values())
    st.markdown(f"**{escaping.plain_text(uploaded.name)}**: {len(offers):,} molecules, {priced:,} with a price")
    if faults:
        st.warning("Not read:\n\n" + "\n".join(f"- {escaping.plain_text(fault)}" for fault in faults))
    if st.button("Remove this list", key="stock_forget"):
        del st.session_state[OWN]
        st.rerun()


def read_uploaded_list() -> None:
    """Put an uploaded list into the session."""
    state = st.session_state
    file: Any = state.get("stock_file")
    state.stock_fault = ""
    if file is None:
        return
    name = file.name[-60:].replace("/", "_")
    try:
        with st.spinner("Reading the list …"):
            state[OWN] = read_own_list(file.getvalue(), name)
        _keep_uploaded_list()
    except ValueError as error:
        state.stock_fault = str(error) if name in str(error) else f"{name}: {error}"


def read_own_list(raw: bytes, name: str) -> OwnList:
    """Return an uploaded list, read by a process with limits; raises ValueError if it cannot."""
    prices = msgspec.json.decode(uploads.read_stock(raw, name), type=PriceList)
    keys = np.array(sorted(prices.offers), dtype="S27")
    return OwnList(name, prices, Stock({name: keys}, prices.offers))
