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
from chemspec.plan.search import PlanSettings
from chemspec.plan.stock import Keys
from chemspec.system.files import make_private_folder, write_bytes_atomic, write_text_atomic
from chemspec.ui.common import app_dir
from chemspec.ui.common.web_files import web_file

DAYS, MOST, MOST_BYTES = 90, 1000, 1_000_000_000  # after the last change; of all visitors together
MOST_LISTED = 30  # of one visitor
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


def folder(name: str) -> Path:
    """Return the folder of a search; it need not be there.

    Raises:
        ProjectError: if the text is no search's id, whatever else it may be.
    """
    if not _ID.fullmatch(name):
        raise ProjectError("the link is not complete: it names no search")
    return app_dir.folder() / "plans" / name


def new_id() -> str:
    """Return an id that nobody can guess."""
    return secrets.token_urlsafe(16)


def save(project: Project, own: Keys | None = None) -> None:
    """Write a search: wholly or not at all.

    Raises:
        OSError: if it cannot be written.
    """
    app_dir.app_dir()
    place = folder(project.id)
    if not place.exists():
        clean()
        make_private_folder(make_private_folder(place.parent) / place.name)
    if own is not None:
        content = io.BytesIO()
        np.save(content, own)
        write_bytes_atomic(place / "stock.npy", content.getvalue(), private=True)
    text = json.dumps(asdict(replace(project, changed=time.time())))
    write_text_atomic(place / "project.json", text, private=True)


def load(name: str) -> Project:
    """Return a search.

    Raises:
        ProjectError: if there is none, or it cannot be read.
    """
    place = folder(name)
    try:
        project = msgspec.convert(json.loads((place / "project.json").read_text(encoding="ascii")), Project)
        if project.id != name:
            raise ValueError("it is that of another")
        if not chem.is_valid(project.target) or not math.isfinite(project.settings.seconds):
            raise ValueError("it asks nothing that can be searched")
        return project
    except FileNotFoundError:
        raise ProjectError(f"it was deleted, or not changed for {DAYS} days and then removed") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ProjectError(f"it cannot be read ({error})") from error


def own_list(name: str) -> Keys:
    """Return the visitor's own list of stock.

    Raises:
        ProjectError: if it is gone or damaged.
    """
    try:
        # Mapped, so that what its head says of its size is compared with the file before there is any memory for it.
        keys: Keys = np.array(np.load(folder(name) / "stock.npy", mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, SyntaxError, EOFError, OverflowError, TokenError) as error:
        raise ProjectError(f"its list of stock cannot be read ({error}); upload it again") from error
    if keys.dtype != np.dtype("S27") or keys.ndim != 1:
        raise ProjectError("its list of stock is damaged; upload it again")
    return keys


def delete(name: str) -> None:
    """Remove a search with all its files; nothing happens if it is gone."""
    shutil.rmtree(folder(name), ignore_errors=True)


def clean(now: float | None = None) -> None:
    """Remove what is old, and the oldest where it is too much."""
    now = time.time() if now is None else now
    found = []
    for place in (app_dir.folder() / "plans").glob("*"):
        with suppress(OSError):  # somebody deletes it meanwhile
            facts = [file.stat() for file in (place, *place.iterdir())]
            found.append((max(one.st_mtime for one in facts), sum(one.st_size for one in facts), place))
    size = sum(bytes_ for _, bytes_, _ in found)
    old = [place.name for changed, _, place in found if now - changed > DAYS * 86_400]
    expired = app_dir.old_for_a_day(app_dir.folder() / "plans", old, now) if found else ()
    for number, (_, bytes_, place) in enumerate(sorted(found)):
        if place.name in expired or len(found) - number >= MOST or size > MOST_BYTES:
            shutil.rmtree(place, ignore_errors=True)
            size -= bytes_


# --- of this visitor -------------------------------------------------------------------------------


def own_ids() -> list[str]:
    """Return the ids of this visitor's searches, the newest first: of this tab, and those that the browser keeps."""
    state = st.session_state
    kept: list[str] = state.setdefault("plan_ids", [])
    for one in (state.get("plan_browser") or {}).get("ids") or []:
        if isinstance(one, str) and _ID.fullmatch(one) and one not in (*kept, *state.get("plan_gone", [])):
            kept.append(one)
    return kept


def remember(add: str = "") -> None:
    """Let the visitor's browser keep the ids, with one more; draws nothing that is seen."""
    kept = own_ids()
    if add and add not in kept:
        kept.insert(0, add)
    del kept[MOST_LISTED:]
    _browser()(
        key="plan_browser",
        data={"ids": kept, "gone": st.session_state.get("plan_gone", [])},
        default={"ids": []},
        on_ids_change=lambda: None,
    )


def forget(name: str) -> None:
    """Delete a search of this visitor's; a callback for buttons."""
    state = st.session_state
    state.setdefault("plan_gone", []).append(name)
    state.plan_ids = [one for one in state.get("plan_ids", []) if one != name]
    delete(name)


@st.cache_resource(show_spinner=False)
def _browser():  # type: ignore[no-untyped-def]
    """Return the component that keeps ids in the visitor's browser, registered once a server."""
    return st.components.v2.component("chemspec_plans", html="<span></span>", js=web_file("plans.js"))
