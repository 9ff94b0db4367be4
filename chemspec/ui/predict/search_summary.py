"""How the searches of a page went, in words, and the buttons that race one or step through it."""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from chemspec.replay.savings import describe_savings, sum_savings, summary_line
from chemspec.review.suggestions import Suggestion
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.common import nav, query_box
from chemspec.ui.common.escaping import plain_text
from chemspec.ui.predict import reviewing
from chemspec.ui.predict.query_panel import Question
from chemspec.ui.predict.token_origins import card_of_greedy_answer, greedy_settings
from chemspec.ui.speed.race_page import race_against_standard


def show_searches(
    question: Question, result: DecodeResult, first: DecodeResult | None, cards: Sequence[Suggestion]
) -> None:
    """Draw a line on the forward passes of each search and of the page, and buttons for Speed and Step through."""
    shown = card_of_greedy_answer(first, cards[: question.cards])
    lines = [f"**{_search_name(result)}:** {plain_text(summary_line(result, terminal=False))}."]
    earlier = [] if first is None or first is result else [first]  # where the search is greedy, it is the same
    if first and earlier and first.status == "ok":
        other = "" if shown else " It gives another first prediction than the beam, so no card shows its passes."
        lines.insert(0, f"**First answer, greedy:** {plain_text(summary_line(first, terminal=False))}.{other}")
    if question.task == "retro":
        total = sum_savings([*earlier, result])
        total += reviewing.session_checker().savings(card.reaction for card in cards)
        words = plain_text(describe_savings(total, queries="the queries"))
        lines.append(f"**All searches of this page, forward checks and proposed reagents included:** {words}.")
    with st.container(horizontal=True, vertical_alignment="top", gap="small", key="predict_speed"):
        st.caption("  \n".join(lines), width="stretch")
        search = displayed_search(question, result, first if shown else None)
        if st.button("Race on the page Speed", key="predict_measure", type="tertiary"):
            race_against_standard(search)
            nav.open_page("speed", task=question.model, smi=question.smiles)
        stepped = search.decoder in query_box.STEPPED_DECODERS and search.n <= query_box.MAX_STEPPED_BEAM
        if stepped and st.button("Step through", key="predict_step", type="tertiary"):
            parameters = {"decoder": search.decoder, "n": str(search.n), "drafts": search.drafter}
            nav.open_page("step", task=question.model, smi=question.smiles, **parameters)


def _search_name(result: DecodeResult) -> str:
    decoder = str(result.trace.settings.get("decoder", "beam"))
    widths = result.distinct.widths if result.distinct else (int(result.trace.settings.get("n", 1)),)
    return f"Beam of {', then '.join(map(str, widths))}" if decoder == "beam" else decoder.capitalize()


def displayed_search(question: Question, result: DecodeResult, first: DecodeResult | None) -> DecodeSettings:
    """Return the search for the pages Speed and Step: the greedy one if a card shows it, else the beam."""
    if first is not None and (search := greedy_settings(question.settings)):
        return search
    width = result.distinct.widths[-1] if result.distinct else question.settings.n
    return replace(question.settings, n=width)
