"""A search on disk: what was asked, with a stock of the visitor's own; a restarted server finds it again.

    plans/<id>/project.json   the question, and how it ended
    plans/<id>/stock.npy      the InChIKeys of an uploaded list

Answers of the models are kept elsewhere (`plan.expand`), so an opened search goes on where it was. The id is a secret:
who knows it may see, change and delete the search. A visitor's browser remembers the ids of its own.
"""

from __future__ import annotations

import io
import json
import math
import re
import secrets
import shutil
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tokenize import TokenError

import msgspec
import numpy as np
import streamlit as st

from chemspec import chem
from chemspec.plan.plan_settings import PlanSettings
from chemspec.plan.stock import Keys
from chemspec.system.files import make_private_folder, write_bytes_atomic, write_text_atomic
from chemspec.ui.common import app_dir
from chemspec.ui.common.web_files import web_file

DAYS, MAX_SEARCHES, MAX_BYTES = 90, 1000, 1_000_000_000  # after the last change; of all visitors together
MAX_LISTED = 30  # of one visitor
_ID = re.compile(r"[A-Za-z0-9_-]{22}")


class ProjectError(ValueError):
    """A search that cannot be found or read; the message says why."""


@dataclass(frozen=True)
class Project:
    """What was asked.

    Attributes:
        lists: built-in lists of stock.
        own: name of the visitor's own list; empty for none.
        ended: what came out; empty while it is under way.
        changed: seconds since 1970.
    """

    id: str
    target: str
    lists: tuple[str, ...]
    own: str
    settings: PlanSettings
    ended: str = ""
    changed: float = 0.0


def search_folder(name: str) -> Path:
    """Return the folder of a search; it need not be there.

    Raises:
        ProjectError: if the text is no search's id, whatever else it may be.
    """
    if not _ID.fullmatch(name):
        raise ProjectError("the link is not complete: it names no search")
    return app_dir.folder() / "plans" / name


def new_search_id() -> str:
    """Return a random id."""
    return secrets.token_urlsafe(16)


def save_search(project: Project, own_stock: Keys | None = None) -> None:
    """Write a search: wholly or not at all.

    Raises:
        OSError: if it cannot be written.
    """
    app_dir.ensure_app_dir()
    path = search_folder(project.id)
    if not path.exists():
        remove_old_searches()
        make_private_folder(make_private_folder(path.parent) / path.name)
    if own_stock is not None:
        content = io.BytesIO()
        np.save(content, own_stock)
        write_bytes_atomic(path / "stock.npy", content.getvalue(), private=True)
    text = json.dumps(asdict(replace(project, changed=time.time())))
    write_text_atomic(path / "project.json", text, private=True)


def load_search(name: str) -> Project:
    """Return a search.

    Raises:
        ProjectError: if there is none, or it cannot be read.
    """
    path = search_folder(name)
    try:
        project = msgspec.convert(json.loads((path / "project.json").read_text(encoding="ascii")), Project)
        if project.id != name:
            raise ValueError("it is that of another")
        if not chem.is_valid(project.target) or not math.isfinite(project.settings.seconds):
            raise ValueError("it asks nothing that can be searched")
        return project
    except FileNotFoundError:
        raise ProjectError(f"it was deleted, or not changed for {DAYS} days and then removed") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ProjectError(f"it cannot be read ({error})") from error


def load_own_stock(name: str) -> Keys:
    """Return the visitor's own list of stock.

    Raises:
        ProjectError: if it is gone or damaged.
    """
    try:
        # Mapped, so that what its head says of its size is compared with the file before there is any memory for it.
        keys: Keys = np.array(np.load(search_folder(name) / "stock.npy", mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, SyntaxError, EOFError, OverflowError, TokenError) as error:
        raise ProjectError(f"its list of stock cannot be read ({error}); upload it again") from error
    if keys.dtype != np.dtype("S27") or keys.ndim != 1:
        raise ProjectError("its list of stock is damaged; upload it again")
    return keys


def delete_search(name: str) -> None:
    """Remove a search with all its files; nothing happens if it is gone."""
    shutil.rmtree(search_folder(name), ignore_errors=True)


def remove_old_searches(now: float | None = None) -> None:
    """Remove what is old, and the oldest where it is too much."""
    now = time.time() if now is None else now
    folders = []
    for path in (app_dir.folder() / "plans").glob("*"):
        with suppress(OSError):  # deleted in between
            facts = [file.stat() for file in (path, *path.iterdir())]
            folders.append((max(file.st_mtime for file in facts), sum(file.st_size for file in facts), path))
    size = sum(bytes_ for _, bytes_, _ in folders)
    old = [path.name for changed, _, path in folders if now - changed > DAYS * 86_400]
    expired = app_dir.expired_for_a_day(app_dir.folder() / "plans", old, now) if folders else ()
    for number, (_, bytes_, path) in enumerate(sorted(folders)):
        if path.name in expired or len(folders) - number >= MAX_SEARCHES or size > MAX_BYTES:
            shutil.rmtree(path, ignore_errors=True)
            size -= bytes_


# --- of this visitor -------------------------------------------------------------------------------


def visitor_search_ids() -> list[str]:
    """Return the ids of this visitor's searches, the newest first: of this tab, and those that the browser keeps."""
    state = st.session_state
    search_ids: list[str] = state.setdefault("plan_ids", [])
    for search_id in (state.get("plan_browser") or {}).get("ids") or []:
        if (
            isinstance(search_id, str)
            and _ID.fullmatch(search_id)
            and search_id not in (*search_ids, *state.get("plan_gone", []))
        ):
            search_ids.append(search_id)
    return search_ids


def remember_search(add: str = "") -> None:
    """Let the visitor's browser keep the ids, with one more; draws nothing that is seen."""
    search_ids = visitor_search_ids()
    if add and add not in search_ids:
        search_ids.insert(0, add)
    del search_ids[MAX_LISTED:]
    _browser_storage()(
        key="plan_browser",
        data={"ids": search_ids, "gone": st.session_state.get("plan_gone", [])},
        default={"ids": []},
        on_ids_change=lambda: None,
    )


def forget_search(name: str) -> None:
    """Delete a search of this visitor's; a callback for buttons."""
    state = st.session_state
    state.setdefault("plan_gone", []).append(name)
    state.plan_ids = [search_id for search_id in state.get("plan_ids", []) if search_id != name]
    delete_search(name)


@st.cache_resource(show_spinner=False)
def _browser_storage():  # type: ignore[no-untyped-def]
    """Return the component that keeps ids in the visitor's browser, registered once a server."""
    return st.components.v2.component("chemspec_plans", html="<span></span>", js=web_file("plans.js"))
