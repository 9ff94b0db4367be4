"""The app's server as a process of its own, at a port that the system chooses."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from helpers.serving import until

SECONDS = 300.0  # a fresh cache: it compiles and measures first, on a busy machine too


def wait_for_address(log: Path, process: subprocess.Popen[bytes]) -> str:
    """The address of a server that writes `log` and was started with port 0, as soon as it answers."""

    def address_if_answering() -> str:
        assert process.poll() is None, f"no server: {log.read_text()}"
        url = re.search(r"URL: (http://\S+)", log.read_text())
        try:
            return url[1] if url and urlopen(f"{url[1]}/_stcore/health", timeout=1).read() else ""
        except (URLError, OSError):
            return ""

    return str(until(address_if_answering, "the app", SECONDS))
