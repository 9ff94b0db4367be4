"""Warm-up while the server starts: modules, models, tables of names and stock."""

import gc
import os
from threading import Thread


def start_warm_up() -> Thread | None:
    """Start the warm-up in the background, unless CHEMSPEC_WARM_UP=0."""
    if os.environ.get("CHEMSPEC_WARM_UP", "1") == "0":
        return None
    thread = Thread(target=load_first_page, daemon=True, name="warm up")
    thread.start()
    return thread


def load_first_page() -> None:
    """Load everything that the first prediction needs, and use it once."""
    # Here, so that the server is there before all of it is imported.
    from chemspec import tasks
    from chemspec.chem import formats, parsing
    from chemspec.chem.names.short_names import split_drawn_and_named
    from chemspec.depict.schemes import scheme_sides
    from chemspec.plan import stock
    from chemspec.precedents import installed_if_usable
    from chemspec.review import suggestions
    from chemspec.review.forward_check import MAX_NEAREST
    from chemspec.ui.common import queued_engine, stock_menu
    from chemspec.ui.predict import gallery, query_view

    loading = queued_engine.warm_up_models()  # a thread of its own
    parsing.APART.start()
    have = stock_menu.built_in_stock(stock.BUILT_IN)
    index = installed_if_usable()
    for task in tasks.about_molecules():
        result = gallery.recorded_answer(task)
        formats.read_any("aniline, K2CO3", task=task)
        query_view.describe_query(result.query)
        for card in suggestions.group_answers(task, result.query, result)[:1]:
            left, right = (result.query, card.best.canonical)[:: 1 if task == "forward" else -1]
            split_drawn_and_named(left.split("."))
            stock.stock_marks(left, have)
            scheme_sides(left, right, card.step)
            if index:
                index.find(left, right, n=MAX_NEAREST)
    if loading.is_alive():
        loading.join()
    # Streamlit collects garbage after every run of a script: a third of a server's time under load, were it to go
    # through all that stays loaded anyway.
    gc.collect()
    gc.freeze()
