"""What can be made from an inventory, on the page Your chemistry."""

from collections.abc import Sequence
from typing import Any

import streamlit as st
from streamlit import column_config as column

from chemspec.chem import formats
from chemspec.plan import cupboard
from chemspec.plan.cupboard import Bottle, Kind, Made
from chemspec.review.suggestions import format_percent
from chemspec.ui.batch.job_view import molecule_cell, table_with_drawings
from chemspec.ui.common import escaping, nav, queued_engine, stock_menu

SHOWN = 30  # products in the table
EXAMPLE = "name,location,amount,ordered\n4-bromoanisole,B3,40 g,2024\nphenylboronic acid,Freezer 2,5 g,2025\n"


def show_making() -> None:
    """Draw the form and the products."""
    stock = stock_menu.visitor_stock()
    have = cupboard.bottles(stock) if stock.on_shelf else ()
    st.markdown(
        "Drop the lab's inventory once, under **Stock**: a table or SDF with any headings, one of them a location. "
        "Then every page says *here: B3 · 40 g*, and this one what you can make from it."
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        stock_menu.show_stock_menu("secondary")
        if have:
            st.caption(f"{len(have):,} molecules on your shelves.")
        else:
            name, about = "inventory.csv", "Download an example inventory"
            st.download_button(about, EXAMPLE, name, "text/csv", on_click="ignore", type="tertiary")
    if not have:
        st.info("There is no inventory yet. Its molecules are looked up on this computer and sent nowhere.")
        return
    counts = {kind.name: (kind, numbers) for kind, *numbers in _counted(have)}
    if not counts:
        st.warning("No two of these molecules fit one of the kinds of reactions that are known here.")
        return
    with st.form("own_make", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox(
            "Kind of reaction", [*counts], format_func=lambda each: _describe(*counts[each]), key="own_kind"
        )
        using = st.text_input("With this molecule (optional)", placeholder="SMILES or name", key="own_using", width=260)
        if st.form_submit_button("What can I make?", type="primary"):
            st.session_state.own_asked = (name, using)
    if chosen := st.session_state.get("own_asked"):
        _show_products(counts[chosen[0]][0] if chosen[0] in counts else None, chosen[1], have)


def _counted(have: Sequence[Bottle]) -> Any:
    return queued_engine.session_cached("_own_counts", tuple(have), lambda: cupboard.count_pairs(have), most=3)


def _describe(kind: Kind, numbers: Sequence[int]) -> str:
    first, second, pairs = numbers
    of = f"{first} × {kind.partners[0]}, {second} × {kind.partners[1]}"
    return f"{kind.title}: {pairs:,} pair{'s' * (pairs != 1)} ({of})"


def _show_products(kind: Kind | None, using: str, have: Sequence[Bottle]) -> None:
    read = formats.read_input(using, task="retro") if using.strip() else None
    if read is not None and not isinstance(read, formats.Input):
        st.error(f"The molecule cannot be read: {escaping.plain_text(read.message)}.")
        return
    engine = queued_engine.find_engine("forward")
    if kind is None or engine is None:
        return
    pairs = cupboard.find_pairs(kind, have, read.smiles if read else "")
    if not pairs:
        st.warning("That molecule is in no pair of this kind: it is not on your shelves, or has no one place to react.")
        return
    tried = cupboard.choose_pairs(pairs)

    def predict() -> list[Made]:
        bar = st.progress(0.0, f"{len(tried)} pairs")
        stock = stock_menu.visitor_stock()

        def report(done: int, total: int) -> None:
            bar.progress(done / total, f"{done} of {total} pairs")

        made = cupboard.make(kind, tried, engine, stock, progress=report)
        bar.empty()
        return made

    key = (kind.name, tuple(pairs), engine.full_digest)
    made = queued_engine.session_cached("_own_made", key, predict, most=10)
    of = f"{len(tried):,} random ones of " * (len(tried) < len(pairs)) + f"{len(pairs):,} pair{'s' * (len(pairs) != 1)}"
    st.subheader(f"{len(made):,} product{'s' * (len(made) != 1)} of {of}", anchor=False)
    _show_table(made)


def _show_table(made: Sequence[Made]) -> None:
    rows = [
        {
            "product": molecule_cell("retro", item.product, 205),
            "probability": format_percent(item.probability),
            "first": molecule_cell("retro", item.pair[0].smiles, 165),
            "second": molecule_cell("retro", item.pair[1].smiles, 165),
            "place": " + ".join(bottle.shelf or "?" for bottle in item.pair),
            "problems": "; ".join(item.problems),
            "stock": item.mark,
            "smiles": item.product,
        }
        for item in made[:SHOWN]
    ]
    columns = {
        "product": column.ImageColumn("Product", width=205),
        "probability": column.TextColumn("Probability", width=90),
        "first": column.ImageColumn("From", width=165),
        "second": column.ImageColumn("and", width=165),
        "place": column.TextColumn("Where they are", width=230),
        "problems": column.TextColumn("Against it", width=260),
        "stock": column.TextColumn("The product itself", width=150),
        "smiles": column.TextColumn("SMILES", width=240),
    }
    if not rows:
        st.info("The model predicts another product for each of these pairs.")
        return
    alt = "Products of pairs"
    event = table_with_drawings(rows, columns, alt, on_select="rerun", selection_mode="single-row", key="own_table")
    with st.container(horizontal=True, vertical_alignment="center"):
        picked = [made[row] for row in event.selection.rows if row < len(made)]
        if picked and st.button("Open in Predict", key="own_open", type="primary"):
            nav.open_page("predict", task="forward", smi=picked[0].flask)
        text = cupboard.rows_as_csv(cupboard.made_rows(made))
        st.download_button(f"CSV of all {len(made):,}", text, "products.csv", "text/csv", on_click="ignore",
                           icon=":material/download:")  # fmt: skip
    st.caption(
        "Products by the forward model with the usual reagents of the kind, those without problems first, then by "
        "probability: how often products with this score were right, not a yield. Only molecules with one place to "
        "react are paired. Tick a row to open its flask in Predict."
    )
