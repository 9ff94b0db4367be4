"""Results in notebooks: a table with drawings instead of every field of every token."""

import sys
from html import escape
from itertools import islice

from chemspec.depict.molecules import Depiction
from chemspec.types import DecodeResult, Hypothesis

DRAWN = 10  # predictions with a drawing
WIDTH, HEIGHT = 260, 110  # pixels of a drawing

_shells: set[int] = set()  # shells in which results are already shown so


def show_results_in_notebook() -> None:
    """Let IPython show results by `result_html`; does nothing outside of IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    formatter = getattr(shell, "display_formatter", None)
    if formatter is not None and id(shell) not in _shells:
        _shells.add(id(shell))
        formatter.formatters["text/html"].for_type(DecodeResult, result_html)


def result_html(result: DecodeResult) -> str:
    """Return a result as an HTML table: rank, drawing, probability and SMILES of each prediction, and the notes."""
    head = f"<b>{escape(result.smiles or result.query)}</b>"
    if result.status != "ok":
        return f"<div>{head}<br>{escape(result.status)}: {escape(result.message)}</div>"
    rows = "".join(_prediction_row(rank, answer) for rank, answer in enumerate(islice(result.hypotheses, DRAWN), 1))
    more = len(result.hypotheses) - DRAWN
    notes = [*result.notes, *([f"{more} more predictions are in hypotheses"] if more > 0 else [])]
    below = "".join(f"<br><small>{escape(note)}</small>" for note in notes)
    columns = "<tr><th>#</th><th>prediction</th><th>probability</th><th>SMILES</th></tr>"
    return f"<div>{head}<table>{columns}{rows}</table>{below}</div>"


def _prediction_row(rank: int, answer: Hypothesis) -> str:
    picture = Depiction(answer.canonical, WIDTH, HEIGHT).data_uri if answer.valid else ""
    text = escape(answer.canonical or answer.smiles)
    drawing = f'<img src="{picture}" alt="{text}">' if picture else "not valid" if not answer.valid else ""
    probability = f"{answer.probability:.1%}" + ("" if answer.calibrated else " (model's)")
    style = "text-align:left;max-width:24em;overflow-wrap:anywhere"
    return (
        f'<tr><td>{rank}</td><td>{drawing}</td><td>{probability}</td><td style="{style}"><code>{text}</code></td></tr>'
    )
