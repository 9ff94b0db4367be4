"""What worker processes need to know."""

from __future__ import annotations

import multiprocessing
import os
from threading import Thread


def leave_with_parent() -> None:
    """End a worker when its parent was killed.

    It would wait for jobs forever, for it holds both ends of the queue itself.
    """

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()
