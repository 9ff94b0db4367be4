"""Where collections are stored: in a file on the user's own machine; on a server, for one visit only.

Visitors of a server must not read each other's collections.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

import streamlit as st

from chemspec.ui.collect.store import FILE, Store, StoreError
from chemspec.ui.common import remote_engine
from chemspec.ui.common.app_dir import AppDirError, ensure_app_dir

_KEY = "collect_folder"


class _Folder:
    """A temporary folder that is removed with the visit that holds it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="chemspec-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def is_on_disk() -> bool:
    """Return whether collections outlive the visit."""
    return remote_engine.is_local_only()


def visitor_store() -> Store:
    """Return the collections of this visitor.

    Raises:
        StoreError: if there is no place for them.
    """
    try:
        if is_on_disk():
            return Store(ensure_app_dir() / FILE)
        if _KEY not in st.session_state:
            st.session_state[_KEY] = _Folder()
        return Store(st.session_state[_KEY].path / FILE)
    except (AppDirError, OSError) as error:
        raise StoreError(str(error)) from error
