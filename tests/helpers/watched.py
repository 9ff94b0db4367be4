"""A process whose connections are watched: what would leave this machine is written down, and does not."""

from __future__ import annotations

import os
from pathlib import Path

# Run by Python before anything else of a process, and of those that it starts. An audit hook sees what every Python
# library does, whichever way it goes; nothing can remove it.
HOOK = """
import ipaddress, os, sys

LOG = {log!r}
AT = {{"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1, "socket.getaddrinfo": 0, "socket.gethostbyname": 0,
       "socket.gethostbyaddr": 0, "socket.getnameinfo": 0}}


def here(where):
    if isinstance(where, tuple):
        where = where[0] if where else None
    if isinstance(where, bytes):
        where = where.decode("latin-1")
    if where in (None, "", "localhost") or where.startswith("/") or where.startswith(chr(0)):
        return True
    try:
        address = ipaddress.ip_address(where)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def hook(event, args):
    if event in AT and not here(args[AT[event]]):
        with open(LOG, "a") as file:
            file.write(event + " " + repr(args[AT[event]]) + "\\n")
        raise OSError("this test lets nothing out")


sys.addaudithook(hook)
with open(LOG, "a") as file:
    file.write("watched\\n")
"""


class Watch:
    """What processes with this environment tried to reach."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "connections"
        (folder / "sitecustomize.py").write_text(HOOK.format(log=str(self._log)))
        path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))
        self.environment = {**os.environ, "PYTHONPATH": path}

    def outside(self) -> list[str]:
        """Return what was asked of other machines; fails where nothing was watched."""
        lines = self._log.read_text().splitlines()
        assert "watched" in lines, "the hook did not run"
        return [line for line in lines if line != "watched"]
