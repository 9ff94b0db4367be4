"""A plug-in of pytest that keeps which lines of the program each test runs, for `mutants.py`.

    COVERING=FOLDER python -m pytest -p covering tests/chem     # with this folder on PYTHONPATH

Writes FOLDER/NAME.json with the processor time of every test that passes, and coverage's data, with a test's name as
the context of its lines. Processes that a test starts are measured too, but not those that it forks.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

CHILD = "import coverage, os\nif os.environ.get('COVERAGE_PROCESS_START'): coverage.process_startup()\n"
SETTINGS = """[run]
data_file = {folder}/lines
parallel = true
source = {root}/chemspec
context = ${{COVERING_TEST-}}
disable_warnings = no-data-collected, module-not-imported, module-not-measured, couldnt-parse, module-not-python
"""


class Recorder:
    """Switches coverage's context at each test, and keeps the times of those that pass."""

    def __init__(self, folder: Path, root: Path) -> None:
        """Measure the program in `root`."""
        self.folder = folder
        self.seconds: dict[str, float] = {}
        (settings := folder / "coveragerc").write_text(SETTINGS.format(folder=folder, root=root))
        (children := folder / "children").mkdir(exist_ok=True)
        (children / "sitecustomize.py").write_text(CHILD)
        os.environ["COVERAGE_PROCESS_START"] = str(settings)
        os.environ["PYTHONPATH"] = f"{children}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        self.coverage = coverage.Coverage(config_file=str(settings), context=None)
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measure a test with the fixtures that it sets up."""
        os.environ["COVERING_TEST"] = item.nodeid
        self.coverage.switch_context(item.nodeid)
        began = time.process_time()
        result = yield
        self.coverage.switch_context("")
        if item.nodeid in self.seconds:
            self.seconds[item.nodeid] = round(time.process_time() - began, 3)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the names of tests that pass."""
        if report.when == "call" and report.passed:
            self.seconds[report.nodeid] = 0.0

    def pytest_sessionfinish(self) -> None:
        """Write what was kept."""
        self.coverage.stop()
        self.coverage.save()
        (self.folder / f"{os.getpid()}.json").write_text(json.dumps(self.seconds))


def pytest_configure(config: pytest.Config) -> None:
    """Begin before a module of the program is imported."""
    folder = Path(os.environ["COVERING"])
    folder.mkdir(parents=True, exist_ok=True)
    config.pluginmanager.register(Recorder(folder.resolve(), config.rootpath))
