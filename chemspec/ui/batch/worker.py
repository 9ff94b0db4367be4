"""Predict and review the rows of a job, as the page Predict does; `job_queue` starts it as a process of its own."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from chemspec import precedents
from chemspec.chem import formats
from chemspec.engine.engine import Engine
from chemspec.io import writers
from chemspec.io.columns import query_of_row
from chemspec.plan.prices import PriceList
from chemspec.plan.stock import Stock, load_stock
from chemspec.review import StepChecker, load_engines, review_document, review_result
from chemspec.review.engines import load_fastest
from chemspec.review.reaction_check import judge_predictions
from chemspec.review.review import MAX_CHECKED
from chemspec.system.threads import usable_cores
from chemspec.types import DecodeResult
from chemspec.ui.batch import jobs
from chemspec.ui.batch.jobs import Job

WRITE_EVERY = 16  # rows; what a prediction that is killed has to do again at most
Reviewed = tuple[dict[str, Any], list[list[str]]]


def run_job(job: Job) -> None:
    """Predict and review what is left of a job.

    Raises:
        ValueError: if the model or the files of the job cannot be used, with the reason.
    """
    threads = max(1, usable_cores() // 2)
    if job.cards:
        predict_rows(job, load_fastest(job.model, threads=threads), JobReviewer.load(job, threads))
    else:  # of an earlier version, which used the command line
        settings = replace(job.settings, distinct=job.settings.decoder == "beam")
        predict_rows(replace(job, settings=settings), Engine.load(job.model, threads=threads))


def predict_rows(job: Job, engine: Engine, reviewer: JobReviewer | None = None) -> None:
    """Write the rows of a job that are not on disk yet."""
    review = writers.RowReview(("suggestions",), reviewer.review_rows) if reviewer else None
    queries, out = [query_of_row(row, (job.column,)) for row in jobs.uploaded_rows(job)], jobs.answers_file(job)
    writers.predict_file(engine, queries, out, job.settings, review=review, every=WRITE_EVERY)


class JobReviewer:
    """Reviews the predictions of a job with the numbers of the cards on Predict.

    Args:
        job: its cards are the suggestions of a row.
        checker: models and precedents.
        stock: building blocks that can be bought.
    """

    def __init__(self, job: Job, checker: StepChecker, stock: Stock) -> None:
        self.job, self.checker, self.stock = job, checker, stock

    @classmethod
    def load(cls, job: Job, threads: int) -> JobReviewer:
        """Load the models, the precedents and the stock."""
        engines = load_engines(("forward", "reagents"), threads=threads) if job.task == "retro" else {}
        try:
            index = precedents.installed()
        except ValueError:  # as on Predict: without precedents
            index = None
        lists = load_stock(job.stock).lists if job.stock else {}
        prices = jobs.prices_file(job)
        offers = msgspec.json.decode(prices.read_bytes(), type=PriceList).offers if prices.is_file() else {}
        return cls(job, StepChecker(engines.get("forward"), engines.get("reagents"), index), Stock(lists, offers))

    def review_rows(self, results: Sequence[DecodeResult]) -> list[Reviewed]:
        """Return the reviews of rows as documents, see `writers.RowReview`; there are no cells."""
        return [(self._review_row(result), []) for result in results]

    def _review_row(self, result: DecodeResult) -> dict[str, Any]:
        try:
            return self._reviewed(result)
        except OSError:
            raise
        except Exception:  # it must not cost the other rows, nor its own predictions
            logging.getLogger(__name__).exception("the review failed on %r", result.query)
            return {}

    def _reviewed(self, result: DecodeResult) -> dict[str, Any]:
        task, cards = self.job.task, self.job.cards
        read = formats.read_any(result.query, task=task)
        query, expected = (read.ordered, read.other) if isinstance(read, formats.Input) else (result.query, "")
        review = review_result(
            task, result, self.checker, query=query, stock=self.stock, heads=MAX_CHECKED, described=cards
        )
        document = review_document(replace(review, suggestions=review.suggestions[:cards]))
        if expected and result.status == "ok":
            document["reaction"] = f"{judge_predictions(task, query, expected, result).sentence()}."
        return document


if __name__ == "__main__":
    try:
        run_job(jobs.load_job(sys.argv[1]))
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
