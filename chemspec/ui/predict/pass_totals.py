"""Forward passes of the whole page, with drafts and without."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import streamlit as st

from chemspec.metrics import PassCounts, speed_numbers
from chemspec.review.forward_check import REAGENT_SETTINGS
from chemspec.review.suggestions import Suggestion
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.common import nav, query_box
from chemspec.ui.common.escaping import markdown_table
from chemspec.ui.predict import reviewing
from chemspec.ui.predict.query_panel import Question
from chemspec.ui.predict.token_origins import card_of_greedy_answer, greedy_settings
from chemspec.ui.speed.race_page import race_against_standard

NOTABLE = 0.95  # of the passes without drafts; above it nothing is said to be saved
HARDLY_DRAFTED = "hardly drafted: by the measured cost of a pass it does not pay here"
NOTE = (
    "A pass is one run of a model’s decoder; of what several queries share in one run each counts it once. "
    "Instead of: what the same searches take without drafts, one pass for each step that asks for anything new."
)


class Row(NamedTuple):
    """A kind of search on the page: what it is for, its passes, and a remark."""

    name: str
    passes: PassCounts
    remark: str


def search_rows(
    question: Question, result: DecodeResult, first: DecodeResult | None, cards: Sequence[Suggestion]
) -> list[Row]:
    """Return the searches behind the page, one row a kind, those that were made at all."""
    rows = []
    if first is not None and first is not result:  # where the search is greedy, it is the same
        rows.append(Row("First answer, greedy", PassCounts.of_result(first), draft_remark(first)))
    rows.append(Row(_search_name(result), PassCounts.of_result(result), draft_remark(result)))
    if question.task == "retro":
        checker, steps = reviewing.session_checker(), [card.reaction for card in cards]
        checks, check_passes = checker.check_passes(steps)
        proposals, proposal_passes = checker.proposal_passes(steps)
        beams = f"Reagents for {proposals} answer{'s' * (proposals != 1)}, beams of {REAGENT_SETTINGS.n}"
        for count, passes, name in (
            (checks, check_passes, f"{checks} check{'s' * (checks != 1)} by the forward model"),
            (proposals, proposal_passes, beams),
        ):
            if count:
                rows.append(Row(name, passes, "" if saves_passes(passes) else HARDLY_DRAFTED))
    return rows


def _search_name(result: DecodeResult) -> str:
    decoder = str(result.trace.settings.get("decoder", "beam"))
    widths = result.distinct.widths if result.distinct else (int(result.trace.settings.get("n", 1)),)
    if decoder == "beam":
        return f"Answers, beam{'s' * (len(widths) > 1)} of {' and '.join(map(str, widths))}"
    return f"Answer{'s' * (len(result.hypotheses) > 1)}, {decoder}"


def draft_remark(result: DecodeResult) -> str:
    """Return a remark on how well drafting worked in a search."""
    settings = result.trace.settings
    if not settings.get("exact", True):
        return "relaxed: nothing to compare with"
    if settings.get("drafter") == "none":
        return "drafts are switched off"
    counts = speed_numbers([result.trace])
    if saves_passes(PassCounts.of_result(result)):
        greedy = settings.get("decoder") == "greedy"
        return f"{counts.accepted} of {counts.emitted} tokens from drafts" if greedy else ""
    return HARDLY_DRAFTED if counts.drafted < counts.computed / 2 else "drafts were refused"


def saves_passes(passes: PassCounts) -> bool:
    """Return whether drafts saved more than a few percent of the passes."""
    return passes.taken < NOTABLE * passes.standard


def total_line(total: PassCounts) -> str:
    """Return the passes of a page in words."""
    saved = "; drafts saved none of them" if total.taken == total.standard else f" instead of {total.standard:,}"
    return f"This page: {total.taken:,} passes of the models{saved}"


def show_totals(
    question: Question, result: DecodeResult, first: DecodeResult | None, cards: Sequence[Suggestion]
) -> None:
    """Draw the total with its parts, and the buttons that race the search or step through it."""
    shown = card_of_greedy_answer(first, cards[: question.cards])
    if first is not None and first is not result and shown is None:
        st.caption(greedy_note(first))
    rows = search_rows(question, result, first, cards)
    exactness = str(result.trace.settings.get("exactness") or "")  # older files say nothing
    with st.container(horizontal=True, vertical_alignment="top", gap="small", key="predict_speed"):
        with st.expander(total_line(PassCounts.total_passes(row.passes for row in rows)), type="compact"):
            cells = [(name, f"**{run.taken:,}** instead of {run.standard:,}", remark) for name, run, remark in rows]
            st.markdown(markdown_table(("Search", "Passes", ""), cells))
            st.caption(f"{NOTE} Answers are {exactness}." if exactness else NOTE)
        search = displayed_search(question, result, first if shown else None)
        about = "Race this search with drafts against standard decoding"
        if st.button("Race on the page Speed", key="predict_measure", type="tertiary", help=about):
            race_against_standard(search)
            nav.open_page("speed", task=question.model, smi=question.smiles)
        stepped = search.decoder in query_box.STEPPED_DECODERS and search.n <= query_box.MAX_STEPPED_BEAM
        if stepped and st.button("Step through", key="predict_step", type="tertiary"):
            parameters = {"decoder": search.decoder, "n": str(search.n), "drafts": search.drafter}
            nav.open_page("step", task=question.model, smi=question.smiles, **parameters)


def displayed_search(question: Question, result: DecodeResult, first: DecodeResult | None) -> DecodeSettings:
    """Return the search for the pages Speed and Step: the greedy one if a card shows it, else the beam."""
    if first is not None and (search := greedy_settings(question.settings)):
        return search
    width = result.distinct.widths[-1] if result.distinct else question.settings.n
    return replace(question.settings, n=width)


def greedy_note(first: DecodeResult) -> str:
    """Return why no card shows the greedy answer pass by pass; empty without one."""
    passes = PassCounts.of_result(first)
    if first.status != "ok" or not first.hypotheses:
        return ""
    return (
        f"Decoded greedily, {passes.taken} passes instead of {passes.standard} give another first prediction than "
        "the beam search, whose order counts: so no card shows its passes."
    )
