"""List the licences of everything that chemspec installs: Python packages, and the app's parts in JavaScript."""

from __future__ import annotations

import json
import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

_NAME = re.compile(r"^[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


class Package(NamedTuple):
    """A package that is installed, or part of what is."""

    kind: str  # "python" or "npm"
    name: str
    version: str
    licence: str


def python_packages(root: str = "chemspec", extras: frozenset[str] = frozenset()) -> list[Package]:
    """Return a distribution and all that it needs, as far as installed here, in the order of names.

    Args:
        root: where to begin.
        extras: of the root, whose packages count too; an extra may name another of the root's.
    """
    found: dict[str, Package] = {}
    waiting = [(root, extras)]
    while waiting:
        name, wanted = waiting.pop()
        try:
            known = distribution(name)
        except PackageNotFoundError:  # needed on other machines only
            continue
        key = known.metadata["Name"].lower().replace("_", "-")
        if key in found and not wanted:
            continue
        found[key] = Package("python", known.metadata["Name"], known.version, _licence(known))
        for line in known.requires or ():
            needed = _NAME.match(line)
            extra = _EXTRA.search(line)
            if needed is None or (extra and extra[1] not in wanted):
                continue
            more = re.match(r"[^\[;]*\[([^\]]*)\]", line)
            inner = frozenset(word.strip() for word in more[1].split(",")) if more else frozenset()
            if needed[0].lower().replace("_", "-") != key or inner - wanted:
                waiting.append((needed[0], inner | wanted if needed[0].lower() == root else inner))
    return sorted(found.values(), key=lambda package: package.name.lower())


def _licence(known: Distribution) -> str:
    """Return what the metadata say: an expression, else classifiers, else the first line of a text."""
    (expression, *_) = known.metadata.get_all("License-Expression") or [""]
    if expression:
        return str(expression)
    names = [
        line.rpartition(" :: ")[2]
        for line in known.metadata.get_all("Classifier") or ()
        if line.startswith("License :: ") and not line.endswith("OSI Approved")
    ]
    (text, *_) = known.metadata.get_all("License") or [""]
    text = str(text).strip().split("\n")[0]
    return "; ".join(names) or text[:60] or "not said"


def npm_packages(lock: Path) -> list[Package]:
    """Return what a `package-lock.json` names, in the order of names.

    Raises:
        OSError, ValueError, KeyError: for a file that is none.
    """
    entries = json.loads(lock.read_text(encoding="utf-8"))["packages"]
    named = {
        (path.rpartition("node_modules/")[2], entry["version"]): entry.get("license", "not said")
        for path, entry in entries.items()
        if path and "version" in entry
    }
    return [Package("npm", name, version, str(licence)) for (name, version), licence in sorted(named.items())]
