"""What the first visitor would wait for, done while the server starts: modules, models, tables of names and stock."""

from __future__ import annotations

import gc
import os
from threading import Thread


def start() -> Thread | None:
    """Begin in the background; a visitor who comes before the end waits for what is missing. CHEMSPEC_WARM_UP=0: no."""
    if os.environ.get("CHEMSPEC_WARM_UP", "1") == "0":
        return None
    thread = Thread(target=work, daemon=True, name="warm up")
    thread.start()
    return thread


def work() -> None:
    """Load all that a first question on Predict needs, and use it once."""
    # Here, so that the server is there before all of it is imported.
    from chemspec import tasks
    from chemspec.chem import formats, parsing
    from chemspec.chem.names.short_names import split_drawn_and_named
    from chemspec.plan import stock
    from chemspec.ui.common import buyable, queued_engine
    from chemspec.ui.predict import gallery, precedents, schemes, understood, verdicts

    loading = queued_engine.warm_up()  # a thread of its own
    parsing.APART.start()
    have = buyable.built_in(stock.BUILT_IN)
    index = precedents.index()
    for task in tasks.about_molecules():
        result = gallery.recorded(task)
        formats.read_any("aniline, K2CO3", task=task)
        understood.in_words(result.query)
        for card in verdicts.cards(task, result.query, result)[:1]:
            left, right = (result.query, card.best.canonical)[:: 1 if task == "forward" else -1]
            split_drawn_and_named(left.split("."))
            buyable.marks(left, have)
            schemes.sides(left, right, card.change)
            if index:
                index.find(left, right, n=precedents.NEAREST)
    if loading.is_alive():
        loading.join()
    # Streamlit collects garbage after every run of a script: a third of a server's time under load, were it to go
    # through all that stays loaded anyway.
    gc.collect()
    gc.freeze()
