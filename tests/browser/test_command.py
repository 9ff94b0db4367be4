"""`chemspec app`, started from anywhere; at a push `.ci/run` runs this file against the installed wheel only."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.app_server import wait_for_address

from chemspec.engine.engine import installed_models


@pytest.mark.weights
@pytest.mark.nightly
@pytest.mark.skipif(not installed_models(), reason="no model in assets/models")
def test_the_command_opens_the_app_from_any_folder(tmp_path: Path, new_page: Callable[..., Any]) -> None:
    command = [sys.executable, "-m", "chemspec.cli", "app", "--port", "0", "--headless"]
    log, environment = tmp_path / "log", {**os.environ, "CHEMSPEC_HOME": str(tmp_path / "home")}
    with (
        log.open("wb") as out,
        subprocess.Popen(
            command, cwd=tmp_path, env=environment, start_new_session=True, stdout=out, stderr=out
        ) as server,
    ):
        try:
            url = wait_for_address(log, server)
            page = new_page()
            page.set_default_timeout(300_000)  # a fresh cache: it compiles and measures first, on a busy machine too
            page.goto(f"{url}/?task=forward&smi=CC(%3DO)Cl.Nc1ccccc1")
            page.get_by_text("CC(=O)Nc1ccccc1").first.wait_for()
            # The settings of the app have reached the page, its colours among them, and its script has an end.
            page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
            colour = "() => getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
            assert page.evaluate(colour) == "rgb(246, 248, 247)"
            page.goto("about:blank")  # a page that loses its server complains
        finally:
            os.killpg(server.pid, 15)
