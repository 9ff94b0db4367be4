"""Searches on disk: what was asked, with a stock of the visitor's own, whose browser remembers the ids."""

import io
import math
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from tokenize import TokenError

import numpy as np
import streamlit as st

from chemspec import chem
from chemspec.jobs.store import Documents, StoreError
from chemspec.plan.constraints import PlanSettings
from chemspec.plan.stock import Keys
from chemspec.system.files import write_bytes_atomic
from chemspec.ui.common import web_files

MAX_LISTED = 30  # searches of one visitor


@dataclass(frozen=True)
class Project:
    """What was asked."""

    id: str
    target: str
    lists: tuple[str, ...]  # built-in lists of stock
    own: str  # name of the visitor's own list; empty for none
    settings: PlanSettings
    ended: str = ""  # what came out; empty while it is under way
    changed: float = 0.0  # seconds since 1970

    def __post_init__(self) -> None:
        if not chem.is_valid(self.target) or not math.isfinite(self.settings.seconds):
            raise ValueError("it asks nothing that can be searched")


SEARCHES = Documents("plans", "search", Project, days=90, most=1000, most_bytes=1e9)


def save_search(project: Project, own_stock: Keys | None = None) -> None:
    """Write a search wholly or not at all; raises OSError or StoreError if it cannot be written."""
    if own_stock is not None:
        content = io.BytesIO()
        np.save(content, own_stock)
        write_bytes_atomic(SEARCHES.make_folder(project.id) / "stock.npy", content.getvalue(), private=True)
    SEARCHES.save(project.id, replace(project, changed=time.time()))


def load_own_stock(name: str) -> Keys:
    """Return the visitor's own list of stock; raises StoreError if it is gone or damaged."""
    try:
        # Mapped, so that what its head says of its size is compared with the file before there is any memory for it.
        keys: Keys = np.array(np.load(SEARCHES.folder(name) / "stock.npy", mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, SyntaxError, EOFError, OverflowError, TokenError) as error:
        raise StoreError(f"its list of stock cannot be read ({error}); upload it again") from error
    if keys.dtype != np.dtype("S27") or keys.ndim != 1:
        raise StoreError("its list of stock is damaged; upload it again")
    return keys


def visitor_search_ids() -> list[str]:
    """Return the ids of this visitor's searches, the newest first: of this tab, and those that the browser keeps."""
    state = st.session_state
    search_ids: list[str] = state.setdefault("plan_ids", [])
    for search_id in (state.get("plan_browser") or {}).get("ids") or []:
        if isinstance(search_id, str) and search_id not in (*search_ids, *state.get("plan_gone", [])):
            search_ids.append(search_id)
    return search_ids


def remember_search(add: str = "") -> None:
    """Let the visitor's browser keep the ids, with one more; draws nothing that is seen."""
    search_ids = visitor_search_ids()
    if add and add not in search_ids:
        search_ids.insert(0, add)
    del search_ids[MAX_LISTED:]
    data = {"ids": search_ids, "gone": st.session_state.get("plan_gone", [])}
    storage = web_files.component("plans", "<span></span>")
    storage(key="plan_browser", data=data, default={"ids": []}, on_ids_change=lambda: None)


def forget_search(name: str) -> None:
    """Delete a search of this visitor's; a callback for buttons."""
    state = st.session_state
    state.setdefault("plan_gone", []).append(name)
    state.plan_ids = [search_id for search_id in state.get("plan_ids", []) if search_id != name]
    with suppress(StoreError):
        SEARCHES.delete(name)
