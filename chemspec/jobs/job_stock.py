"""The building blocks of a job: lists by name, and the list that its visitor uploaded."""

from dataclasses import replace

import msgspec
import numpy as np

from chemspec.jobs import jobs
from chemspec.jobs.jobs import Job
from chemspec.stock.lists import Stock, load_usable_stock, merge_offers
from chemspec.stock.offers import PriceList

UPLOADED = "your list"


def load_job_stock(job: Job) -> Stock:
    """Return what the job's visitor can buy, as `stock_menu.visitor_stock` does for a page."""
    listed = load_usable_stock(job.stock)
    prices = jobs.prices_file(job)
    if not prices.is_file():
        return listed
    offers = msgspec.json.decode(prices.read_bytes(), type=PriceList).offers
    keys = np.array(sorted(offers), dtype="S27")
    return replace(listed, lists={UPLOADED: keys, **listed.lists}, offers=merge_offers(listed.offers, offers))
