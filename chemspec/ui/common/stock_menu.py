"""The stock of building blocks that a visitor chose on any page: built-in lists and an uploaded list."""

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import streamlit as st

from chemspec.chem.building_blocks import MAX_ATOMS
from chemspec.jobs import uploads
from chemspec.plan import stock as lists
from chemspec.plan.stock import PriceList, Stock
from chemspec.ui.common import escaping

_LISTS, _OWN = "stock_lists", "stock_own"  # where a session keeps the choice
EXAMPLE = "smiles,price,currency,amount,supplier\nNc1ccccc1,12.50,EUR,g,Example Chemicals\n"


class OwnList(NamedTuple):
    """An uploaded list."""

    name: str
    prices: PriceList
    stock: Stock


@st.cache_resource(show_spinner=False)
def built_in_stock(names: tuple[str, ...]) -> Stock:
    """Return the lists of these names."""
    return lists.load_stock(names) if names else Stock({})


def visitor_lists() -> tuple[tuple[str, ...], OwnList | None]:
    """Return the names of the built-in lists that the visitor chose, and the visitor's own list."""
    names = tuple(st.session_state.get(_LISTS, lists.BUILT_IN))
    return names if set(names) - {lists.INTERMEDIATES} else (), st.session_state.get(_OWN)


def visitor_stock() -> Stock:
    """Return what the visitor can buy; a molecule in several lists counts as one of the visitor's own."""
    names, uploaded = visitor_lists()
    listed = built_in_stock(names)
    return (
        replace(listed, lists={**uploaded.stock.lists, **listed.lists}, offers=uploaded.stock.offers)
        if uploaded
        else listed
    )


def show_stock_menu(look: Literal["secondary", "tertiary"] = "tertiary") -> None:
    """Draw the choice of lists, and the upload of a list with its unread lines, behind a button of this `look`."""
    with st.popover("Stock", type=look):
        st.multiselect("Lists", lists.CHOICES, lists.BUILT_IN, key=_LISTS, persist_state="session")
        st.caption(
            "common: what nearly every catalogue sells; paroutes: what routes in patents started from (Apache-2.0). "
            f"Of the latter, molecules above {MAX_ATOMS} heavy atoms or with unusual protecting groups are marked as "
            f"patent intermediates, and count as stock only with {lists.INTERMEDIATES}. Most of what can be bought is "
            "in none of these lists."
        )
        st.file_uploader(
            "Your own list: CSV, TSV, XLSX, SMI or TXT, also gzipped",
            type=["csv", "tsv", "xlsx", "smi", "txt", "gz"],
            max_upload_size=uploads.MAX_STOCK_MB,
            key="stock_file",
            on_change=_read_uploaded_list,
        )
        st.caption(
            "One molecule per line: SMILES, name or InChIKey. A table has a header; price, currency, amount and "
            "supplier are optional. It is kept for this tab only."
        )
        st.download_button("Download an example", EXAMPLE, "prices.csv", "text/csv", on_click="ignore", type="tertiary")
        if fault := st.session_state.get("stock_fault"):
            st.error(escaping.plain_text(fault))
        if uploaded := visitor_lists()[1]:
            _show_own_list(uploaded)


def _show_own_list(uploaded: OwnList) -> None:
    offers, faults = uploaded.prices.offers, uploaded.prices.faults
    priced = sum(offer.price is not None for offer in offers.values())
    st.markdown(f"**{escaping.plain_text(uploaded.name)}**: {len(offers):,} molecules, {priced:,} with a price")
    if faults:
        st.warning("Not read:\n\n" + "\n".join(f"- {escaping.plain_text(fault)}" for fault in faults))
    if st.button("Remove this list", key="stock_forget"):
        del st.session_state[_OWN]
        st.rerun()


def _read_uploaded_list() -> None:
    state = st.session_state
    file: Any = state.get("stock_file")
    state.stock_fault = ""
    if file is None:
        return
    name = file.name[-60:].replace("/", "_")
    try:
        with st.spinner("Reading the list …"):
            state[_OWN] = read_own_list(file.getvalue(), name)
    except ValueError as error:
        state.stock_fault = str(error) if name in str(error) else f"{name}: {error}"


def read_own_list(raw: bytes, name: str) -> OwnList:
    """Return an uploaded list, read by a process with limits; raises ValueError if it cannot."""
    prices = msgspec.json.decode(uploads.read_stock(raw, name), type=PriceList)
    keys = np.unique(np.array([*prices.offers], dtype="S27"))
    return OwnList(name, prices, Stock({name: keys}, prices.offers))
