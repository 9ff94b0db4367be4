"""The menu of options: model, search, number of predictions, drafts."""

from collections.abc import Sequence

import streamlit as st

from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings, Task
from chemspec.ui.common import queued_engine
from chemspec.ui.common.widgets import offered_choice

MAX_SPELLINGS = 20  # as many as root-aligned SMILES was tested with
GUARANTEES = {
    "exact": "**Exact**: the same answers as standard decoding.",
    "exact in distribution": "**Exact in distribution**: samples follow the same distribution as standard "
    "sampling; a given seed gives different samples.",
    "relaxed": "**Relaxed**: the drafts can change the answers.",
}
DEFAULT_ANSWERS = 5  # the default number
DEFAULTS = {"predict_n": DEFAULT_ANSWERS, "predict_max_len": 200, "predict_augment": 1}  # of widgets by their keys
SEARCH_NOTES = ("answers left out", "searched ")  # beginnings of notes that stand in files only
SEARCH_WIDTH = 20  # answers that are searched for ideas: several are often one idea


def show_options(task: Task) -> tuple[str, DecodeSettings, int]:
    """Draw the options; return the model's name (empty if there is none), the settings, and how many cards to show."""
    names = queued_engine.model_names(task)
    for key, value in DEFAULTS.items():  # Streamlit warns of a widget with a default that a `chemspec:` text has set
        st.session_state.setdefault(key, value)
    with st.popover("Options", type="tertiary"):
        model = names[0] if names else ""
        if len(names) > 1:
            model = offered_choice("Model", {name: name for name in names}, key=f"predict_model_{task}")
        offered = queued_engine.usable_drafters(model)
        search = offered_choice("Search", decoder_labels(offered), key="predict_search")
        greedy = search == "greedy"
        count = st.number_input(
            ("Products" if task == "forward" else "Strategies") + (" (greedy search gives one)" if greedy else ""),
            1,
            queued_engine.MAX_ANSWERS,
            key="predict_n",
            persist_state="session",
            disabled=greedy,
        )
        drafter = offered_choice("Drafts", drafter_labels(search, offered), key="predict_drafter")
        longest = st.slider(
            "Longest answer, in tokens", 20, 400, step=20, key="predict_max_len", persist_state="session"
        )
        augment = st.number_input(
            "SMILES augmentation (slower, more accurate)",
            1,
            MAX_SPELLINGS,
            key="predict_augment",
            persist_state="session",
            help="Number of SMILES variants of the query; their predictions are merged by rank and frequency. "
            "Time grows in proportion.",
        )
        settings = DecodeSettings(
            decoder=search,
            n=1 if greedy else search_width(task, int(count)),
            drafter=drafter,
            max_len=longest,
            augment=int(augment),
            distinct=True,
        )
        st.caption(GUARANTEES[settings.guarantee])
    return model, settings, int(count)


def search_width(task: Task, cards: int) -> int:
    """Return how many answers are searched for a number of cards: several precursors are often one strategy."""
    return cards if task == "forward" else min(queued_engine.MAX_ANSWERS, max(SEARCH_WIDTH, 2 * cards))


def decoder_labels(drafters: Sequence[str]) -> dict[str, str]:
    """Return the menu labels of the decoders that a model with these drafters can use, by name."""
    return {
        spec.name: f"{spec.label}: {spec.about}"
        for spec in DECODERS.values()
        if spec.default_drafter == "auto" or spec.default_drafter in drafters
    }


def drafter_labels(decoder: str, drafters: Sequence[str]) -> dict[str, str]:
    """Return the menu labels of the drafters that work with a decoder, by name."""
    sampled = DECODERS[decoder].drafts == "sampled"
    return {
        spec.name: spec.title
        for spec in DRAFTERS.values()
        if spec.name in drafters and (not sampled or spec.name == "auto" or spec.build_sampled is not None)
    }
