"""Explain a prediction: its two lowest-margin positions, and the alternative predictions there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import streamlit as st

from chemspec.depict.schemes import Side
from chemspec.engine.engine import Engine
from chemspec.engine.forks import Fork, find_forks
from chemspec.review.suggestions import Suggestion, format_percent
from chemspec.types import Hypothesis
from chemspec.ui.common import queued_engine, remote_engine, scheme
from chemspec.ui.common.escaping import plain_text
from chemspec.ui.models.cards import ModelCard, read_model_card


def show_why_popover(model: str, query: str, card: Suggestion, cards: Sequence[Suggestion], *, key: str) -> None:
    """Draw the button of a card; its content is computed when it is opened and names other cards by their rank."""
    menu = st.popover("Why?", on_change="rerun", key=key, type="tertiary")
    if menu.open:
        with menu:
            engine = queued_engine.load_engine(model)
            if isinstance(engine, remote_engine.RemoteEngine):
                st.caption("Not available when predictions come from a remote service.")
                return
            ranks = {answer.canonical: other.rank for other in cards for answer in other.members}
            st.html(hesitations_html(card.best, find_hesitations(engine, query, card.best), ranks))
            if accuracy := describe_class_accuracy(read_model_card(engine.folder), card):
                st.caption(accuracy)


def describe_class_accuracy(model: ModelCard, card: Suggestion) -> str:
    """Return how often the model was right on test reactions of an answer's class; empty if that was not measured."""
    for name, count, shares in model.classes:
        if card.step is not None and name == card.name and shares:
            return (
                f"{plain_text(name)}: of {count} test reactions {shares[0][1]:.0f} % had the recorded answer first "
                "([all classes](/models))."
            )
    return ""


def find_hesitations(engine: Engine, query: str, answer: Hypothesis) -> list[Fork]:
    """Return the low-margin positions of a prediction, cached for this visitor."""

    def look() -> list[Fork]:
        with queued_engine.hold_turn(engine):
            return find_forks(engine, query, answer)

    return queued_engine.session_cached("_forks", (engine.digest, engine.dtype, query, answer.smiles), look)


def hesitations_html(answer: Hypothesis, forks: Sequence[Fork], ranks: Mapping[str, int]) -> str:
    """Return low-margin positions as safe HTML, each with its alternative drawn; `ranks` are of the answers shown."""
    if not forks:
        return '<p class="cs-hint">No low-margin choices: no alternative token leads to another molecule.</p>'
    parts = ["<p>The answer is generated token by token. The least certain choices:</p>"]
    for fork in forks:
        tokens = [*answer.tokens, "end"]
        tokens[fork.position] = f"\0{tokens[fork.position]}\1"
        text = escape("".join(tokens[:-1] if fork.position < len(tokens) - 1 else tokens))
        marked = text.replace("\0", "<mark>").replace("\1", "</mark>")
        rank = ranks.get(fork.smiles)
        where, other = f" answer {rank} of this page" if rank else "", _token_html(fork.alternative)
        parts.append(
            f'<section class="cs-fork"><code>{marked}</code><p><b>{_token_html(fork.token)}</b> '
            f"{format_percent(fork.probability)}, <b>{other}</b> "
            f"{format_percent(fork.alternative_probability)}. {other} would give{where}:"
            '</p><div class="cs-scheme cs-tight">'
            f"{scheme.side_html(Side(fork.smiles))}</div></section>"
        )
    return "".join(parts)


def _token_html(token: str) -> str:
    return "the end" if token == "end" else escape(token)
