"""The lock pins every package that the extras name."""

from __future__ import annotations

import re
import tomllib

from paths import ROOT


def name_of(requirement: str) -> str:
    return re.split(r"[\[<>=;! ]", requirement)[0].lower().replace("_", "-")


def test_the_lock_pins_all_that_the_extras_name_and_what_they_need() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.match(r"[\w.-]+==[\w.]+( ; .+)?$", line) for line in lines)
    pinned = {name_of(line) for line in lines}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [extra for name, extra in project["optional-dependencies"].items() if name != "login"]
    named = {name_of(line) for line in [*project["dependencies"], *(line for extra in extras for line in extra)]}
    assert named - {"chemspec"} <= pinned
    assert {"starlette", "pillow", "jinja2"} <= pinned, "what those need, too"
