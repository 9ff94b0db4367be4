"""The first prediction, decoded greedily with drafts: where its tokens came from, as text, bars and coloured atoms.

A run is what one pass of the model accepted from drafts. Behind it stands the token that the model chose itself. Runs
differ in colour, in underline and in number; tokens of the model's own have a dashed ring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

import streamlit as st
from rdkit import Chem

from chemspec.chem.parsing import mol_from_smiles
from chemspec.depict.molecules import NO_COLOURS, Colouring
from chemspec.metrics import PassCounts, speed_numbers
from chemspec.replay.timing import END
from chemspec.replay.trace_view import TokenView, TraceView, view_trace
from chemspec.review.suggestions import Suggestion, format_percent
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.common import theme

COLOURS = "predict_origins"  # in the session: the button that turns them on
UNDERLINES = ("solid", "double", "dashed", "dotted")
LABELLED = 4  # tokens of a bar that is wide enough for its numbers
MAX_LABELLED = 8  # bars with their numbers inside; more are too narrow
MAX_NAMED = 6  # tokens of the model's own that a sentence names


LEGEND = (
    '<span class="cs-key"><span class="cs-run">CC</span> accepted in one pass <span class="cs-own">C</span> '
    "chosen by the model itself</span>"
)


@dataclass(frozen=True)
class Run:
    """The tokens of one pass: accepted draft tokens, then the one that the model chose."""

    accepted: tuple[TokenView, ...]
    chosen: tuple[TokenView, ...]


def accepted_runs(view: TraceView) -> list[Run]:
    """Return the passes of a greedy trace with their tokens."""
    tokens = view.answers[0].tokens
    written = [[token for token in tokens if token.pass_number == number] for number in range(1, len(view.passes) + 1)]
    return [
        Run(
            tuple(token for token in pass_tokens if token.origin != "own"),
            tuple(token for token in pass_tokens if token.origin == "own"),
        )
        for pass_tokens in written
    ]


def greedy_view(first: DecodeResult) -> TraceView | None:
    """Return a greedy result as values for drawing; None where its trace does not tell what was drafted."""
    try:
        view = view_trace(first)
    except ValueError:
        return None
    return None if view.several else view


# --- text ------------------------------------------------------------------------------------------


def _run_style(number: int) -> str:
    color, line = theme.SPANS[number % len(theme.SPANS)], UNDERLINES[number % len(UNDERLINES)]
    return f'style="--c:{color};--u:{line};--k:{number}"'


def runs_html(view: TraceView) -> str:
    """Return the text of the answer, run by run, as safe HTML."""
    parts, descriptions = [], []
    for number, run in enumerate(accepted_runs(view)):
        if run.accepted:
            text = "".join(token.text for token in run.accepted)
            about = f"pass {number + 1}: {_token_count(len(run.accepted))} accepted from drafts"
            pieces = "".join(
                f'<span class="cs-learned">{escape(token.text)}</span>' if token.source is None else escape(token.text)
                for token in run.accepted
            )
            parts.append(f'<span class="cs-run" {_run_style(number)} title="{about}">{pieces}</span>')
            descriptions.append(f"{about}, {text}")
        for token in run.chosen:
            sure = "" if token.probability is None else f", {format_percent(token.probability)}"
            kind = "cs-own cs-end" if token.text == END else "cs-own"
            about = f"pass {number + 1}: chosen by the model itself{sure}"
            parts.append(f'<span class="{kind}" {_run_style(number)} title="{about}">{escape(token.text)}</span>')
            descriptions.append(f"{about}: {token.text}")
        parts.append("<wbr>")
    alt = escape(f"The answer as the model wrote it, {view.answers[0].smiles}. {'; '.join(descriptions)}.", quote=True)
    return f'<div class="cs-runs" role="img" aria-label="{alt}">{"".join(parts)}</div>'


def _token_count(count: int) -> str:
    return f"{count} token{'s' * (count != 1)}"


def passes_html(view: TraceView) -> str:
    """Return a bar for every pass, as long as what it wrote, as safe HTML; the sentence next to it says the same."""
    all_runs = accepted_runs(view)
    labelled = len(all_runs) <= MAX_LABELLED
    cells = []
    for number, run in enumerate(all_runs):
        accepted, chosen = len(run.accepted), len(run.chosen)
        label = f"{accepted}<small> +{chosen}</small>" if labelled and accepted + chosen >= LABELLED else ""
        about = f"pass {number + 1}: {accepted} accepted, {chosen} of the model’s own"
        cells.append(f'<i style="flex:{accepted + chosen} 1 0" title="{about}"><b {_run_style(number)}>{label}</b></i>')
    crowded = "" if labelled else " cs-many"
    return f'<span class="cs-passes{crowded}" aria-hidden="true">{"".join(cells)}</span>'


def saving_html(counts: PassCounts) -> str:
    """Return passes with and without drafts in words, as safe HTML."""
    taken = f"<b>{counts.taken} pass{'es' * (counts.taken != 1)}</b> of the model"
    if counts.taken == counts.standard:
        return f"{taken}, one for each token: no draft was accepted"
    return f"{taken} instead of {counts.standard} · same text"


def origins_html(view: TraceView, task: str) -> str:
    """Return how many tokens were copied, drafted from learned phrases, or chosen by the model, as safe HTML."""
    tokens = [token for token in view.answers[0].tokens if token.text != END]
    copied = sum(token.source is not None for token in tokens)
    learned = sum(token.origin == "ahead" for token in tokens)
    chosen = [token for token in tokens if token.origin == "own"]
    whose = "your molecule" if task == "retro" else "your flask"
    phrases = f", {learned} of learned phrases" if learned else ""
    named = " · ".join(
        f'<span class="cs-own">{escape(token.text)}</span>'
        + ("" if token.probability is None else f" {format_percent(token.probability)}")
        for token in chosen[:MAX_NAMED]
    )
    more = f" and {len(chosen) - MAX_NAMED} more" if len(chosen) > MAX_NAMED else ""
    chose = (
        f" The model itself chose {len(chosen)}: {named}{more}." if chosen else " The model chose only where to end."
    )
    return (
        f'<p class="cs-said">{copied} of {len(tokens)} tokens are pieces of {whose}{phrases}.{chose} '
        "<small>Numbers on the atoms: the pass that accepted them; dashed rings: the model’s own choice, with its "
        "probability.</small></p>"
    )


# --- atoms -----------------------------------------------------------------------------------------


def answer_colouring(view: TraceView, drawn: str) -> Colouring:
    """Return the colours of the atoms of the answer, drawn from another SMILES of it."""
    atoms = matching_atoms(view.answers[0].smiles, drawn)
    fills: dict[int, int] = {}
    ringed = []
    for number, run in enumerate(accepted_runs(view)):
        fills |= {atoms[token.atom]: number for token in run.accepted if token.atom in atoms}
        ringed += [atoms[token.atom] for token in run.chosen if token.atom in atoms]
    return _run_colouring(fills, ringed)


def query_colouring(view: TraceView, drawn: str) -> Colouring:
    """Return the colours of the atoms of the query that were copied, drawn from another SMILES of it."""
    atoms = matching_atoms("".join(view.query), drawn)
    fills: dict[int, int] = {}
    for number, run in enumerate(accepted_runs(view)):
        for token in run.accepted:
            atom = None if token.source is None else view.atoms[token.source]
            if atom in atoms:
                fills.setdefault(atoms[atom], number)
    return _run_colouring(fills, [])


def _run_colouring(fills: Mapping[int, int], ringed: Sequence[int]) -> Colouring:
    notes: dict[int, int] = {}
    for atom, number in fills.items():
        notes.setdefault(number, atom)
    return Colouring(
        tuple((atom, theme.SPANS[number % len(theme.SPANS)]) for atom, number in fills.items()),
        tuple(ringed),
        tuple((atom, str(number + 1)) for number, atom in notes.items()),
    )


def matching_atoms(smiles: str, other: str) -> dict[int | None, int]:
    """Return for every atom of a SMILES its number in another SMILES of the same molecules; empty if they are not."""
    mol, target = (mol_from_smiles(text) if text else None for text in (smiles, other))
    if mol is None or target is None or Chem.MolToSmiles(mol) != Chem.MolToSmiles(target):
        return {}
    ranks, other_ranks = (list(Chem.CanonicalRankAtoms(molecule, breakTies=True)) for molecule in (mol, target))
    number_of = {rank: number for number, rank in enumerate(other_ranks)}
    return {number: number_of[rank] for number, rank in enumerate(ranks)}


# --- the first answer ---------------------------------------------------------------------------------


def greedy_settings(settings: DecodeSettings) -> DecodeSettings | None:
    """Return the greedy search with the same drafter; None where its prediction need not be among the results.

    That is so for samples and for relaxed searches, for several spellings of a query, and where a guide chooses.
    """
    if settings.decoder not in ("greedy", "beam") or settings.augment > 1 or settings.guide:
        return None
    return settings if settings.decoder == "greedy" else replace(settings, decoder="greedy", n=1, distinct=False)


def card_of_greedy_answer(first: DecodeResult | None, cards: Sequence[Suggestion]) -> Suggestion | None:
    """Return the card whose answer is the molecule that was decoded greedily; None where no card has it."""
    if first is None or first.status != "ok" or not first.hypotheses or not first.hypotheses[0].valid:
        return None
    return next((card for card in cards if card.best.canonical == first.hypotheses[0].canonical), None)


def has_accepted_drafts(first: DecodeResult) -> bool:
    """Return whether any token of the answer was accepted from a draft."""
    return speed_numbers([first.trace]).accepted > 0


@dataclass(frozen=True)
class Picture:
    """A greedy run with accepted drafts, and the card that shows it: its rank, its canonical SMILES."""

    rank: int
    canonical: str
    view: TraceView
    passes: PassCounts


def picture_of_greedy(first: DecodeResult | None, cards: Sequence[Suggestion]) -> Picture | None:
    """Return the greedy run to show; None where no card has its prediction, or no draft was accepted."""
    card = card_of_greedy_answer(first, cards)
    if first is None or card is None or not has_accepted_drafts(first) or (view := greedy_view(first)) is None:
        return None
    return Picture(card.rank, card.best.canonical, view, PassCounts.of_result(first))


def show_picture(drawn: Picture, task: str, name: str, *, still: bool) -> None:
    """Draw the text of the answer run by run, with a button that copies it, and below it the passes."""
    if still:
        st.html(runs_html(drawn.view) + _passes_line(drawn, LEGEND))
        return
    with st.container(horizontal=True, gap=None, key=f"{name}_text"):
        st.html(runs_html(drawn.view), width="stretch")
        st.code(drawn.canonical, language=None, width="content")
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"{name}_tell"):
        show_colour_toggle()
        st.html(_passes_line(drawn), width="stretch")
    if colours_enabled():
        st.html(origins_html(drawn.view, task))


def _passes_line(drawn: Picture, legend: str = "") -> str:
    text = f"{passes_html(drawn.view)}<span>{saving_html(drawn.passes)}</span>{legend}"
    return f'<div class="cs-tell">{text}</div>'


def coloured_query(query: str, first: DecodeResult | None, cards: Sequence[Suggestion]) -> tuple[Colouring, int]:
    """Return the colours of a query's drawing and the rank of the card that they are of, where they are turned on."""
    drawn = picture_of_greedy(first, cards) if colours_enabled() else None
    return (query_colouring(drawn.view, query), drawn.rank) if drawn else (NO_COLOURS, 0)


def show_colour_toggle() -> None:
    """Draw the button that colours atoms by their origin."""
    st.pills(
        "Colours of atoms",
        ["Where it came from"],
        selection_mode="multi",
        key=COLOURS,
        label_visibility="collapsed",
        width="content",
        persist_state="session",
    )


def colours_enabled() -> bool:
    """Return whether the visitor turned the colours on."""
    return bool(st.session_state.get(COLOURS))
