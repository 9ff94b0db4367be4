"""The first prediction, decoded greedily with drafts: where its tokens came from, as text and coloured atoms.

A run is what one pass accepted from drafts, with the token that the model chose behind it. Runs differ in colour, in
underline and in number; tokens of the model's own have a dashed ring.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rdkit import Chem

from chemspec.chem.parsing import mol_from_smiles
from chemspec.depict.molecules import Colouring, Depiction
from chemspec.metrics import Savings, count_savings, speed_numbers
from chemspec.replay.savings import describe_savings
from chemspec.replay.timing import END
from chemspec.replay.trace_view import TokenView, TraceView, view_trace
from chemspec.review.suggestions import Suggestion, format_percent
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.common import scheme, theme
from chemspec.ui.common.escaping import Html, tag

UNDERLINES = ("solid", "double", "dashed", "dotted")


@dataclass(frozen=True)
class Run:
    """The tokens of one pass: accepted draft tokens, then the one that the model chose."""

    accepted: tuple[TokenView, ...]
    chosen: tuple[TokenView, ...]


def accepted_runs(view: TraceView) -> list[Run]:
    """Return the passes of a greedy trace with their tokens."""
    runs = []
    for number in range(1, len(view.passes) + 1):
        tokens = [token for token in view.answers[0].tokens if token.pass_number == number]
        chosen = tuple(token for token in tokens if token.origin == "own")
        runs.append(Run(tuple(token for token in tokens if token.origin != "own"), chosen))
    return runs


def greedy_settings(settings: DecodeSettings) -> DecodeSettings | None:
    """Return the greedy search with the same drafter; None where its prediction need not be among the results.

    That is so for samples and for relaxed searches, for several variants of a query, and where a guide chooses.
    """
    if settings.decoder not in ("greedy", "beam") or settings.augment > 1 or settings.guide:
        return None
    return settings if settings.decoder == "greedy" else replace(settings, decoder="greedy", n=1, distinct=False)


def card_of_greedy_answer(first: DecodeResult | None, cards: Sequence[Suggestion]) -> Suggestion | None:
    """Return the card whose answer is the molecule that was decoded greedily; None where no card has it."""
    if first is None or first.status != "ok" or not first.hypotheses or not first.hypotheses[0].valid:
        return None
    return next((card for card in cards if card.best.canonical == first.hypotheses[0].canonical), None)


@dataclass(frozen=True)
class Picture:
    """A greedy run with accepted drafts, and the card that shows it: its rank, its canonical SMILES."""

    rank: int
    canonical: str
    view: TraceView
    savings: Savings


def picture_of_greedy(first: DecodeResult | None, cards: Sequence[Suggestion]) -> Picture | None:
    """Return the greedy run to show; None where no card has its prediction, or no draft was accepted."""
    card = card_of_greedy_answer(first, cards)
    if first is None or card is None or not speed_numbers([first.trace]).accepted:
        return None
    try:
        view = view_trace(first)
    except ValueError:  # its trace does not tell what was drafted
        return None
    return None if view.several else Picture(card.rank, card.best.canonical, view, count_savings(first))


def _run_color(number: int) -> str:
    return theme.SPANS[number % len(theme.SPANS)]


def runs_html(view: TraceView) -> Html:
    """Return the text of the answer, run by run, as safe HTML."""
    parts, descriptions = [], []
    for number, run in enumerate(accepted_runs(view)):
        style = f"--c:{_run_color(number)};--u:{UNDERLINES[number % len(UNDERLINES)]};--k:{number}"
        count = len(run.accepted)
        if run.accepted:
            about = f"pass {number + 1}: {count} token{'s' * (count != 1)} accepted from drafts"
            pieces = (
                tag("span.cs-learned", token.text) if token.source is None else token.text for token in run.accepted
            )
            parts.append(tag("span.cs-run", *pieces, style=style, title=about))
            descriptions.append(f"{about}, {''.join(token.text for token in run.accepted)}")
        for token in run.chosen:
            sure = "" if token.probability is None else f", {format_percent(token.probability)}"
            about = f"pass {number + 1}: chosen by the model itself{sure}"
            parts.append(tag("span.cs-own" + ".cs-end" * (token.text == END), token.text, style=style, title=about))
            descriptions.append(f"{about}: {token.text}")
        parts.append(tag("wbr"))
    alt = f"The answer as the model wrote it, {view.answers[0].smiles}. {'; '.join(descriptions)}."
    return tag("div.cs-runs", *parts, role="img", aria_label=alt)


def passes_line(picture: Picture, *, legend: bool = False) -> Html:
    """Return the tokens and passes in words, as safe HTML, with a `legend` of the marks."""
    key = (tag("span.cs-run", "CC"), " accepted in one pass ", tag("span.cs-own", "C"), " chosen by the model itself")
    return tag("div.cs-tell", describe_savings(picture.savings), tag("span.cs-key", *key) if legend else "")


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


def coloured_target(picture: Picture, target: str) -> Html:
    """Return the drawn target in the colours of the passes that copied its pieces, as safe HTML."""
    drawing = Depiction(target, dark=theme.is_dark(), colouring=query_colouring(picture.view, target))
    return tag("div.cs-scheme.cs-tight", scheme.molecule_figure(drawing))


def _run_colouring(fills: Mapping[int, int], ringed: Sequence[int]) -> Colouring:
    notes: dict[int, int] = {}
    for atom, number in fills.items():
        notes.setdefault(number, atom)
    return Colouring(
        tuple((atom, _run_color(number)) for atom, number in fills.items()),
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
