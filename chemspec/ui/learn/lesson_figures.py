"""The pictures of the page Learn: recorded traces in the frames of the trace player, tables, a chart."""

from collections.abc import Sequence
from itertools import zip_longest

import streamlit as st

from chemspec import chem
from chemspec.io import tables
from chemspec.metrics import speed_numbers
from chemspec.replay.trace_view import TraceView, view_trace
from chemspec.types import DecodeResult
from chemspec.ui.common.escaping import plain_text
from chemspec.ui.learn.lessons import recorded_example
from chemspec.ui.step.trace_player import Frame, show_figure


def draw_certainty() -> None:
    """Draw a query, its answer, and how sure the model was of every token."""
    result = recorded_example("boc-copy")
    query, answer = "".join(result.trace.query), result.hypotheses[0].smiles
    alt = f"The query {query} becomes {answer}; a bar over each of its tokens shows the model's probability."
    show_figure([result], [Frame(("pictures", "certainty"), style="wide plain")], alt=alt, key="learn_certainty")


def draw_race() -> None:
    """Draw the same answer pass by pass, without drafts and with them."""
    results = [recorded_example("boc-none"), recorded_example("boc-copy")]
    standard, drafted = (len(result.trace.passes) for result in results)
    alt = f"Standard decoding writes one token in each of {standard} passes; with drafts {drafted} passes suffice."
    lanes = [
        Frame(("lane",), scene=scene, title=title, style="wide lanes")
        for scene, title in enumerate(("Standard", "With drafts"))
    ]
    below = Frame(("legend", "replay"), scene=1, style="wide", whole=True)
    show_figure(results, [*lanes, below], alt=alt, key="learn_race")


def draw_origins() -> None:
    """Draw which pieces of the query the answer was copied from."""
    result = recorded_example("boc-copy")
    tokens = view_trace(result).answers[0].tokens
    copied = [token for token in tokens if token.origin == "copied"]
    runs = len({token.run for token in copied})
    alt = f"{len(copied)} of the answer's {len(tokens)} tokens are copied from the query, in {runs} fragments."
    parts = ("pictures", "query", "answer", "hint", "legend")
    show_figure([result], [Frame(parts, style="wide", whole=True)], alt=alt, key="learn_origins")


def draw_storyboard() -> None:
    """Draw every pass of a greedy answer: the draft, lit in the query, and what became of it."""
    result = recorded_example("boc-copy")
    passes = view_trace(result).passes
    parts = ("summary", "picture", "drafts", "answer")
    cards = [Frame(parts, step=number, style="card") for number in range(1, len(passes) + 1)]
    alt = " ".join(step.summary for step in passes)
    show_figure([result], [*cards, Frame(("legend",), style="wide")], alt=alt, key="learn_storyboard")


def partly_accepted(view: TraceView) -> int:
    """Return the number of the pass whose draft was accepted, and rejected, furthest."""
    drafts = {number: step.drafts[0] for number, step in enumerate(view.passes, 1) if step.drafts}
    return max(
        drafts, key=lambda number: min(drafts[number].accepted, len(drafts[number].tokens) - drafts[number].accepted)
    )


def _token_cells(texts: Sequence[str], accepted: int, mark: str) -> list[str]:
    """Return table cells of tokens: those accepted in bold, those behind them between two marks."""
    return [
        f"**{plain_text(text)}**" if k < accepted else f"{mark}{plain_text(text)}{mark}" for k, text in enumerate(texts)
    ]


def write_comparison() -> None:
    """Write one pass as the model sees it: draft and own choice side by side, up to the first difference."""
    view = view_trace(recorded_example("boc-copy"))
    number = partly_accepted(view)
    draft = view.passes[number - 1].drafts[0]
    chosen = [token.text for token in view.answers[0].tokens if token.pass_number == number]
    drafted, choices = _token_cells(draft.tokens, draft.accepted, "~~"), _token_cells(chosen, draft.accepted, "")
    equal = ["✓"] * draft.accepted + ["✗"]
    rows = list(zip_longest(drafted, choices, equal, fillvalue=""))
    st.markdown(tables.lines([("the draft", "the model's choice", "equal?"), *rows]))
    st.caption(
        f"Pass {number} of the example. Written: **{plain_text(' '.join(chosen))}**. Tokens after the ✗ "
        "are dropped: the model scored them after a token that is not in the answer."
    )


def draw_beams() -> None:
    """Draw the tree of a beam search to play through, and its passes with and without looking ahead."""
    standard, ahead = recorded_example("amide-beam-none"), recorded_example("amide-beam-copy")
    answers = "; ".join(f"{rank}: {answer.smiles}" for rank, answer in enumerate(standard.hypotheses, 1))
    parts = ("controls", "summary", "tree")
    show_figure([standard], [Frame(parts, style="wide")], alt=f"Tree of the answers: {answers}", key="learn_beams")
    first, second = speed_numbers([standard.trace]), speed_numbers([ahead.trace])
    same = [answer.smiles for answer in standard.hypotheses] == [answer.smiles for answer in ahead.hypotheses]
    rows = [
        (label, str(counts.passes), f"{counts.nodes_per_pass:.0f}")
        for label, counts in (("standard", first), ("looking ahead", second))
    ]
    st.markdown(tables.lines([("", "passes:", "places a pass:"), *rows]))
    st.caption("All answers equal." if same else "The answers differ.")


def answer_table(result: DecodeResult, other: DecodeResult) -> str:
    """Return the answers of a result as a table that marks where another list differs."""
    rows = []
    for rank, (answer, twin) in enumerate(zip_longest(result.hypotheses, other.hypotheses), 1):
        if answer:
            sign = "=" if twin and answer.smiles == twin.smiles else "**≠**"
            rows.append((str(rank), f"`{answer.smiles}`", f"{100 * answer.probability:.1f} %", sign))
    return tables.lines([(":", "answer", "probability:", "other list"), *rows])


def write_relaxed() -> None:
    """Write two lists of answers, exact and relaxed; rows that differ are marked."""
    exact, other = recorded_example("amide-beam-none"), recorded_example("amide-sbs")
    query = "".join(exact.trace.query)
    st.markdown(f"Query: `{query}`\n\n**Exact: beam search**\n\n{answer_table(exact, other)}")
    st.markdown(f"**Relaxed: speculative beam search**\n\n{answer_table(other, exact)}")
    if chem.canonical(query) in [answer.canonical for answer in exact.hypotheses]:
        st.caption("One of the exact answers is the query itself: an error of the model, not of the decoder.")


def write_counts() -> None:
    """Write the counts of a greedy answer, pass by pass, and the rates that follow."""
    trace = recorded_example("boc-copy").trace
    sums = speed_numbers([trace])
    rows = [(number, step.drafted, step.accepted, step.emitted) for number, step in enumerate(trace.passes, 1)]
    lines = [[str(count) for count in row] for row in rows]
    lines.append([f"**{count}**" for count in (sums.passes, sums.drafted, sums.accepted, sums.emitted)])
    rates = (
        ("tokens per pass", f"{sums.emitted} / {sums.passes}", f"**{sums.tokens_per_pass:.2f}**"),
        ("acceptance rate", f"{sums.accepted} / {sums.emitted}", f"**{100 * sums.acceptance_rate:.0f} %**"),
        ("draft hit rate", f"{sums.accepted} / {sums.drafted}", f"**{100 * sums.draft_hit_rate:.0f} %**"),
        ("acceptance length", f"{sums.accepted} / {sums.passes} + 1", f"**{sums.acceptance_length:.2f}**"),
    )
    st.markdown(tables.lines([("pass:", "drafted:", "accepted:", "written:"), *lines]))
    st.markdown(tables.lines([("rate", "counts:", "value:"), *rates]))


# One for every section of assets/learn/idea.md, in its order.
IDEA = (
    *(draw_certainty, draw_race, draw_origins, draw_storyboard),
    *(write_comparison, draw_beams, write_relaxed, write_counts),
)
