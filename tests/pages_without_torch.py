"""Predict, plan and open every page of an installed chemspec that has the extra app and no torch; run by .ci/run."""

import subprocess
import sys
from importlib.util import find_spec

from streamlit.testing.v1 import AppTest

from chemspec.asset_files import app_script
from chemspec.system import extras

if __name__ == "__main__":
    assert find_spec("torch") is None, "this environment has torch"
    assert all(map(extras.is_installed, ("syntheseus", "apted"))), "the extra app brings planning"
    for words in (
        ("predict", "CC(=O)Nc1ccccc1", "--task", "retro", "--review", "-n", "2"),
        ("plan", "CC(=O)Nc1ccccc1", "--seconds", "3"),
    ):
        command = [sys.executable, "-m", "chemspec.cli", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "torch" not in done.stderr, done.stderr
    for page in sorted(app_script().parent.glob("pages/*.py")):
        opened = AppTest.from_file(str(page), default_timeout=120).run()
        assert not opened.exception, (page.name, opened.exception)
        notes = [str(note.value) for note in (*opened.error, *opened.info)]
        assert not any("pip install" in note for note in notes), (page.name, notes)
        sys.stdout.write(f"{page.stem}: opened\n")
