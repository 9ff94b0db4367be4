"""`chemspec:` texts in the app: shown to copy, and followed when one is pasted into the box of any page."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.question_text import QuestionText, is_question, make_question, read_question
from chemspec.settings import DecodeSettings, Task
from chemspec.ui.common import nav, queued_engine

PENDING = "asked_elsewhere"  # session key of the question of a text that another page answers
DEFAULT = DecodeSettings()
ADDRESS = ("smi", "guide", "use", "drop", "keep", "through", "avoid")  # fields that an address has, too
CHOICES = {  # by field, the widgets with a choice of names: their key, what can be chosen
    "decoder": ("predict_search", DECODERS),
    "drafter": ("predict_drafter", DRAFTERS),
}
NUMBERS = {  # by page and field, the widgets with numbers: their key, lowest, highest, step, default
    "predict": {
        "n": ("predict_n", 1, queued_engine.MAX_ANSWERS, 1, 5),
        "max_len": ("predict_max_len", 20, 400, 20, 200),
        "augment": ("predict_augment", 1, 20, 1, 1),
    },
    "plan": {
        "seconds": ("plan_seconds", 5, 3600, 1, 60),
        "expansions": ("plan_expansions", 1, 5000, 1, 75),
        "depth": ("plan_depth", 1, 12, 1, 6),
    },
}


def show_text(text: str) -> None:
    """Show the text of a question, to copy."""
    st.caption("This question as a text, to paste into the box of any chemspec, or to give to the command:")
    st.code(text, language=None, wrap_lines=True)


def prediction_text(model: str, task: Task, query: str, cards: int, settings: DecodeSettings) -> str:
    """Return the text of a question of the page Predict; of options those that are not the default."""
    fields = {"task": task, "smi": query, "guide": settings.guide, "n": cards}
    fields |= {"model": model} if model != (queued_engine.model_names(task) or [""])[0] else {}
    for name in ("decoder", "drafter", "max_len", "augment"):
        if (value := getattr(settings, name)) != getattr(DEFAULT, name):
            fields[name] = value
    return str(make_question("predict", fields))


def follow(text: str, page: str, set_text: Callable[[str], None], answer: Callable[[], object]) -> bool:
    """Ask what a text asks; return False for one that cannot be read. A callback, so another page opens later.

    `set_text` puts the query into the page's box, or what was in it before; `answer` is called to read the address,
    which then has the query.
    """
    if not is_question(text):
        return False
    try:
        question = read_question(text)
    except ValueError:
        return False  # the box says why
    if question.page == page:
        _set_options(question)
        st.query_params.from_dict(_address(question))
        set_text(question.first("smi"))
        answer()
    else:
        st.session_state[PENDING] = question
        set_text(str(st.session_state.get(f"{page}_text", "")))
    return True


def open_pending() -> None:
    """Open the page of a text that was pasted on another one."""
    question: QuestionText | None = st.session_state.pop(PENDING, None)
    if question is not None:
        _set_options(question)
        nav.open_page(question.page, **_address(question))


def _address(question: QuestionText) -> dict[str, list[str]]:
    """Return the query parameters of a question's page."""
    address = {name: list(question.fields[name]) for name in ADDRESS if name in question.fields}
    if question.page == "predict":
        model, task = question.first("model"), question.first("task")
        return {"task": [model if model in queued_engine.model_names() else task], **address}
    return address


def _set_options(question: QuestionText) -> None:
    """Set the widgets of a question's page; a note lists what this page or machine does not have."""
    state, missing = st.session_state, []
    for name, (key, low, high, step, default) in NUMBERS[question.page].items():
        text = question.first(name) or str(default)
        value = int(float(text)) if text.replace(".", "", 1).isdigit() else default
        value = min(high, max(low, low + (value - low) // step * step))
        if state.get(key, default) != value:
            state[key] = value
    for name, (key, offered) in CHOICES.items() if question.page == "predict" else ():
        chosen = question.first(name) or getattr(DEFAULT, name)
        state[key] = chosen if chosen in offered else getattr(DEFAULT, name)
        missing += [f"{name} {chosen}"] * (chosen not in offered)
    model = question.first("model")
    missing += [f"model {model}"] * bool(model and model not in queued_engine.model_names())
    if question.page == "plan":
        from chemspec.plan.orders import ORDERS, PROBABILITY  # other pages need none of this
        from chemspec.ui.common import stock_menu

        missing += stock_menu.choose_lists(question.fields.get("stock", ()))
        missing += [name for name in ("within", "routes", "n", "check", "model") if question.first(name)]
        order = question.first("order") or PROBABILITY
        state.plan_order = order if order in ORDERS else PROBABILITY
        missing += [f"order {order}"] * (order not in ORDERS)
    if missing:
        st.toast("Not on this page or machine, so left out: " + ", ".join(missing))
