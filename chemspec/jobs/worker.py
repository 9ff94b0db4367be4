"""Predict and review the rows of a job as the page Predict does, or plan them; a process that `job_queue` starts."""

import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import Any

from chemspec.chem import formats
from chemspec.engine.engine import Engine
from chemspec.evaluation.loading import COMPANIONS, load_engines, load_fastest
from chemspec.io import writers
from chemspec.io.columns import query_of_row
from chemspec.jobs import jobs
from chemspec.jobs.job_stock import load_job_stock
from chemspec.jobs.jobs import JOBS, Job
from chemspec.jobs.store import hold_lock
from chemspec.precedents import installed_if_usable
from chemspec.precedents.own import reaction_of_cells
from chemspec.review import StepChecker, review_document, review_results
from chemspec.review.processes import MakeReviews, Reviewed, choose_processes, open_reviews
from chemspec.review.reaction_check import judge_predictions
from chemspec.review.review import MAX_CHECKED
from chemspec.stock.lists import Stock
from chemspec.system.error_places import describe_error
from chemspec.system.threads import usable_cores
from chemspec.train.settings import FineTuneSettings
from chemspec.types import DecodeResult

WRITE_EVERY = 16  # rows for each process; what a prediction that is killed has to do again at most


def run_job(job: Job) -> None:
    """Predict and review what is left of a job, plan it or fine-tune; ValueError if its model or files are unusable."""
    if job.fine_tune:
        from chemspec.train.fine_tune import fine_tune  # imports PyTorch

        settings = FineTuneSettings(name=job.fine_tune, task=job.task, start=job.model)
        fine_tune([reaction_of_cells(row) for row in jobs.uploaded_rows(job)], settings, jobs.work_folder(job))
        return
    if job.within:
        from chemspec.jobs import planned  # imports Syntheseus

        planned.plan_targets(job)
        return
    threads = max(1, usable_cores() // 2)
    processes = choose_processes(job.total)
    with open_reviews(partial(_load_rows_review, job, 1 if processes > 1 else threads), processes) as review:
        predict_rows(job, load_fastest(job.model, threads=threads), review, every=WRITE_EVERY * processes)


def _load_rows_review(job: Job, threads: int) -> MakeReviews:
    return partial(review_rows, job, *load_review(job, threads))


def predict_rows(job: Job, engine: Engine, review: MakeReviews, every: int = WRITE_EVERY) -> None:
    """Write the rows of a job that are not on disk yet, and to disk after `every` rows."""
    queries, out = [query_of_row(row, (job.column,)) for row in jobs.uploaded_rows(job)], jobs.answers_file(job)
    reviewing = writers.RowReview(("suggestions",), review)
    writers.predict_file(engine, queries, out, job.settings, review=reviewing, every=every)


def load_review(job: Job, threads: int) -> tuple[StepChecker, Stock]:
    """Load the models and precedents of a job's review, and its building blocks."""
    engines = load_engines(COMPANIONS, threads=threads) if job.task == "retro" else {}
    return StepChecker(engines.get("forward"), engines.get("reagents"), installed_if_usable()), load_job_stock(job)


def review_rows(job: Job, checker: StepChecker, stock: Stock, results: Sequence[DecodeResult]) -> list[Reviewed]:
    """Return the reviews of rows with the numbers of the cards on Predict; without cells, see `writers.RowReview`."""
    try:
        documents = _review_rows(job, checker, stock, results)
    except OSError:
        raise
    except Exception as error:  # it must not cost the other rows, nor its own predictions
        if len(results) > 1:
            return [row for result in results for row in review_rows(job, checker, stock, [result])]
        logging.getLogger(__name__).error("the review of a row failed: %s", describe_error(error))
        documents = [{}]
    return [(document, []) for document in documents]


def _review_rows(job: Job, checker: StepChecker, stock: Stock, results: Sequence[DecodeResult]) -> list[dict[str, Any]]:
    read = [formats.read_input(result.query, task=job.task) for result in results]
    sides = [
        (each.ordered, each.other) if isinstance(each, formats.Input) else (result.query, "")
        for each, result in zip(read, results, strict=True)
    ]
    reviews = review_results(
        job.task,
        results,
        checker,
        queries=[query for query, _ in sides],
        stock=stock,
        heads=MAX_CHECKED,
        described=job.cards,
    )
    documents = []
    for (query, expected), review in zip(sides, reviews, strict=True):
        document = review_document(replace(review, suggestions=review.suggestions[: job.cards]))
        if expected and review.result.status == "ok":
            document["reaction"] = f"{judge_predictions(job.task, query, expected, review.result).sentence()}."
        documents.append(document)
    return documents


def main(name: str) -> None:
    """Run a job, once the prediction of an earlier runner has ended, and store how it ended."""
    Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()  # ends this process with its runner
    job = JOBS.load(name)
    try:
        with hold_lock("jobs.lock", timeout=3600.0) as held:
            if not held:
                raise OSError("another prediction has not ended; resume later")
            run_job(job)
    except (ValueError, OSError) as error:
        text = str(error).replace(str(jobs.answers_file(job)), "the file of answers")
        jobs.end_job(name, "failed", text.replace(str(JOBS.folder(name)), "the job's folder"))
    except Exception as error:
        logging.getLogger(__name__).error("the job failed: %s", describe_error(error))
        jobs.end_job(name, "failed", f"something unexpected happened ({error!r:.200}); resume to try again")
    else:
        jobs.end_job(name, "done")


if __name__ == "__main__":
    main(sys.argv[1])
