"""The first prediction, decoded greedily with drafts: where its tokens came from, as coloured text.

A run is what one pass accepted from drafts, with the token that the model chose behind it. Runs differ in colour, in
underline and in number; tokens of the model's own have a dashed ring.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from chemspec.chem.molecules.bottles import as_bottled
from chemspec.metrics import count_savings, speed_numbers
from chemspec.replay.savings import describe_savings
from chemspec.replay.trace_view import END, TraceView, view_trace
from chemspec.review.suggestions import Suggestion, format_percent
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.common import theme
from chemspec.ui.common.escaping import Html, tag

UNDERLINES = ("solid", "double", "dashed", "dotted")


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
    greedy = first.hypotheses[0].canonical
    return next((card for card in cards if card.best.canonical in (greedy, as_bottled(greedy))), None)


@dataclass(frozen=True)
class Picture:
    """A greedy run with accepted drafts, and the card that shows it: its rank, its canonical SMILES."""

    rank: int
    canonical: str
    result: DecodeResult
    view: TraceView


def picture_of_greedy(first: DecodeResult | None, cards: Sequence[Suggestion]) -> Picture | None:
    """Return the greedy run to show; None where no card has its prediction, or no draft was accepted."""
    card = card_of_greedy_answer(first, cards)
    if first is None or card is None or not speed_numbers([first.trace]).accepted:
        return None
    return Picture(card.rank, card.best.canonical, first, view_trace(first))


def runs_html(view: TraceView) -> Html:
    """Return the text of the answer, run by run, as safe HTML."""
    parts, descriptions = [], []
    for number in range(len(view.passes)):
        style = f"--c:{theme.SPANS[number % len(theme.SPANS)]};--u:{UNDERLINES[number % len(UNDERLINES)]};--k:{number}"
        written = [token for token in view.answers[0].tokens if token.pass_number == number + 1]
        if accepted := [token for token in written if token.origin != "own"]:
            about = f"pass {number + 1}: {len(accepted)} token{'s' * (len(accepted) != 1)} accepted from drafts"
            pieces = (
                token.text if token.origin == "copied" else tag("span.cs-learned", token.text) for token in accepted
            )
            parts.append(tag("span.cs-run", *pieces, style=style, title=about))
            descriptions.append(f"{about}, {''.join(token.text for token in accepted)}")
        for token in (token for token in written if token.origin == "own"):
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
    return tag(
        "div.cs-tell", describe_savings(count_savings(picture.result)), tag("span.cs-key", *key) if legend else ""
    )
