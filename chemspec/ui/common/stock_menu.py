"""The stock of building blocks that a visitor chose: built-in lists and an uploaded price list."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import streamlit as st

from chemspec.jobs import uploads
from chemspec.plan import stock as lists
from chemspec.plan.stock import PriceList, Stock
from chemspec.ui.common import escaping

_LISTS, _OWN = "stock_lists", "stock_own"  # where a session keeps the choice
EXAMPLE = "smiles,price,currency,amount,supplier\nNc1ccccc1,12.50,EUR,g,Example Chemicals\n"


@st.cache_resource(show_spinner=False)
def built_in_stock(names: tuple[str, ...]) -> Stock:
    """Return the lists of these names."""
    return lists.load_stock(names) if names else Stock({})


def visitor_lists() -> tuple[tuple[str, ...], PriceList | None]:
    """Return the names of the built-in lists that the visitor chose, and the visitor's own price list."""
    state = st.session_state
    return tuple(state.get(_LISTS, lists.BUILT_IN)), state.get(_OWN, (None, None))[1]


def visitor_stock() -> Stock:
    """Return what the visitor can buy."""
    names, price_list = visitor_lists()
    listed = built_in_stock(names)
    return Stock(listed.lists, price_list.offers) if price_list else listed


def show_stock_menu() -> None:
    """Draw the choice of lists, and the upload of a price list with its unread lines."""
    state = st.session_state
    with st.popover("Stock", type="tertiary"):
        st.multiselect("Lists", lists.BUILT_IN, lists.BUILT_IN, key=_LISTS, persist_state="session")
        st.caption(
            "common: what nearly every catalogue sells; paroutes: building blocks of routes in patents (Apache-2.0). "
            "Most of what can be bought is in none of them."
        )
        st.file_uploader(
            "Your own price list (CSV, TSV or XLSX)",
            type=["csv", "tsv", "xlsx", "gz"],
            max_upload_size=uploads.MAX_STOCK_MB,
            key="stock_file",
            on_change=_read_uploaded_list,
        )
        st.caption(
            "A header, then one molecule per line: SMILES, name or InChIKey; price, currency, amount and supplier are "
            "optional. It is kept for this tab only."
        )
        st.download_button("Download an example", EXAMPLE, "prices.csv", "text/csv", on_click="ignore", type="tertiary")
        if fault := state.get("stock_fault"):
            st.error(escaping.plain_text(fault))
        if uploaded := state.get(_OWN):
            _show_price_list(*uploaded)


def _show_price_list(name: str, price_list: PriceList) -> None:
    priced = sum(offer.price is not None for offer in price_list.offers.values())
    st.markdown(f"**{escaping.plain_text(name)}**: {len(price_list.offers):,} molecules, {priced:,} with a price")
    show_unread_lines(price_list.faults)
    if st.button("Remove this list", key="stock_forget"):
        del st.session_state[_OWN]
        st.rerun()


def show_unread_lines(faults: Sequence[str]) -> None:
    """Warn of the lines of a price list that are not read, if there are any."""
    if faults:
        st.warning("Not read:\n\n" + "\n".join(f"- {escaping.plain_text(fault)}" for fault in faults))


def _read_uploaded_list() -> None:
    state = st.session_state
    file: Any = state.get("stock_file")
    state.stock_fault = ""
    if file is None:
        return
    raw, name = file.getvalue(), file.name[-60:].replace("/", "_")
    try:
        with st.spinner("Reading the price list …"):
            price_list = read_price_list(raw, name)
    except ValueError as error:
        state.stock_fault = f"{name} cannot be used: {error}"
        return
    if not price_list.offers:
        state.stock_fault = f"{name} cannot be used: none of its {price_list.lines:,} lines is a molecule"
        return
    state[_OWN] = (name, price_list)


def read_price_list(raw: bytes, name: str) -> PriceList:
    """Return the offers of an uploaded price list, read by a process with limits; raises ValueError if it cannot."""
    return msgspec.json.decode(uploads.read_stock(raw, name, uploads.PRICES), type=PriceList)


def read_own_stock(raw: bytes, name: str) -> tuple[Stock, tuple[str, ...]]:
    """Return an uploaded list of building blocks, and messages on the invalid lines if it is a price list."""
    content = uploads.read_stock(raw, name, uploads.STOCK)
    if content.startswith(b"["):
        return Stock({name: np.array(msgspec.json.decode(content, type=list[str]), dtype="S27")}), ()
    priced = msgspec.json.decode(content, type=PriceList)
    return Stock({name: np.unique(np.array([*priced.offers], dtype="S27"))}, priced.offers), priced.faults
