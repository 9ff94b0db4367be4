"""Worker processes."""

from __future__ import annotations

import multiprocessing
import os
from threading import Thread


def exit_with_parent() -> None:
    """End this worker process when its parent is killed: it would wait for jobs forever."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()
