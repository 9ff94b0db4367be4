"""A suggestion as a JSON document and, from it, as the cells of a row: for every file, table and screen the same."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from chemspec import precedents
from chemspec.chem.checks.flask_check import hazards
from chemspec.chem.reading.names.short_names import without_subscripts
from chemspec.precedents import Precedent
from chemspec.review.forward_check import ForwardCheck, check_document
from chemspec.review.review import Review
from chemspec.review.suggestions import Suggestion, describe_check, describe_patents, format_percent, recorded_rank
from chemspec.settings import Task
from chemspec.stock.lists import Availability

Cell = str | float
# Columns of a row from a document: in Batch's results and in the files of the page Predict.
SUGGESTION_CELLS = (
    *("probability", "calibrated", "note", "class", "stock", "forward_model", "conditions"),
    *("patent_reactions", "patents", "alike"),
)
# Columns that `predict --review` adds for each prediction to a table.
ANSWER_COLUMNS = ("strategy", "class", "forward_model", "conditions", "stock", "problems", "strategy_probability")


def review_document(review: Review) -> dict[str, Any]:
    """Return a review as a JSON document, without the predictions themselves."""
    return {
        "smiles": review.query,
        "warning": review.warning,
        "recorded": recorded_rank(review.suggestions),
        "selectivity": [asdict(choice) for choice in review.selectivity],
        "suggestions": [suggestion_document(suggestion, review.checks) for suggestion in review.suggestions],
    }


def suggestion_document(suggestion: Suggestion, checks: Mapping[str, ForwardCheck]) -> dict[str, Any]:
    """Return a suggestion as a JSON document; `checks` by canonical SMILES of the reactants."""
    matches = suggestion.precedents
    reagents, source = suggestion.reagents
    return {
        "rank": suggestion.rank,
        "smiles": suggestion.best.canonical,
        "class": suggestion.name if suggestion.step else "",
        "probability": suggestion.probability,
        "calibrated": suggestion.calibrated,
        "problems": list(suggestion.problems),
        "notes": list(suggestion.notes),
        "by_rule": suggestion.step.lawful if suggestion.step and suggestion.task == "forward" else "",
        "repairs": [{"instead": words, "flask": flask} for _, words, flask in suggestion.flask_report.repairs],
        "geometry": suggestion.geometry,
        "hazards": list(hazards(*suggestion.sides)) if suggestion.best.valid else [],
        "forward": check_document(suggestion.check),
        "reagents": {"smiles": reagents, "text": _plain_words(reagents), "source": source} if reagents else None,
        "precedents": None
        if matches is None
        else {
            "close": matches.close,
            "wide": matches.wide,
            "nearest": [asdict(precedent) for precedent in matches.nearest],
        },
        "stock": [each and asdict(each) for each in suggestion.availability],
        "alternatives": [
            {
                "smiles": answer.canonical or answer.smiles,
                "probability": answer.probability,
                "forward": check_document(checks.get(answer.canonical)),
            }
            for answer, _ in suggestion.alternatives
        ],
    }


def suggestion_cells(task: Task, document: Mapping[str, Any]) -> dict[str, Cell]:
    """Return the cells of a suggestion's document, by the names of `SUGGESTION_CELLS`; hazards of a mixture once."""
    matches, reagents = document["precedents"], document["reagents"]
    dangers = document["hazards"] if task == "retro" or document["rank"] == 1 else []
    sources = [Precedent(**precedent).source for precedent in matches["nearest"]] if matches else []
    return {
        "probability": round(document["probability"], 6),
        "calibrated": document["calibrated"],
        "note": "; ".join([*document["problems"], *(f"hazard: {sentence}" for sentence in dangers)]),
        "class": document["class"],
        "stock": "; ".join(_stock_mark(entry) for entry in document["stock"] if entry),
        "forward_model": _check_cell(document["forward"]),
        "conditions": reagents["text"] if reagents else "",
        "patent_reactions": "" if matches is None else matches["close"],
        "patents": describe_patents(sources, matches["close"] if matches else 0),
        "alike": " ; ".join(answer["smiles"] for answer in document["alternatives"]),
    }


def _check_cell(check: Mapping[str, Any] | None) -> str:
    """Return the words of a forward check's document; documents of earlier versions lack `geometry_open`."""
    if check is None:
        return ""
    agrees, is_open = check["verdict"] != "differs", check.get("geometry_open", False)
    return describe_check(ForwardCheck(agrees, check["probability"], check["product"], geometry_open=is_open))


def _stock_mark(entry: str | dict[str, Any]) -> str:
    """Return the mark of a molecule of a document; those of earlier versions have the mark itself."""
    return entry if isinstance(entry, str) else str(Availability(**entry))


def review_table(review: Review) -> list[dict[str, Any]]:
    """Return the suggestions of a review as rows, for display."""
    rows = []
    for suggestion in review.suggestions:
        document = suggestion_document(suggestion, review.checks)
        cells = suggestion_cells(review.task, document)
        rows.append(
            {
                "#": suggestion.rank,
                "answer": document["smiles"] or suggestion.best.smiles,
                "class": cells["class"],
                "prob.": format_percent(suggestion.probability),
                "forward model": cells["forward_model"],
                "reagents": precedents.in_words(suggestion.reagents[0], formulas=True),
                "patent reactions": f"{cells['patent_reactions']:,}" if suggestion.precedents is not None else "",
                "stock": cells["stock"],
                "E/Z": document["geometry"],
                "problems": "; ".join(document["problems"]),
                "notes": "; ".join(document["notes"]),
                "hazards": "; ".join(document["hazards"]),
            }
        )
    return rows


def answer_cells(review: Review, document: Mapping[str, Any]) -> list[list[str]]:
    """Return for each prediction, in the model's order, its cells of `ANSWER_COLUMNS`; `document` of the review."""
    cells = {}
    for item, written in zip(review.suggestions, document["suggestions"], strict=True):
        row = suggestion_cells(review.task, written)
        probability = f"{item.probability:.4f}" if item.calibrated else ""
        of_best = [str(row["conditions"]), str(row["stock"]), "; ".join(written["problems"]), probability]
        for answer in item.members:
            more = of_best if answer is item.best else [""] * len(of_best)
            check = describe_check(review.check_of(answer))
            cells[answer.smiles] = [str(item.rank), str(row["class"]), check, *more]
    return [cells.get(answer.smiles, [""] * len(ANSWER_COLUMNS)) for answer in review.result.hypotheses]


def review_rows(reviews: list[Review]) -> list[tuple[dict[str, Any], list[list[str]]]]:
    """Return for each review its document, and the cells of its predictions, see `answer_cells`."""
    documents = [(review, review_document(review)) for review in reviews]
    return [(document, answer_cells(review, document)) for review, document in documents]


def _plain_words(reagents: str) -> str:
    return without_subscripts(precedents.in_words(reagents, formulas=True))
