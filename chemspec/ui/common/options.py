"""How to answer: model, search, number of answers, drafts; tucked away, with defaults that most people keep."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from chemspec.engine.engine import MAX_CHARS, MAX_TOKENS
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings, Task
from chemspec.ui.common import queued_engine

MOST_SPELLINGS = 20  # as many as root-aligned SMILES was tested with
GUARANTEES = {
    "exact": "**Exact**: the answers are those of the standard algorithm, whatever the drafts.",
    "exact in distribution": "**Exact in distribution**: every answer is as probable as in standard sampling; "
    "the draws of a seed are others.",
    "relaxed": "**Relaxed**: the drafts can change the answers.",
}
PRECISIONS = {
    "int8": "int8: half again as fast, and as accurate by the model's card",
    "fp32": "fp32: as the model was trained",
}
ANSWERS = 5  # asked for unless changed
WIDE = 20  # answers that are searched for ideas: several are often one idea


def options(task: Task) -> tuple[str, DecodeSettings, int]:
    """Draw the options; return the model's name (empty if there is none), the settings, and how many cards to show."""
    names = queued_engine.models(task)
    with st.popover("Options", type="tertiary"):
        model = names[0] if names else ""
        wanted = st.session_state.get("predict_model", "")
        if len(names) > 1:
            chosen = names.index(wanted) if wanted in names else 0
            model = st.selectbox("Model", names, index=chosen, key=f"predict_model_{task}")
        _precision(model)
        offered, missing = queued_engine.drafters(model)
        search = _select("Search", searches(offered), "predict_search")
        greedy = search == "greedy"
        count = st.number_input(
            ("Products" if task == "forward" else "Strategies") + (" (greedy search gives one)" if greedy else ""),
            1,
            queued_engine.MOST_ANSWERS,
            ANSWERS,
            key="predict_n",
            persist_state="session",
            disabled=greedy,
        )
        drafter = _select("Drafts", drafts(search, offered), "predict_drafter")
        if missing:
            st.caption(missing)
        longest = st.slider(
            "Longest answer, in tokens", 20, 400, 200, 20, key="predict_max_len", persist_state="session"
        )
        augment = st.number_input(
            "Ways of writing the query to try (slower, better)",
            1,
            MOST_SPELLINGS,
            1,
            key="predict_augment",
            persist_state="session",
            help="With more than one, each spelling is answered for itself and the answers are merged by rank and "
            "frequency. Takes as many times longer.",
        )
        wide = int(count) if task == "forward" else min(queued_engine.MOST_ANSWERS, max(WIDE, 2 * int(count)))
        settings = DecodeSettings(
            decoder=search,
            n=1 if greedy else wide,
            drafter=drafter,
            max_len=longest,
            augment=int(augment),
            distinct=True,
        )
        st.caption(GUARANTEES[settings.guarantee])
        if settings.augment > 1:
            st.caption("**Merged**: that holds for each spelling; the list is made of all of them.")
        st.caption(
            f"Limits: queries of {MAX_CHARS:,} characters and {MAX_TOKENS} tokens, "
            f"{queued_engine.MOST_ANSWERS} answers."
        )
    return model, settings, int(count)


def _precision(model: str) -> None:
    """Let the visitor choose what the model computes in, where that was measured."""
    offered = queued_engine.precisions(model) if model else ("fp32",)
    if len(offered) > 1:
        _select("Precision", {name: PRECISIONS[name] for name in offered}, queued_engine.PRECISION)


def searches(drafters: Sequence[str]) -> dict[str, str]:
    """Return the menu's line for every decoder that a model with these drafters can use, by name."""
    return {
        spec.name: f"{spec.label}: {spec.about}"
        for spec in DECODERS.values()
        if spec.default_drafter == "auto" or spec.default_drafter in drafters
    }


def drafts(decoder: str, drafters: Sequence[str]) -> dict[str, str]:
    """Return the menu's line for every one of these drafters that can draft for a decoder, by name."""
    sampled = DECODERS[decoder].drafts == "sampled"
    return {
        spec.name: spec.title
        for spec in DRAFTERS.values()
        if spec.name in drafters and (not sampled or spec.name == "auto" or spec.build_sampled is not None)
    }


def _select(label: str, labels: dict[str, str], key: str) -> str:
    if st.session_state.get(key) not in (None, *labels):
        del st.session_state[key]  # chosen for another model or search, and not to be had here
    return str(
        st.selectbox(label, list(labels), format_func=lambda name: labels[name], key=key, persist_state="session")
    )
