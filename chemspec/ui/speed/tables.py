"""Results of the page Speed as HTML; everything that comes from a query or a model is escaped."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

from chemspec.metrics import SpeedNumbers
from chemspec.ui.common.web_files import web_file
from chemspec.ui.speed import timing
from chemspec.ui.speed.timing import AnswerPair, LaneFigures

CSS = web_file(__file__, "css")


def headline(found: list[LaneFigures]) -> str:
    """Return the figures of the fastest exact lane with drafts against its standard, as HTML."""
    drafted = [row for row in found if row.exact and not row.standard and row.speedup is not None] or [
        row for row in found if not row.standard and row.speedup is not None
    ]
    if not drafted:
        return ""
    best = min(drafted, key=lambda row: row.time.median)
    way = best.name.split(" · ")[0].removesuffix(" (relaxed)").replace("SBS", "Beam")
    base = next((row for row in found if row.standard and row.name.startswith(way)), None)
    shown = [(timing.times(best.speedup or 1.0), f"{best.name}, against standard")]
    if base is not None:
        shown += [
            (timing.ms(best.time.median), f"instead of {timing.ms(base.time.median)}"),
            (timing.passes(best.passes), f"instead of {timing.count(base.passes)}"),
        ]
    if best.tokens_per_pass is not None:
        shown.append((f"{best.tokens_per_pass:.1f}", "tokens per pass"))
    shown.append(("yes" if best.same else "no", "same answer"))
    return figures(shown)


def figures(shown: Sequence[tuple[str, str]]) -> str:
    """Return big figures, each with a few words below."""
    cells = "".join(f"<div><b>{escape(big)}</b><span>{escape(small)}</span></div>" for big, small in shown)
    return f'<div class="cs-figures">{cells}</div>'


HEAD = ("setting", "time", "speed-up", "passes", "tokens per pass", "acceptance rate", "nodes per pass", "same answer")

HINT = "Point at a heading for its definition; the page Learn has them all."
DEFINED = {
    "time": "Wall clock from the start of decoding to the last pass, everything included",
    "speed-up": "Median time of the cached standard decoder of the same search, over the median time of this "
    "setting, in the same run",
    "passes": "Runs of the model's decoder for one answer",
    "tokens per pass": SpeedNumbers.tokens_per_pass.__doc__ or "",
    "acceptance rate": SpeedNumbers.acceptance_rate.__doc__ or "",
    "nodes per pass": SpeedNumbers.nodes_per_pass.__doc__ or "",
    "same answer": "Whether all answers are those of the standard decoder, token by token and in order",
}


def table(found: Sequence[LaneFigures], caption: str, *, added: Collection[str] = ()) -> str:
    """Return the rows of a race as HTML; those named in `added` are marked as not chosen by the visitor."""
    head = "".join(f'<th scope="col" title="{escape(DEFINED.get(name, ""), quote=True)}">{name}</th>' for name in HEAD)
    body = "".join(f"<tr>{_cells(row, added)}</tr>" for row in found)
    return (
        f'<p class="cs-told">{escape(caption)}</p>'
        '<div class="cs-scroll" tabindex="0" role="region" aria-label="Results"><table class="cs-table">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cells(row: LaneFigures, added: Collection[str]) -> str:
    spread = f"<br><small>{timing.ms(row.time.low)} to {timing.ms(row.time.high)}</small>"
    agreed = "" if row.same is None else "yes" if row.same else "no, see below"
    values = [
        timing.ms(row.time.median) + spread,
        "–" if row.speedup is None else "1 (reference)" if row.standard else f"{row.speedup:.2f} ×",
        timing.count(row.passes),
        "–" if row.tokens_per_pass is None else f"{row.tokens_per_pass:.2f}",
        "–" if row.acceptance is None or row.standard else f"{row.acceptance:.0%}",
        f"{row.nodes_per_pass:.1f}",
        "reference" if row.standard and row.same else agreed,
    ]
    name = escape(row.name) + "<br><small>for comparison</small>" * (row.name in added)
    return f"<td>{name}</td>" + "".join(f"<td>{value}</td>" for value in values)


def side_by_side(answers: list[AnswerPair]) -> str:
    """Return two lists of answers, marked from where they part."""

    def marked(text: str | None, fork: int, differs: bool) -> str:
        if text is None:
            return "–"
        rest = f"<mark>{escape(text[fork:])}</mark>" if differs and text[fork:] else ""
        return f"<code>{escape(text[:fork] if differs else text)}{rest}</code>"

    rows = "".join(
        f"<tr><td>{item.rank}</td>"
        + "".join(
            f'<td class="cs-text">{marked(text, item.fork, item.standard != item.other)}</td>'
            for text in (item.standard, item.other)
        )
        + f"<td>{'yes' if item.standard == item.other else 'no'}</td></tr>"
        for item in answers
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("rank", "standard", "this lane", "same"))
    table = f'<table class="cs-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="cs-scroll">{table}</div>'
