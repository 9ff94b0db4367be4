"""How to answer: model, search, number of answers, drafts; tucked away, with defaults that most people keep."""

from __future__ import annotations

from collections.abc import Container

import streamlit as st

from chemspec.engine.engine import MAX_CHARS, MAX_TOKENS
from chemspec.settings import SAMPLED_DECODERS, SAMPLING_DRAFTERS, DecodeSettings, Task
from chemspec.ui.common import queued_engine

SEARCH = {
    "beam": "Beam search: the most probable answers",
    "greedy": "Greedy: one answer, fastest",
    "sample": "Sampling: random draws",
    "speculative-sample": "Speculative sampling: random draws with a small model's help",
    "sbs": "Speculative beam search of Andronov et al. (relaxed)",
    "sampled-beam": "Sampled beams of Tulsian et al. (relaxed)",
}
DRAFTS = {
    "auto": "auto: as many drafts as pay on this machine",
    "mixed": "mixed: copying and learned phrases in one tree",
    "copy": "copy: the text after the best match in the query",
    "attention": "attention: the text after the place the model looks at",
    "smart": "smart: several matches in the query at once",
    "windows": "windows: evenly spaced pieces of the query",
    "ar": "ar: what a small model writes",
    "hierarchy": "hierarchy: a medium model, helped by a small one",
    "spec_drafter": "spec_drafter: a model that fills many tokens at once",
    "blockwise": "blockwise: extra heads on the model",
    "medusa": "medusa: extra heads, checked as a tree",
    "none": "none: the standard way",
}
MOST_SPELLINGS = 20  # as many as root-aligned SMILES was tested with
GUARANTEES = {
    "exact": "**Exact**: the answers are those of the standard algorithm, whatever the drafts.",
    "exact in distribution": "**Exact in distribution**: every answer is as probable as in standard sampling; the draws "
    "of a seed are others.",
    "relaxed": "**Relaxed**: the drafts can change the answers.",
}
ANSWERS = 5  # asked for unless changed: a product is often among them in several spellings


def options(task: Task) -> tuple[str, DecodeSettings]:
    """The model's name (empty if there is none) and the settings."""
    names = queued_engine.models(task)
    with st.popover("Options"):
        model = names[0] if names else ""
        wanted = st.session_state.get("predict_model", "")
        if len(names) > 1:
            chosen = names.index(wanted) if wanted in names else 0
            model = st.selectbox("Model", names, index=chosen, key=f"predict_model_{task}")
        searches = SEARCH if "ar" in queued_engine.drafters(model)[0] else _without(SEARCH, SAMPLED_DECODERS)
        search = _select("Search", searches, "predict_search")
        greedy = search == "greedy"
        count = st.number_input(
            "Answers" + (" (greedy search gives one)" if greedy else ""),
            1,
            queued_engine.MOST_ANSWERS,
            ANSWERS,
            key="predict_n",
            persist_state="session",
            disabled=greedy,
        )
        offered, missing = queued_engine.drafters(model)
        if search in SAMPLED_DECODERS:
            offered = tuple(name for name in offered if name in SAMPLING_DRAFTERS)
        drafter = _select("Drafts", {name: DRAFTS[name] for name in DRAFTS if name in offered}, "predict_drafter")
        if missing:
            st.caption(missing)
        longest = st.slider(
            "Longest answer, in tokens", 20, 400, 200, 20, key="predict_max_len", persist_state="session"
        )
        augment = st.number_input(
            "Spellings of the query to try",
            1,
            MOST_SPELLINGS,
            1,
            key="predict_augment",
            persist_state="session",
            help="With more than one, each spelling is answered for itself and the answers are merged by rank and "
            "frequency. Takes as many times longer.",
        )
        settings = DecodeSettings(
            decoder=search, n=1 if greedy else int(count), drafter=drafter, max_len=longest, augment=int(augment)
        )
        st.caption(GUARANTEES[settings.guarantee])
        if settings.augment > 1:
            st.caption("**Merged**: that holds for each spelling; the list is made of all of them.")
        st.caption(
            f"Limits: queries of {MAX_CHARS:,} characters and {MAX_TOKENS} tokens, {queued_engine.MOST_ANSWERS} answers."
        )
    return model, settings


def _without(labels: dict[str, str], names: Container[str]) -> dict[str, str]:
    return {name: label for name, label in labels.items() if name not in names}


def _select(label: str, labels: dict[str, str], key: str) -> str:
    if st.session_state.get(key) not in (None, *labels):
        del st.session_state[key]  # chosen for another model or search, and not to be had here
    return str(
        st.selectbox(label, list(labels), format_func=lambda name: labels[name], key=key, persist_state="session")
    )
